#!/usr/bin/env bash
# Measures: {{ title }}
# Run it in a trial's folder: that is where job.fio is and fio.json goes.
set -euo pipefail
exec </dev/null

# Nothing of an earlier trial may be answered from memory. Only these devices: the rest of the host keeps its caches.
sync
blockdev --flushbufs {{ stack.devices }}
status=0
fio --output-format=json+ --output=fio.json job.fio || status=$?
if [[ -e fio.json ]]; then printf '%s\n' "$(<fio.json)"; fi
exit "$status"
