{% if layer.under_way %}

{% include 'volume-sync.sh' %}

read_sync {{ layer.mapped }}
wanted={{ layer.under_way }}
[[ ${volume[sync_action]} == "$wanted" ]] ||
  fail "not as declared: lvm.sync_action wanted $wanted until the end of the measurement, kernel says ${volume[sync_action]}"
{% endif %}
