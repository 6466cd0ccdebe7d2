#!/usr/bin/env bash
# Builds: {{ title }}
# Safe to run again: what an earlier run of it left is taken apart first; what is not ours is never touched.
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

restore_knobs
{% for layer in stack.layers %}
{% include 'set-up/' ~ layer.kind ~ '.sh' %}
{% endfor %}
