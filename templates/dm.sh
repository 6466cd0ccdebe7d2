{# Shared by mappings of the device mapper. Shell builtins only. #}

# Puts the name of the mapping whose uuid has this prefix into $REPLY; fails without one.
mapping_of() {
  local node
  for node in /sys/class/block/dm-*/dm; do
    if [[ ! -e $node/uuid ]]; then continue; fi
    first_line "$node/uuid"
    if [[ $REPLY == "$1"* ]]; then
      first_line "$node/name"
      return 0
    fi
  done
  return 1
}
