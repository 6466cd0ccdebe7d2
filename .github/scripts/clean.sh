#!/usr/bin/env bash
# Takes away what a job that was killed left on disks that exist: of this machine, and of hosts behind ssh if the job is one
# that runs there. What is not ours is left, told, and exit code 3; of other hosts it is only told, as a host that is down
# is no reason to call the night a failure.
set -euo pipefail
exec 2>&1 # as one stream nothing overtakes the line that says how it is to be taken

top=$(readlink -f -- "${BASH_SOURCE[0]}")
readonly top=${top%/.github/scripts/*}
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

# cleaned ARG...: what is said of somebody's disks must not be taken for a command to the runner.
cleaned() {
  local status=0
  printf '::stop-commands::%s\n' "$token"
  timeout --kill-after=1m -- 10m "$top/bootstrap" clean "$@" || status=$?
  printf '::%s::\n' "$token"
  return "$status"
}

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
