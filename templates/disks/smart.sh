#!/usr/bin/env bash
# {{ title }}: what disks say of their own health. Only reads; no test is started, no sleeping disk is woken.
set -euo pipefail
exec </dev/null
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
disks=({{ disks }})
for disk in "${disks[@]}"; do
  if ! command -v smartctl >/dev/null; then
    found='smartctl is not installed'
  else
    # Its status is a set of bits, most of which are findings, not failures.
    found=$(timeout 60 smartctl --json --all --nocheck=standby -- "$disk" 2>&1) || true
  fi
  printf 'smart\t%s\t%s\n' "$disk" "${found//[$'\t\n\r']/ }"
done
