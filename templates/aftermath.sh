#!/usr/bin/env bash
# Prints the state of a stack after disks have failed: {{ title }}
# Lines of "note", name, text, separated by tabs, are kept with the trial; other lines are evidence.
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

note() { printf 'note\t%s\t%s\n' "$1" "$2"; }
{% for layer in stack.layers %}
{% include layer.kind ~ '/aftermath.sh' ignore missing %}
{% endfor %}

if [[ -e /proc/mdstat ]]; then printf '%s\n' "$(</proc/mdstat)"; fi
# The kernel's messages, which an ordinary user may not read.
dmesg 2>/dev/null | tail -n 200 || true
