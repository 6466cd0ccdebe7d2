#!/usr/bin/env bash
# Reads back from the kernel: {{ title }}
# One line each: reading, setting, wanted ("-": nothing was asked for), what the kernel says; tab separated.
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

rows=
# setting wanted file: what the kernel says is the first line of the file
look() { rows+=$1$'\t'$2$'\tfile\t'$3$'\n'; }
# the same of what was asked about: that there is no such file is worth a line
look_anyway() { rows+=$1$'\t'$2$'\tasked\t'$3$'\n'; }
# the same of files of the device "$at" that nothing was asked of: its name, and their names
look_on() {
  local file
  for file in "${@:2}"; do rows+=$1.$file$'\t-\tfile\t'$at/$file$'\n'; done
}
# setting wanted text: what the kernel says was asked for already
told() { rows+=$1$'\t'$2$'\ttext\t'$3$'\n'; }

# One process compares everything: a shell would take a millisecond a line on an emulated processor.
judge() {
  exec awk -F '\t' '
    {
      got = $4
      if ($3 != "text") {
        got = "absent"
        if ((getline line < $4) > 0) got = line
        close($4)
        if (match(got, /\[[^]]*\]/)) got = substr(got, RSTART + 1, RLENGTH - 2)  # the chosen one of a list
        # Where a bitmap lies is the business of the kernel; whether there is one was declared.
        if ($4 ~ /\/md\/bitmap\/location$/ && got ~ /^[-+0-9]/) got = "internal"
      }
      if ($2 == "-" && got == "absent" && $3 == "file") next
      if ($2 != "-") sub(/ \((local|system)\)$/, "", got)  # whose limit of a resync it is
      printf "reading\t%s\t%s\t%s\n", $1, $2, got
      if ($2 != "-" && $2 != got) wrong[++mismatches] = $1 " wanted " $2 ", kernel says " got
    }
    END {
      for (one = 1; one <= mismatches; one++) print "matrix: not as declared: " wrong[one] >"/dev/stderr"
      exit mismatches ? 4 : 0
    }' <<<"${rows%$'\n'}"
}

{% if 'cache' in ways %}
{% include 'drive-cache.sh' %}

{% endif %}
{% for inspection in inspections %}
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
{% if inspection.recorded %}
look_on {{ inspection.name }} {{ inspection.recorded }}
{% endif %}
{% endfor %}
{% for one in host %}
{% if one.asked %}look_anyway{% else %}look{% endif %} {{ one.setting }} {{ '-' if one.wanted is none else one.wanted }} {{ one.file }}
{% endfor %}
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
{% include 'volumes.sh' %}

{% endif %}
{% endfor %}
{% for layer in stack.layers if layer.kind == 'lvm' and layer.redundant %}
{% if loop.first %}
{% include 'volume-sync.sh' %}

{% endif %}
{% endfor %}
{% for layer in stack.layers %}
{% include 'verify/' ~ layer.kind ~ '.sh' ignore missing %}
{% endfor %}

judge
