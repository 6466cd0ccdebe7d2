{% include 'drive-cache.sh' %}

# The cache of a disk itself. The kernel asks the drive, and believes its answer; as it looks at all of the drive anew, it
# forgets what it was told about its turning.
turn_cache() {
  kernel_name "$1"
  local at=/sys/class/block/$REPLY turning
  remember_knob "$at/queue/rotational"
  first_line "$at/queue/rotational"
  turning=$REPLY
  drive_cache "$at"
  turn_file "$1" "cache_type" "$REPLY" "${@:2}"
  printf '%s\n' "$turning" >"$at/queue/rotational"
}
