[[ -d /sys/kernel/debug/block ]] || mount -t debugfs none /sys/kernel/debug
traced=()
for device in {{ stack.devices }}; do
  kernel_name "$device"
  traced+=("/dev/$REPLY")
done
mkdir -p profile-blktrace.data
blktrace -a queue -a issue -a complete -D profile-blktrace.data "${traced[@]}" >profile-blktrace.log 2>&1 &
