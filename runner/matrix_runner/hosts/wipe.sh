set -euo pipefail
shopt -s nullglob
export PATH="$PATH:/usr/sbin:/sbin"
# A partition that the kernel does not know: told to it, or by a loop device where there is no addpart (Debian 13).
wipe_range() {
  local loop status=0
  if command -v addpart >/dev/null; then addpart "$@"; return; fi
  loop=$(losetup --find --show --offset "$(($3 * 512))" --sizelimit "$(($4 * 512))" "$1")
  wipefs --all --force --quiet -- "$loop" || status=$?
  losetup --detach "$loop"
  return "$status"
}
while (($#)); do
  if [[ ! -e /sys/class/block/$1 ]]; then wipe_range "/dev/${name//!//}" "$2" "$3" "$4" || true; fi
  shift 4
done
for part in /sys/class/block/"$name"/*/partition; do
  part=${part%/partition}
  wipefs --all --force --quiet -- "/dev/${part##*/}"
done
wipefs --all --force --quiet -- "/dev/${name//!//}"
