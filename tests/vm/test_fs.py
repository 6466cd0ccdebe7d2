"""File systems on real machines: built, verified, written through, taken apart, and sabotaged."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.carry.trial import StackOnRig
from matrix_runner.machines.base import Rig, Step
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.record import Outcome, Reading
from matrix_runner.scripts.jinja import render
from matrix_runner.space.space import Cell, Space, Stack
from tests.support.matrices import space
from tests.support.meddling import Meddled
from tests.support.rigs import rig_of, spec_of
from tests.support.shared_rig import SharedRig

pytestmark = pytest.mark.vm

HEAD = """\
name: kinds
disks: {count: 4, size: 320MiB}
workloads:
  direct: {rw: randrw, bs: 4KiB, size: 8MiB, iodepth: 4, runtime: 200ms}
  many: {rw: write, bs: 16KiB, files: 20, file_size: 100KB, numjobs: 2, direct: false}
  largest: {rw: read, bs: 64KiB, size: 100%, direct: false, runtime: 200ms}
repeat: 1
layouts:
"""
KINDS = """\
  ext2:   [disk: {number: 1}, fs: {type: ext2, block_size: 1KiB, options: noatime}]
  ext3:   [disk, fs: {type: ext3, options: "data=journal,commit=30"}]
  ext4:   [disk, fs: {type: ext4, options: "noatime,barrier=0,stripe=64", journal: none}]
  xfs:    [disk, fs: {type: xfs, options: "logbsize=262144,allocsize=64m"}]
  f2fs:   [disk, fs: {type: f2fs, options: "background_gc=off"}]
  btrfs:  [disk, fs: {type: btrfs, options: compress=zstd}]
  part:   [disk, partition: {from: 25%}, fs: {type: ext4}]
"""
ALIGNED = """\
  e5auto: [md: {level: 5, chunk: 64KiB}, fs: {type: ext4}]
  e5off:  [md: {level: 5, chunk: 64KiB}, fs: {type: ext4, align: off}]
  e5odd:  [md: {level: 5, chunk: 64KiB}, fs: {type: ext4, align: 16KiB x 5}]
  x5auto: [md: {level: 5, chunk: 64KiB}, fs: {type: xfs}]
  x5off:  [md: {level: 5, chunk: 64KiB}, fs: {type: xfs, align: off}]
  x5odd:  [md: {level: 5, chunk: 64KiB}, fs: {type: xfs, align: 32KiB x 5, block_size: 1KiB}]
"""
PROFILES = """\
  b-single: [fs: {type: btrfs}]
  b-0:    [fs: {type: btrfs, data: raid0, metadata: raid1}]
  b-1:    [fs: {type: btrfs, data: raid1, metadata: raid1}]
  b-10:   [fs: {type: btrfs, data: raid10, metadata: raid10}]
  b-5:    [fs: {type: btrfs, data: raid5, metadata: raid1}]
  b-6:    [fs: {type: btrfs, data: raid6, metadata: raid6}]
"""
#: Filling all that was promised takes long: where it is least certain.
FILLED = {"ext3", "f2fs", "btrfs"}
ROOM = "stat -f -c '%S %f' /run/matrix/mnt-*-?"


async def _said(rig: Rig, text: str, *, status: int = 0) -> str:
    (result,) = await rig.run([Step("say", text)], expected=0, deadline=120)
    assert result.status == status, result.output
    return result.output


def _cells(found: Space, array: Stack) -> list[Cell]:
    cells = [cell for cell in found.cells() if cell.stack is array]
    return cells if array.label in FILLED else cells[:-1]


async def _one_layout(found: Space, array: Stack, rig: Rig, flaws: list[str]) -> list[Reading]:
    """Built twice over, measured, taken apart twice; what was read back."""
    built = await StackOnRig.build(found.matrix, array, rig, Qemu(), None)
    block, free = map(int, (await _said(rig, ROOM)).split())
    if block * free < array.room:
        flaws.append(f"{array.label}: {block * free} bytes are free, {array.room} were promised")
    built = await StackOnRig.build(found.matrix, array, rig, Qemu(), None)
    readings: list[Reading] = []
    for cell in _cells(found, array):
        finding = (await built.measure(cell, 1)).trial
        if finding.reason:
            flaws.append(f"{cell.name}: {finding.reason}")
        readings = list(finding.readings)
    await built.tear_down()
    await built.tear_down()
    left = await _said(rig, f"wipefs --noheadings {' '.join(rig.disks)}; grep matrix/mnt /proc/self/mounts || true")
    return [*readings, Reading("left", None, left.strip())]


async def _all_layouts(found: Space, scratch: Path) -> dict[str, list[Reading]]:
    flaws: list[str] = []
    read: dict[str, list[Reading]] = {}
    async with rig_of(spec_of(found), scratch) as rig:
        for array in found.stacks:
            try:
                read[array.label] = await _one_layout(found, array, rig, flaws)
            except HarnessBroken as broken:
                flaws.append(f"{array.label}: {broken.brief} {broken.details}")
    assert flaws == []
    return read


def _told(readings: list[Reading], *names: str) -> str:
    got = {one.setting: one.got for one in readings}
    return " ".join(got[f"fs.{name}"] for name in names)


def _layouts(layouts: str, scratch: Path) -> dict[str, list[Reading]]:
    found = asyncio.run(_all_layouts(space(HEAD + layouts), scratch))
    assert {label for label, readings in found.items() if {one.setting: one.got for one in readings}["left"]} == set()
    return found


@pytest.mark.exhaustive
def test_every_kind_is_built_verified_measured_and_taken_apart(tmp_path: Path) -> None:
    found = _layouts(KINDS, tmp_path)
    kinds = {label: _told(readings, "type") for label, readings in found.items()}
    assert kinds == {label: "ext4" if label == "part" else label for label in found}
    assert {_told(found[label], "stride", "stripe_width") for label in ("ext2", "ext3", "ext4", "part")} == {"0 0"}
    assert _told(found["ext2"], "block_size", "journal") == "1024 none"
    assert _told(found["ext3"], "block_size", "journal") == "4096 internal"
    assert _told(found["ext4"], "block_size", "journal") == "4096 none"
    assert _told(found["xfs"], "sunit", "swidth") == "0 0"
    assert _told(found["btrfs"], "data", "metadata", "devices") == "single dup 1"


@pytest.mark.exhaustive
def test_alignment_is_as_declared_and_off_is_off(tmp_path: Path) -> None:
    found = _layouts(ALIGNED, tmp_path)
    stripes = {label: _told(found[label], "stride", "stripe_width") for label in found if label.startswith("e")}
    assert stripes == {"e5auto": "16 48", "e5off": "0 0", "e5odd": "4 20"}
    units = {label: _told(found[label], "sunit", "swidth") for label in found if label.startswith("x")}
    assert units == {"x5auto": "16 48", "x5off": "0 0", "x5odd": "32 160"}


@pytest.mark.exhaustive
def test_btrfs_over_several_devices(tmp_path: Path) -> None:
    found = _layouts(PROFILES, tmp_path)
    assert {label: _told(readings, "data", "metadata", "devices") for label, readings in found.items()} == {
        "b-single": "single raid1 4",
        "b-0": "raid0 raid1 4",
        "b-1": "raid1 raid1 4",
        "b-10": "raid10 raid10 4",
        "b-5": "raid5 raid1 4",
        "b-6": "raid6 raid6 4",
    }


SABOTAGE = """\
name: sabotage
disks: {count: 4, size: 512MiB}
layouts:
  ext4: [md: {level: 5, chunk: 64KiB}, fs: {type: ext4, options: "noatime,commit=30"}]
  xfs: [md: {level: 5, chunk: 64KiB}, fs: {type: xfs}]
  btrfs: [fs: {type: btrfs, data: raid1, metadata: raid1}]
workloads: {work: {rw: read, bs: 64KiB, size: 4MiB}}
repeat: 1
"""
BY_NIGHT = [pytest.param(name, marks=pytest.mark.exhaustive) for name in ("xfs", "btrfs")]
#: Random bytes over one of two copies, but not over the superblocks. Two processes in turn read different copies.
DAMAGE = """\
dev=$(btrfs device usage /run/matrix/mnt-*-0 | awk '/^.dev/ {sub(",", "", $1); dev = $1} /Data,RAID1/ {print dev; exit}')
for at in "1 62" "65 440"; do dd if=/dev/urandom of="$dev" bs=1M seek="${at% *}" count="${at#* }" conv=notrunc,fsync status=none; done
for file in /run/matrix/mnt-*-0/*; do
  for _ in 1 2; do dd if="$file" of=/dev/null bs=1M iflag=direct status=none; done
done
"""
MEDDLING = {
    "ext4": {
        "an option": "mount -o remount,commit=9 /run/matrix/mnt-*-1",
        "another option": "mount -o remount,commit=30,nodelalloc /run/matrix/mnt-*-1",
        "a mount flag": "mount -o remount,relatime,delalloc /run/matrix/mnt-*-1",
        "the stripes": "tune2fs -E stride=8 /dev/md127",
        "the mount": "umount /run/matrix/mnt-*-1",
    },
    "xfs": {"the stripes": "umount /run/matrix/mnt-*-1; mount -t xfs -o noalign /dev/md127 /run/matrix/mnt-*-1"},
    "btrfs": {"a copy": DAMAGE, "the profile": "btrfs balance start -f -dconvert=single /run/matrix/mnt-*-0"},
}


REBOOT = "umount /run/matrix/mnt-*-?; rm -r /run/matrix; mdadm --stop --scan --quiet; btrfs device scan --forget"


@dataclass(frozen=True)
class Met:
    kind: str
    #: Its files after the kernel has forgotten all about it, and it was activated, twice.
    files: str
    #: Why a trial is broken, by what somebody else did before.
    reasons: dict[str, str]


async def _meet(found: Space, array: Stack, place: SharedRig) -> Met:
    cell = next(cell for cell in found.cells() if cell.stack is array)
    reasons = {}
    async with rig_of(spec_of(found), place) as rig:
        built = await StackOnRig.build(found.matrix, array, rig, Qemu(), None)
        assert (await built.measure(cell, 1)).trial.reason == ""
        await _said(rig, REBOOT)
        activate = render("activate.sh", None, title=array.label, stack=built._scripts.stack)
        for _ in range(2):
            await _said(rig, activate)
        files = (await _said(rig, "cd /run/matrix/mnt-*-? && echo [0-9t]*")).strip()
        assert (await built.measure(cell, 2)).trial.reason == ""
        for what, text in MEDDLING[array.label].items():
            built._rig = Meddled(rig, text)
            finding = (await built.measure(cell, 3)).trial
            assert finding.outcome is Outcome.BROKEN
            reasons[what] = finding.reason
        built._rig = rig
        await built.tear_down()
    return Met(array.label, files, reasons)


@pytest.fixture(scope="module", params=["ext4", *BY_NIGHT])
def met(request: pytest.FixtureRequest, shared_rig: SharedRig) -> Met:
    """A file system of this kind, for all that is looked at on one machine."""
    found = space(SABOTAGE)
    (array,) = (array for array in found.stacks if array.label == request.param)
    return shared_rig.run(_meet(found, array, shared_rig))


NOTICED = {
    "ext4": {
        "an option": "fs.options wanted commit=30, kernel says commit=9",
        "another option": "nodelalloc",
        "a mount flag": "fs.options wanted noatime, kernel says absent",
        "the stripes": "fs.stride wanted 16, kernel says 8",
        "the mount": "fs.type wanted ext4, kernel says absent",
    },
    "xfs": {"the stripes": "noalign"},
    "btrfs": {
        "a copy": "fs.corruption_errs wanted 0 until the end of the measurement",
        "the profile": "fs.data wanted raid1, kernel says single",
    },
}


def test_changed_settings_are_noticed(met: Met) -> None:
    noticed = NOTICED[met.kind]
    assert met.reasons.keys() == noticed.keys()
    assert all(reason.startswith("not as declared: ") for reason in met.reasons.values())
    assert [met.reasons[what] for what, evidence in noticed.items() if evidence not in met.reasons[what]] == []


def test_it_is_found_again_after_a_reboot_with_its_files(met: Met) -> None:
    assert met.files == "1x1x4194304.whole trial.0.0"


BEGINNING = """\
name: beginning
disks: {count: 1, size: 512MiB}
layouts:
  files: [fs: {type: TYPES}]
workloads: {work: {rw: read, bs: 64KiB, size: 1MiB, runtime: 100ms}}
repeat: 1
"""


async def _first_blocks(found: Space, place: SharedRig) -> dict[str, list[int]]:
    """Where on the device the first file of each lies, of file systems that were made anew."""
    where: dict[str, list[int]] = {}
    for array in found.stacks:
        async with rig_of(spec_of(found), place) as rig:
            cell = next(cell for cell in found.cells() if cell.stack is array)
            for round_number in (1, 2):
                built = await StackOnRig.build(found.matrix, array, rig, Qemu(), None)
                assert (await built.measure(cell, round_number)).trial.reason == ""
                said = await _said(rig, "filefrag -b512 -v /run/matrix/mnt-*-?/trial.0.0")
                where.setdefault(array.label, []).append(
                    int(re.findall(r"^ +0: .*?: +(\d+)\.\.", said, re.MULTILINE)[0])
                )
                await built.tear_down()
    return where


@pytest.mark.parametrize("types", ["ext4", pytest.param("[ext3, xfs]", marks=pytest.mark.exhaustive)])
def test_files_lie_at_the_beginning_of_a_file_system(shared_rig: SharedRig, types: str) -> None:
    where = shared_rig.run(_first_blocks(space(BEGINNING.replace("TYPES", types)), shared_rig))
    assert len(where) == types.count(",") + 1
    for label, blocks in where.items():
        assert max(blocks) * 512 < 128 * 2**20, (label, blocks)


MOVED = """\
name: moved
disks: {count: 1, size: 512MiB}
layouts: {files: [fs: {type: btrfs}]}
workloads: {work: {rw: [read, randwrite], bs: 64KiB, size: 1MiB, runtime: 100ms}}
repeat: 1
"""


async def _in_turn(found: Space, place: SharedRig, *order: str) -> list[tuple[str, str, bool]]:
    """Work, its file, and whether that is noted to be whole, trial by trial on one file system."""
    by_work = {cell.axes["workload.rw"]: cell for cell in found.cells()}
    seen = []
    async with rig_of(spec_of(found), place) as rig:
        built = await StackOnRig.build(found.matrix, found.stacks[0], rig, Qemu(), None)
        for round_number, cell in enumerate((by_work[rw] for rw in order), start=1):
            assert (await built.measure(cell, round_number)).trial.reason == ""
            inode = (await _said(rig, "cd /run/matrix/mnt-*-? && stat -c %i trial.0.0")).strip()
            noted = (await _said(rig, "cd /run/matrix/mnt-*-? && compgen -G '*.whole' || echo none")).strip()
            seen.append((cell.axes["workload.rw"], inode, noted != "none"))
        await built.tear_down()
    return seen


def test_files_that_were_moved_about_are_laid_out_anew_and_others_are_kept(shared_rig: SharedRig) -> None:
    seen = shared_rig.run(_in_turn(space(MOVED), shared_rig, "read", "randwrite", "read", "read"))
    assert [(rw, noted) for rw, _, noted in seen] == [
        ("read", True),
        ("randwrite", False),
        ("read", True),
        ("read", True),
    ]
    first, moved, again, kept = (inode for _, inode, _ in seen)
    assert len({first, moved, again}) == 3
    assert kept == again


MADE = """\
name: made
disks: {count: 1, size: 512MiB}
layouts: {files: [fs: {type: ext4}]}
workloads: {work: {rw: [read, write], new: true, bs: 64KiB, size: 1MiB, runtime: 100ms}}
repeat: 1
"""


def test_files_of_a_writing_trial_are_known(shared_rig: SharedRig) -> None:
    seen = shared_rig.run(_in_turn(space(MADE), shared_rig, "write", "read", "write", "read"))
    assert [(rw, noted) for rw, _, noted in seen] == [
        ("write", False),
        ("read", True),
        ("write", False),
        ("read", True),
    ]
