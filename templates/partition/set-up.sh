
disk={{ layer.members }}
kernel_name "$disk"
# sfdisk takes positions in sectors of the device.
first_line "/sys/class/block/$REPLY/queue/logical_block_size"
((REPLY == {{ layer.sector }})) || fail "$disk has sectors of $REPLY bytes, not of "{{ layer.sector }}
printf '%s\n' {{ layer.lines }} |
  sfdisk --quiet --no-tell-kernel --wipe always --wipe-partitions always "$disk"
{% include 'partition/map.sh' %}
