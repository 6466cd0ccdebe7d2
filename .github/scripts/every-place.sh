#!/usr/bin/env bash
# Tests every kind of machine, as root of a Debian with all rights. A skipped test is a failure.
set -euo pipefail

top=$(readlink -f -- "${BASH_SOURCE[0]}")
readonly top=${top%/.github/scripts/*}
readonly packages=(
  btrfs-progs crun dnsmasq-base dosfstools fdisk git grub-pc-bin iproute2 iptables libvirt-clients libvirt-daemon
  libvirt-daemon-driver-qemu lvm2 mdadm mmdebstrap openssh-client openssh-server podman qemu-utils rsync runc vagrant
  vagrant-libvirt xfsprogs
)

export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install --yes --no-install-recommends "${packages[@]}"

# Create the user and start the daemons of libvirt, as its package does where an init runs.
mkdir -p /var/log/libvirt/qemu
groupadd -rf libvirt-qemu
id libvirt-qemu >/dev/null 2>&1 || useradd -r -g kvm -G libvirt-qemu -d /var/lib/libvirt -s /usr/sbin/nologin libvirt-qemu
virsh --connect qemu:///system version >/dev/null 2>&1 || { virtlogd --daemon && libvirtd --daemon; }
timeout 60 bash -c 'until virsh --connect qemu:///system version; do sleep 1; done'

MATRIX_TEST_SKIPS=0 exec "$top/bootstrap" test -m exhaustive tests/vm/test_six_places.py tests/vm/test_killed_arrays.py \
  tests/vm/test_two_runs.py tests/vm/test_vagrant.py "$@"
