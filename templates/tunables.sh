# What knobs were before anybody turned them: a file for each, holding its path and its value. Those of the whole host
# lie together; those of devices by the disks, so that two runs side by side leave each other's alone.
host_memory=${MATRIX_MEMORY:-/run/matrix}/knobs
knob_memory=$host_memory/{{ stack.bay }}

# Where it is kept what a file was, in $REPLY. With another scheduler a queue has other knobs and others of its values,
# so these are kept for each; and the kernel knows either a ratio or bytes, so such two are kept as one.
memory_of() {
  local memory=$knob_memory/${1//\//_}
  case $1 in
    /proc/* | /sys/devices/system/*) memory=$host_memory/${1//\//_} ;;
  esac
  case $1 in
    */queue/nr_requests | */queue/wbt_lat_usec | */queue/iosched/*)
      first_line "${1%/queue/*}/queue/scheduler"
      memory+=@$REPLY
      ;;
    */vm/dirty_*ratio | */vm/dirty_*bytes) memory=${memory%_*} ;;
  esac
  REPLY=$memory
}

remember_knob() {
  local path=$1 memory
  memory_of "$path"
  # An empty one was begun by somebody who was killed, or found no room for it; nobody turned that knob then.
  if [[ -s $REPLY ]]; then return 0; fi
  memory=$REPLY
  [[ -d $knob_memory ]] || mkdir -p "$knob_memory"
  if [[ $path == */vm/dirty_*ratio || $path == */vm/dirty_*bytes ]]; then
    first_line "${path%_*}_bytes"
    if [[ $REPLY == 0 ]]; then path=${path%_*}_ratio; else path=${path%_*}_bytes; fi
  fi
  first_line "$path"
  case $REPLY in
    *' (system)') REPLY=system ;;
    *' (local)') REPLY=${REPLY% (local)} ;;
  esac
  printf '%s\n%s\n' "$path" "$REPLY" >"$memory"
}

# Puts back what one of these files holds, unless what it was about is gone, or has another scheduler now.
restore_knob() {
  local path value
  [[ -s $1 ]] || return 0
  { read -r path && read -r value; } <"$1"
  [[ -w $path ]] || return 0
  memory_of "$path"
  [[ $REPLY == "$1" ]] || return 0
  first_line "$path"
  if [[ $REPLY == "$value" ]]; then return 0; fi
  { printf '%s\n' "$value" >"$path"; } 2>/dev/null || printf 'matrix: %s would not be %s again\n' "$path" "$value" >&2
}

restore_knobs() {
  local memory
  # First what resets others: with a scheduler come its knobs, and with the cache all that the disk says of itself.
  for memory in "$knob_memory"/*_{queue_scheduler,cache_type,queue_nr_requests@*} "$knob_memory"/* "$host_memory"/_*; do
    restore_knob "$memory"
  done
  if [[ -d $host_memory ]]; then rm -rf -- "$knob_memory" "$host_memory"/_*; fi
}
