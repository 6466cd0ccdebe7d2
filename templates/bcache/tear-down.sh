
# Only devices with the mark of this program are released.
uuid={{ layer.uuid }}
ours=()
members=({{ layer.members }})
for member in "${members[@]}"; do
  if [[ -b $member && $(bcache-super-show -f "$member" 2>/dev/null) == *"$uuid"* ]]; then ours+=("$member"); fi
done
# bcache ends its requests first, and lets go of the devices last. udev may register them again meanwhile.
release() {
  local at busy=0
  for member in "${ours[@]}"; do
    kernel_name "$member"
    at=/sys/class/block/$REPLY/bcache
    if [[ -w $at/stop ]]; then echo 1 >"$at/stop"; fi
    if [[ -e $at ]]; then busy=1; fi
  done
  at=/sys/fs/bcache/$uuid
  if [[ -w $at/stop ]]; then echo 1 >"$at/stop"; fi
  [[ $busy == 0 && ! -e $at ]]
} 2>/dev/null
left=200
if [[ -n ${ours[*]} ]]; then
  until release && wipefs --all --quiet --types bcache "${ours[@]}" 2>/dev/null || ((left-- == 0)); do sleep 0.1; done
fi
if [[ -L {{ layer.device }} ]]; then rm -- {{ layer.device }}; fi
