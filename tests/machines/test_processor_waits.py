"""The time for which a virtual machine waits for processors of its host."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from matrix_runner.machines.qemu import rig
from matrix_runner.simdisks.clib import Report
from matrix_runner.simdisks.disk import Disk, Physics

if TYPE_CHECKING:
    from matrix_runner.machines.qemu.argv import Vm

QUIET = Report(
    reads=0, writes=0, flushes=0, read_bytes=0, written_bytes=0, seeks=0, hits=0, copied_bytes=0,
    busy=0.0, occupied=0.0, late=0.0, owed=0.0, failed=0, idle=0.0, starved=0.0,
)  # fmt: skip


def _thread(threads: Path, name: str, waited: int) -> None:
    (threads / name).mkdir(parents=True, exist_ok=True)
    (threads / name / "schedstat").write_text(f"7000000000 {waited} 25\n")


def test_threads_that_ended_count_too(tmp_path: Path) -> None:
    waits = rig.ProcessorWaits(tmp_path / "task")
    assert waits.seconds() == 0
    _thread(tmp_path / "task", "10", 1_500_000_000)
    _thread(tmp_path / "task", "11", 250_000_000)
    (tmp_path / "task" / "12").mkdir()  # it ends at this moment
    assert waits.seconds() == 1.75
    shutil.rmtree(tmp_path / "task" / "11")
    _thread(tmp_path / "task", "10", 2_000_000_000)
    assert waits.seconds() == 2.25
    shutil.rmtree(tmp_path / "task")
    assert waits.seconds() == 2.25


def test_reports_of_disks_have_the_waits_of_their_machine(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(rig, "Path", lambda _: tmp_path)
    _thread(tmp_path, "10", 6_000_000_000)
    guest = SimpleNamespace(served=SimpleNamespace(reports=lambda: (QUIET, QUIET)), process=SimpleNamespace(pid=1))
    vm = SimpleNamespace(disks=(Disk(2**30, "virtio", Physics("ideal"), slow=4),))
    up = rig.QemuRig(cast("Any", guest), cast("Vm", vm), {})
    assert [one.waited for one in up.disk_reports()] == [1.5, 1.5]  # on the clock of the disks
    guest.served.reports = tuple[Report, ...]
    assert up.disk_reports() == ()
