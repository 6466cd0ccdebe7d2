#!/usr/bin/env bash
# Takes away what a job that was killed left on disks that exist: of this machine, and of hosts behind ssh if the job is one
# that runs there. What is not ours is left, told, and exit code 3; of other hosts it is only told, as a host that is down
# is no reason to call the night a failure.
set -euo pipefail
exec 2>&1 # as one stream nothing overtakes the line that says how it is to be taken

top=$(readlink -f -- "${BASH_SOURCE[0]}")
readonly top=${top%/.github/scripts/*}
readonly running=${RUNNER_TEMP:?}/matrix-running
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

# The step of a cancelled job is killed after seconds, and its run may still be taking arrays apart. It holds a lock for as
# long as it lives (run.sh). GitHub ends a cancelled job after five minutes, so it is waited for for four.
let_it_end() {
  local left
  [[ -e $running ]] || return 0
  ! flock --nonblock "$running" true || return 0
  for ((left = 240; left > 0; left -= 30)); do
    echo "the run of this job is still at work, maybe taking apart what it built: waiting for it (at most $left s)"
    flock --wait 30 "$running" true && return
  done
  echo "::warning title=still at work::the run of this job did not end in four minutes; what it uses is left as it is"
}

# cleaned ARG...: what is said of somebody's disks must not be taken for a command to the runner.
cleaned() {
  local status=0
  printf '::stop-commands::%s\n' "$token"
  timeout --kill-after=1m -- 10m "$top/bootstrap" clean "$@" || status=$?
  printf '::%s::\n' "$token"
  return "$status"
}

let_it_end
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
