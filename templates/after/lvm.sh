{% if layer.under_way %}

{% include 'volume-sync.sh' %}

read_sync {{ layer.mapped }}
[[ ${volume[sync_action]} == {{ layer.under_way }} ]] ||
  fail "not as declared: lvm.sync_action wanted "{{ layer.under_way }}" until the end of the measurement, kernel says ${volume[sync_action]}"
{% endif %}
