#!/usr/bin/env bash
# Tells what sysstat saw beside the work, as JSON: {{ title }}
# Run it in a trial's folder, after the measurement.
set -euo pipefail
exec </dev/null

# A sampler that is not installed, or saw nothing yet, is no reason to lose what was measured.
if [[ -s samples.sa ]]; then sadf -j samples.sa -- -u ALL -w -q -r -d || true; fi
