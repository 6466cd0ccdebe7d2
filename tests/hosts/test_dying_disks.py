"""Disks that die while a run has them, and runs of which nobody knows whether they are over: nothing is real here."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts import exclusive as work
from matrix_runner.hosts import inventory
from matrix_runner.hosts import operations as here
from matrix_runner.hosts.disk_ledger import LeaseRecord, lease_records, read_ledger, write_record
from matrix_runner.hosts.exclusive import DisksRefused
from matrix_runner.hosts.inventory import Census, Node, Signature, StableName
from matrix_runner.hosts.lease import Lease, lease_disks
from matrix_runner.hosts.reasons import Reason
from matrix_runner.hosts.recovery import clean
from matrix_runner.language.hosts import DeclaredDisk
from matrix_runner.records.files import InUse
from matrix_runner.records.run_folder import create, load
from tests.records.past import manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matrix_runner.hosts.operations import LocalOperations

NOW = datetime(2026, 2, 1, 3, tzinfo=UTC)
NODES = tuple(Node(f"sd{letter}", f"8:{at}", 1 << 40, serial=f"S{letter}", filled=0) for at, letter in enumerate("ab"))
CLAIMS = [DeclaredDisk(f"disk-{node.name}", node.size, serial=node.serial, wipe=True) for node in NODES]


@dataclass
class Grip:
    """A lock, or a disk that is open; it does what `fails` says the next times (0: what it should)."""

    node: Node
    fails: list[int] = field(default_factory=list)
    blocks: list[bytes] = field(default_factory=list)

    @property
    def writes(self) -> int:
        return len(self.blocks)

    def close(self) -> None:
        pass

    def identify(self) -> Mapping[str, str]:
        return {"number": self.node.dev, "size": str(self.node.size)}

    def write(self, block: bytes, at: int) -> None:  # noqa: ARG002
        self._failed()
        self.blocks.append(block)

    def reread_partitions(self) -> None:
        self._failed()

    def _failed(self) -> None:
        if self.fails and (number := self.fails.pop(0)):
            raise OSError(number, "as told")


@dataclass
class Pretended:
    """Hands of a host with two disks."""

    nodes: tuple[Node, ...] = NODES
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    grips: dict[str, Grip] = field(default_factory=dict)
    locked_by: str = ""
    blind: str = ""
    dismissed: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)

    def ask(self) -> Census:
        names = tuple(StableName(f"disk-{node.name}", node.dev, node.path) for node in self.nodes)
        return Census(MappingProxyType({node.name: node for node in self.nodes}), self.parts, names=names)

    def lock(self, identity: str, run: str) -> tuple[Grip | None, str]:  # noqa: ARG002
        return (None, self.locked_by) if self.locked_by else (Grip(self.nodes[0]), "")

    def open(self, node: Node) -> Grip:
        return self.grips.setdefault(node.name, Grip(node))

    def find_users(self, dev: str, *, writing: bool = False) -> str:  # noqa: ARG002
        return ""

    def hidden_processes(self) -> str:
        return self.blind

    def run(self, script: str, patience: float) -> str:  # noqa: ARG002
        self.ran.append(script)
        return ""

    def dismiss(self, run: str) -> None:
        self.dismissed.append(run)


def lease(folder: Path, operations: Pretended) -> Lease:
    return Lease(
        "r",
        "m",
        folder,
        folder / "state",
        frozenset(claim.id for claim in CLAIMS),
        operations=cast("LocalOperations", operations),
    )


def test_a_dying_disk_does_not_keep_the_other_disks(tmp_path: Path) -> None:
    operations, said = Pretended(), list[str]()
    with lease_disks(CLAIMS, operations.ask, lease(tmp_path, operations), lambda: NOW, said.append):
        operations.grips["sda"].fails = [errno.EIO]
    assert said[-1].startswith("disk-sda stays with the run, for `matrix clean`: disk-sda (/dev/sda) cannot be written")
    assert [one.disk for one in lease_records(tmp_path / "state")] == ["disk-sda"]
    operations.grips["sda"].fails = [errno.EIO]
    (left,) = clean(tmp_path / "state", operations.ask, cast("LocalOperations", operations))
    assert "as told" in left.refusal
    assert [one.refusal for one in clean(tmp_path / "state", operations.ask, cast("LocalOperations", operations))] == [
        ""
    ]
    assert lease_records(tmp_path / "state") == ()


def test_a_disk_that_goes_while_it_is_looked_at_is_refused_with_what_was_seen(tmp_path: Path) -> None:
    operations = Pretended()

    class Gone(Grip):
        def identify(self) -> Mapping[str, str]:
            raise OSError(errno.ENXIO, "No such device or address")

    operations.grips["sda"] = Gone(NODES[0])
    with (
        pytest.raises(DisksRefused) as caught,
        lease_disks(CLAIMS, operations.ask, lease(tmp_path, operations), lambda: NOW, print),
    ):
        raise AssertionError
    assert [str(one) for one in caught.value.refusals] == [
        "changed: /dev/sda cannot be opened: No such device or address"
    ]


def test_a_disk_that_the_run_did_not_get_as_far_as_is_not_written_on(tmp_path: Path) -> None:
    operations = Pretended()
    operations.open(NODES[0]).fails = [errno.EIO] * 2
    with (
        pytest.raises(HarnessBroken, match="disk-sda"),
        lease_disks(CLAIMS, operations.ask, lease(tmp_path, operations), lambda: NOW, print),
    ):
        raise AssertionError
    assert operations.grips["sdb"].writes == 0
    assert [one.disk for one in lease_records(tmp_path / "state")] == ["disk-sda"]


def test_writes_to_another_disk_of_the_same_number_are_not_counted(tmp_path: Path) -> None:
    operations = Pretended()
    with lease_disks(CLAIMS[:1], operations.ask, lease(tmp_path, operations), lambda: NOW, print):
        operations.nodes = (replace(NODES[1], dev="8:0", written=1 << 30),)  # after a boot, without the other one
    assert read_ledger(tmp_path / "state").nights == ()
    assert [one.disk for one in lease_records(tmp_path / "state")] == ["disk-sda"]


def test_a_table_is_read_again_once_udev_has_let_go_of_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "OPEN_PAUSE", 0)
    full = replace(NODES[0], signatures=(Signature("gpt", "0x200"),))
    operations = Pretended((full,))
    operations.open(full).fails = [0, 0, errno.EBUSY, errno.EBUSY]
    with lease_disks(CLAIMS[:1], operations.ask, lease(tmp_path, operations), lambda: NOW, print):
        assert operations.grips["sda"].writes == 1
    operations.grips["sda"].fails = [0, 0, *[errno.EBUSY] * here.OPEN_TRIES]
    with (
        pytest.raises(HarnessBroken),
        lease_disks(CLAIMS[:1], operations.ask, lease(tmp_path, operations), lambda: NOW, print),
    ):
        raise AssertionError


def test_an_open_partition_prevents_all_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "OPEN_PAUSE", 0)
    full = replace(NODES[1], signatures=(Signature("gpt", "0x200"),))
    operations = Pretended((NODES[0], full))
    operations.open(full).fails = [errno.EBUSY] * here.OPEN_TRIES
    with (
        pytest.raises(DisksRefused, match="1 of 2 disks cannot be used; nothing was written") as caught,
        lease_disks(CLAIMS, operations.ask, lease(tmp_path, operations), lambda: NOW, print),
    ):
        raise AssertionError
    assert [str(one) for one in caught.value.refusals] == [
        "busy: a partition of /dev/sdb is open by a process that is not visible"
    ]
    assert operations.grips["sda"].writes == 0
    assert lease_records(tmp_path / "state") == ()


def odd(serial: str) -> tuple[Pretended, list[DeclaredDisk]]:
    """Two disks that may be wiped, of which the first has such a serial number."""
    one = replace(NODES[0], serial=serial, signatures=(Signature("ext4", "0x438"),))
    return Pretended((one, NODES[1])), [replace(CLAIMS[0], serial=serial), CLAIMS[1]]


@pytest.mark.parametrize("serial", ["Größe 5", 'a\x7fb\u2028c\N{REPLACEMENT CHARACTER}\\"'])
def test_a_label_is_printable_for_any_serial_number(tmp_path: Path, serial: str) -> None:
    operations, claims = odd(serial)
    with lease_disks(claims, operations.ask, lease(tmp_path, operations), lambda: NOW, print):
        written = operations.grips["sda"].blocks[-1].rstrip(b"\0")
    assert re.fullmatch(rb"[ -~]+", written)
    assert inventory.decode_label(written.decode()) == inventory.Label("r", "disk-sda", serial, "held")


def test_a_disk_without_room_for_a_label_is_not_wiped(tmp_path: Path) -> None:
    operations, claims = odd("ö" * 1000)
    with (
        pytest.raises(HarnessBroken, match=r"disk-sda \(/dev/sda\) cannot be labelled"),
        lease_disks(claims, operations.ask, lease(tmp_path, operations), lambda: NOW, print),
    ):
        raise AssertionError
    assert (operations.ran, operations.grips["sda"].blocks) == ([], [])
    write_record(tmp_path / "state", record(tmp_path).model_copy(update={"disk": "disk-sdb", "identity": "Sb"}))
    operations.nodes = (replace(operations.nodes[0], signatures=()), NODES[1])
    (first, second) = sorted(
        (one.disk, one.refusal)
        for one in clean(tmp_path / "state", operations.ask, cast("LocalOperations", operations))
    )
    assert first == ("disk-sda", "disk-sda (/dev/sda) cannot be labelled")
    assert second == ("disk-sdb", "")


def test_a_user_who_may_not_have_a_table_read_anew_may_wipe_a_disk_without_parts(tmp_path: Path) -> None:
    full = replace(NODES[0], signatures=(Signature("ext4", "0x438"),))
    operations = Pretended((full,))
    operations.open(full).fails = [errno.EACCES] * 3
    with lease_disks(CLAIMS[:1], operations.ask, lease(tmp_path, operations), lambda: NOW, print):
        assert operations.grips["sda"].writes == 1
    part = Node("sda1", "8:9", 1 << 30, partition=True)
    operations = Pretended((full, part), parts={"sda": ("sda1",)})
    operations.open(full).fails = [errno.EACCES]
    with (
        pytest.raises(DisksRefused) as caught,
        lease_disks(CLAIMS[:1], operations.ask, lease(tmp_path, operations), lambda: NOW, print),
    ):
        raise AssertionError
    assert [one.reason for one in caught.value.refusals] == [Reason.UNREADABLE]


def test_hidden_processes_are_reported(tmp_path: Path) -> None:
    operations, said = Pretended(blind="processes of other users"), list[str]()
    with lease_disks(CLAIMS, operations.ask, lease(tmp_path, operations), lambda: NOW, said.append):
        assert said[1:] == [
            "not root: cannot see whether processes of other users write to these disks without an exclusive open"
        ]


def record(folder: Path) -> LeaseRecord:
    return LeaseRecord(disk="disk-sda", identity="Sa", size=1 << 40, run="r", folder=str(folder), since="")


@pytest.mark.parametrize("what", ["gone", "at it"])
def test_processes_of_a_run_end_only_if_it_is_over(tmp_path: Path, what: str) -> None:
    run = create(tmp_path / "results", manifest())
    write_record(tmp_path / "state", record(tmp_path / "elsewhere" if what == "gone" else run.path))
    operations = Pretended(locked_by="the run r")
    with run.locked():
        (left,) = clean(tmp_path / "state", operations.ask, cast("LocalOperations", operations))
    assert left.refusal == "it is in use by the run r"
    assert operations.dismissed == []


def test_a_run_is_locked_while_its_processes_are_ended(tmp_path: Path) -> None:
    run = create(tmp_path / "results", manifest())
    write_record(tmp_path / "state", record(run.path))

    class Watched(Pretended):
        def dismiss(self, run: str) -> None:
            with pytest.raises(InUse), load(tmp_path / "results" / path.name).locked():
                pass
            super().dismiss(run)
            self.locked_by = ""

    path, operations = run.path, Watched(locked_by="the run r")
    (left,) = clean(tmp_path / "state", operations.ask, cast("LocalOperations", operations))
    assert (left.refusal, operations.dismissed) == ("", ["r"])
