# Puts type and options of the mount at a place into $REPLY, in the kernel's notation; "absent" without a mount.
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
