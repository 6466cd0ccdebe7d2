#!/usr/bin/env bash
# Tells how it stands after disks failed: {{ title }}
# Lines of "note", name, text, tab separated, are kept with the trial; the rest is evidence.
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

note() { printf 'note\t%s\t%s\n' "$1" "$2"; }
{% for layer in stack.layers %}
{% include layer.kind ~ '/aftermath.sh' ignore missing %}
{% endfor %}

if [[ -e /proc/mdstat ]]; then printf '%s\n' "$(</proc/mdstat)"; fi
# What the kernel had to say; on a host it may be nobody's business.
dmesg 2>/dev/null | tail -n 200 || true
