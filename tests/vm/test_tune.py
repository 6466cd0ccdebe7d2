"""Every knob on real disks and a real array: set, read back, put back; and what somebody else turned is noticed."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from matrix_runner.carry.trial import StackOnRig
from matrix_runner.machines.base import Rig, Step
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.space.space import Cell, Space
from tests.support.matrices import space
from tests.support.meddling import Meddled, MeddledMeanwhile
from tests.support.rigs import rig_of, spec_of
from tests.support.shared_rig import SharedRig

pytestmark = pytest.mark.vm

MATRIX = """\
name: everything
disks: {count: 3, size: 64MiB, bus: BUS}
layouts: {raid5: [md: {level: 5, chunk: 64KiB}]}
tune: TUNE
workloads: {work: {rw: randrw, bs: 4KiB, size: 256KiB, iodepth: 4}}
repeat: 1
"""
#: What is set, and what the kernel then says where that is not the same text.
PLAIN: dict[str, Any] = {
    "readahead": "512KiB",
    "stripe_cache_size": 1024,
    "group_thread_cnt": 2,
    "preread_bypass_threshold": 7,
    "sync_speed_min": "2MiB/s",
    "sync_speed_max": "50MiB/s",
    "scheduler": "mq-deadline",
    "iosched": {"read_expire": 248, "fifo_batch": 8},
    "nr_requests": 100,
    "max_sectors_kb": 512,
    "rotational": 0,
    "nomerges": 1,
    "write_cache": "write through",
    "rq_affinity": 2,
    "wbt_lat_usec": 2000,
    "vm": {
        "dirty_ratio": 11,
        "dirty_background_bytes": "64MiB",
        "dirty_expire_centisecs": 1000,
        "dirty_writeback_centisecs": 0,
        "swappiness": 1,
        "vfs_cache_pressure": 50,
    },
    "sysctl": {"vm/page-cluster": 1, "fs/aio-max-nr": 131072, "dev/raid/speed_limit_max": 90000},
    "transparent_hugepages": "always",
    "sysfs": {"queue/iostats": 0, "md/rmw_level": 0},
    "disk": {"readahead": "64KiB"},
    "md": {"max_sectors_kb": 64, "nomerges": 2, "rotational": 0, "write_cache": "write through"},
}
READ_BACK = {
    "readahead": "512",
    "disk.readahead": "64",
    "sync_speed_min": "2048",
    "sync_speed_max": "51200",
    "vm.dirty_background_bytes": str(64 << 20),
}
#: Everything that can be written of the disks, the array and the machine.
LOOK = """\
for file in /sys/block/{[sv]d[a-z],md127}/queue/* /sys/block/[sv]d[a-z]/queue/iosched/* /sys/block/md127/md/* \\
  /sys/block/sd?/device/{queue_depth,scsi_disk/*/cache_type} /sys/block/vd?/cache_type /proc/sys/vm/dirty* \\
  /proc/sys/vm/{swappiness,vfs_cache_pressure,page-cluster} \
  /proc/sys/{fs/aio-max-nr,dev/raid/speed_limit_max} /sys/kernel/mm/transparent_hugepage/enabled; do
  if [[ -f $file && -w $file ]]; then
    value= && read -r value <"$file"
    printf '%s %s\\n' "$file" "$value"
  fi 2>/dev/null
done
"""


def declared(bus: str, tune: dict[str, Any]) -> tuple[Space, Cell]:
    found = space(MATRIX.replace("BUS", bus).replace("TUNE", str(tune)))
    (cell,) = found.cells()
    return found, cell


def everything(bus: str) -> dict[str, Any]:
    return PLAIN if bus == "virtio" else {**PLAIN, "ncq_depth": 8}


def left_alone(tune: dict[str, Any]) -> dict[str, Any]:
    return {key: left_alone(value) if isinstance(value, dict) else "default" for key, value in tune.items()}


def flat(tune: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tune.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{key}.")
        else:
            yield before + key, READ_BACK.get(before + key, str(value))


class Bench:
    """An array on a rig, cells of several matrices measured on it, and a look at all that can be turned."""

    def __init__(self, built: StackOnRig, rig: Rig, bus: str) -> None:
        self.built, self.rig, self.bus = built, rig, bus

    async def shell(self, text: str) -> str:
        (result,) = await self.rig.run([Step("look", text)], expected=0, deadline=60)
        return result.output

    async def state(self) -> dict[str, str]:
        lines = (await self.shell(LOOK)).splitlines()
        chosen = (re.sub(r" .*\[(.*)\].*", r" \1", line) for line in lines)
        return dict(line.split(" ", 1) for line in chosen if line)

    async def finding(self, tune: dict[str, Any]) -> Trial:
        return (await self.built.measure(declared(self.bus, tune)[1], 1)).trial


@asynccontextmanager
async def bench(bus: str, place: SharedRig) -> Any:
    found, cell = declared(bus, {})
    machine = Qemu()
    async with rig_of(spec_of(found), place, machine) as rig:
        yield Bench(await StackOnRig.build(found.matrix, cell.stack, rig, machine, None), rig, bus)


def changed(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, str]]:
    """What is not as it was; the array's own state is not a knob."""
    keys = {key for key in before.keys() | after.keys() if not key.endswith(("array_state", "safe_mode_delay"))}
    return {key: (before.get(key, ""), after.get(key, "")) for key in keys if before.get(key) != after.get(key)}


async def _turned(bus: str, place: SharedRig) -> None:
    wanted = everything(bus)
    async with bench(bus, place) as on:
        first = await on.state()
        found = await on.finding(wanted)
        assert found.outcome is Outcome.MEASURED, found.reason
        read = {one.setting: one.got for one in found.readings if one.wanted is not None}
        for setting, value in flat(wanted):
            name = setting if setting in read else f"disk2.{setting.removeprefix('disk.')}"
            assert read[name].removesuffix(" (local)") == value, name
        turned = await on.state()
        assert len(changed(first, turned)) > 30
        found = await on.finding(left_alone(wanted))
        assert found.outcome is Outcome.MEASURED, found.reason
        assert changed(first, await on.state()) == {}
        for scheduler in ("bfq", "kyber") if bus == "sata" else ("bfq", "none", "mq-deadline", "kyber"):
            tune = {"scheduler": scheduler, "nr_requests": 17, "wbt_lat_usec": 1000}
            found = await on.finding(tune)
            assert found.outcome is Outcome.MEASURED, found.reason
        found = await on.finding({"scheduler": "none", "nr_requests": "default"})
        assert found.outcome is Outcome.MEASURED, found.reason
        await on.built.tear_down()
        disks = {path: value for path, value in first.items() if "md127" not in path}
        assert changed(disks, await on.state()) == {}


EXHAUSTIVE = pytest.mark.exhaustive


@pytest.mark.parametrize(
    "bus", [pytest.param("virtio", marks=EXHAUSTIVE), pytest.param("scsi", marks=EXHAUSTIVE), "sata"]
)
def test_each_tunable_is_set_read_back_and_restored(bus: str, shared_rig: SharedRig) -> None:
    shared_rig.run(_turned(bus, shared_rig))


# The kernel hears of it after hdparm has ended: it looks at the drive anew by itself.
SWITCHED = (
    "hdparm -q -W{} /dev/disk/by-id/matrix-0; at=/sys/block/$(basename $(readlink -f /dev/disk/by-id/matrix-0))/queue; "
    'for try in {{1..200}}; do [ "$(<$at/write_cache)" != "{}" ] || break; sleep 0.05; done'
)
SABOTAGE = {
    "readahead: 512KiB": ("echo 4 >/sys/block/md127/queue/read_ahead_kb", "readahead wanted 512, kernel says 4"),
    "disk: {readahead: 64KiB}": ("echo 8 >/sys/block/$(basename $(readlink -f /dev/disk/by-id/matrix-1))/queue/read_ahead_kb", "disk1.readahead wanted 64, kernel says 8"),
    "nr_requests: 100": ("echo 50 >/sys/block/$(basename $(readlink -f /dev/disk/by-id/matrix-0))/queue/nr_requests", "disk0.nr_requests wanted 100, kernel says 50"),
    "scheduler: bfq": ("echo none >/sys/block/$(basename $(readlink -f /dev/disk/by-id/matrix-2))/queue/scheduler", "disk2.scheduler wanted bfq, kernel says none"),
    "write_cache: write back": (
        SWITCHED.format(0, "write through"),
        ("disk0.write_cache wanted write back, kernel says write through; "
        "disk0.write_cache.kernel wanted write back, kernel says write through"),
    ),
    "write_cache: write through": (
        SWITCHED.format(1, "write back"),
        ("disk0.write_cache wanted write through, kernel says write back; "
        "disk0.write_cache.kernel wanted write through, kernel says write back"),
    ),
    "disk: {write_cache: write back}": (
        "echo write through >/sys/block/$(basename $(readlink -f /dev/disk/by-id/matrix-1))/queue/write_cache",  # what the kernel believes, not what the drive does
        "disk1.write_cache.kernel wanted write back, kernel says write through",
    ),
    "sync_speed_min: 2MiB/s": ("echo system >/sys/block/md127/md/sync_speed_min", "sync_speed_min wanted 2048, kernel says 1000"),
    "vm: {dirty_ratio: 11}": ("echo 65536 >/proc/sys/vm/dirty_bytes", "vm.dirty_ratio wanted 11, kernel says 0"),
    "sysfs: {queue/iostats: 0}": ("echo 1 >/sys/block/$(basename $(readlink -f /dev/disk/by-id/matrix-0))/queue/iostats", "disk0.sysfs.queue/iostats wanted 0, kernel says 1"),
}  # fmt: skip
#: All of them at once, after somebody else has turned each.
AGAIN = {
    "readahead": "512KiB",
    "disk": {"readahead": "64KiB"},
    "scheduler": "bfq",
    "nr_requests": 100,
    "write_cache": "write back",
    "sync_speed_min": "2MiB/s",
    "vm": {"dirty_ratio": 11},
    "sysfs": {"queue/iostats": 0},
}
#: What only the kernel knows: what it refuses, what it rounds, what it has not.
REFUSED = {
    "preread_bypass_threshold: 300": "tuning failed: the kernel refused 300 for md/preread_bypass_threshold of /dev/md/matrix-0",
    "md: {max_sectors_kb: 1000000}": "not as declared: md.max_sectors_kb wanted 1000000, kernel says",
    "scheduler: mq-deadline, iosched: {read_expire: 250}": "not as declared: disk0.iosched.read_expire wanted 250, kernel says 252",
    "cpu_governor: performance": "tuning failed: no processor of this machine has a governor to choose",
    "sysfs: {queue/nobody: 1}": "tuning failed: /dev/disk/by-id/matrix-0 has no queue/nobody in its own folder",
    "md: {sysfs: {md/rmw_level: 9}}": "tuning failed: the kernel refused 9 for md/rmw_level of /dev/md/matrix-0",
    "sysfs: {queue/iostats: 7}": "not as declared: disk0.sysfs.queue/iostats wanted 7, kernel says 1",
}  # fmt: skip


async def _sabotaged(place: SharedRig) -> dict[str, str]:
    reasons = {}
    async with bench("sata", place) as on:
        for text, (sabotage, _) in SABOTAGE.items():
            tune = YAML(typ="safe").load(f"{{{text}}}")
            on.built._rig = Meddled(on.rig, sabotage)
            found = await on.finding(tune)
            assert found.figures is None
            reasons[text] = found.reason
        on.built._rig = on.rig
        again = await on.finding(AGAIN)
        assert again.outcome is Outcome.MEASURED, again.reason
        for text in REFUSED:
            reasons[text] = (await on.finding(YAML(typ="safe").load(f"{{{text}}}"))).reason
        on.built._rig = MeddledMeanwhile(on.rig, "echo 65536 >/proc/sys/vm/dirty_bytes")
        reasons[MEANWHILE] = (await on.finding({"vm": {"dirty_ratio": 11}})).reason
        on.built._rig = on.rig
        last = await on.finding({"cpu_governor": "default"})
        assert last.outcome is Outcome.MEASURED, last.reason
    return reasons


MEANWHILE = "of the whole machine, while it is measured"


def test_changed_and_refused_tunables_are_reported(shared_rig: SharedRig) -> None:
    reasons = shared_rig.run(_sabotaged(shared_rig))
    for text, (_, said) in SABOTAGE.items():
        assert reasons[text] == f"not as declared: {said}", text
    assert reasons[MEANWHILE].startswith(
        "not as declared: vm.dirty_ratio wanted 11 until the end of the measurement, kernel says 0"
    )
    for text, said in REFUSED.items():
        assert reasons[text].startswith(said), (text, reasons[text])


MODES = """\
name: parts
disks: {count: 2, size: 64MiB, bus: scsi}
layouts:
  parts: [partition: {count: 2}]
tune: {readahead: [default, 256KiB], vm: {dirty_bytes: [default, 1MiB]}}
workloads: {work: {rw: read, bs: 4KiB, size: 64KiB}}
repeat: 1
"""


async def _on_partitions(scratch: Path) -> list[tuple[str, str]]:
    found, machine = space(MODES), Qemu()
    read = []
    cells = list(found.cells())
    async with rig_of(spec_of(found), scratch, machine) as rig:
        built = await StackOnRig.build(found.matrix, found.stacks[0], rig, machine, None)
        for cell in (*cells, cells[0]):
            finding = (await built.measure(cell, 1)).trial
            assert finding.outcome is Outcome.MEASURED, finding.reason
            got = {one.setting: one.got for one in finding.readings}
            assert got["disk0.readahead"] == got["disk1.readahead"]
            read.append((got["disk1.readahead"], f"{got['vm.dirty_bytes']}/{got['vm.dirty_ratio']}"))
    return read


@pytest.mark.exhaustive
def test_tunables_of_partitions_and_bytes_against_ratios(tmp_path: Path) -> None:
    ratio, size = "0/20", f"{1 << 20}/0"
    assert asyncio.run(_on_partitions(tmp_path)) == [
        ("128", ratio),
        ("128", size),
        ("256", ratio),
        ("256", size),
        ("128", ratio),
    ]
