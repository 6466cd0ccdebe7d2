{# What mappings of the device mapper share. Shell builtins only. #}

# The name of the mapping whose uuid begins with this, in $REPLY; fails if there is none.
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
