
# Only arrays with the mark of this program are removed, under any name.
uuid={{ layer.uuid }}
ours=()
members=({{ layer.members }})
for member in "${members[@]}"; do
  # The node of a device may outlive the device.
  if [[ ! -b $member ]] || ! look_up "$member"; then continue; fi
  for holder in /sys/class/block/"$REPLY"/holders/md*; do
    node=/dev/${holder##*/}
    if [[ -b $node && $(mdadm --detail --export "$node" 2>/dev/null) == *"MD_UUID=$uuid"* ]]; then
      mdadm --stop --quiet "$node"  # which waits a second for it by itself
    fi
  done
  if [[ $(mdadm --examine --export "$member" 2>/dev/null) == *"MD_UUID=$uuid"* ]]; then ours+=("$member"); fi
done
# No member leads to an array whose members are all gone. Only the kernel knows the UUID then: mdadm 4.2 swaps its bytes.
for node in /sys/class/block/md*; do
  first_line "$node/md/uuid" 2>/dev/null
  if [[ ${REPLY//-/} == "${uuid//:/}" ]] && ! has_member "$node"; then mdadm --stop --quiet "/dev/${node##*/}"; fi
done
if [[ -n ${ours[*]} ]]; then retry mdadm --zero-superblock "${ours[@]}"; fi
# Removes the link of the array if udev does not; older kernels keep an empty device behind it.
array={{ layer.device }}
if [[ -L $array ]]; then
  look_up "$array" || REPLY=none
  at=/sys/class/block/$REPLY/md/array_state
  first_line "$at" 2>/dev/null # it may vanish at any time
  if [[ ! -e $at || $REPLY == clear ]]; then rm -f -- "$array"; fi
fi
