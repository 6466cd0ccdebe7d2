"""The qemu machine with real virtual machines."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base import cache
from matrix_runner.base.children import spawn
from matrix_runner.base.process import run
from matrix_runner.machines.base import MachineOptions, RigLost, RigSpec, Step
from matrix_runner.machines.qemu import Qemu, template
from matrix_runner.machines.qemu.rig import QemuRig
from matrix_runner.simdisks.disk import Bus, Disk
from tests.support.rigs import DISKS, SMALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from matrix_runner.machines.qemu.argv import Vm

pytestmark = pytest.mark.vm

SIX = RigSpec(disks=(Disk(SMALL),) * DISKS)


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@asynccontextmanager
async def rig(spec: RigSpec, scratch: Path) -> AsyncIterator[QemuRig]:
    told: list[str] = []
    machine = Qemu(MachineOptions(notice=told.append))
    assert machine.refusals(spec) == []
    async with machine.rig(spec, scratch) as up:
        assert isinstance(up, QemuRig)
        # Why one boots instead of being cloned is said here, and by it is known what is worth trying again.
        assert [word for word in told if "instead of cloning" in word] == []
        yield up
    assert left_in(scratch) == []
    assert up.guest.process.returncode is not None


async def said(up: QemuRig, text: str, **files: str) -> str:
    (result,) = await up.run([Step("it", text, files)], expected=0, deadline=60)
    assert result.status == 0, result.output
    return result.output.strip()


async def test_a_rig_runs_steps(tmp_path: Path) -> None:
    async with rig(SIX, tmp_path) as up:
        assert up.facts["up"] == "restored"
        assert up.facts["fio"].startswith("fio-3.")
        assert up.facts["clocksource"] in {"tsc", "tsc-early", "kvm-clock"}
        assert len(up.disks) == DISKS
        for disk in up.disks:
            assert await said(up, f"blockdev --getsize64 {disk}") == str(SMALL)
        results = await up.run([Step("a", "echo 1; exit 3"), Step("b", "echo 2")], expected=0, deadline=60)
        assert [(result.name, result.status, result.output) for result in results] == [("a", 3, "1\n")]


async def test_long_scripts_and_much_output(tmp_path: Path) -> None:
    async with rig(SIX, tmp_path) as up:
        long = "x" * 300_000
        assert await said(up, "cat big", big=long) == long
        lines = await said(up, "seq 500000")
        assert lines.endswith("\n500000")
        assert len(lines) > 3_000_000
        # What one left behind still holds what it spoke into; the next is heard all the same.
        assert await said(up, "sleep 100 & echo one") == "one"
        assert await said(up, "echo two") == "two"


async def test_two_clones_are_two_machines(tmp_path: Path) -> None:
    identity = "cat /etc/machine-id; head -c 16 /dev/urandom | od -An -tx1; cat /proc/sys/kernel/random/uuid; date +%s"
    async with rig(SIX, tmp_path) as one:
        first = (await said(one, identity)).splitlines()
    before = int(run(["date", "+%s"]).stdout)
    async with rig(SIX, tmp_path) as two:
        second = (await said(two, identity)).splitlines()
    after = int(run(["date", "+%s"]).stdout)
    assert all(a != b for a, b in zip(first[:3], second[:3], strict=True))
    assert before <= int(second[3]) <= after, "the clock is the host's, not the template's"


async def test_disks_of_a_clone_are_empty_and_its_own(tmp_path: Path) -> None:
    for _ in range(2):
        async with rig(SIX, tmp_path) as up:
            text = "cmp -n 1M $disk /dev/zero && yes | dd of=$disk bs=1M count=1 oflag=direct iflag=fullblock"
            output = await said(up, f"for disk in {' '.join(up.disks)}; do {text}; done")
            assert output.count("1+0 records out") == DISKS


@pytest.mark.exhaustive
async def test_twelve_disks_on_each_bus(tmp_path: Path) -> None:
    buses: tuple[Bus, ...] = ("virtio", "scsi", "sata")
    async with rig(RigSpec(disks=tuple(Disk(16 << 20, bus) for bus in buses for _ in range(12))), tmp_path) as up:
        assert len((await said(up, "readlink -f /dev/disk/by-id/matrix-* | sort -u")).splitlines()) == 36
        for disk in (19, 31):  # a disk of scsi and one of sata
            knob = f"/sys/block/$(basename $(readlink -f /dev/disk/by-id/matrix-{disk}))/device/queue_depth"
            assert await said(up, f"cat {knob} && echo 1 >{knob} && cat {knob} && echo 31 >{knob} && cat {knob}") in {
                "32\n1\n31",
                "128\n1\n31",
            }


async def test_a_real_array_and_a_real_fio(tmp_path: Path) -> None:
    async with rig(SIX, tmp_path) as up:
        members = " ".join(up.disks[:4])
        create = Step("create", f"mdadm --create /dev/md/t --run --assume-clean --level=5 -n4 {members} </dev/null")
        fio = "fio --name=j --filename=/dev/md/t --rw=write --bs=192k --size=6M --direct=1 --output-format=json+"
        results = await up.run([create, Step("fio", fio), Step("see", "cat /proc/mdstat")], expected=1, deadline=60)
        assert [result.status for result in results] == [0, 0, 0], results
        assert '"clat_ns"' in results[1].output
        assert "[UUUU]" in results[2].output


async def test_a_guest_that_hangs_is_lost(tmp_path: Path) -> None:
    async with rig(SIX, tmp_path) as up:
        with pytest.raises(RigLost, match="did not answer within"):
            await up.run([Step("hang", "sleep 1000")], expected=0, deadline=0.5)
        with pytest.raises(RigLost, match="did not answer within"):
            await up.run([Step("more", ":")], expected=0, deadline=5)


async def test_a_killed_qemu_is_noticed_at_once(tmp_path: Path) -> None:
    async with rig(SIX, tmp_path) as up:
        task = asyncio.create_task(up.run([Step("hang", "sleep 1000")], expected=1000, deadline=2000))
        await said_started(up)
        os.kill(up.guest.process.pid, signal.SIGKILL)
        with pytest.raises(RigLost, match="killed by signal 9"):
            await task


async def said_started(up: QemuRig) -> None:
    """A second command, answered while the first one hangs."""
    assert await up.guest.ask("guest-ping") == {}


async def test_a_panic_is_reported_with_the_console(tmp_path: Path) -> None:
    async with rig(SIX, tmp_path) as up:
        with pytest.raises(RigLost, match="panicked") as caught:
            await up.run([Step("crash", "echo c >/proc/sysrq-trigger")], expected=1000, deadline=2000)
        assert "sysrq" in caught.value.tail


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small disk needs root")
async def test_a_full_host_disk_is_reported(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    assert run(["mount", "-t", "tmpfs", "-o", "size=8M", "tmpfs", str(small)]).returncode == 0
    try:
        async with rig(SIX, small) as up:
            text = f"dd if=/dev/urandom of={up.disks[0]} bs=1M count=32 oflag=direct"
            with pytest.raises(RigLost, match="disk is full"):
                await up.run([Step("fill", text)], expected=1000, deadline=2000)
    finally:
        run(["umount", str(small)])


async def test_a_cancelled_rig_leaves_no_process(tmp_path: Path) -> None:
    entered = asyncio.Event()
    seen: list[QemuRig] = []

    async def use() -> None:
        async with rig(SIX, tmp_path) as up:
            seen.append(up)
            entered.set()
            await up.run([Step("hang", "sleep 1000")], expected=1000, deadline=2000)

    task = asyncio.create_task(use())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen[0].guest.process.returncode is not None
    assert left_in(tmp_path) == []


@pytest.mark.exhaustive
async def test_a_template_that_does_not_wake_is_thrown_away_and_a_boot_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = RigSpec(disks=(Disk(32 << 20),))
    names: list[str] = []
    key = template.key

    def noted(vm: Vm, qemu: str, host: str) -> str:
        names.append(key(vm, qemu, host))
        return names[-1]

    monkeypatch.setattr(template, "key", noted)
    async with rig(spec, tmp_path):
        pass
    monkeypatch.setattr(cache, "find_damage", lambda _: [])
    state = template.home() / names[0] / "state"  # ours, whatever others do with the same cache
    state.write_bytes(state.read_bytes()[:10_000])
    said_so: list[str] = []
    async with Qemu(MachineOptions(notice=said_so.append)).rig(spec, tmp_path) as up:
        assert up.facts["up"] == "cold boot"
    assert any("the rig boots instead of cloning" in line for line in said_so), said_so
    monkeypatch.undo()
    async with rig(spec, tmp_path) as again:
        assert again.facts["up"] == "restored"


HOLDER = """
import asyncio, sys
from pathlib import Path
from matrix_runner.simdisks.disk import Disk
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.base import RigSpec

async def hold():
    async with Qemu().rig(RigSpec(disks=(Disk(64 << 20),) * 6), Path(sys.argv[1])) as up:
        print(up.guest.process.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(hold())
"""


async def test_a_killed_runner_leaves_no_machine_and_no_file(tmp_path: Path) -> None:
    holder = await spawn([sys.executable, "-c", HOLDER, str(tmp_path)], output=asyncio.subprocess.PIPE)
    assert holder.stdout is not None
    machine = os.pidfd_open(int(await holder.stdout.readline()))
    try:
        holder.kill()
        await holder.wait()
        # A process's descriptor becomes readable when it ends.
        gone, _, _ = await asyncio.to_thread(select.select, [machine], [], [], 30)
        assert gone
    finally:
        os.close(machine)
    assert left_in(tmp_path) == []
