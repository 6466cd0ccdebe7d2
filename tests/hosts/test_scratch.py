"""Practice disks: attached once, again after a detach, and never another file's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.disks import command
from matrix_runner.hosts import scratch
from matrix_runner.space.declared_files import load_lab
from tests.hosts.loops import why_not

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.command import Call

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())
SIZE = 1 << 20


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(scratch, "NAMES", tmp_path / "by-id")
    monkeypatch.setenv("MATRIX_STATE", str(tmp_path / "state"))
    (mine := tmp_path / "it's mine").mkdir()
    monkeypatch.chdir(mine)
    yield mine
    for place in (mine, tmp_path / "other"):
        for disk in scratch.practice_disks(place):
            disk.remove()


def test_the_printed_file_names_the_disks(call: Call, folder: Path) -> None:
    made = call("disks", "scratch", "--size", "1MiB", "--count", "2")
    assert made.status == 0, made.err
    (folder / "hosts.yaml").write_text(made.out)
    lab = load_lab(folder / "hosts.yaml")
    assert [(one.id, one.serial, one.size) for one in lab.hosts["here"].disks] == [
        (f"matrix-scratch-{number}", f"{folder}/scratch-{number}.img", SIZE) for number in (1, 2)
    ]
    assert scratch.practice_disk(folder, 2).link.resolve().is_block_device()
    assert call("disks", "scratch", "--size", "1MiB", "--count", "2").out == made.out


def test_a_file_is_written_if_all_went_well_and_never_over_another(call: Call, folder: Path) -> None:
    options = ("disks", "scratch", "--size", "1MiB", "--to", "hosts.yaml")
    for _ in range(2):
        assert call(*options).status == 0
        assert (folder / "hosts.yaml").read_text() == call(*options[:-2]).out
    assert call("disks", "scratch", "--size", "2MiB", "--to", "new.yaml").status == 2
    assert not (folder / "new.yaml").exists()
    for other in (b"hosts: {}\n", b"\xff"):
        (folder / "hosts.yaml").write_bytes(other)
        refused = call("disks", "scratch", "--size", "1MiB", "--count", "2", "--to", "hosts.yaml")
        assert (refused.status, (folder / "hosts.yaml").read_bytes()) == (2, other)
        assert "hosts.yaml has other content" in refused.err
    assert not (folder / "scratch-2.img").exists()


def test_a_detached_disk_keeps_its_content(folder: Path) -> None:
    disk = scratch.practice_disk(folder, 1)
    disk.attach(SIZE)
    scratch._losetup("--detach", disk.device())
    disk.file.write_bytes(b"mine" + bytes(SIZE - 4))
    disk.attach(SIZE)
    assert disk.link.read_bytes()[:4] == b"mine"
    with pytest.raises(BadInput, match="has 1MiB"):
        disk.attach(2 * SIZE)


def test_a_disk_of_another_folder_is_refused_and_stays(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    theirs, mine = scratch.practice_disk(tmp_path / "other", 1), scratch.practice_disk(folder, 1)
    theirs.attach(SIZE)
    with pytest.raises(BadInput, match=f"matrix-scratch-1 is {theirs.file}"):
        mine.attach(SIZE)
    assert not mine.file.exists()
    assert theirs.link.resolve().is_block_device()


def test_remove_deletes_none_if_one_is_in_use(call: Call, folder: Path) -> None:
    assert call("disks", "scratch", "--size", "1MiB", "--count", "2").status == 0
    held = os.open(scratch.practice_disk(folder, 2).device(), os.O_RDONLY | os.O_EXCL)
    try:
        refused = call("disks", "scratch", "--remove")
    finally:
        os.close(held)
    assert (refused.status, "matrix-scratch-2" in refused.err) == (2, True)
    assert len(scratch.practice_disks(folder)) == 2
    assert call("disks", "scratch", "--remove").status == 0
    assert [*folder.iterdir(), *scratch.NAMES.iterdir()] == []


def test_a_full_file_system_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(BadInput, match="No space left on device"):
        scratch.practice_disk(folder, 1).attach(SIZE)
    assert list(folder.iterdir()) == []


def test_the_command_belongs_to_disks() -> None:
    assert "scratch" in command.commands
