#!/usr/bin/env bash
# Tells the course of the rate, from the log that fio wrote of it: {{ title }}
# Run it in a trial's folder, after the measurement.
set -euo pipefail
exec </dev/null

{% if work.profile == 'position' %}
# Of each place: where it begins, the bytes, and the milliseconds in which the first and the last request was answered.
# The first place is where work began, so the log is gone through twice.
awk -F ', *' -v window={{ window }} '
  NR == FNR { if (NR == 1 || $5 < begin) begin = $5; next }
  {
    place = int(($5 - begin) / window)
    if (!(place in bytes) || $1 < first[place]) first[place] = $1
    if ($1 > last[place]) last[place] = $1
    bytes[place] += $4
  }
  END {
    for (place in bytes)
      printf "%.0f\t%.0f\t%.0f\t%.0f\n", begin + place * window, bytes[place], first[place], last[place]
  }' profile_lat.1.log profile_lat.1.log
{% else %}
# Of each stretch of time and direction (0: read, 1: write): its number, and KiB a second of all jobs together.
awk -F ', *' -v stretch={{ (work.course * 1000) | int }} '
  { rate[int($1 / stretch + 0.5) "\t" $3] += $2 }
  END { for (one in rate) printf "%s\t%.0f\n", one, rate[one] }' profile_bw.*.log
{% endif %}
