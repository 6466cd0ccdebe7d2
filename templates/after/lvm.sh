{% if layer.under_way %}

{% include 'volume-sync.sh' %}

read_sync {{ layer.mapped }}
name={{ layer.names[0] }}
wanted={{ layer.under_way }}
[[ ${volume[sync_action]} == "$wanted" ]] ||
  fail "not as declared: $name.sync_action wanted $wanted until the end of the measurement, kernel says ${volume[sync_action]}"
{% endif %}
