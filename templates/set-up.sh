#!/usr/bin/env bash
# Builds: {{ title }}
# Safe to run again: it first removes what an earlier run has left, and never touches other data.
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

{% include 'tunables.sh' %}

{% include 'bare.sh' %}

{% include 'retry.sh' %}
{% if stack.layers | selectattr('kind', 'equalto', 'md') | list %}

{% include 'md/has-member.sh' %}
{% endif %}

restore_knobs
{% if not stack.only_read %}
disks=({{ stack.disks }})
if ! bare "${disks[@]}"{% for layer in stack.layers %}{% for path in layer.remains %} || [[ -e {{ path }} ]]{% endfor %}{% endfor %}; then
{% for layer in stack.layers | reverse %}
{% include layer.kind ~ '/tear-down.sh' %}
{% endfor %}
bare "${disks[@]}" || fail "$REPLY"
# A new device may get another name from the kernel.
kernel_names=()
fi
{% endif %}
{% for layer in stack.layers %}
{% include layer.kind ~ '/set-up.sh' %}
{% endfor %}
