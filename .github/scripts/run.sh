#!/usr/bin/env bash
# Runs a matrix. Inputs of users come as variables ASKED_…, never as part of a script; settings of the runner's owner come
# as MATRIX_HOSTS, MATRIX_RESULTS and MATRIX_STORE.
set -euo pipefail
exec 2>&1 # one stream keeps the order of the lines

top=$(readlink -f -- "${BASH_SOURCE[0]}")
readonly top=${top%/.github/scripts/*}
readonly results=${ASKED_RESULTS:-${MATRIX_RESULTS:-results}}
readonly folder=${RUNNER_TEMP:?}/matrix-folder running=$RUNNER_TEMP/matrix-running
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

# optional NAME VALUE: one word, so that a value cannot become another option.
args=()
optional() { [[ -z $2 ]] || args+=("--$1=$2"); }
optional on "${ASKED_MACHINE:-qemu}"
optional kernel "${ASKED_KERNEL-}"
optional jobs "${ASKED_JOBS-}"
optional shard "${ASKED_SHARD-}"
optional only "${ASKED_ONLY-}"
optional budget "${ASKED_BUDGET-}"
optional confirm "${ASKED_CONFIRM-}"
optional hosts "${MATRIX_HOSTS-}"
optional results "$results"
optional folder-to "$folder"
# "Re-run jobs" resumes the run that was stopped; a new job starts a new run.
[[ ${GITHUB_RUN_ATTEMPT:-1} != 1 ]] || args+=(--fresh)

# keep NAME VALUE: an output for later steps. The token ends it, so the value may have several lines.
keep() { printf '%s<<%s\n%s\n%s\n' "$1" "$token" "$2" "$token" >>"${GITHUB_OUTPUT:?}"; }

# The runner must not take the output of a guest or of fio for commands.
printf '::stop-commands::%s\n' "$token"
rm -f -- "$folder"
status=0
# The run holds this lock until it ends, even if this script is killed: clean.sh waits for it.
flock --shared --no-fork "$running" timeout --foreground --signal=TERM --kill-after=5m -- "${ASKED_PATIENCE:-5h}" \
  "$top/bootstrap" run "${args[@]}" -- "${ASKED_MATRIX:?}" &
child=$!
# A cancelled job has seconds. The run must get exactly one signal, because a second one would end it before it has stopped
# its arrays. GitHub sends a second one after seconds, so both are ignored after the first. timeout(1) would also signal the
# group of the run, hence --foreground.
trap 'trap "" INT TERM; kill -s TERM "$child" 2>/dev/null || true' INT TERM
while kill -s 0 "$child" 2>/dev/null; do
  status=0
  wait "$child" || status=$?
done
printf '::%s::\n' "$token"

[[ ! -s $folder ]] || keep folder "$(<"$folder")"
keep results "$results"
keep status "$status"
case $status in
  124) echo "::error title=stopped::the run took longer than \`patience\` and was stopped; recorded trials are kept" ;;
  137) echo "::error title=stopped::the run was killed: it did not end within five minutes after \`patience\`, or the host" \
    "killed it (is there enough memory?); recorded trials are kept" ;;
esac
exit "$status"
