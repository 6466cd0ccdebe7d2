#!/usr/bin/env bash
# Removes what a killed job left on physical disks: of this machine, and of hosts behind ssh if the job runs there.
# Exit code 3: this machine could not be cleaned. A host that could not be cleaned is only a warning, because it may be down.
set -euo pipefail
exec 2>&1 # one stream keeps the order of the lines

top=$(readlink -f -- "${BASH_SOURCE[0]}")
readonly top=${top%/.github/scripts/*}
readonly running=${RUNNER_TEMP:?}/matrix-running
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

# The step of a cancelled job is killed after seconds, while its run may still stop arrays. The run holds a lock until it
# ends (run.sh). GitHub kills all of a cancelled job after five minutes, so this waits for four.
wait_for_run() {
  local left
  [[ -e $running ]] || return 0
  ! flock --nonblock "$running" true || return 0
  for ((left = 240; left > 0; left -= 30)); do
    echo "the run of this job has not ended yet: waiting for it (at most $left s)"
    flock --wait 30 "$running" true && return
  done
  echo "::warning title=still running::the run of this job did not end in four minutes; the disks that it uses stay as they are"
}

# clean ARG...: names and contents of disks are in the output, so the runner must not take it for commands.
clean() {
  local status=0
  printf '::stop-commands::%s\n' "$token"
  timeout --kill-after=1m -- 10m "$top/bootstrap" clean "$@" || status=$?
  printf '::%s::\n' "$token"
  return "$status"
}

wait_for_run
status=0
clean || status=$?

far=()
case ${ASKED_MACHINE-} in
  ssh) far=(--every-host) ;;
  ssh:*) far=("--host=${ASKED_MACHINE#ssh:}") ;;
esac
if ((${#far[@]})); then
  [[ -z ${MATRIX_HOSTS-} ]] || far+=("--hosts=$MATRIX_HOSTS")
  clean "${far[@]}" || echo "::warning title=not cleaned::a host behind ssh could not be cleaned: the log has its name and the reason"
fi
exit "$status"
