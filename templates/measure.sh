#!/usr/bin/env bash
# Measures: {{ title }}
# Run it in a trial's folder: that is where job.fio is and fio.json goes.
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

{% if not files and not work.direct %}
# Nothing of an earlier trial may be answered from memory, nothing of this one be left to be written during the next.
# Only these devices: the rest of the host keeps its caches. What is dirty is written out first.
empty_caches() { blockdev --flushbufs {{ stack.devices }}; }
empty_caches
{% endif %}
{% if samples %}
sampler=
# Nobody else does: what works in the background of a script does not hear Ctrl-C.
stop_sampling() {
  if [[ -z $sampler ]]; then return 0; fi
  kill "$sampler" 2>/dev/null || true
  wait "$sampler" || true
  sampler=
}
{% endif %}
{% if files or samples or not work.direct %}
leave() {
{% if samples %}
  stop_sampling
{% endif %}
{% if files %}
  # Mounting anew, before it was tuned, has emptied the caches; what is dirty now must not be written during the next.
  sync -f {{ stack.directory }}
{% elif not work.direct %}
  empty_caches
{% endif %}
}
trap leave EXIT
{% endif %}

# What the kernel has counted of all devices and processors, and holds in memory, as it says it, between two lines of ours.
counted() {
  local disks processors memory
  mapfile -t disks </proc/diskstats
  mapfile -t processors </proc/stat
  mapfile -t memory </proc/meminfo
  # All at once: lines one by one would be as many writes.
  local IFS=$'\n'
  printf '%s\n' "counted $1 $EPOCHREALTIME"$'\n'"${disks[*]}"$'\n'"${processors[*]}"$'\n'"${memory[*]}"$'\n'"counted"
}

{% if samples %}
# sysstat's sampler, beside the work. samples.sh tells what it saw.
rm -f samples.sa  # sadc would add to it
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
# What nothing was asked of, as it is. It is read while fio starts, which takes that longer: so no trial waits for it.
unasked() {
  local files=()
  # name device file ...: the device's name, and its files
  look_on() {
    look_up "$2" || return 0
    printf 'reading\t%s.node\t-\t%s\n' "$1" "$REPLY"
    shift 2
    files+=("${@/#//sys/class/block/$REPLY/}")
  }
{% for inspection in inspections %}
  look_on {{ inspection.name }} {{ inspection.device }}{% for file in inspection.recorded %} {{ file }}{% endfor +%}
{% endfor %}
{% for file in recorded_of_memory %}
  files+=({{ memory }}/{{ file }})
{% endfor %}
  exec grep -sH '' "${files[@]}"
}
counted before
unasked &
unasked=$!
fio --output-format=json+ --output="$output" job.fio || status=$?
# What it says is not to be among the counters. A file that is not there is none to tell, and none decides anything.
wait "$unasked" || true
counted after
{% if samples %}
stop_sampling
{% endif %}
if [[ -e $output ]]; then
  mapfile -d '' -t text <"$output"
  printf '%s\n' "${text[@]}"
fi
((status == 0)) || exit "$status"
{% for one in host if one.wanted is not none %}
{% if loop.first %}
# setting wanted file: what is the whole machine's may have been turned by somebody else of it meanwhile
still() {
  first_line "$3"
  [[ $REPLY == "$2" ]] || fail "not as declared: $1 wanted $2 until the end of the measurement, kernel says $REPLY" \
    "(somebody else at this machine turned it)"
}
{% endif %}
still {{ one.setting }} {{ one.wanted }} {{ one.file }}
{% endfor %}
{% for layer in stack.layers if layer.under_way or (layer.kind == 'md' and layer.redundant and not faults) %}
{% include layer.kind ~ '/after.sh' ignore missing %}
{% endfor %}
