"""dm-crypt, dm-integrity and preconditioning, for real: built, read back, written through, taken apart, spoiled."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from matrix_runner.carry.trial import SetUpFailed, StackOnRig
from matrix_runner.machines.base import Rig
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.record import Outcome
from matrix_runner.space.space import Stack
from tests.support.matrices import space
from tests.support.rigs import content_of
from tests.support.shared_rig import SharedRig
from tests.support.stacks_on_rigs import CLOSE, _cell, _measured, _round, _say, _with_rig

#: Tens of set-ups in one boot: how long that takes is the business of the host.
pytestmark = [pytest.mark.vm, pytest.mark.timeout(0)]

FORMATS = """\
name: formats
disks: {count: 4, size: 64MiB}
layouts:
  crypt: [disks: {count: 2}, crypt: {format: [luks2, luks1, plain]}]
  cipher: [disk, crypt: {format: plain, cipher: aes-cbc-essiv:sha256, sector_size: 4KiB}]
  size: [disk, crypt: {key_size: 256, sector_size: 4KiB, cipher: serpent-xts-plain64}]
  flags: [disk, crypt: {format: [luks2, plain], allow_discards: true, same_cpu_crypt: true, submit_from_crypt_cpus: true}]
  queues: [disk, crypt: {format: luks1, no_read_workqueue: true, no_write_workqueue: true}]
workloads: {work: {rw: randwrite, bs: 4KiB, size: 1MiB, iodepth: 4, fio: {verify: crc32c}}}
repeat: 1
"""

CHECKSUMS = """\
name: checksums
disks: {count: 4, size: 64MiB}
layouts:
  integrity: [disks: {count: 2}, integrity: {mode: [journal, bitmap, direct]}]
  algorithm: [disk, integrity: {algorithm: [crc32, xxhash64, sha1, sha512], sector_size: 4KiB}]
  odd: [disk, integrity: {algorithm: sha256, tag_size: 16, interleave: 64KiB, journal_size: 1MiB}]
workloads: {work: {rw: randwrite, bs: 4KiB, size: 1MiB, iodepth: 4, fio: {verify: crc32c}}}
repeat: 1
"""

STACKS = """\
name: stacks
disks: {count: 6, size: 64MiB}
layouts:
  mirror: [disks: {count: 2}, integrity: {sector_size: 4KiB}, md: {level: 1, sync: assume-clean}]
  parity: [disks: {count: 4}, integrity: {mode: bitmap}, md: {level: 5, chunk: 64KiB, sync: assume-clean}]
  above: [disks: {count: 3}, md: {level: 0, chunk: 64KiB}, crypt]
  below: [disks: {count: 3}, crypt: {format: [plain, luks1]}, md: {level: 5, chunk: 64KiB, sync: wait}]
  old: [disks: {count: 2}, md: {level: 1, metadata: 1.0}, crypt]
workloads: {work: {rw: randwrite, bs: 4KiB, size: 1MiB, iodepth: 4, fio: {verify: crc32c}}}
repeat: 1
"""

DEEP = """\
name: deep
disks: {count: 4, size: 64MiB}
layouts:
  three: [disks: {count: 4}, integrity: {mode: direct}, md: {level: 6, chunk: 64KiB}, crypt: {format: luks1}]
  parts: [disks: {count: 4}, partition: {count: 2}, crypt: {format: plain}, md: {level: 10, chunk: 64KiB}]
  both: [disk, integrity: {sector_size: 4KiB}, crypt: {format: plain, sector_size: 4KiB}]
  twice: [disk, crypt: {format: luks1}, crypt: {format: plain}]
workloads: {work: {rw: randwrite, bs: 4KiB, size: 1MiB, iodepth: 4, fio: {verify: crc32c}}}
repeat: 1
"""

PRECONDITIONS = """\
name: preconditions
disks: {count: 3, size: 32MiB}
layouts:
  disks: [disks, precondition: {how: [fill, random-fill], block_size: 64KiB}]
  discarded: [disk, precondition: {how: [none, fill], discard: true}]
  below: [disks, precondition: {how: fill}, md: {level: 5, chunk: 64KiB}]
  above: [disks, md: {level: 5, chunk: 64KiB}, precondition: {how: random-fill, block_size: 64KiB}, crypt: {format: plain}]
  steady: [disk, precondition: {how: until-steady, within: 90%, window: 2s, limit: 20s}]
  never: [disk, precondition: {how: until-steady, within: 0.0001%, window: 2s, limit: 3s}]
workloads: {work: {rw: read, bs: 64KiB, size: 1MiB}}
repeat: 1
"""

Batch = Callable[[StackOnRig, Stack, Rig], Awaitable[None]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", [FORMATS, CHECKSUMS, STACKS, DEEP], ids=["formats", "checksums", "stacks", "deep"])
def test_every_kind_is_built_verified_written_through_and_taken_apart(text: str, tmp_path: Path) -> None:
    found, told = space(text), list[str]()

    async def batch(rig: Rig, machine: Qemu) -> None:
        for array in found.stacks:
            told.append(await _round(found, array, rig, machine))
        zeros = "for disk in /sys/class/block/vd[a-z]; do [[ -e $disk/holders/dm-0 ]] && exit 1; done; true"
        await _say(rig, zeros)

    _with_rig(found, tmp_path, batch)
    print("".join(told))  # noqa: T201 - shown with -s: what the kernel said and how long it took
    assert len(told) == len(found.stacks)


@pytest.mark.exhaustive
def test_preconditioning_writes_the_whole_disk_with_a_note(tmp_path: Path) -> None:
    found = space(PRECONDITIONS)
    notes: dict[str, str] = {}

    async def batch(rig: Rig, machine: Qemu) -> None:
        for array in found.stacks:
            built = await StackOnRig.build(found.matrix, array, rig, machine, None)
            measured = await built.measure(_cell(found, array), 1)
            assert measured.trial.outcome is Outcome.MEASURED, measured.trial.reason
            notes[array.label] = f"{measured.trial.notes['precondition']} | {measured.trial.notes.get('resync', '')}"
            if array.label.startswith("disks"):
                for disk in rig.disks:  # no block of 64 KiB that is all zeros
                    blocks = "for n in 0 1 100 510 511; do cmp -s -n 65536 -i $((n * 65536)):0 DISK /dev/zero && exit 1; done"
                    await _say(rig, f"{blocks}; true".replace("DISK", disk))
            await built.tear_down()
            await built.tear_down()

    _with_rig(found, tmp_path, batch)
    print(notes)  # noqa: T201 - shown with -s: what the kernel said and how long it took
    assert notes["disks/how=fill"].startswith("fill, blocks of 64KiB: ")
    assert notes["disks/how=random-fill"].startswith("random-fill, blocks of 64KiB: ")
    assert notes["discarded/how=none"].startswith("discarded |")
    assert notes["discarded/how=fill"].startswith("discarded; fill, blocks of 1MiB: ")
    assert notes["below"].endswith("| waited for")
    assert notes["above"].endswith("| assume-clean")
    assert notes["steady"].endswith(" s, steady | ")
    assert notes["never"].endswith(" s, NOT steady | ")


CORRUPTED = """\
name: corrupted
disks: {count: 4, size: 64MiB}
layouts:
  mirror: [disks: {count: 2}, integrity: {mode: direct}, md: {level: 1}]
  parity: [disks: {count: 3}, integrity: {mode: journal, sector_size: 4KiB}, md: {level: 5, chunk: 64KiB}]
workloads: {work: {rw: read, bs: 64KiB, size: 1MiB}}
repeat: 1
"""

#: Noise is written on a disk beneath dm-integrity, where the first data of the array lie; md must answer all the same.
CORRUPT = """\
set -e
md=/dev/$(basename "$(readlink -f /dev/md/matrix-*)")
dd if=/dev/urandom of=/run/data bs=64K count=32 status=none
dd if=/run/data of="$md" bs=64K oflag=direct status=none
sync
sleep 1
mapping=$(dmsetup ls | sort | head -1 | cut -f1)
before=$(dmsetup status "$mapping" | cut -d' ' -f4)
# Where is it? The first of the random data, on the disk beneath.
place=$(perl -e 'open D,"<:raw",$ARGV[0];read D,$d,1<<26;open R,"<:raw","/run/data";read R,$r,1<<21;
  for($at=0;$at<1<<21;$at+=65536){$p=index($d,substr($r,$at,512));if($p>=4096){print $p;last}}' DISK)
[[ -n $place ]]
blockdev --flushbufs "$md" DISK
# RAID 5 would answer from its stripe cache and repair nothing.
cache=/sys/class/block/${md##*/}/md/stripe_cache_size
if [[ -e $cache ]]; then echo 17 >"$cache"; fi
dd if=/dev/urandom of=DISK bs=512 seek=$((place / 512)) count=8 oflag=direct conv=notrunc status=none
read_back() { for _ in 1 2 3 4; do dd if="$md" bs=64K count=32 iflag=direct status=none | cmp - /run/data || exit 1; done; }
read_back
if [[ $(<"/sys/class/block/${md##*/}/md/level") == raid1 ]]; then
  # Reads go to whichever mirror is idle; a check reads both.
  echo check >"/sys/class/block/${md##*/}/md/sync_action"
  while [[ $(<"/sys/class/block/${md##*/}/md/sync_action") != idle ]]; do sleep 0.1; done
fi
after=$(dmsetup status "$mapping" | cut -d' ' -f4)
read_back
dd if=/dev/mapper/"$mapping" of=/dev/null bs=64K iflag=direct status=none && echo "mapping reads"
dmsetup status "$mapping" | cut -d' ' -f4 >/run/end
echo "mismatches $before $after $(</run/end) degraded $(<"/sys/class/block/${md##*/}/md/degraded")"
"""


@pytest.mark.exhaustive
def test_md_repairs_what_is_corrupted_beneath_dm_integrity(tmp_path: Path) -> None:
    found = space(CORRUPTED)

    async def batch(rig: Rig, machine: Qemu) -> None:
        for array in found.stacks:
            built = await StackOnRig.build(found.matrix, array, rig, machine, None)
            said = await _say(rig, CORRUPT.replace("DISK", rig.disks[0]))
            print(array.label, said)  # noqa: T201 - shown with -s: what the kernel said and how long it took
            repaired, counts = said.splitlines()[-2:]
            _, before, after, end, _, degraded = counts.split()
            assert repaired == "mapping reads"
            assert before == "0"
            assert int(after) > 0
            assert after == end
            assert degraded == "0"
            await built.tear_down()

    _with_rig(found, tmp_path, batch)


SABOTAGED = """\
name: sabotaged
disks: {count: 2, size: 64MiB}
layouts:
  crypt: [disk, crypt]
  plain: [disk, crypt: {format: plain, no_read_workqueue: true}]
  integrity: [disk, integrity: {mode: bitmap}]
workloads: {work: {rw: read, bs: 64KiB, size: 1MiB}}
repeat: 1
"""
NAME = "name=$(dmsetup ls | cut -f1)\n"
RELOAD = f"{NAME}dmsetup table --showkeys $name | sed 's/%s/%s/' | dmsetup load $name && dmsetup suspend $name && dmsetup resume $name"
#: One on top of the other: the read-back has a line for each.
SABOTAGES = {
    "crypt": {
        "zeroed": (
            f"{NAME}dmsetup table $name | awk '{{print $1, $2, \"zero\"}}' | dmsetup load $name; dmsetup resume $name",
            "crypt.target wanted 0 98304 crypt, kernel says 0 98304 zero",
        ),
    },
    "plain": {
        "flag": (RELOAD % ("1 no_read_workqueue", "0"), "crypt.no_read_workqueue wanted on, kernel says off"),
        "cipher": (
            RELOAD % ("aes-xts-plain64", "serpent-xts-plain64"),
            "crypt.cipher wanted aes-xts-plain64, kernel says",
        ),
        "disk": (RELOAD % ("254:32", "254:48"), "crypt.device wanted 254:32, kernel says 254:48"),
    },
    "integrity": {
        "mode": (
            f"{NAME}integritysetup close $name; integritysetup open --integrity-no-journal DISK $name",
            "integrity.mode wanted bitmap, kernel says direct",
        ),
        "gone": (f"{NAME}integritysetup close $name", "is not a block device of this kernel"),
    },
}


def test_a_changed_mapping_is_noticed(shared_rig: SharedRig) -> None:
    found = space(SABOTAGED)

    async def batch(rig: Rig, machine: Qemu) -> None:
        for array in found.stacks:
            built = await StackOnRig.build(found.matrix, array, rig, machine, None)
            await _measured(built, _cell(found, array))
            for name, (text, wanted) in SABOTAGES[array.label].items():
                await _say(rig, text.replace("DISK", rig.disks[0]))
                finding = (await built.measure(_cell(found, array), 1)).trial
                assert finding.outcome is Outcome.BROKEN, (name, finding)
                assert wanted in finding.reason
                assert finding.figures is None
            await built.tear_down()

    _with_rig(found, shared_rig, batch)


FOREIGN = {
    "luks": "printf secret | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file - DISK",
    "integrity": "integritysetup format -q --no-wipe DISK",
    "open": "dd if=/dev/zero bs=64 count=1 status=none | cryptsetup open --type plain --cipher aes-xts-plain64 "
    "--key-size 512 --key-file - DISK theirs",
    "superblock": "integritysetup format -q --no-wipe DISK; printf 'matrix 0123' | "
    "dd of=DISK bs=512 seek=4 conv=notrunc status=none",
}
SAYS = {
    "luks": "crypto_LUKS",
    "integrity": "DM_integrity",
    "open": "is in use by dm-",
    "superblock": "DM_integrity",
}


def test_foreign_content_is_refused_by_name_and_stays(shared_rig: SharedRig) -> None:
    found = space(SABOTAGED)

    async def batch(rig: Rig, machine: Qemu) -> None:
        for name, text in FOREIGN.items():
            await _say(rig, text.replace("DISK", rig.disks[0]))
            before = await content_of(rig, 0)
            for array in found.stacks:
                with pytest.raises(SetUpFailed) as failed:
                    await StackOnRig.build(found.matrix, array, rig, machine, None)
                assert SAYS[name] in failed.value.brief
            assert await content_of(rig, 0) == before
            closed = "if [[ -e /dev/mapper/theirs ]]; then cryptsetup close theirs; fi"
            await _say(rig, f"{closed}; dd if=/dev/zero of={rig.disks[0]} bs=1M count=17 status=none")

    _with_rig(found, shared_rig, batch)


LEFT = """\
name: left
disks: {count: 2, size: 64MiB}
layouts:
  old: [disks: {count: 2}, md: {level: 1, metadata: 1.0}, crypt: {format: luks1}]
  under: [disks: {count: 2}, md: {level: 1, metadata: 1.0}, integrity: {sector_size: 4KiB}]
workloads: {work: {rw: read, bs: 64KiB, size: 1MiB}}
repeat: 1
"""


def test_own_leftovers_are_cleared_without_an_assembled_stack(shared_rig: SharedRig) -> None:
    """Metadata at the end of a disk leaves what stands on the array at its beginning, for anybody to see."""
    found = space(LEFT)

    async def batch(rig: Rig, machine: Qemu) -> None:
        for array in found.stacks:
            await StackOnRig.build(found.matrix, array, rig, machine, None)
            await _say(rig, CLOSE)
            built = await StackOnRig.build(found.matrix, array, rig, machine, None)
            await _measured(built, _cell(found, array))
            await _say(rig, CLOSE)
            await built.tear_down()

    _with_rig(found, shared_rig, batch)
