{% for one in layer.mappings %}
if ! mapping_of {{ one.owner }}; then
  # All stacks have the same key, which is no secret.
  printf '%s' {{ layer.key }} |
    cryptsetup open --batch-mode {{ layer.open_options }} --key-file=- {{ one.member }} {{ one.name }}
fi
{% endfor %}
if command -v udevadm >/dev/null; then udevadm settle; fi
