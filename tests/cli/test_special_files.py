"""Pipes, devices and folders in place of files: a refusal at once, and no traceback."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.command import Call

pytestmark = pytest.mark.timeout(60)
COMMANDS = [
    ("validate", "{}"),
    ("plan", "{}"),
    ("render", "{}"),
    ("run", "--on", "dry", "{}"),
    ("import", "{}"),
    ("disks", "--hosts", "{}"),
    ("guidelines", "list", "{}"),
    ("study", "{}"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_pipe_or_a_device_is_refused(matrix: object, call: Call, tmp_path: Path, words: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    for name, kind in (("pipe.yaml", "a pipe"), ("/dev/zero", "a device")):
        said = call(*(word.format(name) for word in words))
        assert said.status == 2
        assert f"it is {kind}; a regular file is needed" in said.err


def test_templates_are_regular_files(matrix: object, call: Call, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    os.mkfifo(tmp_path / "own" / "job.fio")
    said = call("validate", "--templates", "own", "small.yaml")
    assert said.status == 2
    assert "template own/job.fio: cannot be read\nit is a pipe" in said.err


def test_a_file_that_a_matrix_uses_is_a_regular_file(matrix: object, call: Call, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    text = (tmp_path / "small.yaml").read_text() + "guidelines: [pipe, /dev/zero]\n"
    (tmp_path / "small.yaml").write_text(text)
    said = call("validate", "small.yaml")
    assert said.status == 2
    assert "pipe cannot be read: it is a pipe" in said.err
    assert "/dev/zero cannot be read: a matrix reads only files below its folder" in said.err


@pytest.mark.parametrize(("files", "size"), [(1001, 1), (17, 1 << 20)])
def test_a_large_folder_is_no_folder_of_templates(
    matrix: object, call: Call, tmp_path: Path, files: int, size: int
) -> None:
    folder = tmp_path / "own/below"
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"{number}.txt").write_text("x" * size)
    said = call("validate", "--templates", "own", "small.yaml")
    assert said.status == 2
    assert "own is too large for a folder of templates" in said.err
    (folder / "0.txt").unlink()
    assert "is too large" not in call("validate", "--templates", "own", "small.yaml").err


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("disks --hosts none.yaml", "`matrix help physical-disks` has an example"),
        ("guidelines check latest --guidelines none.yaml", "name a file with a list of guidelines"),
    ],
)
def test_a_missing_file_that_is_no_matrix_is_not_written_by_init(
    matrix: object, call: Call, words: str, remedy: str
) -> None:
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 0
    said = call(*words.split())
    assert said.status == 2
    assert "none.yaml: this file does not exist" in said.err
    assert remedy in said.err
    assert "matrix init" not in said.err


@pytest.mark.parametrize("name", ["journal.sqlite", "journal.sqlite-wal", "store.db"])
def test_a_pipe_in_place_of_a_database_is_no_wait(matrix: object, call: Call, tmp_path: Path, name: str) -> None:
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 0
    (run,) = (path for path in (tmp_path / "results").iterdir() if path.is_dir())
    file = (tmp_path / "results" if name == "store.db" else run) / name
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    for words in (("report", str(run)), ("runs",), ("status", str(run)), ("results", "latest"), ("salvage", str(run))):
        said = call(*words)
        assert "a mistake in matrix itself" not in said.err
    shown = call("results", "latest").err + call("report", str(run)).err
    assert "it is a pipe" in shown
    assert "delete" not in shown
    assert "salvage" not in shown


@pytest.mark.parametrize("command", ["runs", "site", "summary latest", "status"])
def test_a_pipe_in_place_of_verdicts_is_no_wait(matrix: object, call: Call, tmp_path: Path, command: str) -> None:
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 0
    (run,) = (path for path in (tmp_path / "results").iterdir() if path.is_dir())
    (run / "verdicts.csv").unlink(missing_ok=True)
    os.mkfifo(run / "verdicts.csv")
    assert "a mistake in matrix itself" not in call(*command.split()).err


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_a_journal_that_is_no_file_is_not_salvaged(matrix: object, call: Call, tmp_path: Path, kind: str) -> None:
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 0
    (journal,) = (tmp_path / "results").glob("*/journal.sqlite")
    journal.unlink()
    {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: path.symlink_to("/dev/zero")}[kind](journal)
    for command in ("report", "salvage"):
        said = call(command, str(journal.parent))
        assert (said.status, f"it is a {kind}; a regular file is needed" in said.err) == (2, True), said
        assert "matrix salvage" not in said.err
    assert "did you mean" not in call("results", "latest").err


def test_a_device_in_place_of_a_log_is_not_copied(matrix: object, call: Call, tmp_path: Path) -> None:
    """A copy of /dev/zero would fill the disk."""
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 0
    (journal,) = (tmp_path / "results").glob("*/journal.sqlite")
    (journal.parent / "journal.sqlite-wal").unlink(missing_ok=True)
    (journal.parent / "journal.sqlite-wal").symlink_to("/dev/zero")
    said = call("salvage", str(journal.parent))
    assert (said.status, "a mistake in matrix itself" in said.err) == (0, False), said


def test_only_a_journal_is_salvaged(matrix: object, call: Call, tmp_path: Path) -> None:
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 0
    script = next((tmp_path / "results").glob("*/cells/**/1-set-up.sh"))
    with script.open("wb") as file:
        file.truncate((64 << 20) + 1)
    said = call("show", "*")
    assert f"{script.relative_to(tmp_path)} is damaged\nit is larger than 64 MiB\n" in said.err
    assert "salvage" not in said.err


@pytest.mark.usefixtures("matrix")
def test_a_device_that_is_named_for_output_stays_a_device(call: Call, tmp_path: Path) -> None:
    device = tmp_path / "device"
    device.symlink_to("/dev/null")
    for command in (
        ("run", "--on", "dry", "--quiet", "--folder-to", "device", "--junit", "device", "small.yaml"),
        ("explore", "--no-open", "--to", "device"),
        ("compare", "--by", "layout", "raid5", "raid5", "--html", "device"),
    ):
        call(*command)
        assert device.is_symlink(), command
    assert Path("/dev/null").is_char_device()
