#!/usr/bin/env bash
# Tunes: {{ title }}
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

{% include 'tunables.sh' %}

# Sets the file $3, which is the setting $2 of the device $1. Without a value it restores the file.
turn_file() {
  if (($# < 4)); then
    memory_of "$3"
    restore_knob "$REPLY"
    return 0
  fi
  [[ -e $3 ]] || fail "$1 has no $2"
  remember_knob "$3"
  # Most writes wait until the queue is empty, so equal values are not written.
  first_line "$3"
  if [[ $REPLY == "$4" ]]; then return 0; fi
  local said
  if { printf '%s\n' "$4" >"$3"; } 2>/dev/null; then return 0; fi
  # The second try gets the error message, or succeeds if the cause was temporary.
  said=$({ printf '%s\n' "$4" >"$3"; } 2>&1) || fail "the kernel refused $4 for $2 of $1: ${said##*: }"
}

# One file in the sysfs folder of a device.
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
{% if slow > 1 or stack.retimed %}
{% include 'slow.sh' %}

{% for timer in timers if timer.command != 'slow_f2fs' %}
{{ timer.command }} {{ timer.words }}
{% endfor %}
{% endif %}
{# After the tunables: work that a layer starts here may end before a tunable could slow it down. #}
{% for layer in stack.layers %}
{% include layer.kind ~ '/tune.sh' ignore missing %}
{% endfor %}
{% for timer in timers if timer.command == 'slow_f2fs' %}
{# After its mount, which resets them. #}
{{ timer.command }} {{ timer.words }}
{% endfor %}
