"""Loop devices as stand-ins for disks of this host, in real virtual machines."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.hosts.checks import check_disk
from matrix_runner.hosts.lease import Lease, lease_disks
from matrix_runner.hosts.operations import LocalOperations
from matrix_runner.machines.base import MachineOptions, RigSpec, Step
from matrix_runner.machines.qemu import Passthrough
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome
from matrix_runner.simdisks.disk import Bus, Disk
from matrix_runner.space.select import select
from tests.hosts.loops import SIZE, Bay, bay, why_not
from tests.support.local_place import Place, placed
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.machines.base import Rig

REASON = why_not()
pytestmark = [pytest.mark.vm, pytest.mark.skipif(bool(REASON), reason=REASON)]

SMALL = """\
name: small
disks: {count: 2, size: 64MiB, bus: scsi}
layouts:
  mirror: [md: {level: 1, metadata: "1.0"}, fs: {type: ext4}]
  volume: [lvm: {stripes: 2}]
workloads:
  work: {rw: [randread, randwrite], bs: 4KiB, iodepth: 4, runtime: 100ms, size: 8MiB}
repeat: 1
"""
PER_STACK = SMALL.replace("[randread, randwrite]", "randrw")
RUN = ("run", "--passthrough", "--json", "--destroy", "disk-a", "--destroy", "disk-b", "m.yaml")


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


@pytest.fixture
def place(disks: Bay, tmp_path: Path) -> Iterator[Place]:
    with placed(disks, tmp_path, SMALL, Place) as made:
        yield made


async def said(rig: Rig, text: str) -> str:
    (result,) = await rig.run([Step("it", text)], expected=0, deadline=60)
    assert result.status == 0, result.output
    return result.output.strip()


def start_of(disk: str) -> bytes:
    """What stands where the guest wrote, past whatever the host may have of it in memory."""
    words = ["dd", f"if={disk}", "bs=4096", "skip=1", "count=1", "iflag=direct", "status=none"]
    return subprocess.run(words, capture_output=True, check=True).stdout[512:].rstrip(b"\0")


def rotational(disk: str) -> str:
    return Path("/sys/class/block", Path(disk).name, "queue/rotational").read_text().strip()


LATER = pytest.mark.exhaustive


@pytest.mark.parametrize("bus", ["scsi", *(pytest.param(bus, marks=LATER) for bus in ("virtio", "sata", "nvme"))])
async def test_a_guest_writes_on_the_checked_disk(disks: Bay, tmp_path: Path, bus: Bus) -> None:
    lease = Lease("r", "m", tmp_path, tmp_path / "state", frozenset({"disk-a", "disk-b"}), operations=disks.operations)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with lease_disks(
        [disks.declared, disks.beside], disks.ask, lease, lambda: datetime.now(UTC), lambda _: None
    ) as held:
        # Whatever its name leads to by now: it is not what is used.
        (disks.names / "disk-a").unlink()
        (disks.names / "disk-a").symlink_to("/dev/null")
        machine, spec = Passthrough(MachineOptions(held=held)), RigSpec((Disk(SIZE, bus),) * 2)
        assert machine.refusals(spec) == []
        async with machine.rig(spec, scratch) as rig:
            assert rig.facts["up"] == ("cold boot" if bus == "nvme" else "restored")
            assert await said(rig, f"blockdev --getsize64 {rig.disks[0]}") == str(SIZE)
            await said(rig, f"printf mine | dd of={rig.disks[0]} bs=512 seek=9 conv=sync oflag=direct status=none")
            await said(rig, f"printf other | dd of={rig.disks[1]} bs=512 seek=9 conv=sync oflag=direct status=none")
            assert (start_of(disks.disk), start_of(disks.other)) == (b"mine", b"other")
            if bus in {"scsi", "sata"}:
                turns = await said(
                    rig, f'n=$(readlink -f {rig.disks[0]}); cat "/sys/block/${{n##*/}}/queue/rotational"'
                )
                assert turns == rotational(disks.disk)
            with pytest.raises(OSError, match="busy"):
                os.open(disks.disk, os.O_RDONLY | os.O_EXCL)
            assert LocalOperations(disks.locks).lock(held[0].node.identity, "")[0] is None
        (disks.names / "disk-a").unlink()
        (disks.names / "disk-a").symlink_to(disks.disk)
    assert list(scratch.iterdir()) == []
    found = check_disk(disks.ask(), disks.declared)
    assert found.usable
    assert found.node is not None
    assert found.node.label is not None
    assert found.node.label.state == "free"


def test_the_same_cells_are_measured_and_the_disks_come_back(disks: Bay, place: Place) -> None:
    (place.folder / "m.yaml").write_text(PER_STACK)
    runner = place.start(*RUN)
    output, _ = runner.communicate()
    assert runner.returncode == 0, output
    (run,) = (place.folder / "results").glob("small-qemu-passthrough-*")
    with Journal.open(run / "journal.sqlite") as journal:
        trials = list(journal.trials())
    assert {trial.cell for trial in trials} == {cell.id for cell in select(space(PER_STACK)).cells()}
    assert {(trial.outcome, trial.reason) for trial in trials} == {(Outcome.MEASURED, "")}
    assert not list((run / "standing").iterdir())
    assert json.loads((run / "manifest.json").read_text())["machine"] == "qemu-passthrough"
    for claim in (disks.declared, disks.beside):
        found = check_disk(disks.ask(), claim).node
        assert found is not None
        assert found.label is not None
        assert (found.label.state, found.signatures) == ("free", ())


#: What stands is recognised on a host without any tools: a superblock at the end, and a file system at the start.
MIRROR = (*RUN, "--only", "layout=mirror")


def killed_while_something_stands(place: Place) -> None:
    """After its first trial."""
    runner = place.start(*MIRROR)
    assert runner.stdout is not None
    for line in runner.stdout:
        if '"trial"' in line and "measured" in line:
            break
    runner.kill()
    runner.communicate()


def gone(disks: Bay) -> None:
    """Wait until nothing of the killed run has its disks any more: QEMU dies after whoever started it."""
    for disk in (disks.disk, disks.other):
        while True:
            with suppress(OSError):
                os.close(os.open(disk, os.O_RDONLY | os.O_EXCL))
                break


@LATER
def test_killed_in_the_middle_the_host_gives_the_disks_back(disks: Bay, place: Place) -> None:
    killed_while_something_stands(place)
    (run,) = (place.folder / "results").glob("small-*")
    assert [path.suffix for path in (run / "standing").iterdir()] == [".sh"]
    there = [check_disk(disks.ask(), claim).node for claim in (disks.declared, disks.beside)]
    assert all(node and {one.type for one in node.signatures} == {"linux_raid_member", "ext4"} for node in there)
    # Nobody waits here: until QEMU is gone, nobody gets its disks.
    cleaner = place.start("clean")
    cleaned, _ = cleaner.communicate()
    assert cleaned.count("returned from the run") == 2, cleaned
    for claim in (disks.declared, disks.beside):
        assert check_disk(disks.ask(), claim).usable
    again = place.start(*MIRROR)
    output, _ = again.communicate()
    assert again.returncode == 0, output
    with Journal.open(run / "journal.sqlite") as journal:
        assert {trial.outcome for trial in journal.trials()} == {Outcome.MEASURED}


@LATER
def test_data_written_by_others_since_stays(disks: Bay, place: Place) -> None:
    killed_while_something_stands(place)
    gone(disks)
    subprocess.run(["wipefs", "--all", "--force", "--quiet", disks.disk], check=True)
    disks.bash('mkfs.ext4 -q -F -L precious "$DISK"')
    before = disks.digest()
    cleaner = place.start("clean")
    output, _ = cleaner.communicate()
    assert cleaner.returncode == 3
    assert "disk-a: not returned: something is on it" in output
    assert "precious" in output
    assert "disk-b: given back" in output
    assert disks.digest() == before
    # Nor does the run itself take it, which had the disk.
    runner = place.start(*MIRROR)
    output, _ = runner.communicate()
    assert runner.returncode == 2, output
    assert "precious" in output
    assert disks.digest() == before


@LATER
@pytest.mark.parametrize("shares", ["", "    shares: nothing\n"])
def test_two_runs_do_not_share_a_disk(place: Place, shares: str) -> None:
    hosts = place.folder / "hosts.yaml"
    hosts.write_text(hosts.read_text().replace("  here:\n", f"  here:\n{shares}"))
    first = place.start(*RUN)
    assert first.stdout is not None
    for line in first.stdout:
        if '"trial"' in line:
            break
    second = place.start(*RUN, "--results", "others")
    output, _ = second.communicate()
    assert second.returncode == 2, output
    assert "is used by the run" in output
    assert "wait until that run ends" in output
    assert "wipe: allowed" not in output
    rest, _ = first.communicate()
    assert first.returncode == 0, rest
