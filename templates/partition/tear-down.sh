
# A table that carries our mark is ours; any other is somebody's data.
disk={{ layer.members }}
if [[ -b $disk ]]; then
  id=$(sfdisk --disk-id "$disk" 2>/dev/null || true)
  if [[ ${id,,} == {{ layer.uuid }} ]]; then
{% if layer.mapped %}
    # Mappings first: as long as there is one, the table must tell whose it is.
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
  # In a container a node that we made outlives its partition, and its number may be another's next.
  node=
  if [[ -b $part ]]; then node=$(readlink -f -- "$part"); fi
  if [[ -n $node && ! -e /sys/class/block/${node##*/} ]]; then rm -f -- "$node"; fi
  if [[ -L $part && ! -e $part ]]; then rm -f -- "$part"; fi
done
{% endif %}
