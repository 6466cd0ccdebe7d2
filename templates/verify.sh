#!/usr/bin/env bash
# Reads back from the kernel: {{ title }}
# One line each: reading, setting, wanted value ("-": not declared), value in the kernel; separated by tabs.
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

readings=
differences=()
# setting wanted got: a value that is already known
told() {
  readings+=$'reading\t'$1$'\t'$2$'\t'$3$'\n'
  if [[ $2 != - && $2 != "$3" ]]; then differences+=("$1 wanted $2, kernel says $3"); fi
}
# wanted file: puts the kernel's value from a file into $REPLY; empty without a value
hear() {
  REPLY=
  # Linux 6.18 has this file only if there is a bitmap.
  if [[ $2 == */md/bitmap/location && ! -e $2 ]]; then REPLY=none; fi
  read -r REPLY <"$2" || [[ -n $REPLY ]] || return 0
  if [[ $REPLY != *[!a-z0-9_]* ]]; then return 0; fi
  if [[ $REPLY == *\[*\]* ]]; then
    REPLY=${REPLY#*\[}
    REPLY=${REPLY%%\]*}
  fi
  # The kernel chooses the place of a bitmap; only its existence is declared.
  if [[ $2 == */md/bitmap/location && $REPLY == [-+0-9]* ]]; then REPLY=internal; fi
  # The source of a resync limit follows in brackets.
  if [[ $1 != - && $REPLY == *' ('@(local|system)')' ]]; then REPLY=${REPLY% (*}; fi
} 2>/dev/null
# setting wanted file: a missing file gets a line
look_anyway() {
  local REPLY
  hear "$2" "$3"
  told "$1" "$2" "${REPLY:-absent}"
}
# the same, but a missing file gets a line only if a value is declared
look() {
  local REPLY
  hear "$2" "$3"
  if [[ $2 != - || -n $REPLY ]]; then told "$1" "$2" "${REPLY:-absent}"; fi
}

{% if 'cache' in ways %}
{% include 'drive-cache.sh' %}

{% endif %}
{% for inspection in inspections if inspection.expects %}
kernel_name {{ inspection.device }}
at=/sys/class/block/$REPLY
{% for one in inspection.expects %}
{% if one.file == 'cache_type' %}
drive_cache "$at"
{% if one.asked %}look_anyway{% else %}look{% endif %} {{ one.setting }} {{ '-' if one.wanted is none else one.wanted }} "$REPLY"
{% else %}
{% if one.asked %}look_anyway{% else %}look{% endif %} {{ one.setting }} {{ '-' if one.wanted is none else one.wanted }} "$at"/{{ one.file }}
{% endif %}
{% endfor %}
{% endfor %}
{% for one in host %}
{% if one.asked %}look_anyway{% else %}look{% endif %} {{ one.setting }} {{ '-' if one.wanted is none else one.wanted }} {{ one.file }}
{% endfor %}
{% if cmdline %}
read -r booted </proc/cmdline
{% for word in cmdline %}
if [[ " $booted " == *" "{{ word }}" "* ]]; then REPLY={{ word }}; else REPLY=absent; fi
told {{ ('cmdline.' ~ loop.index) }} {{ word }} "$REPLY"
{% endfor %}
{% for module, parameter, value in module_parameters %}
{% if loop.first %}
# module parameter wanted: some words with a dot are of no module; a switch is Y or N, however it was written
parameter() {
  local REPLY file=/sys/module/$1/parameters/$2
  if [[ ! -e $file ]]; then return 0; fi
  hear "$3" "$file"
  case $REPLY:$3 in Y:[1Yy]* | Y:on | N:[0Nn]* | N:off) REPLY=$3 ;; esac
  told "$1.$2" "$3" "${REPLY:-absent}"
}
{% endif %}
parameter {{ module }} {{ parameter }} {{ value }}
{% endfor %}
{% endif %}
{% if 'governor' in ways %}
policies=(/sys/devices/system/cpu/cpufreq/policy*)
for policy in "${policies[@]}"; do
  of=
{% raw %}
  if ((${#policies[@]} > 1)); then of=${policy##*/}.; fi
{% endraw %}
  look_anyway "${of}cpu_governor" {{ governor }} "$policy/scaling_governor"
done
{% endif %}
{% for layer in stack.layers if layer.kind == 'lvm' %}
{% if loop.first %}
{% include 'lvm/read-volumes.sh' %}

{% endif %}
{% endfor %}
{% for layer in stack.layers if layer.kind == 'lvm' and layer.redundant %}
{% if loop.first %}
{% include 'lvm/sync.sh' %}

{% endif %}
{% endfor %}
{% for layer in stack.layers %}
{% include layer.kind ~ '/verify.sh' ignore missing %}
{% endfor %}

printf %s "$readings"
if [[ -n ${differences[*]-} ]]; then
  printf 'matrix: not as declared: %s\n' "${differences[@]}" >&2
  exit 4
fi
