#!/usr/bin/env bash
# Builds: {{ title }}
# Safe to run again: what an earlier run of it left is taken apart first; what is not ours is never touched.
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

{% include 'tunables.sh' %}

{% include 'bare.sh' %}

{% include 'retry.sh' %}

restore_knobs
disks=({{ stack.disks }})
if ! bare "${disks[@]}"; then
{% for layer in stack.layers | reverse %}
{% include layer.kind ~ '/tear-down.sh' %}
{% endfor %}
bare "${disks[@]}" || fail "$REPLY"
# What is built again may get another name from the kernel.
kernel_names=()
fi
{% for layer in stack.layers %}
{% include layer.kind ~ '/set-up.sh' %}
{% endfor %}
