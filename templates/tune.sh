#!/usr/bin/env bash
# Tunes: {{ title }}
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

# Sets one file under a device's sysfs folder, and remembers what it was.
turn() {
  kernel_name "$1"
  local path=/sys/class/block/$REPLY/$2
  [[ -e $path ]] || fail "$1 has no $2"
  remember_knob "$path"
  { printf '%s\n' "$3" >"$path"; } 2>/dev/null || fail "the kernel refused $3 for $2 of $1"
}

# Puts one file back to what it was before anybody set it.
turn_back() {
  kernel_name "$1"
  local path=/sys/class/block/$REPLY/$2
  restore_knob "$knob_memory/${path//\//_}"
}

{% for knob in knobs %}
{% if knob.value is none %}
turn_back {{ knob.device }} {{ knob.file }}
{% else %}
turn {{ knob.device }} {{ knob.file }} {{ knob.value }}
{% endif %}
{% endfor %}
{# After the knobs: what a layer sets going here may be over before a knob could slow it down. #}
{% for layer in stack.layers %}
{% include 'tune/' ~ layer.kind ~ '.sh' ignore missing %}
{% endfor %}
