#!/usr/bin/env bash
# Takes away what a job that was killed left on disks that exist: of this machine, and of hosts behind ssh if the job is one
# that runs there. What is not ours is left, told, and exit code 3; of other hosts it is only told, as a host that is down
# is no reason to call the night a failure.
set -euo pipefail

top=$(readlink -f -- "${BASH_SOURCE[0]}")
readonly top=${top%/.github/scripts/*}

cleaned() { timeout --kill-after=1m -- 10m "$top/bootstrap" clean "$@"; }

status=0
cleaned || status=$?

far=()
case ${ASKED_MACHINE-} in
  ssh) far=(--every-host) ;;
  ssh:*) far=("--host=${ASKED_MACHINE#ssh:}") ;;
esac
if ((${#far[@]})); then
  [[ -z ${MATRIX_HOSTS-} ]] || far+=("--hosts=$MATRIX_HOSTS")
  cleaned "${far[@]}" || echo "::warning title=not cleaned::not all hosts behind ssh could be cleaned: the log says which, and why"
fi
exit "$status"
