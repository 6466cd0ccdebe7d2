{% if layer.under_way or (layer.redundant and not faults) %}

kernel_name {{ layer.device }}
name={{ layer.names[0] }}
{% if layer.under_way %}
first_line "/sys/class/block/$REPLY/md/sync_action"
wanted={{ layer.under_way }}
[[ $REPLY == "$wanted" ]] ||
  fail "not as declared: $name.sync_action wanted $wanted until the end of the measurement, kernel says $REPLY" \
    "(lower sync_speed_max, or measure for less long)"
{% else %}
# Its state must not have changed: a check or repair by the host, or a missing member, affects the results.
at=/sys/class/block/$REPLY/md
for wanted in degraded={{ layer.lost | length }} sync_action=idle; do
  first_line "$at/${wanted%=*}"
  [[ $REPLY == "${wanted#*=}" ]] ||
    fail "not as declared: $name.${wanted%=*} wanted ${wanted#*=} until the end of the measurement, kernel says $REPLY" \
      "(a member failed, or the host began to check or to rebuild it: measure when it does not)"
done
{% endif %}
{% endif %}
