#!/usr/bin/env bash
# Reads back from the kernel: {{ title }}
# One line each: reading, setting, wanted ("-": nothing was asked for), what the kernel says; tab separated.
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

mismatches=0

# setting wanted got
compare() {
  printf 'reading\t%s\t%s\t%s\n' "$1" "$2" "$3"
  if [[ $2 != - && $2 != "$3" ]]; then
    mismatches=$((mismatches + 1))
    printf 'matrix: not as declared: %s wanted %s, kernel says %s\n' "$1" "$2" "$3" >&2
  fi
}

# setting wanted file
reading() {
  if [[ -e $3 ]]; then first_line "$3"; else REPLY=absent; fi
  if [[ $2 != - || $REPLY != absent ]]; then compare "$1" "$2" "$REPLY"; fi
}

{% for inspection in inspections %}
kernel_name {{ inspection.device }}
at=/sys/class/block/$REPLY
{% for one in inspection.expects %}
reading {{ one.setting }} {{ '-' if one.wanted is none else one.wanted }} "$at"/{{ one.file }}
{% endfor %}
{% endfor %}
{% for layer in stack.layers %}
{% include 'verify/' ~ layer.kind ~ '.sh' %}
{% endfor %}

((mismatches == 0)) || exit 4
