# The length of a queue. mq-deadline then takes its old length for its async_depth, which would leave each cell with what
# the one before it had; so that is what it was before, whatever the length.
turn_requests() {
  kernel_name "$1"
  local queue=/sys/class/block/$REPLY/queue
  if [[ -e $queue/iosched/async_depth ]]; then remember_knob "$queue/iosched/async_depth"; fi
  turn_file "$1" queue/nr_requests "$queue/nr_requests" "${@:2}"
  memory_of "$queue/iosched/async_depth"
  restore_knob "$REPLY"
}
