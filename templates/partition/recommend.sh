
printf '%s\n' {{ layer.lines }} |
  sfdisk --wipe always --wipe-partitions always {{ layer.members }}
if command -v udevadm >/dev/null; then udevadm settle; fi
