
# Only a table with the mark of this program is removed.
disk={{ layer.members }}
if [[ -b $disk ]]; then
  id=$(sfdisk --disk-id "$disk" 2>/dev/null || true)
  if [[ ${id,,} == {{ layer.uuid }} ]]; then
{% if layer.mapped %}
    # Mappings first: while one exists, the table must identify it.
    retry kpartx -d -s -p -part "$disk"
    wipefs --quiet --all "$disk"
{% else %}
    wipefs --quiet --all "$disk"
    retry blockdev --rereadpt "$disk"
{% endif %}
  fi
fi
{% if not layer.mapped %}
parts=({{ layer.tops }})
for part in "${parts[@]}"; do
  # In a container the node outlives its partition, and another device may get its number.
  node=
  if [[ -b $part ]]; then node=$(readlink -f -- "$part"); fi
  if [[ -n $node && ! -e /sys/class/block/${node##*/} ]]; then rm -f -- "$node"; fi
  if [[ -L $part && ! -e $part ]]; then rm -f -- "$part"; fi
done
{% endif %}
