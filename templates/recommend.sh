#!/usr/bin/env bash
# Recommended: {{ title }}
# Complete these lines, check the rest, and run it as root. All data on these disks is lost.
# Use stable names: ls -l /dev/disk/by-id
{% for disk in paste.disks %}
{{ disk }}=/dev/disk/by-id/NAME-{{ loop.index }}
{% endfor %}
{% if paste.mounted %}
mount_point=/srv/data
{% endif %}

(
set -euo pipefail
disks=({{ stack.disks }})
for disk in "${disks[@]}"; do
  if [[ ! -b $disk ]]; then
    echo "$disk is no disk" >&2
    exit 1
  fi
  # If one of these fails, the script stops. For an empty disk the second prints only the name.
  written=$(wipefs --noheadings "$disk")
  standing=$(lsblk --noheadings --list --output NAME,MOUNTPOINT "$disk")
  if [[ -n $written || $standing =~ [^[:space:]][[:space:]]+[^[:space:]] ]]; then
    echo "something is on $disk; if nobody needs it: wipefs --all $disk" >&2
    exit 1
  fi
done
if [[ $(readlink -f "${disks[@]}" | sort | uniq -d) ]]; then
  echo "a disk is named twice" >&2
  exit 1
fi
{% if paste.mounted %}
if findmnt --mountpoint "$mount_point" >/dev/null || findmnt --fstab --mountpoint "$mount_point" >/dev/null; then
  echo "$mount_point is mounted, or in /etc/fstab: take another, or that line out" >&2
  exit 1
fi
{% endif %}
{% for layer in stack.layers if layer.kind in ('crypt', 'integrity') %}
names=({{ layer.mappings | map(attribute='name') | list }})
for name in "${names[@]}"; do
  if [[ -e /dev/mapper/$name ]] || grep -qs "^${name}[[:space:]]" /etc/crypttab /etc/integritytab; then
    echo "$name is open, or in /etc/crypttab or /etc/integritytab: close it, and take that line out" >&2
    exit 1
  fi
done
{% endfor %}
{% if paste.rules or paste.files or paste.profile %}

# Makes the settings permanent.
{% if paste.rules %}
udev_rules() {
  printf '%s\n' \
{% for line in paste.rules %}
    {{ line }}{% if not loop.last %} \{% endif +%}
{% endfor %}
}
{% endif %}
{% if paste.files %}
boot_settings() {
  printf '%s\n' \
{% for line in paste.files %}
    {{ line }}{% if not loop.last %} \{% endif +%}
{% endfor %}
}
{% endif %}
{% if paste.named %}
in_sysfs() {
  printf '/sys/block/%s/%s=%s\n' "$(basename "$(readlink -f "$1")")" "$2" "$3"
}
{% endif %}
{% if paste.profile %}
tuned_profile() {
  printf '%s\n' \
{% for line in paste.profile %}
    {{ line }}{% if not loop.last %} \{% endif +%}
{% endfor %}
{% for setting in paste.named %}
  in_sysfs {{ setting }}
{% endfor %}
}
{% endif %}
{% if paste.rules or paste.files %}
unless_another() {
  if [[ -e $1 ]] && ! "$2" | cmp -s - "$1"; then
    echo "$1 exists with other content: move the lines that you need to a file with another name, then delete $1" >&2
    exit 1
  fi
}
{% if paste.rules %}
unless_another /etc/udev/rules.d/99-matrix.rules udev_rules
{% endif %}
{% if paste.files %}
unless_another /etc/tmpfiles.d/matrix.conf boot_settings
{% endif %}
{% endif %}
{% endif %}
{% for layer, told in commands %}
{% include layer.kind ~ '/recommend.sh' ignore missing %}
{% endfor %}
if command -v udevadm >/dev/null; then udevadm settle; fi
{% if paste.settings or paste.caches or paste.host %}

# Tunables, now:
{% if paste.settings %}
turn() {
  printf '%s\n' "$3" >"/sys/class/block/$(basename "$(readlink -f "$1")")/$2"
}
{% endif %}
{% if paste.caches %}
drive_cache() {
  local at
  for at in "/sys/class/block/$(basename "$(readlink -f "$1")")"/{device/scsi_disk/*/,}cache_type; do
    if [[ -e $at ]]; then printf '%s\n' "$2" >"$at"; fi
  done
}
{% endif %}
{% for cache in paste.caches %}
drive_cache {{ cache }}
{% endfor %}
{% for setting in paste.settings %}
turn {{ setting }}
{% endfor %}
{% for file, value in paste.host %}
{% if file == paste.governors %}
for policy in /sys/devices/system/cpu/cpufreq/policy*; do
  printf '%s\n' {{ value }} >"$policy"/scaling_governor
done
{% else %}
printf '%s\n' {{ value }} >{{ file }}
{% endif %}
{% endfor %}
{% endif %}
{% if paste.rules %}

# and whenever the devices appear again:
mkdir -p /etc/udev/rules.d
udev_rules >/etc/udev/rules.d/99-matrix.rules
if [[ -S /run/udev/control ]]; then udevadm control --reload; fi
{% endif %}
{% if paste.files %}

# and at every boot:
mkdir -p /etc/tmpfiles.d
boot_settings >/etc/tmpfiles.d/matrix.conf
{% endif %}
{% if paste.profile %}

# The same with tuned: tuned-adm profile matrix
profiles=/etc/tuned
if [[ -d /etc/tuned/profiles ]]; then profiles=/etc/tuned/profiles; fi
mkdir -p "$profiles"/matrix
tuned_profile >"$profiles"/matrix/tuned.conf
{% endif %}
)
