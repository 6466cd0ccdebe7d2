
# Only devices with the mark of this program are released.
uuid={{ layer.uuid }}
ours=()
members=({{ layer.members }})
for member in "${members[@]}"; do
  if [[ -b $member && $(bcache-super-show -f "$member" 2>/dev/null) == *"$uuid"* ]] && look_up "$member"; then
    ours+=("$member")
    at=/sys/class/block/$REPLY/bcache/stop
    if [[ -w $at ]]; then echo 1 >"$at"; fi
  fi
done
if [[ -w /sys/fs/bcache/$uuid/stop ]]; then echo 1 >"/sys/fs/bcache/$uuid/stop"; fi
released() {
  local member
  for member in "${ours[@]}"; do
    kernel_name "$member"
    [[ ! -e /sys/class/block/$REPLY/bcache ]] || return 1
  done
  [[ ! -e /sys/fs/bcache/$uuid ]]
}
# It ends its requests first, and lets go of the devices last.
left=200
if [[ -n ${ours[*]} ]]; then
  until released && wipefs --all --quiet --types bcache "${ours[@]}" 2>/dev/null || ((left-- == 0)); do sleep 0.1; done
fi
if [[ -L {{ layer.device }} ]]; then rm -- {{ layer.device }}; fi
