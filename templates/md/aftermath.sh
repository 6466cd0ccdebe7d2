{% set first = stack.layers | selectattr('kind', 'equalto', 'md') | first %}
{% if layer == first %}

# What an array says of itself, in $told; linear and RAID 0 miss no member: they are whole, or broken.
tell_of() {
  first_line "$1/array_state"
  told=$REPLY
  [[ -e $1/degraded ]] || return 0
  first_line "$1/degraded"
  told+=", degraded $REPLY"
  first_line "$1/sync_action"
  told+=", $REPLY"
}
# The same of a member called $2, if there is more to say of it than that it works.
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
