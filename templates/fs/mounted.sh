# What is mounted at a place, in $REPLY: its type and its options as the kernel writes them; "absent" if nothing is.
mounted() {
  local at type options rest
  while read -r _ at type options rest; do
    if [[ $at == "$1" ]]; then
      REPLY="$type $options"
      return 0
    fi
  done </proc/self/mounts
  REPLY=absent
  return 1
}
