#!/usr/bin/env bash
# Measures the study whose page is out of date for the longest time, on simulated disks, and writes its page. The change is
# build/study.patch, which a person reads and applies. Does nothing if no page is out of date.
set -euo pipefail

top=$(readlink -f -- "${BASH_SOURCE[0]}")
cd -- "${top%/.github/scripts/*}"
readonly matrix=${MATRIX:-.venv/bin/matrix}
readonly studies=(matrix/studies/*/ matrix/studies/raid-wiki/*/)

status=0
study=$("$matrix" study --check --oldest "${studies[@]}") || status=$?
if ((status == 0)); then
  echo "no study is out of date"
  exit 0
fi
# 1: a study is out of date, or a claim fails. Any other code is an error.
((status == 1)) || exit "$status"
status=0
"$matrix" run --budget "${BUDGET:-90m}" "$study" || status=$?
((status <= 1)) || exit "$status"
"$matrix" study --page "$study"
mkdir -p build
git add --intent-to-add -- "$study"
git diff -- "$study" >build/study.patch
