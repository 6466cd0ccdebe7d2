#!/usr/bin/env bash
# in-debian.sh COMMAND...: as root of a host of GitHub, make a Debian of packages that Debian signed (SUITE: trixie), and run a
# command in it. It has all rights, the host's devices and network, and this checkout at its own path.
set -euo pipefail

top=$(readlink -f -- "${BASH_SOURCE[0]}")
readonly top=${top%/.github/scripts/*}
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg
readonly mirror=http://deb.debian.org/debian

DEBIAN_FRONTEND=noninteractive apt-get -q update
DEBIAN_FRONTEND=noninteractive apt-get -q install --yes --no-install-recommends debian-archive-keyring mmdebstrap
root=$(mktemp -d /var/tmp/debian.XXXXXX)
readonly root
trap 'rm -rf --one-file-system -- "$root"' EXIT
chmod 755 "$root"
mmdebstrap --mode=root --variant=important --include=ca-certificates,git \
  "${SUITE:-trixie}" "$root" "deb [signed-by=$keyring] $mirror ${SUITE:-trixie} main"
rm -f -- "$root/etc/resolv.conf"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
# The checkout is of another user.
printf '[safe]\n\tdirectory = %s\n' "$top" >"$root/etc/gitconfig"

# A real root, not a chroot: containers in it have to leave it by pivot_root, which a chroot does not allow.
# shellcheck disable=SC2016 # the shell in the namespace expands it
unshare --mount --pid --fork --kill-child bash -euc '
root=$1 top=$2
shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/old" "$root$top"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount --bind "$top" "$root$top"
cd -- "$root"
pivot_root . old
cd -- "$top"
umount -l /old
exec "$@"
' enter "$root" "$top" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 CI=true "$@"
