
{% include 'dm.sh' %}
{% for one in layer.mappings %}
while mapping_of {{ one.owner }}; do
  retry integritysetup close "$REPLY"
done
{% endfor %}
# Only a superblock with the mark of this program is removed, together with the mark, which must not remain beside later
# data.
{% for one in layer.mappings %}
where=({{ one.member }})
if [[ ! -b {{ one.member }} ]]; then where=({{ stack.disks }}); fi  # as when an array was never assembled
for device in "${where[@]}"; do
  if [[ -b $device && $(dd if="$device" bs=512 count=5 status=none | tr -d '\0') == integrt*{{ one.mark }}* ]]; then
    wipefs --quiet --all "$device"
    dd if=/dev/zero of="$device" bs=4096 count=1 conv=notrunc,fsync status=none
  fi
done
{% endfor %}
