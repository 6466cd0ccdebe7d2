#!/usr/bin/env bash
# Tunes: {{ title }}
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

{% include 'tunables.sh' %}

# Sets the file $3, or if nothing is given puts it back to what it was; $1 has it and calls it $2.
turn_file() {
  if (($# < 4)); then
    memory_of "$3"
    restore_knob "$REPLY"
    return 0
  fi
  [[ -e $3 ]] || fail "$1 has no $2"
  remember_knob "$3"
  # Most writes wait until the queue has drained, which takes longer than all the rest.
  first_line "$3"
  if [[ $REPLY == "$4" ]]; then return 0; fi
  local said
  if { printf '%s\n' "$4" >"$3"; } 2>/dev/null; then return 0; fi
  # Once more, to hear why; it may be something that was over in the meantime.
  said=$({ printf '%s\n' "$4" >"$3"; } 2>&1) || fail "the kernel refused $4 for $2 of $1: ${said##*: }"
}

# One file under a device's sysfs folder.
turn() {
  kernel_name "$1"
  turn_file "$1" "$2" /sys/class/block/"$REPLY"/"$2" "${@:3}"
}
{% for way in ways %}

{% include 'turn/' ~ way ~ '.sh' %}
{% endfor %}

{% for tunable in tunables %}
{{ tunable.command }} {{ tunable.words }}
{% endfor %}
{# After the knobs: what a layer sets going here may be over before a knob could slow it down. #}
{% for layer in stack.layers %}
{% include layer.kind ~ '/tune.sh' ignore missing %}
{% endfor %}
