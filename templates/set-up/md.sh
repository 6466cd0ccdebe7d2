
array={{ layer.device }}
uuid={{ layer.uuid }}
members=({{ layer.members }})
for member in "${members[@]}"; do
  [[ -b $member ]] || fail "$member is not a block device"
done
if [[ -e $array ]]; then
  mdadm --stop "$array"
fi
# An array that carries our mark is a leftover of ours; any other is somebody's data.
while read -r line; do
  [[ $line == *"UUID=$uuid"* ]] || fail "a member already belongs to another array: $line"
  mdadm --zero-superblock "${members[@]}" 2>/dev/null || true
done < <(mdadm --examine --brief "${members[@]}" 2>/dev/null | grep UUID= || true)
mdadm --create "$array" --run --quiet --homehost=any --name={{ layer.name }} --uuid="$uuid" \
  {{ layer.options }}{% if layer.assume_clean and layer.redundant %} --assume-clean{% endif %} \
  "${members[@]}"
if command -v udevadm >/dev/null; then udevadm settle; fi
{% if layer.redundant and not layer.assume_clean %}
# The first resync would otherwise run beside the first measurements.
kernel_name "$array"
while first_line "/sys/class/block/$REPLY/md/sync_action" && [[ $REPLY != idle ]]; do
  sleep 0.2
  kernel_name "$array"
done
{% endif %}
mdadm --detail "$array"
