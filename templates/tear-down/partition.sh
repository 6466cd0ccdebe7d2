
# A table that carries our mark is ours; any other is somebody's data.
disk={{ layer.members }}
if [[ -b $disk ]]; then
  id=$(sfdisk --disk-id "$disk" 2>/dev/null || true)
  if [[ ${id,,} == {{ layer.uuid }} ]]; then
    wipefs --quiet --all "$disk"
    retry blockdev --rereadpt "$disk"
  fi
fi
parts=({{ layer.tops }})
for part in "${parts[@]}"; do
  if [[ -L $part && ! -e $part ]]; then rm -f -- "$part"; fi
done
