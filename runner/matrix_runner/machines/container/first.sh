for one; do
  IFS=' ' read -r node numbers name <<<"$one"
  if [ ! -b "$node" ]; then echo "$node is no block device in the container"; exit 1; fi
  IFS=' ' read -r major minor <<<"$(stat -c '0x%t 0x%T' -- "$node")"
  found=$((major)):$((minor))
  if [ "$found" != "$numbers" ]; then echo "$node is $found in the container, and $numbers was leased"; exit 1; fi
  if ! : <"$node"; then echo "$node cannot be opened in the container"; exit 1; fi
  if [ "$name" != "$node" ]; then mkdir -p -- "${name%/*}" && ln -s -- "$node" "$name" || exit; fi
done
echo up
while read -r _; do :; done
