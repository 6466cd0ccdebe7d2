#!/usr/bin/env bash
# Measures: {{ title }}
# Run it in a trial's folder: that is where job.fio is and fio.json goes.
set -euo pipefail
exec </dev/null

{% if not work.direct %}
# Nothing of an earlier trial may be answered from memory, nothing of this one be left to be written during the next.
# Only these devices: the rest of the host keeps its caches. What is dirty is written out first.
empty_caches() { blockdev --flushbufs {{ stack.devices }}; }
trap empty_caches EXIT
empty_caches

{% endif %}
status=0
fio --output-format=json+ --output=fio.json job.fio || status=$?
if [[ -e fio.json ]]; then printf '%s\n' "$(<fio.json)"; fi
exit "$status"
