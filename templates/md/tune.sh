{% if layer.level in ('raid4', 'raid5', 'raid6') %}

# Stripes in md's cache from an earlier trial would save this one reading them, even with direct I/O.
kernel_name {{ layer.device }}
stripes=/sys/class/block/$REPLY/md/stripe_cache_size
read -r kept <"$stripes"
echo 17 >"$stripes" # the fewest that there may be
echo "$kept" >"$stripes"
{% endif %}
{% if layer.under_way %}

{% include 'retry.sh' %}

# Every trial starts at the beginning of a resync: a running one is stopped and started again.
# The kernel reports a rebuild a moment before the new member has its slot.
under_way() {
{% if layer.state == 'rebuilding' %}
  first_line "$member/slot"
  [[ $REPLY != none ]] || return 1
{% endif %}
  first_line "$at/sync_action"
  [[ $REPLY == "$action" ]]
}
array={{ layer.device }}
action={{ layer.under_way }}
kernel_name "$array"
at=/sys/class/block/$REPLY/md
{% if layer.state == 'rebuilding' %}
{% for member in layer.lost %}
lost={{ member }}
kernel_name "$lost"
member=$at/dev-$REPLY
if [[ -e $member ]]; then
  mdadm --manage --quiet "$array" --fail "$lost"
  retry mdadm --manage --quiet "$array" --remove "$lost"
  retry mdadm --zero-superblock "$lost"
fi
mdadm --manage --quiet "$array" --add "$lost"
{% if member in layer.write_mostly %}
echo writemostly >"$member/state"
{% endif %}
{% endfor %}
{% else %}
{% include 'md/forget-sync.sh' %}
echo resync >"$at/sync_action"
{% endif %}
retry under_way || fail "the $action of $array did not begin, or was over at once"
{% endif %}
