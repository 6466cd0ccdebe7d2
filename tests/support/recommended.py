"""What matrix recommends to a host, and what that host then says of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from matrix_runner.machines.base import Rig, Step
from tests.support.matrices import space

if TYPE_CHECKING:
    from matrix_runner.space.space import Cell


ROOT = Path(__file__).parents[2]


RUN = """\
name: pasted
disks: {count: 4, size: 212MiB, bus: sata, model: {kind: volume, iops: 2000, bandwidth: 6MB/s}}
layouts:
  raid5: [md: {level: 5, chunk: 64KiB}, fs: {type: xfs}]
  raid10: [md: {level: 10, layout: f2, chunk: 128KiB}, fs: {type: ext4, options: noatime}]
  striped: [lvm: {stripes: 4, stripe_size: 64KiB}, fs: {type: xfs}]
tune:
  readahead: 8MiB
  disk: {readahead: 64KiB}
  stripe_cache_size: 4096
  scheduler: mq-deadline
  iosched: {read_expire: 248}
  nr_requests: 32
  write_cache: write through
  transparent_hugepages: never
  vm: {dirty_ratio: 11}
workloads: {work: {rw: read, bs: 64KiB, iodepth: 8, size: 32MiB, ramp: 1s, runtime: 3s}}
repeat: 3
"""


#: What udev calls the disks of a machine.
STABLE = "/dev/disk/by-id/ata-QEMU_HARDDISK_matrix-{}"


#: The devices below, and the file that is asked of them; the array's node is `top`.
LOOK = """\
top=$(basename "$(readlink -f {top})")
disks=()
for disk in {disks}; do disks+=("$(basename "$(readlink -f "$disk")")"); done
say() {{
  local file=$1
  for file in "${{@:2}}"; do
    if [[ -e $file ]]; then printf '%s %s\\n' "$1" "$(tr -s '\\n\\t ' ' ' <"$file")"; fi
  done | sort -u
}}
say readahead /sys/class/block/"$top"/queue/read_ahead_kb
for knob in read_ahead_kb scheduler nr_requests iosched/read_expire write_cache; do
  for disk in "${{disks[@]}}"; do say "disk.$knob" /sys/class/block/"$disk"/queue/"$knob"; done
done | sort -u
for disk in "${{disks[@]}}"; do say cache_type /sys/class/block/"$disk"/device/scsi_disk/*/cache_type; done | sort -u
for knob in level layout chunk_size raid_disks stripe_cache_size degraded; do
  say "$knob" /sys/class/block/"$top"/md/"$knob"
done
if [[ $top == dm-* ]]; then dmsetup table {top} | cut -d ' ' -f 3-5; fi
say hugepages /sys/kernel/mm/transparent_hugepage/enabled
say dirty_ratio /proc/sys/vm/dirty_ratio
findmnt --noheadings --output TARGET,FSTYPE /srv/data
findmnt --noheadings --output OPTIONS /srv/data | tr , '\\n' | grep -E '^(noatime|relatime|stripe=.*|sunit=.*|swidth=.*)$'
"""


OF_DISKS = [
    "disk.iosched/read_expire 248",
    "disk.nr_requests 32",
    "disk.read_ahead_kb 64",
    "disk.scheduler none [mq-deadline]",
    "disk.write_cache write through",
    "cache_type write through",
]


OF_HOST = ["hugepages always madvise [never]", "dirty_ratio 11"]


#: What the kernel must say of each.
WANTED = {
    "raid5": [
        *("readahead 8192", *OF_DISKS),
        *("level raid5", "layout 2", "chunk_size 65536", "raid_disks 4", "stripe_cache_size 4096", "degraded 0"),
        *(*OF_HOST, "/srv/data xfs", "relatime", "sunit=128", "swidth=384"),
    ],
    "raid10": [
        *("readahead 8192", *OF_DISKS),
        *("level raid10", "layout 513", "chunk_size 131072", "raid_disks 4", "degraded 0"),
        *(*OF_HOST, "/srv/data ext4", "noatime", "stripe=128"),
    ],
    "striped": [
        *("readahead 8192", *OF_DISKS),
        *("striped 4 128", *OF_HOST, "/srv/data xfs", "relatime", "sunit=128", "swidth=512"),
    ],
}


TOP = {"raid5": "/dev/md/matrix-0", "raid10": "/dev/md/matrix-0", "striped": "/dev/mapper/matrix--0-volume"}


@dataclass(frozen=True)
class Advice:
    """One recommendation as a user has it: the table, the script with the disks filled in, and the cell it is of."""

    table: str
    script: str
    cell: Cell
    #: Bytes per second, as it was measured.
    predicted: float


def matrix(folder: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runner")}
    environment.pop("MATRIX_STORE", None)
    command = [sys.executable, "-m", "matrix_runner.cli", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def advice(folder: Path, layout: str) -> Advice:
    words = ("recommend", "latest", "--for", f"workload=work,layout={layout}", "--metric", "read.bw")
    table = matrix(folder, *words, "--script", f"{layout}.sh")
    text = (folder / f"{layout}.sh").read_text()
    for number in range(4):
        text = text.replace(f"=/dev/disk/by-id/NAME-{number + 1}\n", f"={STABLE.format(number)}\n")
    name = next(line for line in text.splitlines() if line.startswith("# Recommended: "))
    (cell,) = (one for one in space(RUN).cells() if one.name == name.removeprefix("# Recommended: "))
    assert cell.axes["layout"] == layout
    (row,) = (one for one in json.loads(matrix(folder, *words, "--format", "json"))["rows"] if one["best"])
    return Advice(table, text, cell, row["value"])


async def done(rig: Rig, text: str, files: dict[str, str] | None = None) -> str:
    status, output = await tried(rig, text, files)
    assert status == 0, output
    return output


async def tried(rig: Rig, text: str, files: dict[str, str] | None = None) -> tuple[int, str]:
    (result,) = await rig.run([Step("step", f"set -euo pipefail\n{text}", files or {})], expected=0, deadline=240)
    return result.status, result.output
