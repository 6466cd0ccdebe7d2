{% for one in layer.mappings %}
if ! mapping_of {{ one.owner }}; then
  integritysetup open {{ layer.open_options }} {{ layer.mode_options }} {{ one.member }} {{ one.name }}
fi
{% endfor %}
if command -v udevadm >/dev/null; then udevadm settle; fi
