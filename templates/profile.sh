#!/usr/bin/env bash
# Prints the rate over the course of a trial, from fio's log: {{ title }}
# Run it in the folder of a trial, after the measurement.
set -euo pipefail
exec </dev/null

{% if work.profile == 'position' %}
# For each place: its start, the bytes, and the milliseconds of the answers to the first and the last request.
# The first place is the start of the work, so the log is read twice.
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
# For each interval and direction (0: read, 1: write): its number, and KiB a second of all jobs together.
awk -F ', *' -v stretch={{ (course * 1000) | int }} '
  { rate[int($1 / stretch + 0.5) "\t" $3] += $2 }
  END { for (one in rate) printf "%s\t%.0f\n", one, rate[one] }' profile_bw.*.log
{% endif %}
