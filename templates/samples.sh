#!/usr/bin/env bash
# Prints the samples of sysstat as JSON: {{ title }}
# Run it in the folder of a trial, after the measurement.
set -euo pipefail
exec </dev/null

# Without sysstat or samples the trial stays valid.
if [[ -s samples.sa ]]; then sadf -j samples.sa -- -u ALL -w -q -r -d || true; fi
