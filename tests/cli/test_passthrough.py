"""What is refused of `--passthrough`, before anything is started or written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from matrix_runner.language.hosts import Needs
from matrix_runner.session.disk_lease import _claims
from matrix_runner.space.declared_files import matched, parse_lab
from tests.support.command import Said
from tests.support.matrices import space

Call = Callable[..., Said]

MATRIX = """\
name: small
disks: {count: 2, size: 64MiB%s}
layouts: {mirror: [md: {level: 1%s}]}
workloads: {work: {rw: randread, bs: 4KiB, runtime: 1s}}
repeat: 1
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MATRIX_STATE", str(tmp_path / "state"))
    return tmp_path


LAB = """\
hosts:
  here:
    disks:
      - {id: wwn-0x5000c500a1, serial: A, size: 64MiB}
      - {id: wwn-0x5000c500b2, serial: B, size: 64MiB}
      - {id: wwn-0x5000c500c3, serial: C, size: 64MiB}
"""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("wwn-0x5000c500a2", "wwn-0x5000c500a2: did you mean wwn-0x5000c500a1"),
        ("wwn-0x5000c500c3", "wwn-0x5000c500c3: did you mean"),
        ("sdb", "sdb: known are wwn-0x5000c500a1, wwn-0x5000c500b2"),
    ],
)
def test_an_unknown_disk_id_suggests_a_known_one(call: Call, here: Path, given: str, told: str) -> None:
    (here / "m.yaml").write_text(MATRIX % ("", ""))
    (here / "hosts.yaml").write_text(LAB)
    said = call("run", "--passthrough", "--destroy", "wwn-0x5000c500a1", "--destroy", given, "m.yaml")
    assert said.status == 2, said.err
    assert "--destroy names a disk that this run does not use; no disk was written" in said.err
    assert told in said.err
    assert "of the host here in hosts.yaml: wwn-0x5000c500a1, wwn-0x5000c500b2" in said.err
    assert not (here / "results").exists()


def test_destroy_is_refused_without_physical_disks(call: Call, here: Path) -> None:
    (here / "m.yaml").write_text(MATRIX % ("", ""))
    said = call("run", "--on", "dry", "--destroy", "wwn-0x5000c500a1", "m.yaml")
    assert said.status == 2
    assert "--destroy wwn-0x5000c500a1: the dry machine creates its disks and uses no physical disk" in said.err
    assert not (here / "results").exists()


@pytest.mark.parametrize(
    ("disks", "md", "words", "why"),
    [
        ("", "", ("--on", "local"), "--passthrough does not work with local"),
        ("", "", ("--on", "dry"), "--passthrough does not work with dry"),
        (", model: nas-7200", "", (), "physical disks have no model"),
        ("", ", sync: assume-clean", (), "the disks of qemu-passthrough may hold data"),
        ("", "", (), "there is no hosts.yaml, so no physical disk may be used"),
    ],
)
def test_a_refusal_creates_no_files(
    call: Call, here: Path, disks: str, md: str, words: tuple[str, ...], why: str
) -> None:
    (here / "m.yaml").write_text(MATRIX % (disks, md))
    said = call("run", "--passthrough", *words, "m.yaml")
    assert said.status == 2, said.err
    assert why in said.err
    assert not (here / "results").exists()


@pytest.mark.parametrize(
    ("place", "bus", "allowed", "whole"),
    [
        ("qemu-passthrough", "nvme", ", vfio: allowed", True),
        ("qemu-passthrough", "nvme", "", False),
        ("qemu-passthrough", "scsi", ", vfio: allowed", False),
        ("vagrant-passthrough", "nvme", ", vfio: allowed", False),
        ("local", "nvme", ", vfio: allowed", False),
    ],
)
def test_a_controller_is_passed_through_only_if_all_agree(place: str, bus: str, allowed: str, whole: bool) -> None:
    """Who owns the disk allows it, the matrix wants the bus, and the machine is one of ours."""
    lab = LAB.replace("size: 64MiB}", f"size: 64MiB{allowed}}}")
    matrix = space(MATRIX % (f", bus: {bus}", "")).matrix
    found = matched(parse_lab("hosts.yaml", lab), Needs.model_validate({"disks": {"count": 2}}), "small")
    assert [claim.whole for claim in _claims(found, matrix, place)] == [whole, whole]
