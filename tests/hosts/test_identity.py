"""A disk that was let go and is worked on: that it is still the one that was judged, whatever has its name now."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.hosts.inventory import DiskSwapped, Node, identity_check, parse_report, require_lasting_identity
from matrix_runner.machines.base import RigLost, Step
from matrix_runner.machines.shell import ShellRig
from tests.hosts.loops import Bay, bay, exchange, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARK = "unguessable"
needs_loops = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


def node_of(disks: Bay, disk: str) -> Node:
    found = next(one for one in disks.ask().nodes.values() if one.path == disk)
    assert found.sequence
    return found


def said(path: str, node: Node) -> tuple[str, str]:
    script = f"matrix_mark={MARK}\n{identity_check([(path, node)])}echo on"
    done = subprocess.run(["bash", "-c", script], capture_output=True)
    assert done.stderr == b""
    assert (done.stdout == b"on\n") is (done.returncode == 0)
    return parse_report(done.stdout, MARK)


def test_without_disks_there_is_no_identity_check() -> None:
    assert identity_check([]) == ""


def test_output_of_steps_is_no_identity_report() -> None:
    assert parse_report(b"gone /dev/sda\n", MARK) == ("", "")
    assert parse_report(f"{MARK} begin 0\n{MARK} other x\n".encode(), MARK) == ("", "")
    assert parse_report(b"", MARK) == ("", "")
    assert parse_report(f"{MARK} gone /dev/sda\n".encode(), MARK) == ("gone", "/dev/sda")


@needs_loops
@pytest.mark.parametrize(("key", "wrong"), [("dev", "8:16"), ("size", "2048"), ("diskseq", "7"), ("diskseq", "")])
def test_everything_that_is_known_is_compared(disks: Bay, tmp_path: Path, key: str, wrong: str) -> None:
    """Against a sysfs of our own."""
    node = Node(disks.disk.removeprefix("/dev/"), "8:0", 1024 * 512, sequence="6")
    folder = tmp_path / node.name
    folder.mkdir()
    right = {"dev": "8:0", "size": "1024", "diskseq": "6"}
    for name, text in (right | {key: wrong}).items():
        (folder / name).write_text(f"{text}\n")
    script = f"matrix_mark={MARK}\n{identity_check([(node.path, node)], str(tmp_path))}"
    done = subprocess.run(["bash", "-c", script], capture_output=True)
    now = wrong or "not told"
    assert parse_report(done.stdout, MARK) == ("other", f"{node.path}: its {key} was {right[key]}, and is {now}")


@needs_loops
def test_the_checked_disk_passes_under_each_name(disks: Bay) -> None:
    node = node_of(disks, disks.disk)
    assert said(disks.disk, node) == ("", "")
    assert said(str(disks.names / "disk-a"), node) == ("", "")


@needs_loops
def test_another_behind_the_same_name_is_found_out(disks: Bay) -> None:
    node, name = node_of(disks, disks.disk), disks.names / "disk-a"
    name.unlink()
    name.symlink_to(disks.other)
    found, words = said(str(name), node)
    assert (found, words) == ("other", f"{name} leads to another device than {disks.disk}")


@needs_loops
def test_another_of_the_same_size_in_the_same_place_is_found_out(disks: Bay) -> None:
    """As a disk that is pulled out leaves its name and its numbers to the next."""
    node = node_of(disks, disks.disk)
    exchange(disks.disk, disks.file.with_name("b"))
    found, words = said(disks.disk, node)
    assert found == "other"
    assert words.startswith(f"{disks.disk}: its diskseq was {node.sequence}, and is ")


@needs_loops
def test_one_that_is_gone_is_gone(disks: Bay, tmp_path: Path) -> None:
    node = node_of(disks, disks.disk)
    assert said(str(tmp_path / "nothing"), node) == ("gone", str(tmp_path / "nothing"))
    assert said(disks.disk, replace(node, name="sdnone")) == ("gone", disks.disk)


@needs_loops
def test_no_step_is_taken_on_another_disk(disks: Bay, tmp_path: Path) -> None:
    node, trace = node_of(disks, disks.disk), tmp_path / "trace"
    before = identity_check([(disks.disk, node)])
    rig = ShellRig((), str(tmp_path / "rig"), (disks.disk,), {}, "this host", before=before)
    steps = [Step("a", f"echo done; touch {trace}")]

    def run() -> list[str]:
        return [one.output for one in asyncio.run(rig.run(steps, expected=0, deadline=60))]

    assert run() == ["done\n"]
    trace.unlink()
    exchange(disks.disk, disks.file.with_name("b"))
    with pytest.raises(DiskSwapped, match="a disk of this host was replaced by another disk") as caught:
        run()
    assert "diskseq" in caught.value.details
    gone = ShellRig(
        (), str(tmp_path / "rig"), ("/dev/nothing",), {}, "x", before=identity_check([("/dev/nothing", node)])
    )
    with pytest.raises(RigLost, match="/dev/nothing is gone"):
        asyncio.run(gone.run(steps, expected=0, deadline=60))
    assert not trace.exists()


def test_a_disk_without_a_lasting_identity_is_refused() -> None:
    known, unknown = Node("sda", "8:0", 1, sequence="3"), Node("sda", "8:0", 1)
    require_lasting_identity("wwn-1", "/dev/sda", known)
    require_lasting_identity("wwn-1", "/dev/disk/by-id/wwn-1", unknown)
    with pytest.raises(BadInput, match="wwn-1 is only known as /dev/sda"):
        require_lasting_identity("wwn-1", "/dev/sda", unknown)
