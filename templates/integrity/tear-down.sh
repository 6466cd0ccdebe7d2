
{% include 'dm.sh' %}
{% for one in layer.mappings %}
while mapping_of {{ one.owner }}; do
  retry integritysetup close "$REPLY"
done
{% endfor %}
# A superblock that carries our mark is ours; any other is somebody's data. The mark goes with it: it must not be found
# beside what somebody else puts there later.
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
