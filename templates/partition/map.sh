{% if layer.mapped %}
# The kernel does not read partition tables of mappings. kpartx maps the partitions, and waits for udev if it runs.
kpartx -a -s -p -part "$disk"
kernel_name "$disk"
first_line "/sys/class/block/$REPLY/dm/uuid"
whole=$REPLY
{% else %}
blockdev --rereadpt "$disk"
if command -v udevadm >/dev/null; then udevadm settle; fi
{% endif %}
number=0
parts=({{ layer.tops }})
for part in "${parts[@]}"; do
  number=$((number + 1))
{% if layer.mapped %}
  look_up "$part" || fail "the partition $part did not appear"
  first_line "/sys/class/block/$REPLY/dm/uuid"
  [[ $REPLY == "part$number-$whole" ]] || fail "there is a mapping $part already, and it is not ours"
{% else %}
  if [[ ! -b $part ]]; then
    # Partitions of a linked device have links, too. Without udev this script creates them, as mdadm does for arrays; in
    # a container, where the kernel creates no nodes, also the nodes.
    kernel_name "$disk"
    if [[ $REPLY == *[0-9] ]]; then REPLY+=p; fi
    node=/dev/$REPLY$number
    at=/sys/class/block/$REPLY$number/dev
    if [[ ! -b $node && -e $at ]]; then
      first_line "$at"
      mknod "$node" b "${REPLY%:*}" "${REPLY#*:}"
    fi
    if [[ -L $disk ]]; then ln -sf "$node" "$part"; fi
  fi
  [[ -b $part ]] || fail "the partition $part did not appear"
{% endif %}
done
