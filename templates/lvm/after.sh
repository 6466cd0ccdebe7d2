{% if layer.under_way %}

{% include 'lvm/sync.sh' %}

wanted={{ layer.under_way }}
{% for one in layer.volumes %}
read_sync {{ one.mapped }}
name={{ layer.names[loop.index0] }}
[[ ${volume[sync_action]} == "$wanted" ]] ||
  fail "not as declared: $name.sync_action wanted $wanted until the end of the measurement, kernel says ${volume[sync_action]}"
{% endfor %}
{% endif %}
