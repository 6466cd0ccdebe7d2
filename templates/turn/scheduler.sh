# The scheduler of a disk. The kernel resets the other tunables of the queue with it, so they are remembered first, and
# those of the new scheduler are restored.
turn_scheduler() {
  local queue file chosen=${2-}
  kernel_name "$1"
  queue=/sys/class/block/$REPLY/queue
  [[ -e $queue/scheduler ]] || fail "$1 has no queue/scheduler"
  memory_of "$queue/scheduler"
  if (($# < 2)); then
    if [[ ! -e $REPLY ]]; then return 0; fi
    { read -r file && read -r chosen; } <"$REPLY"
  fi
  first_line "$queue/scheduler"
  if [[ $REPLY == "$chosen" ]]; then return 0; fi
  for file in "$queue"/nr_requests "$queue"/wbt_lat_usec "$queue"/iosched/*; do
    if [[ -f $file ]]; then remember_knob "$file"; fi
  done
  turn_file "$1" queue/scheduler "$queue/scheduler" "$chosen"
  for file in "$knob_memory/${queue//\//_}"_{nr_requests,*}@"$chosen"; do
    restore_knob "$file"
  done
}
