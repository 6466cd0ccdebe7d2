#!/usr/bin/env bash
# Removes: {{ title }}
# Safe to run again, and after an incomplete set-up.
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
{% for layer in stack.layers | reverse %}
{% include layer.kind ~ '/tear-down.sh' %}
{% endfor %}
{% if not stack.only_read %}
disks=({{ stack.disks }})
bare "${disks[@]}" || fail "still there after tearing down: $REPLY"
{% endif %}
