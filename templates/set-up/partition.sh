
disk={{ layer.members }}
kernel_name "$disk"
# Places are told to sfdisk, and by sysfs, in sectors of 512 bytes.
first_line "/sys/class/block/$REPLY/queue/logical_block_size"
((REPLY == 512)) || fail "$disk has sectors of $REPLY bytes; partitions are only made on sectors of 512"
{
  # Without it sfdisk begins at 1MiB at the earliest, and nothing could be misaligned.
  printf '%s\n' 'label: gpt' 'first-lba: 34' 'label-id: '{{ layer.uuid }}
  printf '%s\n' {{ layer.lines }}
} | sfdisk --quiet --no-tell-kernel --wipe always --wipe-partitions always "$disk"
{% include 'partitions.sh' %}
