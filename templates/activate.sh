#!/usr/bin/env bash
# Finds and starts a stack again after a reboot: {{ title }}
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

{% for layer in stack.layers %}
{% include layer.kind ~ '/activate.sh' ignore missing %}
{% endfor %}
