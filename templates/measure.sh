#!/usr/bin/env bash
# Measures: {{ title }}
# Run it in the folder of a trial: it
{%- if replay %} reads job.fio, and trace.txt there or one folder up, and writes fio.json.
{%- elif not sync %} reads job.fio and writes fio.json there.
{%- elif sync.alone %} writes sync.json there.
{%- else %} reads job.fio and writes fio.json and sync.json there.
{%- endif %}

set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}
{% if not (sync and sync.alone) %}

{% set under_test = (stack.directory,) if files else stack.tops %}
{% include 'confined.sh' %}
[[ -c /dev/matrix-bell ]] || may_mount || printf 'note\tunconfined\troot may not mount here: it lacks CAP_SYS_ADMIN\n'
{% endif %}

{% if work.nvme_key == 'ioengine' %}
# Commands go to the character device of a disk, past the block layer.
for number in "${!under_test[@]}"; do
  kernel_name "${under_test[number]}"
  unit=/dev/ng${REPLY#nvme}
  [[ $REPLY == nvme* && -c $unit ]] || fail "${under_test[number]} has no device for commands of NVMe, such as /dev/ng0n1"
  ln -sfn "$unit" "unit-$number"
  under_test[number]=$unit
done
{% elif work.nvme_key %}
for device in {{ stack.devices }}; do
  kernel_name "$device"
  first_line "/sys/class/block/$REPLY/queue/io_poll"
  [[ $REPLY == 1 ]] || fail "$device has no queues to poll: write \`machine: {cmdline: nvme.poll_queues=1}\`, or set it on the host"
done
{% endif %}
{% if not files and not work.direct %}
# Empties the caches of these devices, before and after the trial: earlier data must not be read from memory, and later
# trials must not write data of this one. Dirty data is written first. Other devices of the host keep their caches.
empty_caches() { blockdev --flushbufs {{ stack.devices }}; }
empty_caches
{% endif %}
{% if samples or profilers %}
watchers=()  # the newest first
# Background processes of a script do not receive Ctrl-C, so the trap stops them.
stop_watchers() {
  local watcher left
  for watcher in "${watchers[@]}"; do
    # blktrace may miss a signal while it starts.
    for ((left = 600; left > 0; left--)); do
      if ((left % 20 == 0)); then kill "$watcher" 2>/dev/null || break; fi
      sleep 0.05
      kill -0 "$watcher" 2>/dev/null || break
    done
    ((left)) || kill -KILL "$watcher" 2>/dev/null || true
    wait "$watcher" || true
  done
  watchers=()
}
{% endif %}
{% if sync and not sync.alone %}
work=
{% endif %}
{% if files or samples or profilers or not work.direct or (sync and not sync.alone) %}
leave() {
{% if sync and not sync.alone %}
  if [[ -n $work ]]; then
    kill -INT "$work" 2>/dev/null || true
    wait "$work" || true
  fi
{% endif %}
{% if samples or profilers %}
  stop_watchers
{% endif %}
{% if files %}
  # The new mount before the tuning has emptied the caches. Dirty data must not be written during the next trial.
  sync -f {{ stack.directory }}
{% elif not work.direct %}
  empty_caches
{% endif %}
}
trap leave EXIT
{% endif %}

# Prints the kernel's counters of devices, processors and memory unchanged, between two marker lines; and the sum of the
# interrupts from processor to processor.
counted() {
  local disks processors memory kind counts count ipis=0
  while read -r kind counts; do
    if [[ $kind != @(RES|CAL|TLB|IPI*): ]]; then continue; fi
    for count in $counts; do
      if [[ $count == *[!0-9]* ]]; then break; fi
      ipis=$((ipis + count))
    done
  done </proc/interrupts
  mapfile -t disks </proc/diskstats
  mapfile -t processors </proc/stat
  mapfile -t memory </proc/meminfo
  # One write for all lines.
  local IFS=$'\n'
  printf '%s\n' "counted $1 $EPOCHREALTIME"$'\n'"${disks[*]}"$'\n'"${processors[*]}"$'\n'"ipis $ipis"$'\n'"${memory[*]}"$'\n'"counted"
}

{% if work.trims %}
devices=({{ stack.devices }})
for device in "${devices[@]}"; do
  kernel_name "$device"
  limit=/sys/class/block/$REPLY/queue/discard_max_bytes
  if [[ ! -e $limit ]]; then limit=/sys/class/block/$REPLY/../queue/discard_max_bytes; fi  # of a partition
  first_line "$limit"
{% if pts %}
  [[ $REPLY != 0 ]] || fail "$device cannot discard, so it cannot be purged"
{% else %}
  [[ $REPLY != 0 ]] || fail "$device cannot discard, so trims cannot be measured on it"
{% endif %}
done
{% endif %}
{% if samples %}
# The sampler of sysstat, beside the workload; samples.sh prints its samples.
rm -f samples.sa  # sadc would add to it
for sadc in /usr/lib/sysstat/sadc /usr/lib64/sa/sadc /usr/libexec/sysstat/sadc; do
  if [[ -x $sadc ]]; then
    "$sadc" -S DISK {{ samples }} samples.sa >/dev/null 2>&1 &
    watchers=("$!" "${watchers[@]}")
    break
  fi
done
{% endif %}
{% if profilers %}
# name data: waits until a profiler is at work
started() {
  until [[ -s $2 ]]; do
    kill -0 "${watchers[0]}" 2>/dev/null || fail "the profile $1 did not begin:" "$(<"profile-$1.log")"
    sleep 0.1
  done
}
{% for profiler in profilers %}
rm -rf {{ 'profile-' ~ profiler ~ '.data' }}
{% include 'profilers/' ~ profiler ~ '.sh' %}
watchers=("$!" "${watchers[@]}")
started {{ profiler }} {{ 'profile-' ~ profiler ~ '.data' }}
{% endfor %}
{% endif %}
output=fio.json
if [[ -e $output ]]; then output=fio-again.json; fi  # what was measured before is kept
status=0
# Records settings without a declared value. This happens while fio starts, so it takes no extra time.
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
{% if sync %}
{% include 'rebuild.sh' %}
{% elif replay %}
{% include 'replay.sh' %}
{% elif pts %}
{% include 'pts.sh' %}
{% else %}
(confined fio{% if stack.only_read %} --readonly{% endif %} --output-format=json+ --output="$output" job.fio) || status=$?
{% endif %}
# Its output must not mix with the counters. Missing files are skipped, because none of them decides anything.
wait "$unasked" || true
counted after
{% if samples or profilers %}
stop_watchers
{% endif %}
{% if sync %}
printf 'sync\t%s\n' "$result"
{% elif replay %}
if ((status == 0)); then
  {% include 'replay-late.sh' %}
fi
{% endif %}
if [[ -e $output ]]; then
  mapfile -d '' -t text <"$output"
  printf '%s\n' "${text[@]}"
fi
((status == 0)) || exit "$status"
{% for one in host if one.wanted is not none %}
{% if loop.first %}
# setting wanted file: another program may have changed a setting of the whole machine during the trial
still() {
  first_line "$3"
  [[ $REPLY == "$2" ]] || fail "not as declared: $1 wanted $2 until the end of the measurement, kernel says $REPLY" \
    "(somebody else at this machine turned it)"
}
{% endif %}
still {{ one.setting }} {{ one.wanted }} {{ one.file }}
{% endfor %}
{% for layer in stack.layers %}
{% include layer.kind ~ '/after.sh' ignore missing %}
{% endfor %}
