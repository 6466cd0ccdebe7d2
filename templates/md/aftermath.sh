{% set first = stack.layers | selectattr('kind', 'equalto', 'md') | first %}
{% if layer == first %}

# Collects the state of an array in $told. Linear and RAID 0 are either complete or broken.
tell_of() {
  first_line "$1/array_state"
  told=$REPLY
  [[ -e $1/degraded ]] || return 0
  first_line "$1/degraded"
  told+=", degraded $REPLY"
  first_line "$1/sync_action"
  told+=", $REPLY"
}
# The same for the member $2, unless it simply works.
tell_of_member() {
  kernel_name "$3"
  local member=$1/dev-$REPLY
  if [[ ! -e $member ]]; then
    told+=", without $2"
    return 0
  fi
  first_line "$member/state"
  if [[ ,$REPLY, != *,in_sync,* ]]; then told+=", $2 $REPLY"; fi
}
{% endif %}

kernel_name {{ layer.device }}
at=/sys/class/block/$REPLY/md
tell_of "$at"
{% for member in layer.members %}
tell_of_member "$at" {{ stack.names[member] }} {{ member }}
{% endfor %}
note {{ layer.names[0] ~ '.after' }} "$told"
