#!/usr/bin/env bash
# Prints what a profile shows: {{ title }}
# Run it in the folder of a trial, after the measurement.
set -euo pipefail
exec </dev/null

{% include 'profilers/' ~ profiler ~ '-table.sh' %}
