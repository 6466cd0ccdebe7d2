#!/usr/bin/env bash
# {{ title }}: the block devices, their users and their signatures. Only reads.
# One fact a line, in fields separated by tabs. Facts of the kernel (sysfs, /proc) come first: they need no udev.
set -euo pipefail
exec </dev/null
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
by_id={{ by_id }}
shopt -s nullglob

say() {
  local IFS=$'\t'
  local words=("${@//[$'\t\n\r']/ }")
  printf '%s\n' "${words[*]}"
}

# The device number of a node, in the kernel's notation; a dash for other files. A device may be removed at any time.
number() {
  REPLY=-
  if [[ ! -b $1 ]]; then return 0; fi
  local major minor
  if read -r major minor < <(stat -L -c '%t %T' -- "$1"); then
    REPLY=$((16#$major)):$((16#$minor))
  elif [[ -b $1 ]]; then
    return 1
  fi
}

attributes() {
  local name=$1 key value
  for key in dev size ro removable partition start diskseq stat serial wwid dm/name dm/uuid loop/backing_file \
    md/array_state queue/rotational device/type device/model device/serial device/wwid device/rev device/firmware_rev \
    device/transport device/address device/queue_count device/sqsize bcache/state; do
    if [[ ! -r /sys/class/block/$name/$key ]]; then continue; fi
    value=
    { IFS= read -r value <"/sys/class/block/$name/$key" || true; } 2>/dev/null
    if [[ -n $value ]]; then say node "$name" "$key" "$value"; fi
  done
  # The serial number of a SCSI disk, as the kernel has read it: four bytes of header, then text.
  if [[ -r /sys/class/block/$name/device/vpd_pg80 ]]; then
    value=$(tail -c +5 "/sys/class/block/$name/device/vpd_pg80" 2>/dev/null | tr -cd '[:print:]') || value=
    if [[ -n $value ]]; then say node "$name" vpd_pg80 "$value"; fi
  fi
}

relations() {
  local name=$1 other
  for other in /sys/class/block/"$name"/*/partition; do
    other=${other%/partition}
    say part "$name" "${other##*/}"
  done
  for other in /sys/class/block/"$name"/holders/*; do say holder "$name" "${other##*/}"; done
  for other in /sys/class/block/"$name"/slaves/*; do say holder "${other##*/}" "$name"; done
}

# The start, six places in between and the end, which may lie in an incomplete block.
samples() {
  local node=$1 blocks=$2 at
  dd if="$node" bs=64K count=16 || return
  for at in 1 2 3 4 5 6; do dd if="$node" bs=64K count=1 skip=$((at * blocks / 7)) || return; done
  tail -c 1M <"$node"
} 2>/dev/null

# The signatures found by two programs, and samples of the usual places of data.
content() {
  local name=$1 node=/dev/${1//!//} size=$2 found status=0 filled seen asked
  if [[ ! -b $node ]]; then
    say unreadable "$name" "there is no $node"
    return 0
  fi
  if found=$(wipefs --no-act --json -- "$node" 2>&1); then
    say wipefs "$name" "$found"
  else
    say unreadable "$name" "wipefs: $found"
    return 0
  fi
  found=$(blkid --probe --output export -- "$node" 2>&1) || status=$?
  say blkid "$name" "$status" "$found"
  # One pass counts, as lines and bytes, the bytes that are not zero and all bytes. Unreadable places do not count as zero.
  read -r filled seen < <(samples "$node" $((size / 65536)) | tr -c '\0' '\n' | wc -lc) || true
  asked=$((2 * (size < 1048576 ? size : 1048576) + 6 * (size < 65536 ? size : 65536)))
  if [[ ${seen-} != "$asked" ]]; then
    say unreadable "$name" "of $asked bytes that were to be looked at ${seen:-none} could be read"
    return 0
  fi
  say filled "$name" "$filled"
  found=$(dd if="$node" bs={{ label_bytes }} skip={{ label_block }} count=1 2>/dev/null | tr -cd '[:print:]') || found=
  if [[ $found == {{ label_magic }}\ * ]]; then say label "$name" "$found"; fi
}

# A disk that does not answer must not block the others: each has a minute, and all together have four.
export -f say samples content
SECONDS=0
content_in_time() {
  local left=$((SECONDS < 180 ? 60 : 240 - SECONDS)) status=0
  if ((left <= 0)); then
    say unreadable "$1" 'not looked at: other disks did not answer for four minutes'
    return 0
  fi
  timeout "$left" bash -euo pipefail -c 'content "$@"' bash "$@" || status=$?
  if ((status == 124)); then
    say unreadable "$1" "no answer within $left seconds"
  elif ((status > 0)); then
    say unreadable "$1" "the look at its content failed with status $status"
  fi
}

for path in /sys/class/block/*; do
  name=${path##*/}
  # A host may have a hundred loop devices without a file.
  if [[ $name == loop* && ! -e $path/loop && ! -e $path/partition ]]; then continue; fi
  attributes "$name"
  # Of an NVMe disk with several paths, each has its own attributes, and no device number.
  if [[ ! -r $path/dev ]]; then continue; fi
  relations "$name"
  size=0
  { read -r size <"$path/size" || true; } 2>/dev/null
  # Mappings and arrays are no disks, so their content is not read.
  if [[ ! -e $path/partition && ! -d $path/dm && ! -d $path/md ]] && ((size > 0)); then content_in_time "$name" $((size * 512)); fi
done

if found=$(lsblk --json --bytes --output NAME,KNAME,TYPE,SERIAL,WWN,MODEL 2>/dev/null); then say lsblk "$found"; fi

for path in "$by_id"/*; do
  number "$path"
  say link "${path##*/}" "$REPLY" "$(readlink -f -- "$path" || true)" "$(stat -L -c %F -- "$path" 2>/dev/null || true)"
done

# The mounts of all mount namespaces, including those of containers.
cat /proc/[0-9]*/mountinfo 2>/dev/null | awk '{
  for (i = 7; i < NF; i++) if ($i == "-") break
  gsub(/\r/, "?")
  line = "mount\t" $3 "\t" $(i + 2) "\t" $5 "\t" $(i + 1)
  if (!(line in seen)) print line
  seen[line] = 1
}' || true

while read -r path _; do
  number "$path"
  if [[ $REPLY != - ]]; then say swap "$REPLY" "$path"; fi
done < <(tail -n +2 /proc/swaps 2>/dev/null || true)

for path in /sys/fs/btrfs/*/devices/*; do
  name=${path%/devices/*}
  say btrfs "${path##*/}" "${name##*/}"
done

if [[ -r /proc/mdstat ]]; then
  while IFS= read -r line; do if [[ $line == md*\ :\ * ]]; then say mdstat "$line"; fi; done </proc/mdstat
fi
say end
