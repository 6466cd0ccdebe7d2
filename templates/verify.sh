#!/usr/bin/env bash
# Reads back from the kernel: {{ title }}
# One line each: reading, setting, wanted ("-": nothing was asked for), what the kernel says; tab separated.
set -euo pipefail
exec </dev/null
{% include 'prelude.sh' %}

rows=
# setting wanted file: what the kernel says is the first line of the file
look() { rows+=$1$'\t'$2$'\tfile\t'$3$'\n'; }
# setting wanted text: what the kernel says was asked for already
told() { rows+=$1$'\t'$2$'\ttext\t'$3$'\n'; }

# One process compares everything: a shell would take a millisecond a line on an emulated processor.
judge() {
  exec awk -F '\t' '
    {
      got = $4
      if ($3 == "file") {
        got = "absent"
        if ((getline line < $4) > 0) got = line
        close($4)
        if (match(got, /\[[^]]*\]/)) got = substr(got, RSTART + 1, RLENGTH - 2)  # the chosen one of a list
        # Where a bitmap lies is the business of the kernel; whether there is one was declared.
        if ($4 ~ /\/md\/bitmap\/location$/ && got ~ /^[-+0-9]/) got = "internal"
      }
      if ($2 == "-" && got == "absent") next
      printf "reading\t%s\t%s\t%s\n", $1, $2, got
      if ($2 != "-" && $2 != got) wrong[++mismatches] = $1 " wanted " $2 ", kernel says " got
    }
    END {
      for (one = 1; one <= mismatches; one++) print "matrix: not as declared: " wrong[one] >"/dev/stderr"
      exit mismatches ? 4 : 0
    }' <<<"${rows%$'\n'}"
}

{% for inspection in inspections %}
kernel_name {{ inspection.device }}
at=/sys/class/block/$REPLY
{% for one in inspection.expects %}
look {{ one.setting }} {{ '-' if one.wanted is none else one.wanted }} "$at"/{{ one.file }}
{% endfor %}
{% endfor %}
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
