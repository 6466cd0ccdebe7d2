
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

# How the kernel writes what was asked for is kept, so that a change behind our back is noticed.
mount_fs() {
  [[ -d {{ layer.directory }} ]] || mkdir -p {{ layer.directory }}
  mount {{ layer.mount }}
  mounted {{ layer.directory }}
  printf '%s\n' "$REPLY" >{{ layer.directory }}.mounted
}

unmount_fs() {
  while mounted {{ layer.directory }}; do
    retry umount {{ layer.directory }}
  done
}
