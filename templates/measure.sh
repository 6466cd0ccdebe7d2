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
# What the kernel has counted of all devices and processors, behind the word that it is told.
counted() {
  local disks processors lines
  mapfile -t disks </proc/diskstats
  mapfile -t processors </proc/stat
  lines=("clock $EPOCHREALTIME" "${disks[@]}" "${processors[@]}")
  printf '%s\n' "${lines[@]/#/counted$'\t'$1$'\t'}"
}

{% if samples %}
# sysstat's sampler, beside the work. samples.sh tells what it saw.
sampler=
for sadc in /usr/lib/sysstat/sadc /usr/lib64/sa/sadc /usr/libexec/sysstat/sadc; do
  if [[ -x $sadc ]]; then
    "$sadc" -S DISK {{ samples }} samples.sa >/dev/null 2>&1 &
    sampler=$!
    break
  fi
done
{% endif %}
output=fio.json
if [[ -e $output ]]; then output=fio-again.json; fi  # what was measured before is kept
status=0
counted before
fio --output-format=json+ --output="$output" job.fio || status=$?
counted after
{% if samples %}
if [[ -n $sampler ]]; then
  kill "$sampler" 2>/dev/null || true
  wait "$sampler" || true
fi
{% endif %}
if [[ -e $output ]]; then printf '%s\n' "$(<"$output")"; fi
((status == 0)) || exit "$status"
{% for layer in stack.layers if layer.under_way %}
{% if loop.first %}
{% include 'prelude.sh' %}
{% endif %}
{% include 'after/' ~ layer.kind ~ '.sh' ignore missing %}
{% endfor %}
