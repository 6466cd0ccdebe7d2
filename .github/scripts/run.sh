#!/usr/bin/env bash
# Runs a matrix as the environment of a job says. What people typed comes as ASKED_…, never as a part of a script; what the
# runner itself says of its machine comes as MATRIX_HOSTS, MATRIX_RESULTS, MATRIX_STORE.
set -euo pipefail
exec 2>&1 # as one stream nothing overtakes the line that says how it is to be taken

top=$(readlink -f -- "${BASH_SOURCE[0]}")
readonly top=${top%/.github/scripts/*}
readonly results=${ASKED_RESULTS:-${MATRIX_RESULTS:-results}}
readonly told=${RUNNER_TEMP:?}/matrix-folder running=$RUNNER_TEMP/matrix-running
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

# optional NAME VALUE: as one word, so that no value can be taken for another option.
args=()
optional() { [[ -z $2 ]] || args+=("--$1=$2"); }
optional on "${ASKED_MACHINE:-qemu}"
optional shard "${ASKED_SHARD-}"
optional only "${ASKED_ONLY-}"
optional budget "${ASKED_BUDGET-}"
optional hosts "${MATRIX_HOSTS-}"
optional results "$results"
optional folder-to "$told"
# A job that is run again goes on where it was stopped; a new one is a new night.
[[ ${GITHUB_RUN_ATTEMPT:-1} != 1 ]] || args+=(--fresh)

# keep NAME VALUE: for the steps that follow, whatever is in the value.
keep() { printf '%s<<%s\n%s\n%s\n' "$1" "$token" "$2" "$token" >>"${GITHUB_OUTPUT:?}"; }

if [[ -z ${ASKED_MATRIX-} ]]; then
  echo "::error title=no matrix::nothing says which matrix to run: give the input \`matrix\`, or set the variable NIGHTLY_MATRIX" \
    "of the repository. Disks that exist take one that declares their size: matrix/nightly.yaml is there to begin with"
  keep status 2
  exit 2
fi

# What a console or fio says must not be taken for a command to the runner.
printf '::stop-commands::%s\n' "$token"
rm -f -- "$told"
status=0
# The run itself holds that lock, however this script ends: clean.sh waits for it.
flock --shared --no-fork "$running" timeout --foreground --signal=TERM --kill-after=5m -- "${ASKED_PATIENCE:-5h}" \
  "$top/bootstrap" run "${args[@]}" -- "$ASKED_MATRIX" &
child=$!
# A job that is cancelled has seconds; the run ends as with Ctrl-C, and can be gone on with. It is asked once, as a second
# signal would keep it from taking apart what it built: GitHub sends one seconds after the first, and timeout(1), unless in
# the foreground, one to the run and one to its group.
trap 'trap "" INT TERM; kill -s TERM "$child" 2>/dev/null || true' INT TERM
while kill -s 0 "$child" 2>/dev/null; do
  status=0
  wait "$child" || status=$?
done
printf '::%s::\n' "$token"

[[ ! -s $told ]] || keep folder "$(<"$told")"
keep results "$results"
keep status "$status"
case $status in
  124) echo "::error title=stopped::the run took longer than it may, and was stopped; what was measured is kept" ;;
  # What timeout(1) ends with if it had to kill, too.
  137) echo "::error title=stopped::the run was killed: it did not end within five minutes of being asked to, or the host" \
    "killed it (is there enough memory?); what was measured is kept" ;;
esac
exit "$status"
