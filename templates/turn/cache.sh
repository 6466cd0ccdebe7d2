{% include 'drive-cache.sh' %}

# The cache of a disk itself, and with it what the kernel believes of it (by which it sends flushes, or none). As the kernel
# looks at all of the drive anew, it forgets what it was told about its turning.
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
