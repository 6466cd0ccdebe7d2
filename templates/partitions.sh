blockdev --rereadpt "$disk"
if command -v udevadm >/dev/null; then udevadm settle; fi
number=0
parts=({{ layer.tops }})
for part in "${parts[@]}"; do
  number=$((number + 1))
  if [[ ! -b $part && -L $disk ]]; then
    # Partitions of links have links of their own. Where no udev makes them, we do, as mdadm does for its arrays.
    kernel_name "$disk"
    if [[ $REPLY == *[0-9] ]]; then REPLY+=p; fi
    ln -sf "/dev/$REPLY$number" "$part"
  fi
  [[ -b $part ]] || fail "the partition $part did not appear"
done
