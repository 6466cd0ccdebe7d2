#!/usr/bin/env bash
# Checks the inputs of the action before anything runs. On a runner of GitHub, opens /dev/kvm and names the caches.
set -euo pipefail
exec 2>&1 # one stream keeps the order of the lines

top=$(readlink -f -- "${BASH_SOURCE[0]}")
readonly top=${top%/.github/scripts/*}
readonly number='[0-9]+([.][0-9]+)?'

# refuse TITLE TEXT: an annotation, and the status of bad input.
refuse() {
  printf '::error title=%s::%s\n' "$1" "${2//%/%25}"
  echo "status=2" >>"${GITHUB_OUTPUT:?}"
  exit 2
}

check_inputs() {
  local shown
  [[ -n ${ASKED_MATRIX-} ]] || refuse "no matrix" \
    "the input \`matrix\` is empty: set it, or the variable NIGHTLY_MATRIX of the repository. For physical disks, begin with\
 matrix/nightly.yaml and write the size of your disks into it"
  # timeout(1) takes 0 and infinity for no limit.
  [[ ${ASKED_PATIENCE-} =~ ^${number}[smhd]?$ && $ASKED_PATIENCE == *[1-9]* ]] && return
  printf -v shown %q "${ASKED_PATIENCE-}"
  shown=${shown//::/: :} # not every runner takes the first :: for the end of the title
  refuse "bad patience" "\`patience\` is ${shown:0:80}, which is not a time: use a number and s, m, h or d, for example 90m or 5h"
}

# The device of a runner of GitHub belongs to root. Without it QEMU emulates, which is many times slower.
open_kvm() {
  [[ -e /dev/kvm && ! -w /dev/kvm ]] || return 0
  sudo -n chmod a+rw /dev/kvm || echo "/dev/kvm cannot be opened, so QEMU emulates the processor"
}

# key NAME: the key of a cache, from the text on standard input.
key() {
  local sum
  sum=$({ uname -m && cat; } | sha256sum)
  echo "$1-key=matrix-$1-${sum:0:32}" >>"$GITHUB_OUTPUT"
}

# Caches are only for what no earlier step has made.
#
# The environment can only be used at the same path and with the same Python.
name_environment() {
  [[ ! -e $top/.venv/.ready-run ]] || return 0
  { echo "$top" && { /usr/bin/python3 -V || true; } && cat -- "$top/requirements.lock" "$top/pyproject.toml"; } | key environment
}

# The appliance depends on its recipe and on the kernels: that of the input, and those that the matrix names.
name_appliance() {
  local named='' folder=${MATRIX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/matrix}/appliances
  [[ ! -e $folder ]] || return 0
  printf 'appliance=%s\n' "$folder" >>"$GITHUB_OUTPUT"
  [[ ! -f $ASKED_MATRIX ]] || named=$(timeout 10 grep -aoE 'debian-[0-9]+' -- "$ASKED_MATRIX" | sort -u) || true
  {
    printf '%s\n' "${ASKED_KERNEL-}" "$named"
    find "$top/runner/matrix_runner/machines/qemu" -name '*.pyc' -prune -o -type f -print0 | sort -z | xargs -0 cat --
  } | key appliance
}

check_inputs
[[ ${RUNNER_ENVIRONMENT-} == github-hosted ]] || exit 0 # other runners belong to their owner, and keep their files
open_kvm
name_environment
[[ ${ASKED_MACHINE:-qemu} != qemu ]] || name_appliance
