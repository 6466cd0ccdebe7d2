#!/usr/bin/env bash
# image.sh WHEEL NAME [MIRROR]: makes a container image of Debian 13 with the wheel and what virtual machines need. No image of others is
# the base: every package is from Debian, with its signature. MIRROR is another mirror of Debian. Needs root, mmdebstrap, podman.
set -euo pipefail
top=$(readlink -f -- "${BASH_SOURCE[0]}")
top=${top%/.github/scripts/*}
wheel=$(readlink -f -- "$1")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

# The packages that bootstrap installs to run a matrix, and ssh for other hosts.
mapfile -t packages < <(sed -n '/^packages=(/,/^)/s/^  "\([^ ]*\) .*/\1/p' "$top/bootstrap")
"${PYTHON:-python3}" -m pip download --quiet --require-hashes --no-deps --only-binary :all: --python-version 3.13 \
  -r "$top/requirements.lock" -d "$work/wheels"
cp -- "$wheel" "$work/wheels"

# shellcheck disable=SC2016 # mmdebstrap's shell knows the folder of the image as $1
mmdebstrap --quiet --variant=minbase --include="$(IFS=,; echo "${packages[*]},openssh-client")" \
  --customize-hook="copy-in '$work/wheels' /tmp" \
  --customize-hook='chroot "$1" python3 -m venv /opt/matrix' \
  --customize-hook='chroot "$1" sh -c "/opt/matrix/bin/pip install --quiet --no-cache-dir --no-index --no-deps /tmp/wheels/*"' \
  --customize-hook='rm -r "$1/tmp/wheels"; ln -s /opt/matrix/bin/matrix "$1/usr/local/bin/matrix"' \
  trixie "$work/image.tar" ${3:+"$3"}
podman import --quiet --change 'ENTRYPOINT ["matrix"]' --change 'WORKDIR /work' --change 'VOLUME /root/.cache/matrix' \
  "$work/image.tar" "$2"
