
uuid={{ layer.uuid }}
members=({{ layer.members }})
# What carries our mark is ours, under whatever name it was assembled; anything else is somebody's data.
for node in /sys/class/block/md*/md; do
  node=${node%/md}
  node=/dev/${node##*/}
  if [[ -b $node && $(mdadm --detail --export "$node" 2>/dev/null) == *"MD_UUID=$uuid"* ]]; then
    retry mdadm --stop --quiet "$node"
  fi
done
for member in "${members[@]}"; do
  if [[ -b $member && $(mdadm --examine --export "$member" 2>/dev/null) == *"MD_UUID=$uuid"* ]]; then
    mdadm --zero-superblock "$member"
  fi
done
