"""Modelled disks in a real machine."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from matrix_runner.base.process import run
from matrix_runner.decide.plan import Plan
from matrix_runner.machines.base import RigLost, RigSpec, Step, StepResult
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.qemu.rig import QemuRig
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome
from matrix_runner.simdisks.disk import Disk
from matrix_runner.simdisks.server import counters_between, overload_of
from matrix_runner.space.load import disk_model
from matrix_runner.space.select import select
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.matrices import space
from tests.support.stacks_on_rigs import done

pytestmark = pytest.mark.vm

HDD = disk_model("st3320620as").physics(1)
SSD = disk_model("sata-ssd").physics(1)
DISKS = (Disk(2**30, "virtio", HDD), Disk(2**30, "sata", HDD), Disk(2**30, "scsi", SSD), Disk(2**28, "virtio"))
#: QEMU never pauses for what fails below the last two, and cannot save a machine that has them: it boots.
NVME = (*DISKS[:1], Disk(2**30, "nvme", SSD), Disk(2**30, "nvme", SSD))
MIRROR = "mdadm --create /dev/md9 --run --assume-clean --metadata=1.2 --level=1 --raid-devices=2 {} {}"
FIO = "fio --name=x --filename={} --direct=1 --ioengine=libaio --output-format=terse --time_based --runtime=2 {}"


def _ticks(pid: int) -> float:
    """Return utime and stime of a process, in seconds, as `/proc` rounds them down."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def _asked(scratch: Path) -> None:
    async with Qemu().rig(RigSpec(DISKS), scratch) as rig:
        assert rig.facts["up"] == "restored"
        told = await done(rig, f"for disk in {' '.join(rig.disks[1:3])}; do lsblk -dno ROTA $disk; done")
        assert told.split() == ["1", "0"]
        before = rig.disk_reports()
        await done(rig, FIO.format(rig.disks[1], "--rw=randwrite --bs=4k --iodepth=8"))
        up = cast("QemuRig", rig)
        pids = [up.guest.process.pid, *(server.pid for server in up.guest.served.servers.values())]
        assert len(pids) == 4, "QEMU, and a server of each disk with a model"
        least, used = sum(map(_ticks, pids)), up.host_seconds()
        assert used is not None
        assert 0.1 < least <= used <= sum(_ticks(pid) + 0.02 for pid in pids)
        moved = counters_between(before, rig.disk_reports())
        assert moved[1].writes > 100
        assert moved[1].seeks > 100
        assert moved[0].writes == moved[2].writes == 0
        overload = overload_of(moved)
        assert overload is not None
        # A disk that turns is slow enough for any host, unless that says that it is not.
        assert overload.exceeds(0.05) or moved[1].writes < 2 * 250
        write = (
            f"head -c 300000 /dev/urandom >p; dd if=p of={rig.disks[0]} bs=100000 seek=7 oflag=seek_bytes conv=fsync"
        )
        await done(rig, f"{write}; blockdev --flushbufs {rig.disks[0]}; cmp -n 300000 p {rig.disks[0]} 0 7")
        assert rig.disk_reports()[0].flushes > 0


def test_they_behave_like_disks_and_say_what_they_did(tmp_path: Path) -> None:
    asyncio.run(_asked(tmp_path))


async def _queued(scratch: Path) -> None:
    """The same work, of which a SATA disk is given one command at a time, or all that it takes."""
    async with Qemu().rig(RigSpec(DISKS), scratch) as rig:
        node = (await done(rig, f"readlink -f {rig.disks[1]}")).strip().removeprefix("/dev/")
        found, limited = {}, False
        for depth in (1, 31):
            before = rig.disk_reports()
            await done(rig, f"echo {depth} >/sys/block/{node}/device/queue_depth")
            await done(rig, FIO.format(rig.disks[1], "--rw=randread --bs=4k --iodepth=31"))
            moved = counters_between(before, rig.disk_reports())
            found[depth] = moved[1]
            overload = overload_of(moved)
            limited |= overload is not None and overload.exceeds(0.05)
        # A busy host may be too slow for it, and says so.
        assert limited or found[31].reads > 1.3 * found[1].reads
        assert (
            limited or found[31].owed / found[31].reads > found[1].owed / found[1].reads
        )  # they wait in the disk, not before it


def test_a_disk_that_may_choose_among_commands_gets_more_done(tmp_path: Path) -> None:
    asyncio.run(_queued(tmp_path))


async def _full(scratch: Path, *, mirrored: bool) -> None:
    async with Qemu().rig(RigSpec(NVME if mirrored else DISKS, modules=("raid1",)), scratch) as rig:
        if mirrored:
            await done(rig, MIRROR.format(*rig.disks[1:]))
        onto = "/dev/md9" if mirrored else rig.disks[0]
        text = f"dd if=/dev/urandom of={onto} bs=1M count=64 oflag=direct"
        with pytest.raises(RigLost, match="the host's disk is full: disk") as caught:
            await rig.run([Step("fill", text)], expected=1000, deadline=2000)
        assert "free some disk space" in caught.value.resolution


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_full_host_behind_a_model_is_no_dying_disk(tmp_path: Path, *, mirrored: bool) -> None:
    assert run(["mount", "-t", "tmpfs", "-o", "size=8M", "tmpfs", str(tmp_path)]).returncode == 0
    try:
        asyncio.run(_full(tmp_path, mirrored=mirrored))
    finally:
        run(["umount", str(tmp_path)])


async def _hung(scratch: Path) -> None:
    async with Qemu().rig(RigSpec(DISKS), scratch) as rig:
        servers = cast("QemuRig", rig).guest.served.servers
        os.kill(servers[0].pid, signal.SIGSTOP)
        step = Step("read", f"dd if={rig.disks[0]} of=/dev/null bs=4k count=1 iflag=direct")
        with pytest.raises(RigLost, match="did not answer within 3 s"):
            await rig.run([step], expected=0, deadline=3)
    assert all(server.returncode is not None for server in servers.values())


def test_a_hanging_server_blocks_only_its_disk(tmp_path: Path) -> None:
    asyncio.run(_hung(tmp_path))


async def _killed(scratch: Path) -> None:
    async with Qemu().rig(RigSpec(DISKS), scratch) as rig:
        servers = cast("QemuRig", rig).guest.served.servers
        asyncio.get_running_loop().call_later(1.0, os.kill, servers[1].pid, signal.SIGKILL)
        step = Step("fio", FIO.format(rig.disks[1], "--rw=randread --bs=4k"))
        with pytest.raises(RigLost, match="the server of disk 1 was killed by signal 9"):
            await rig.run([step], expected=2, deadline=60)
    assert all(server.returncode is not None for server in servers.values())


def test_a_server_that_is_killed_is_a_lost_machine(tmp_path: Path) -> None:
    asyncio.run(_killed(tmp_path))


VOLUMES = """\
name: volumes
disks: {count: 2, size: 128MiB, model: {kind: volume, iops: 80}}
layouts: {mirror: [md: {level: 1, sync: assume-clean}]}
workloads: {work: {rw: [randread, randwrite], bs: 4KiB, iodepth: 4, runtime: 2s}}
repeat: 1
"""


@pytest.mark.exhaustive
def test_a_cell_whose_disks_are_killed_twice_is_broken_with_that_reason_and_the_next_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror would go on without the disk, and fio would never know."""
    found, whole = space(VOLUMES), QemuRig.run

    async def struck(self: QemuRig, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        if any("rw=randread" in step.files.get("job.fio", "") for step in steps):
            server = self.guest.served.servers[1]
            asyncio.get_running_loop().call_later(0.5, os.kill, server.pid, signal.SIGKILL)
        return await whole(self, steps, expected=expected, deadline=deadline)

    monkeypatch.setattr(QemuRig, "run", struck)
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        asyncio.run(executor(plan, Qemu(), journal, Shelf(), tmp_path, lambda _: None, boot_id="one").run())
        trials = {trial.cell: trial for trial in journal.trials()}
    read, written = (
        trials[cell.id] for rw in ("randread", "randwrite") for cell in select(found, [f"rw={rw}"]).cells()
    )
    assert (read.outcome, read.attempts) == (Outcome.BROKEN, 2)
    assert "the server of disk 1 was killed by signal 9" in read.reason
    assert (written.outcome, written.attempts) == (Outcome.MEASURED, 1)
