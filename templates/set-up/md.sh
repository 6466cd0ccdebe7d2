
array={{ layer.device }}
if [[ -e $array ]]; then
  fail "there is an array $array already, and it is not ours"
fi
mdadm --create "$array" --run --quiet --homehost=any --name={{ layer.name }} --uuid={{ layer.uuid }} \
  {{ layer.options }}{% if layer.resync == 'assume-clean' %} --assume-clean{% endif %} \
  {{ layer.arguments }}
if command -v udevadm >/dev/null; then udevadm settle; fi
{% if layer.resync == 'waited for' %}
# The first resync would otherwise run beside the first measurements.
kernel_name "$array"
action=/sys/class/block/$REPLY/md/sync_action
while first_line "$action" && [[ $REPLY != idle ]]; do
  sleep 0.2
done
{% endif %}
{% for member in layer.lost %}
mdadm --manage --quiet "$array" --fail {{ member }}
retry mdadm --manage --quiet "$array" --remove {{ member }}
mdadm --zero-superblock {{ member }}
{% endfor %}
{% if layer.state == 'rebuilding' %}
mdadm --manage --quiet "$array" --add {{ layer.lost }}
{% endif %}
mdadm --detail "$array"
