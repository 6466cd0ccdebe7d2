#!/usr/bin/env bash
# Writes the summary of a run to the page of the job and into the run folder. Its exit code is that of `matrix summary`.
set -euo pipefail
exec 2>&1 # one stream keeps the order of the lines

top=$(readlink -f -- "${BASH_SOURCE[0]}")
readonly top=${top%/.github/scripts/*}
readonly page=${GITHUB_STEP_SUMMARY:?} most=1000000 # bytes; GitHub takes 1 MiB for each step
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

if [[ -z ${RAN_FOLDER-} ]]; then
  echo "Nothing was run: the log of the step before says why." >>"$page"
  exit 0
fi
# The artifact has only this folder, without the chart library that all pages of the results share.
"$top/bootstrap" explore --single --no-open --results="${RAN_RESULTS:?}" -- "$RAN_FOLDER" >/dev/null 2>&1 ||
  echo "explore.html has no charts yet: matrix explore --single with the path of the folder writes them."
args=("--accepted=$(dirname -- "${ASKED_MATRIX:?}")") # baselines.yaml and known-changes.yaml are beside the matrix
[[ -z ${ASKED_AGAINST-} ]] || args+=("--against=$ASKED_AGAINST")
written=$(mktemp -d -- "${RUNNER_TEMP:?}/matrix-summary.XXXXXX")
status=0
# Only the annotations are for the runner, and they are in their own file.
printf '::stop-commands::%s\n' "$token"
"$top/bootstrap" summary "${args[@]}" --results="${RAN_RESULTS:?}" --issue="$written/regression.md" \
  --annotations="$written/annotations" -- "${RAN_FOLDER##*/}" >"$written/summary.md" || status=$?
printf '::%s::\n' "$token"
head -c "$most" -- "$written/summary.md" >>"$page"
[[ ! -e $written/annotations ]] || cat -- "$written/annotations"
for file in "$written"/*.md; do
  [[ ! -s $file ]] || cp -- "$file" "$RAN_FOLDER/"
done
if [[ -s $written/regression.md ]]; then
  {
    printf '\n<details><summary>Text for an issue</summary>\n\n'
    head -c 40000 -- "$written/regression.md" | sed 's/^/    /'
    printf '\n</details>\n'
  } >>"$page"
fi
rm -rf -- "$written"
exit "$status"
