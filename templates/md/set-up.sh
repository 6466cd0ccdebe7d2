
array={{ layer.device }}
for at in /sys/class/block/md*/md/array_state; do
  node=${at%/md/array_state}
  # An array that did not start may leave an empty device, which can be reused.
  if [[ ! /dev/${node##*/} -ef $array ]]; then continue; fi
  first_line "$at" 2>/dev/null # it may vanish at any time
  if [[ -e $at && $REPLY != clear ]]; then fail "there is an array $array already, and it is not ours"; fi
done
mdadm --create "$array" --run --quiet --homehost=any --name={{ layer.name }} --uuid={{ layer.uuid }} \
  {{ layer.options }}{% if layer.resync in ('assume-clean', 'background') %} --assume-clean{% endif %} \
  {{ layer.arguments }}
if command -v udevadm >/dev/null; then udevadm settle; fi
kernel_name "$array"
at=/sys/class/block/$REPLY/md
{% if layer.resync == 'waited for' %}
# Otherwise the first resync would run during the first measurements. RAID 4 and 5 rebuild instead. Both begin a moment
# after the array. If one stops for two seconds it does not continue, and the read-back reports the problem.
left=10
while ((left > 0)); do
  first_line "$at/sync_action"
  if [[ $REPLY == idle ]]; then left=$((left - 1)); else left=10; fi
  if [[ $REPLY == idle && $(<"$at/degraded") == 0 && $(<"$at/resync_start") == none ]]; then break; fi
  sleep 0.2
done
{% endif %}
{% for member in layer.write_mostly %}
# Not by mdadm --create, which marks a device faulty if a spare follows a write-mostly one.
kernel_name {{ member }}
echo writemostly >"$at/dev-$REPLY/state"
{% endfor %}
{% for member in layer.lost %}
mdadm --manage --quiet "$array" --fail {{ member }}
retry mdadm --manage --quiet "$array" --remove {{ member }}
mdadm --zero-superblock {{ member }}
{% endfor %}
mdadm --detail "$array"
