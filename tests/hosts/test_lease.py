"""From what hosts.yaml allows to a disk in the hands of a run, and back: every door on the way."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.hosts.checks import check_disk
from matrix_runner.hosts.disk_ledger import LeaseRecord, lease_records, own_marks, read_ledger, write_record
from matrix_runner.hosts.exclusive import DisksRefused, LeasedDisk
from matrix_runner.hosts.lease import Lease, NotConfirmed, WearExceeded, lease_disks
from matrix_runner.hosts.reasons import Reason
from matrix_runner.hosts.recovery import clean
from tests.hosts.loops import Bay, bay, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from matrix_runner.hosts.inventory import Census
    from matrix_runner.language.hosts import DeclaredDisk

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)
NOW = datetime(2026, 2, 1, 3, tzinfo=UTC)
MIB = 1 << 20
ROOT = Path(__file__).parents[2]


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


class Desk:
    """Lends the disks of a bay, and keeps what was said."""

    def __init__(self, empty: Bay) -> None:
        self.empty, self.said = empty, list[str]()
        root = empty.work.parent
        self.lease = Lease(
            "night-1",
            "study",
            root / "run",
            root / "state",
            frozenset({"disk-a", "disk-b"}),
            operations=empty.operations,
        )

    def lend(self, claims: Sequence[DeclaredDisk], **changes: object) -> AbstractContextManager[tuple[LeasedDisk, ...]]:
        lease = replace(self.lease, **changes)  # type: ignore[arg-type]
        return lease_disks(claims, self.empty.ask, lease, lambda: NOW, self.said.append)


def scribble(disk: str) -> None:
    command = ["dd", "if=/dev/urandom", f"of={disk}", "bs=1M", "count=64", "oflag=direct", "status=none"]
    subprocess.run(command, check=True)


def test_a_disk_is_leased_written_returned_and_leased_again(empty: Bay) -> None:
    desk = Desk(empty)
    for night in ("night-1", "night-2"):
        with desk.lend([empty.declared, empty.beside], run=night) as disks:
            assert [one.run for one in lease_records(desk.lease.state)] == [night, night]
            for one in disks:
                one.release()
            scribble(empty.disk)
        assert lease_records(desk.lease.state) == ()
    assert [line.split("\n")[0] for line in desk.said] == ["Everything on these disks will be destroyed:"] * 2
    written = read_ledger(desk.lease.state)
    assert written.nights[0].night == "2026-01-31"
    assert 128 * MIB <= written.written_in(str(empty.file), NOW.date().replace(month=1, day=31)) < 130 * MIB


def test_two_runs_need_different_disks(empty: Bay) -> None:
    desk = Desk(empty)
    with desk.lend([empty.declared]):
        before = empty.digest()
        with pytest.raises(BadInput, match="are being measured already, by the run night-1") as caught:
            desk.lend([empty.beside], run="night-2").__enter__()
        assert "`shares: nothing`" in caught.value.resolution
        assert empty.digest() == before
        with desk.lend([empty.beside], run="night-2", shares_nothing=True):
            assert len(lease_records(desk.lease.state)) == 2
    with desk.lend([empty.beside], run="night-2"):
        pass


def test_unconfirmed_disks_are_not_written(empty: Bay) -> None:
    before, desk = empty.digest(), Desk(empty)
    with pytest.raises(NotConfirmed), desk.lend([empty.declared], destroy=frozenset()):
        pass
    assert empty.digest() == before
    assert lease_records(desk.lease.state) == ()


def test_a_used_up_write_budget_prevents_writes(empty: Bay) -> None:
    desk, claim = Desk(empty), replace(empty.declared, wear=1 * MIB)
    with desk.lend([claim]) as (one,):
        one.release()
        scribble(empty.disk)
    before = empty.digest()
    with pytest.raises(WearExceeded, match="used up") as caught, desk.lend([claim]):
        pass
    assert "of 1048576 bytes were written in the night of" in caught.value.details
    assert empty.digest() == before
    assert lease_records(desk.lease.state) == ()


def test_a_disk_that_is_only_read_keeps_each_byte_and_needs_no_permission_to_destroy(empty: Bay) -> None:
    empty.bash('mkfs.ext4 -q -F "$DISK"')
    before, desk, claim = empty.digest(), Desk(empty), replace(empty.declared, wear=1, only_read=True)
    with desk.lend([claim], destroy=frozenset()) as (one,):
        assert [record.only_read for record in lease_records(desk.lease.state)] == [True]
        one.release()
        with pytest.raises(DisksRefused, match="cannot be used"), desk.lend([claim], shares_nothing=True, run="other"):
            pass
    assert desk.said == ["Nothing is written to the disk: fio only reads."]
    assert (empty.digest(), lease_records(desk.lease.state)) == (before, ())


def test_a_disk_in_use_is_not_even_read(empty: Bay) -> None:
    empty.bash('mkfs.ext4 -q -F "$DISK"; mkdir "$WORK/there"; mount "$DISK" "$WORK/there"')
    try:
        with (
            pytest.raises(DisksRefused) as caught,
            Desk(empty).lend([replace(empty.declared, only_read=True)], destroy=frozenset()),
        ):
            pass
    finally:
        empty.bash('umount "$WORK/there"')
    assert [one.reason for one in caught.value.refusals] == [Reason.MOUNTED]


def test_a_kill_while_a_disk_is_only_read_leaves_a_record_that_stops_no_run(empty: Bay) -> None:
    desk, claim = Desk(empty), replace(empty.declared, only_read=True)
    with desk.lend([claim], destroy=frozenset()):
        (record,) = lease_records(desk.lease.state)
    before = empty.digest()
    write_record(desk.lease.state, record)
    assert own_marks(desk.lease.state, record.run).recorded == frozenset(), "unknown data is not of this run"
    with desk.lend([claim], run="night-2", destroy=frozenset()):
        pass
    write_record(desk.lease.state, record)
    assert [(one.refusal, one.scripts) for one in clean(desk.lease.state, empty.ask, empty.operations)] == [("", 0)]
    assert (empty.digest(), lease_records(desk.lease.state)) == (before, ())


def test_disks_with_leftovers_stay_with_their_run(empty: Bay) -> None:
    desk = Desk(empty)

    def crash() -> None:
        with desk.lend([empty.declared]) as (one,):
            one.release()
            empty.bash('mkfs.ext4 -q -F "$DISK"')
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crash()
    assert desk.said[-1].startswith("disk-a stays with the run, for `matrix clean`: file system: ")
    assert [one.run for one in lease_records(desk.lease.state)] == ["night-1"]
    with pytest.raises(DisksRefused) as caught, desk.lend([empty.declared], run="night-2"):
        pass
    assert [one.reason for one in caught.value.refusals] == [Reason.LEFT_OVER], (
        "what is on it is not for others to judge"
    )
    (left,) = clean(desk.lease.state, empty.ask, empty.operations)
    assert "file system" in left.refusal


@pytest.mark.parametrize(("boot", "tried"), [("this", ["0000:01:00.0"]), ("an earlier one", [])])
def test_a_controller_of_a_killed_run_goes_back_before_its_disk_is_looked_for(
    empty: Bay, monkeypatch: pytest.MonkeyPatch, boot: str, tried: list[str]
) -> None:
    desk, asked = Desk(empty), list[str]()
    monkeypatch.setattr("matrix_runner.hosts.recovery.return_to_driver", asked.append)

    def killed() -> None:
        with desk.lend([empty.declared], boot=boot) as (one,):
            one.release()
            empty.bash('mkfs.ext4 -q -F "$DISK"')
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    (record,) = lease_records(desk.lease.state)
    write_record(desk.lease.state, record.model_copy(update={"controller": "0000:01:00.0"}))
    found = clean(desk.lease.state, empty.ask, empty.operations, counted=("this", NOW.date()))
    assert [one.disk for one in found] == ["disk-a"]
    assert asked == tried, "after a boot the host has it, and whoever has it now is somebody else"
    # What is left on the disk keeps it with the run; the controller was given back, and is not asked about again.
    assert [one.controller for one in lease_records(desk.lease.state)] == [""]
    assert [one.disk for one in clean(desk.lease.state, empty.ask, empty.operations, counted=("this", NOW.date()))] == [
        "disk-a"
    ]
    assert asked == tried


def test_a_controller_in_use_keeps_its_disk_with_the_run(empty: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    def used(address: str) -> bool:
        raise HarnessBroken(f"{address} is used by process 1 (qemu)")

    desk = Desk(empty)
    monkeypatch.setattr("matrix_runner.hosts.recovery.return_to_driver", used)
    record = LeaseRecord(
        disk="d", identity="S1", size=1, run="r", folder="", since="", controller="0000:01:00.0", boot="b"
    )
    write_record(desk.lease.state, record)
    (left,) = clean(desk.lease.state, empty.ask, empty.operations, counted=("b", NOW.date()))
    assert left.refusal == "0000:01:00.0 is used by process 1 (qemu)"
    assert lease_records(desk.lease.state) == (record,)


def test_a_disk_taken_between_trials_is_not_written(empty: Bay) -> None:
    desk = Desk(empty)
    with desk.lend([empty.declared]) as (one,):
        one.release()
        empty.bash('mkfs.ext4 -q -F "$DISK"; mkdir "$WORK/at"; mount "$DISK" "$WORK/at"; sync -f "$WORK/at"')
        before = empty.digest()
    try:
        assert "mounted" in desk.said[-1]
        assert empty.digest() == before
        assert not check_disk(empty.ask(), replace(empty.declared, wipe=True)).usable
    finally:
        empty.bash('umount "$WORK/at"')


def test_a_silent_host_does_not_hide_the_first_error(empty: Bay) -> None:
    desk, answers = Desk(empty), [empty.ask, empty.ask]

    def ask() -> Census:
        if not answers:
            raise HarnessBroken("no answer")
        return answers.pop()()

    with (
        pytest.raises(ZeroDivisionError),
        lease_disks([empty.declared], ask, desk.lease, lambda: NOW, desk.said.append),
    ):
        raise ZeroDivisionError
    assert desk.said[-1] == "the disks stay with the run, for `matrix clean`: no answer"
    assert [one.refusal for one in clean(desk.lease.state, empty.ask, empty.operations)] == [""]


BORROWER = """\
import sys
from datetime import UTC, datetime
from pathlib import Path
from matrix_runner.hosts.lease import Lease, lease_disks
from tests.hosts.loops import Bay

disk, other, root = sys.argv[1:]
mine = Bay(disk, other, Path(root, "names"), Path(root, "work"), Path(root, "a"))
lease = Lease("night-1", "study", Path(root, "run"), Path(root, "state"), frozenset({"disk-a"}), operations=mine.operations)
with lease_disks([mine.declared], mine.ask, lease, lambda: datetime.now(UTC), print) as (one,):
    one.release()
    Path(disk).open("r+b").write(b"of fio" * 1000)
    print("lent", flush=True)
    sys.stdin.read()
"""


def test_the_disk_of_a_killed_run_is_recovered(empty: Bay) -> None:
    desk = Desk(empty)
    root = str(empty.work.parent)
    with subprocess.Popen(
        [sys.executable, "-c", BORROWER, empty.disk, empty.other, root],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert "lent\n" in iter(run.stdout.readline, "")
        (left,) = clean(desk.lease.state, empty.ask, empty.operations)
        assert left.refusal == f"it is in use by the run night-1, process {run.pid}"
        run.kill()
    with pytest.raises(DisksRefused) as caught, desk.lend([empty.declared], run="night-2"):
        pass
    assert [one.reason for one in caught.value.refusals] == [Reason.LEFT_OVER]
    assert [one.refusal for one in clean(desk.lease.state, empty.ask, empty.operations)] == [""]
    with desk.lend([empty.declared], run="night-2") as disks:
        assert len(disks) == 1


def test_a_killed_run_goes_on_with_its_own_disks(empty: Bay) -> None:
    desk = Desk(empty)
    with desk.lend([empty.declared]) as (one,):
        label, record = empty.file.read_bytes(), lease_records(desk.lease.state)
    # As a kill leaves it: the label says held, the record is there.
    empty.file.write_bytes(label)
    subprocess.run(["blockdev", "--flushbufs", empty.disk], check=True)
    from matrix_runner.hosts.disk_ledger import write_record

    write_record(desk.lease.state, record[0])
    with pytest.raises(DisksRefused) as caught, desk.lend([empty.declared], run="night-2"):
        pass
    assert [one.reason for one in caught.value.refusals] == [Reason.LEFT_OVER]
    with desk.lend([empty.declared]) as (one,):
        assert one.node.label is not None
        assert one.node.label.state == "held"
