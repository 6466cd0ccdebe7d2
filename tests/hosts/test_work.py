"""A disk in the hands of a run: handed out, labelled, worn, given back; and what clean makes of one that was killed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts import inventory
from matrix_runner.hosts.checks import check_disk, check_disks, take_census
from matrix_runner.hosts.disk_ledger import (
    LeaseRecord,
    Ledger,
    add_written,
    counter_increase,
    delete_record,
    lease_records,
    night_of,
    own_marks,
    read_ledger,
    remaining_bytes,
    wear_refusal,
    write_record,
)
from matrix_runner.hosts.exclusive import DisksRefused, acquire_disks, give_back, prepare_disk, report_active_run
from matrix_runner.hosts.inventory import Signature
from matrix_runner.hosts.lease import NotConfirmed, confirm_losses, describe_losses
from matrix_runner.hosts.reasons import OwnMarks, Reason
from matrix_runner.hosts.recovery import clean, unreturned_disks
from matrix_runner.language.hosts import DeclaredDisk
from matrix_runner.records.environment import Smart, parse
from matrix_runner.scripts.jinja import census_script
from tests.hosts.loops import Bay, attach, bay, detach, why_not
from tests.hosts.traps import at

if TYPE_CHECKING:
    from collections.abc import Iterator

REASON = why_not()
on_loops = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


def record(empty: Bay, folder: Path | str = "") -> LeaseRecord:
    return LeaseRecord(
        disk="disk-a",
        identity=str(empty.file),
        size=empty.declared.size,
        run="night-1",
        folder=str(folder),
        since="2026-01-01",
    )


@on_loops
def test_a_disk_goes_from_run_to_run_without_being_declared_as_one_to_wipe(empty: Bay) -> None:
    with acquire_disks([empty.declared], empty.ask, ours=OwnMarks(run="night-1"), operations=empty.operations) as (
        have,
    ):
        prepare_disk(have, "night-1")
    assert [one.reason for one in check_disk(empty.ask(), empty.declared).refusals] == [Reason.LEFT_OVER]
    assert check_disk(empty.ask(), empty.declared, OwnMarks(run="night-1")).usable
    with acquire_disks([empty.declared], empty.ask, ours=OwnMarks(run="night-1"), operations=empty.operations) as (
        have,
    ):
        subprocess.run(["dd", "if=/dev/urandom", f"of={empty.disk}", "bs=1M", "count=8", "status=none"], check=True)
        give_back(have, "night-1")
    again = check_disk(empty.ask(), empty.declared)
    assert again.usable
    assert again.node is not None
    assert again.node.label == inventory.Label("night-1", "disk-a", str(empty.file), "free")


@on_loops
def test_only_what_may_be_wiped_is_wiped_and_then_it_is_labelled(empty: Bay) -> None:
    empty.bash('mkfs.ext4 -q -F "$DISK"')
    beside = empty.file.with_name("b").read_bytes()
    with acquire_disks([replace(empty.declared, wipe=True)], empty.ask, operations=empty.operations) as (have,):
        assert [one.type for one in have.node.signatures] == ["ext4"]
        prepare_disk(have, "night-1")
    found = empty.ask().by_number(have.node.dev)
    assert found is not None
    assert found.signatures == ()
    assert found.label is not None
    assert empty.file.with_name("b").read_bytes() == beside


@on_loops
def test_partitions_are_wiped_with_their_table_and_the_kernel_forgets_them(empty: Bay) -> None:
    mark = at(510, "\\x55\\xaa")
    entry = at(446, "\\x80\\x00\\x01\\x00\\x83\\x00\\x01\\x00\\x00\\x08\\x00\\x00\\x00\\x00\\x01\\x00")
    # Told to the kernel, as not every kernel reads every kind of table.
    empty.bash(f'{mark}; {entry}; addpart "$DISK" 1 2048 65536; mkfs.ext4 -q -F "$DISK"p1')
    part = Path(f"{empty.disk}p1")
    assert part.is_block_device()
    with acquire_disks([replace(empty.declared, wipe=True)], empty.ask, operations=empty.operations) as (have,):
        prepare_disk(have, "night-1")
        assert not part.exists()
    found = empty.ask().by_number(have.node.dev)
    assert found is not None
    assert found.signatures == ()
    # Whoever makes the same partition again does not find the old file system in it.
    assert not any(empty.file.read_bytes()[(1 << 20) + 1024 + 56 :][:2])


@on_loops
def test_a_disk_that_was_let_go_is_not_written_any_more(empty: Bay) -> None:
    with acquire_disks([empty.declared], empty.ask, operations=empty.operations) as (have,):
        have.release()
        with pytest.raises(ValueError, match="is released"):
            prepare_disk(have, "night-1")


#: As a run leaves it: what carries its mark goes, by a script that looks for that mark alone.
TEAR_DOWN = (
    "if [[ $(blkid -p -s UUID -o value DISK) == 11111111-1111-1111-1111-111111111111 ]]; then wipefs -qa DISK; fi\n"
)


def killed(empty: Bay, uuid: str, tmp_path: Path) -> Path:
    """A run that was killed with a file system on the disk, whose signature overwrote nothing but its own place."""
    folder = tmp_path / "run"
    (folder / "standing").mkdir(parents=True)
    (folder / "standing/one.sh").write_text(f"# disk-a\n{TEAR_DOWN.replace('DISK', empty.disk)}")
    with acquire_disks([empty.declared], empty.ask, ours=OwnMarks(run="night-1"), operations=empty.operations) as (
        have,
    ):
        write_record(tmp_path / "state", record(empty, folder))
        prepare_disk(have, "night-1")
    empty.bash(f'mkfs.ext4 -q -F -U {uuid} "$DISK"')
    return tmp_path / "state"


@on_loops
def test_clean_uses_the_scripts_of_the_run(empty: Bay, tmp_path: Path) -> None:
    state = killed(empty, "11111111-1111-1111-1111-111111111111", tmp_path)
    assert not check_disk(empty.ask(), empty.declared).usable
    (found,) = clean(state, empty.ask, empty.operations)
    assert (found.refusal, found.scripts, found.run) == ("", 1, "night-1")
    assert check_disk(empty.ask(), empty.declared).usable
    assert lease_records(state) == ()
    assert list(clean(state, empty.ask, empty.operations)) == []


@on_loops
def test_clean_leaves_foreign_content(empty: Bay, tmp_path: Path) -> None:
    state = killed(empty, "22222222-2222-2222-2222-222222222222", tmp_path)
    before = empty.digest()
    (found,) = clean(state, empty.ask, empty.operations)
    assert "file system: " in found.refusal
    assert "22222222-" in found.refusal
    assert empty.digest() == before
    assert len(lease_records(state)) == 1


@on_loops
def test_clean_knows_a_disk_by_its_label_where_the_record_is_gone(empty: Bay, tmp_path: Path) -> None:
    with acquire_disks([empty.declared], empty.ask, operations=empty.operations) as (have,):
        prepare_disk(have, "night-1")
        (found,) = clean(tmp_path / "state", empty.ask, empty.operations, labelled={"disk-a"})
        assert found.refusal.startswith("it is in use by")
    assert [one.run for one in unreturned_disks(empty.ask(), ())] == ["night-1"]
    before = empty.digest()
    (found,) = clean(tmp_path / "state", empty.ask, empty.operations)
    assert found.refusal.startswith("only its label names the run")
    assert empty.digest() == before
    (found,) = clean(tmp_path / "state", empty.ask, empty.operations, labelled={"disk-a"})
    assert found.refusal == ""
    assert check_disk(empty.ask(), empty.declared).usable


@on_loops
def test_clean_runs_no_script_that_others_can_write(empty: Bay, tmp_path: Path) -> None:
    state = killed(empty, "11111111-1111-1111-1111-111111111111", tmp_path)
    (tmp_path / "run/standing/one.sh").chmod(0o666)
    before = empty.digest()
    (found,) = clean(state, empty.ask, empty.operations)
    assert "can be written by others" in found.refusal
    assert empty.digest() == before


@on_loops
def test_disks_of_an_active_run_are_not_left_over(empty: Bay) -> None:
    with acquire_disks([empty.declared], empty.ask, ours=OwnMarks(run="night-1"), operations=empty.operations) as (
        have,
    ):
        prepare_disk(have, "night-1")
        (told,) = report_active_run(check_disk(empty.ask(), empty.declared), empty.operations).refusals
        assert told.reason is Reason.LOCKED
        assert "is used by the run night-1" in told.evidence
    (told,) = report_active_run(check_disk(empty.ask(), empty.declared), empty.operations).refusals
    assert told.reason is Reason.LEFT_OVER


@on_loops
def test_a_disk_overwritten_from_end_to_end_is_known_by_its_record(empty: Bay, tmp_path: Path) -> None:
    state = tmp_path / "state"
    write_record(state, record(empty))
    empty.bash('dd if=/dev/urandom of="$DISK" bs=1M count=64 status=none')
    assert [one.reason for one in check_disk(empty.ask(), empty.declared).refusals] == [Reason.UNKNOWN_DATA]
    assert check_disk(empty.ask(), empty.declared, own_marks(state, "night-1")).usable
    another = check_disk(empty.ask(), replace(empty.declared, wipe=True), own_marks(state, "night-2"))
    assert [str(one) for one in another.refusals] == [
        f"left over: {empty.disk} is leased to the run night-1, which did not release it"
    ]
    assert [one.refusal for one in clean(state, empty.ask, empty.operations)] == [""]
    assert check_disk(empty.ask(), empty.declared).usable


@on_loops
def test_unconfirmed_content_is_not_destroyed(empty: Bay) -> None:
    empty.bash('mkfs.ext4 -q -F -L backup "$DISK"')
    both = check_disks(empty.ask(), (replace(empty.declared, wipe=True), empty.beside))
    with pytest.raises(NotConfirmed) as caught:
        confirm_losses(both, ["disk-b"], [])
    assert "ext4 'backup' at 0x438" in caught.value.details
    assert "zeros in the eight places that were read" in caught.value.details
    assert "--destroy disk-a  or" in caught.value.resolution
    assert confirm_losses(both, ["disk-b"], ["disk-a"]) == describe_losses(both)


#: Each of them stands for a program that reads, on a disk that cannot be read as a whole.
FAILS = {
    "dd": "exit 1",
    "tail": "exit 1",
    "dd, of less than it was to read": 'exec head -c 512 "$(sed "s/if=//" <<<"$1")"',
}


@on_loops
@pytest.mark.parametrize("program", FAILS)
def test_a_disk_that_cannot_be_read_is_refused(
    empty: Bay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    assert check_disk(empty.ask(), empty.declared).usable
    stand_in = tmp_path / "bin" / program.partition(",")[0]
    stand_in.parent.mkdir()
    stand_in.write_text(f"#!/bin/bash\n{FAILS[program]}\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    for claim in (empty.declared, replace(empty.declared, wipe=True)):
        found = check_disk(empty.ask(), claim)
        assert [one.reason for one in found.refusals] == [Reason.UNREADABLE]
        assert "its content could not be read" in describe_losses([found])


@on_loops
def test_a_disk_smaller_than_what_is_looked_at_is_looked_at_as_a_whole(tmp_path: Path) -> None:
    for size in (512, 65536 + 512, (1 << 20) - 512):
        (tmp_path / "small").write_bytes(bytes(size - 1) + b"x")
        loop = attach(tmp_path / "small")
        try:
            (node,) = (node for node in take_census(None, census_script()).disks if node.path == loop)
        finally:
            detach(loop)
        assert node.unreadable == ""
        assert node.filled


def test_an_unreadable_lease_record_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "disks").mkdir()
    (tmp_path / "disks/x.json").write_text("{}")
    with pytest.raises(HarnessBroken, match="is a record that `matrix` cannot read"):
        lease_records(tmp_path)


def test_marks_are_those_of_the_run_that_asks(tmp_path: Path) -> None:
    base = LeaseRecord(disk="a", identity="S1", size=1, run="one", folder="", since="", marks=("u-1",))
    write_record(tmp_path, base)
    write_record(tmp_path, base.model_copy(update={"identity": "S/2", "run": "two", "marks": ("u-2",)}))
    assert own_marks(tmp_path, "two") == OwnMarks(
        "two", frozenset({"u-2"}), frozenset({"S/2"}), frozenset({("S1", "one")})
    )


def test_a_record_deleted_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in "123":
        write_record(tmp_path, LeaseRecord(disk=number, identity=f"S{number}", size=1, run="one", folder="", since=""))
    read = Path.read_bytes

    def struck_out(path: Path) -> bytes:
        delete_record(tmp_path, "S2")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", struck_out)
    assert [one.disk for one in lease_records(tmp_path)] == ["1", "3"]


NIGHT = date(2026, 1, 31)


def test_nights_go_from_noon_to_noon() -> None:
    assert night_of(datetime(2026, 2, 1, 11, 59, tzinfo=UTC)) == NIGHT
    assert night_of(datetime(2026, 2, 1, 12, 0, tzinfo=UTC)) == date(2026, 2, 1)


def test_a_budget_stops_before_it_is_exceeded() -> None:
    claim = DeclaredDisk("disk-a", 10**12, serial="S1", wear=1000)
    worn = Ledger().with_written("S1", NIGHT, 600).with_written("S1", NIGHT, 100).with_written("S2", NIGHT, 5000)
    assert remaining_bytes(worn, claim, "S1", NIGHT) == 300
    assert wear_refusal(worn, claim, "S1", NIGHT) == ""
    used_up = worn.with_written("S1", NIGHT, 300)
    assert wear_refusal(used_up, claim, "S1", NIGHT).endswith(
        "1000 of 1000 bytes were written in the night of 2026-01-31"
    )
    assert wear_refusal(used_up, claim, "S1", date(2026, 2, 1)) == ""
    assert remaining_bytes(worn, replace(claim, wear=None), "S1", NIGHT) is None
    assert worn.with_written("S1", date(2028, 1, 1), 1).written_in("S1", NIGHT) == 0


def test_the_ledger_is_kept_and_counted_on(tmp_path: Path) -> None:
    add_written(tmp_path, [("S1", 5), ("S2", 7)], NIGHT)
    assert add_written(tmp_path, [("S1", 5)], NIGHT) == read_ledger(tmp_path)
    assert (read_ledger(tmp_path).written_in("S1", NIGHT), read_ledger(tmp_path).written_in("S2", NIGHT)) == (10, 7)


def test_restarted_counters_are_counted_from_zero() -> None:
    assert (counter_increase(100, 150), counter_increase(100, 30)) == (50, 30)


ATA = """{"smart_status": {"passed": true}, "temperature": {"current": 31}, "power_on_time": {"hours": 5},
 "logical_block_size": 512, "ata_smart_attributes": {"table": [{"id": 5, "raw": {"value": 0}},
 {"id": 197, "raw": {"value": 1}}, {"id": 241, "raw": {"value": 2000}}]}}"""
NVME = """{"smart_status": {"passed": true}, "nvme_smart_health_information_log":
 {"data_units_written": 3, "percentage_used": 7, "media_errors": 0}}"""


def test_the_health_of_a_disk_is_compared() -> None:
    before = parse(ATA)
    assert before == Smart(True, 31, 5, 0, 1, 1_024_000)
    after = parse(ATA.replace("true", "false").replace('"id": 5, "raw": {"value": 0}', '"id": 5, "raw": {"value": 8}'))
    assert after.worse_than(before) == ("it reports that it is failing", "reallocated sectors: 0 before, 8 after")
    assert before.worse_than(before) == ()
    assert parse(NVME) == Smart(passed=True, pending=0, written=1_536_000, used=7)


def test_unknown_health_is_reported() -> None:
    assert parse("smartctl is not installed").absent == "smartctl is not installed"
    assert parse("{}").absent == "the disk reports no health"


def test_only_the_mark_of_a_run_excuses_a_signature() -> None:
    from matrix_runner.hosts.inventory import Node
    from matrix_runner.hosts.reasons import foreign_content

    node = Node("sda", "8:0", 1 << 30, serial="S1", signatures=(Signature("ext4", uuid="u-1"),), filled=5)
    claim = DeclaredDisk("a", 1 << 30, serial="S1")
    assert list(foreign_content(node, claim, OwnMarks(marks=frozenset({"u-1"})))) == []
    assert [one.reason for one in foreign_content(node, claim, OwnMarks(recorded=frozenset({"S1"})))] == [
        Reason.FILE_SYSTEM
    ]
    assert [
        one.reason
        for one in foreign_content(
            replace(node, signatures=(Signature("ext4"),)), claim, OwnMarks(marks=frozenset({""}))
        )
    ] == [Reason.FILE_SYSTEM]


def test_a_label_that_a_mirror_of_the_run_copied_is_its_own() -> None:
    from matrix_runner.hosts.inventory import Label, Node
    from matrix_runner.hosts.reasons import foreign_content

    node = Node("sda", "8:0", 1 << 30, serial="S1", label=Label("r", "b", "S2", "held"), filled=5)
    claim = DeclaredDisk("a", 1 << 30, serial="S1")
    assert [one.reason for one in foreign_content(node, claim, OwnMarks(run="r"))] == [Reason.FOREIGN_LABEL]
    assert list(foreign_content(node, claim, OwnMarks(run="r", recorded=frozenset({"S1"})))) == []
    another = OwnMarks(run="another", recorded=frozenset({"S1"}))
    assert [one.reason for one in foreign_content(node, claim, another)] == [Reason.FOREIGN_LABEL]


def test_the_error_lists_each_disk_each_reason_and_what_to_do() -> None:
    from matrix_runner.hosts.inventory import Census

    error = DisksRefused(check_disks(Census(), (DeclaredDisk("a", 1, serial="S"), DeclaredDisk("b", 2, serial="T"))))
    assert error.brief == "2 of 2 disks cannot be used; nothing was written"
    assert error.details.splitlines() == [
        "  a: not there: no device is called a",
        "  b: not there: no device is called b",
    ]
    assert error.resolution == "compare hosts.yaml with the output of `matrix disks`"


def test_disks_of_two_hosts_are_not_mixed_up(tmp_path: Path) -> None:
    here = LeaseRecord(disk="a", identity="S1", size=1, run="r1", folder="", since="")
    there = here.model_copy(update={"reach": "ssh:shelf", "run": "r2"})
    for one in (here, there):
        write_record(tmp_path, one)
    assert lease_records(tmp_path, "ssh:shelf") == (there,)
    assert own_marks(tmp_path, "r1").others == frozenset()
    assert own_marks(tmp_path, "r1", "ssh:shelf").others == {("S1", "r2")}
    delete_record(tmp_path, "S1", "ssh:shelf")
    assert lease_records(tmp_path) == (here,)
