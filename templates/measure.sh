#!/usr/bin/env bash
# Measures: {{ title }}
# Run it in a trial's folder, where its job.fio is.
set -euo pipefail
exec </dev/null

sync
printf '3\n' >/proc/sys/vm/drop_caches
status=0
fio --output-format=json+ --output=fio.json job.fio || status=$?
if [[ -e fio.json ]]; then printf '%s\n' "$(<fio.json)"; fi
exit "$status"
