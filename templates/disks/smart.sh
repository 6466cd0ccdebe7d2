#!/usr/bin/env bash
# {{ title }}: their SMART data. Only reads: it starts no test and wakes no sleeping disk.
set -euo pipefail
exec </dev/null
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
disks=({{ disks }})
for disk in "${disks[@]}"; do
  if ! command -v smartctl >/dev/null; then
    found='smartctl is not installed'
  else
    # The status is a set of bits. Most of them are findings, not failures.
    found=$(timeout 60 smartctl --json --all --nocheck=standby -- "$disk" 2>&1) || true
  fi
  printf 'smart\t%s\t%s\n' "$disk" "${found//[$'\t\n\r']/ }"
done
