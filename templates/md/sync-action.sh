
array={{ layer.device }}
kernel_name "$array"
at=/sys/class/block/$REPLY/md
action={{ 'recover' if sync.action == 'rebuild' else sync.action }}
{% if sync.action == 'rebuild' %}
{% include 'retry.sh' %}

# The last active member is replaced. `frozen`: its rebuild does not begin before the clock is read.
prepare() {
  local lost={{ layer.arguments[-1] }}
  mdadm --manage --quiet "$array" --fail "$lost"
  retry mdadm --manage --quiet "$array" --remove "$lost"
  retry mdadm --zero-superblock "$lost"
  echo frozen >"$at/sync_action"
  mdadm --manage --quiet "$array" --add "$lost"
{% if layer.arguments[-1] in layer.write_mostly %}
  kernel_name "$lost"
  echo writemostly >"$at/dev-$REPLY/state"
{% endif %}
}
{% elif sync.action == 'resync' %}
prepare() {
{% filter indent(2, first=True) %}
{% include 'md/forget-sync.sh' %}
{% endfilter %}
}
{% else %}
prepare() { :; }
{% endif %}
begin() { echo "$action" >"$at/sync_action"; }
is_running() {
  first_line "$at/sync_action"
  [[ $REPLY == "$action" ]]
}
facts() {
  first_line "$at/component_size"
  bytes=$((REPLY * 1024))
  first_line "$at/sync_speed_max"
  fastest=$((${REPLY%% *} * 1024))
  first_line "$at/mismatch_cnt"
  mismatches=$REPLY
}
