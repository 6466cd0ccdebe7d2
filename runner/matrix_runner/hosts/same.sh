matrix_same() {
  local path=$1 node=$2 folder=$3 pair found
  shift 3
  if [ ! -b "$path" ] || [ ! -e "$folder/dev" ]; then
    printf '%s gone %s\n' "$matrix_mark" "$path"
    return 1
  fi
  if [ ! "$path" -ef "$node" ]; then
    printf '%s other %s leads to another device than %s\n' "$matrix_mark" "$path" "$node"
    return 1
  fi
  for pair; do
    found=
    { IFS= read -r found <"$folder/${pair%%=*}"; } 2>/dev/null
    if [ "$found" != "${pair#*=}" ]; then
      printf '%s other %s: its %s was %s, and is %s\n' \
        "$matrix_mark" "$path" "${pair%%=*}" "${pair#*=}" "${found:-not told}"
      return 1
    fi
  done
}
