
# What carries our mark is ours, under whatever name it was assembled; anything else is somebody's data.
uuid={{ layer.uuid }}
ours=()
members=({{ layer.members }})
for member in "${members[@]}"; do
  [[ -b $member ]] || continue
  kernel_name "$member"
  for holder in /sys/class/block/"$REPLY"/holders/md*; do
    node=/dev/${holder##*/}
    if [[ -b $node && $(mdadm --detail --export "$node" 2>/dev/null) == *"MD_UUID=$uuid"* ]]; then
      mdadm --stop --quiet "$node"  # which waits a second for it by itself
    fi
  done
  if [[ $(mdadm --examine --export "$member" 2>/dev/null) == *"MD_UUID=$uuid"* ]]; then ours+=("$member"); fi
done
if [[ -n ${ours[*]} ]]; then retry mdadm --zero-superblock "${ours[@]}"; fi
if [[ -L {{ layer.device }} && ! -e {{ layer.device }} ]]; then rm -f -- {{ layer.device }}; fi
