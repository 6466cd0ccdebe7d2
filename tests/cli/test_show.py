"""`matrix show`, and runs whose cells are in an archive."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.run_folder import run_folders
from matrix_runner.records.usage import SAMPLES
from matrix_runner.session import run_request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Matrix

CELL = "raid5/chunk=16KiB/work/rw=read"


def files_below(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def archived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_request, "MOST_IN_FOLDERS", 7)  # of 8 trials


def test_the_files_of_an_archive_are_those_of_folders(
    matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix("run", "--on", "dry", "small.yaml", "--results", "folders")
    monkeypatch.setattr(run_request, "MOST_IN_FOLDERS", 7)
    result = matrix("run", "--on", "dry", "small.yaml", "--results", "archive")
    assert "every script and raw output in cells.sqlite (`matrix show`)" in result.stdout
    (plain,), (large,) = run_folders(tmp_path / "folders"), run_folders(tmp_path / "archive")
    assert not (large / "cells").exists()
    shown = matrix("show", "*", "--results", "archive", "--to", "out")
    assert shown.stdout == "4 cells written to out/\n", shown.stderr
    assert files_below(tmp_path / "out") == files_below(plain / "cells")
    matrix("show", "*", "--results", "folders", "--to", "same")
    assert files_below(tmp_path / "same") == files_below(plain / "cells")
    assert f'href="./cells/{CELL.split("=")[0]}' not in (large / "report.html").read_text()
    assert matrix("report", "latest", "--results", "archive").returncode == 0


@pytest.mark.usefixtures("archived")
def test_a_file_and_the_list_of_files_are_shown(matrix: Matrix) -> None:
    matrix("run", "--on", "dry", "small.yaml")
    listed = matrix("show", CELL).stdout.splitlines()
    assert [line.split("  ")[-1].removeprefix(f"{CELL}/") for line in listed][:3] == [
        *("1-set-up.sh", "2-tune.sh", "3-verify.sh"),
    ]
    assert matrix("show", f"{CELL}/trial-2/job.fio").stdout.startswith("# work/rw=read\n[trial]\n")
    nothing = matrix("show", "nonsense")
    assert nothing.returncode == 2
    assert "is called nonsense" in nothing.stderr


def test_a_run_can_be_named_by_its_matrix(matrix: Matrix, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(
            (tmp_path / "small.yaml").read_text().replace("name: small", f"name: {name}")
        )
        assert matrix("run", "--on", "dry", f"{name}.yaml").returncode == 0
    shown = matrix("show", "--run", "one", "nonsense")
    assert "no cell of results/one-dry-" in shown.stderr
    assert "--results names their folder" in matrix("show", "--run", "three", "*").stderr


@pytest.mark.usefixtures("archived")
def test_cells_without_files_are_an_error(matrix: Matrix, tmp_path: Path) -> None:
    matrix("run", "--on", "dry", "small.yaml")
    (folder,) = run_folders(tmp_path / "results")
    (folder / "cells.sqlite").unlink()
    for options in ((), ("--to", "out")):
        shown = matrix("show", "*", *options)
        assert (shown.returncode, shown.stdout) == (2, "")
        assert "has no files of these cells" in shown.stderr


@pytest.mark.usefixtures("archived")
def test_an_archived_run_is_continued(matrix: Matrix, tmp_path: Path) -> None:
    matrix("run", "--on", "dry", "small.yaml", "--budget", "1ms")
    (folder,) = run_folders(tmp_path / "results")
    assert matrix("run", "--on", "dry", "small.yaml").returncode == 0
    assert run_folders(tmp_path / "results") == [folder]
    assert len(matrix("show", "*").stdout.splitlines()) == 4 * (6 + 2 * 4)
    (broken,) = run_folders(tmp_path / "results")
    assert (broken / "cells.sqlite").is_file()


@pytest.mark.usefixtures("archived")
@pytest.mark.parametrize("damage", ["of the file", "of a text"])
def test_a_damaged_archive_costs_no_figure_of_the_report(matrix: Matrix, tmp_path: Path, damage: str) -> None:
    matrix("run", "--on", "dry", "small.yaml")
    (folder,) = run_folders(tmp_path / "results")
    before = {name: (folder / name).read_bytes() for name in ("summary.csv", "trials.csv", "junit.xml")}
    for name in before:
        (folder / name).unlink()
    archive = folder / "cells.sqlite"
    if damage == "of the file":
        archive.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    else:
        with sqlite3.connect(archive) as connection:
            connection.execute("UPDATE texts SET data = x'00', sz = 9")
            connection.execute("UPDATE files SET name = ? WHERE name = 'fio.json'", (SAMPLES,))
        connection.close()
    written = matrix("report", "latest")
    assert written.returncode == 0, written.stderr
    (note,) = [line for line in written.stdout.splitlines() if "use of disks" in line]
    assert note.startswith("note: ")
    assert "cells.sqlite" in note
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert "lack what only it has" in (folder / "report.html").read_text()
    assert matrix("show", "*").returncode != 0


@pytest.mark.usefixtures("archived")
@pytest.mark.parametrize("kind", ["cut", "pipe", "folder"])
def test_the_advice_about_a_damaged_archive_helps(matrix: Matrix, tmp_path: Path, kind: str) -> None:
    matrix("run", "--on", "dry", "small.yaml")
    (folder,) = run_folders(tmp_path / "results")
    archive = folder / "cells.sqlite"
    if kind == "cut":
        os.truncate(archive, archive.stat().st_size // 2)
    else:
        archive.unlink()
        os.mkfifo(archive) if kind == "pipe" else archive.mkdir()
    shown = matrix("show", "*")
    if kind == "cut":
        assert shown.returncode == 3
        assert "cells.sqlite is damaged" in shown.stderr
        assert "move it away" in shown.stderr
    else:
        assert shown.returncode == 2
        assert f"cells.sqlite cannot be read\nit is a {kind}; a regular file is needed" in shown.stderr
    assert "salvage" not in shown.stderr
    archive.rename(tmp_path / "away")
    assert matrix("report", "latest").returncode == 0
    assert "has no files of these cells" in matrix("show", "*").stderr


@pytest.mark.usefixtures("archived")
def test_damage_that_hides_files_is_named(matrix: Matrix, tmp_path: Path) -> None:
    matrix("run", "--on", "dry", "small.yaml")
    (folder,) = run_folders(tmp_path / "results")
    archive = folder / "cells.sqlite"
    with closing(sqlite3.connect(archive)) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'files'")
        ((size,),) = connection.execute("PRAGMA page_size")
    content = bytearray(archive.read_bytes())
    content[(root - 1) * size + 3 : (root - 1) * size + 5] = b"\0\0"  # the page says that it has no row
    content[(root - 1) * size] = EMPTY_LEAF
    archive.write_bytes(content)
    for shown in (matrix("show", "*"), matrix("show", f"{CELL}/trial-1/fio.json")):
        assert shown.returncode == 3, shown
        assert "cells.sqlite is damaged" in shown.stderr


EMPTY_LEAF = 10  # the sign of a page of an index that leads to no other
