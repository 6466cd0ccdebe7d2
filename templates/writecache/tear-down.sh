
{% include 'dm.sh' %}
{% for one in layer.mappings %}
while mapping_of {{ one.owner }}; do
  retry dmsetup remove --noudevrules --noudevsync "$REPLY"
done
if [[ -L {{ one.path }} ]]; then rm -- {{ one.path }}; fi
if [[ -b {{ layer.cache }} && $(dd if={{ layer.cache }} bs=512 count=1 status=none | tr -d '\0') == {{ one.mark }} ]]; then
  dd if=/dev/zero of={{ layer.cache }} bs=4096 count=2 conv=notrunc,fsync status=none
fi
{% endfor %}
