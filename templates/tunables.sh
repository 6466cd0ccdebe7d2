# The values of tunables before the first change: one file for each, with its path and its value. Those of the host are
# in one folder; those of devices in a folder for each set of disks, so that parallel runs do not interfere.
host_memory=${MATRIX_MEMORY:-/run/matrix}/knobs
knob_memory=$host_memory/{{ stack.bay }}

# Puts the name of this file into $REPLY. Another scheduler has other tunables with other values, so each scheduler has
# its own file. The kernel has either a ratio or bytes, so both share one file.
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
  # An empty file is from a script that was killed or found no space; then the tunable was not changed.
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

# Restores the value of such a file, unless the tunable is gone or belongs to another scheduler.
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
  # First those that reset others: a scheduler resets its tunables, and a cache resets all settings of the disk.
  for memory in "$knob_memory"/*_{queue_scheduler,cache_type,queue_nr_requests@*} "$knob_memory"/* "$host_memory"/_*; do
    restore_knob "$memory"
  done
  if [[ -d $host_memory ]]; then rm -rf -- "$knob_memory" "$host_memory"/_*; fi
}
