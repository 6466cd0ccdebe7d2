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
output=fio.json
if [[ -e $output ]]; then output=fio-again.json; fi  # what was measured before is kept
status=0
fio --output-format=json+ --output="$output" job.fio || status=$?
if [[ -e $output ]]; then printf '%s\n' "$(<"$output")"; fi
((status == 0)) || exit "$status"
{% for layer in stack.layers if layer.under_way %}
{% if loop.first %}
{% include 'prelude.sh' %}
{% endif %}
{% include 'after/' ~ layer.kind ~ '.sh' ignore missing %}
{% endfor %}
