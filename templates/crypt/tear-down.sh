
{% include 'dm.sh' %}
{% for one in layer.mappings %}
while mapping_of {{ one.owner }}; do
  retry cryptsetup close "$REPLY"
done
{% endfor %}
{% if layer.format != 'plain' %}
# Only a header with the mark of this program is removed.
{% for one in layer.mappings %}
where=({{ one.member }})
if [[ ! -b {{ one.member }} ]]; then where=({{ stack.disks }}); fi  # as when an array was never assembled
for device in "${where[@]}"; do
  if [[ -b $device && $(wipefs --noheadings --output TYPE,UUID "$device" 2>/dev/null) == *crypto_LUKS*{{ one.mark }}* ]]; then
    wipefs --quiet --all "$device"
  fi
done
{% endfor %}
{% endif %}
