
disk={{ layer.members }}
{
  printf '%s\n' 'label: gpt' 'label-id: '{{ layer.uuid }}
  printf '%s\n' {{ layer.lines }}
} | sfdisk --quiet --no-tell-kernel --wipe always "$disk"
blockdev --rereadpt "$disk"
if command -v udevadm >/dev/null; then udevadm settle; fi
for part in {{ layer.tops }}; do
  [[ -b $part ]] || fail "the partition $part did not appear"
done
