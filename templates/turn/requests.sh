# The length of a queue. mq-deadline then sets its async_depth to the old length, so cells would depend on those before
# them. So async_depth is restored.
turn_requests() {
  kernel_name "$1"
  local queue=/sys/class/block/$REPLY/queue
  if [[ -e $queue/iosched/async_depth ]]; then remember_knob "$queue/iosched/async_depth"; fi
  turn_file "$1" queue/nr_requests "$queue/nr_requests" "${@:2}"
  memory_of "$queue/iosched/async_depth"
  restore_knob "$REPLY"
}
