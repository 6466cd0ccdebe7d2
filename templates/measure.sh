#!/usr/bin/env bash
# Measures: {{ title }}
# Run it in a trial's folder: that is where job.fio is and fio.json goes.
set -euo pipefail
exec </dev/null

{% if files or not work.direct %}
# Nothing of an earlier trial may be answered from memory, nothing of this one be left to be written during the next.
# Only these devices: the rest of the host keeps its caches. What is dirty is written out first.
{% if files %}
# Mounting anew, before it was tuned, has emptied them.
trap 'sync -f '{{ stack.directory }} EXIT
{% else %}
empty_caches() { blockdev --flushbufs {{ stack.devices }}; }
trap empty_caches EXIT
empty_caches
{% endif %}

{% endif %}
status=0
fio --output-format=json+ --output=fio.json job.fio || status=$?
if [[ -e fio.json ]]; then printf '%s\n' "$(<fio.json)"; fi
((status == 0)) || exit "$status"
{% for layer in stack.layers if layer.under_way | default('') %}
{% if loop.first %}
{% include 'prelude.sh' %}
{% endif %}
{% include 'after/' ~ layer.kind ~ '.sh' ignore missing %}
{% endfor %}
