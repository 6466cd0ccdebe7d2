
kernel_name {{ layer.device }}
at=/sys/class/block/$REPLY
{% if layer.roles %}
# setting wanted member: the state of a member in the array
told_role() {
  local role=absent slot=
  kernel_name "$3"
  if [[ -e $at/md/dev-$REPLY ]]; then
    read -r role <"$at/md/dev-$REPLY/state" && read -r slot <"$at/md/dev-$REPLY/slot" || true
    role=${role:-none}/$slot
  fi
  told "$1" "$2" "$role"
} 2>/dev/null
{% for setting, member, wanted in layer.roles %}
told_role {{ layer.names[0] ~ '.' ~ setting }} {{ wanted }} {{ member }}
{% endfor %}
{% endif %}
{% if layer.stripe_width %}
# The kernel takes the least common multiple of the array's and the members' values.
width={{ layer.stripe_width }}
members=({{ layer.members }})
for member in "${members[@]}"; do
  first_line "$at/queue/optimal_io_size"
  if [[ $REPLY == "$width" ]]; then break; fi
  kernel_name "$member"
  member=/sys/class/block/$REPLY
  if [[ ! -e $member/queue ]]; then member+=/..; fi
  first_line "$member/queue/optimal_io_size"
  a=$width b=$REPLY
  while ((b > 0)); do rest=$((a % b)) a=$b b=$rest; done
  if ((REPLY > 0)); then width=$((width * REPLY / a)); fi
done
first_line "$at/queue/optimal_io_size"
if [[ $REPLY == "$width" ]]; then REPLY={{ layer.stripe_width }}; fi
told {{ layer.names[0] ~ '.stripe_width' }} {{ layer.stripe_width }} "$REPLY"
{% endif %}
