{% include 'drive-cache.sh' %}

# The cache of a disk, and the kernel's view of it, which decides about flushes. The kernel then examines the drive again
# and resets its rotational flag.
turn_cache() {
  kernel_name "$1"
  local queue=/sys/class/block/$REPLY/queue turning
  remember_knob "$queue/rotational"
  remember_knob "$queue/write_cache"
  first_line "$queue/rotational"
  turning=$REPLY
  drive_cache "${queue%/queue}"
  turn_file "$1" cache_type "$REPLY" "${@:2}"
  turn_file "$1" queue/write_cache "$queue/write_cache" "${@:2}"
  printf '%s\n' "$turning" >"$queue/rotational"
}
