#!/usr/bin/env bash
# Says what a run came to, on the page of the job and beside it; its exit code is that of `matrix summary`.
set -euo pipefail
exec 2>&1 # as one stream nothing overtakes the line that says how it is to be taken

top=$(readlink -f -- "${BASH_SOURCE[0]}")
readonly top=${top%/.github/scripts/*}
readonly page=${GITHUB_STEP_SUMMARY:?} most=1000000 # bytes; the page takes a mebibyte a step
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

if [[ -z ${RAN_FOLDER-} ]]; then
  echo "Nothing was run: the log of the step before says why." >>"$page"
  exit 0
fi
args=()
[[ -z ${ASKED_AGAINST-} ]] || args+=("--against=$ASKED_AGAINST")
said=$(mktemp -d -- "${RUNNER_TEMP:?}/matrix-summary.XXXXXX")
status=0
# Only the annotations, which it writes to a file of their own, are meant for the runner.
printf '::stop-commands::%s\n' "$token"
"$top/bootstrap" summary "${args[@]}" --results="${RAN_RESULTS:?}" --issue="$said/regression.md" \
  --annotations="$said/annotations" -- "${RAN_FOLDER##*/}" >"$said/summary.md" || status=$?
printf '::%s::\n' "$token"
head -c "$most" -- "$said/summary.md" >>"$page"
[[ ! -e $said/annotations ]] || cat -- "$said/annotations"
for file in "$said"/*.md; do
  [[ ! -s $file ]] || cp -- "$file" "$RAN_FOLDER/"
done
if [[ -s $said/regression.md ]]; then
  {
    printf '\n<details><summary>Ready to be filed as an issue</summary>\n\n'
    head -c 40000 -- "$said/regression.md" | sed 's/^/    /'
    printf '\n</details>\n'
  } >>"$page"
fi
rm -rf -- "$said"
exit "$status"
