"""`matrix bug-report`: all that a report needs, and no name of the host in any byte."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sqlite3
import tarfile
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.machines.base import RigLost
from matrix_runner.machines.dry import DryRig

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call

HOST, SERIAL, USER, ADDRESS = "shelf-12", "WD-WCC4N0123456", "eva.m", "192.168.7.20"


@pytest.fixture
def run(call: Call, matrix: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dry run with a broken cell whose files name the host, a disk, a user and an address."""

    async def hang(*_: object, **__: object) -> None:
        raise RigLost(f"{HOST} did not answer", tail=f"{USER}@{ADDRESS}: serial {SERIAL} below {tmp_path}/secret")

    monkeypatch.setattr("socket.gethostname", lambda: HOST)
    monkeypatch.setattr("getpass.getuser", lambda: USER)
    monkeypatch.setattr(
        "matrix_runner.session.bug_report._command", lambda *words: [f"{words[0]} of {HOST}", str(tmp_path)]
    )
    assert call("run", "--on", "dry", "--quiet", "--only", "rw=read", "small.yaml").status == 0
    with monkeypatch.context() as broken:
        broken.setattr(DryRig, "run", hang)
        assert call("run", "--on", "dry", "--quiet", "--fresh", "small.yaml").status == 3
    folder = max((tmp_path / "results").glob("small-dry-*"), key=lambda path: path.stat().st_mtime_ns)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["host"]["hostname"] = HOST
    manifest["disks"] = [{"size": 1, "bus": "sata", "serial": SERIAL}]
    manifest["note"] = f"token={'hunter2'} of {USER} in {tmp_path}/x"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def _files(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        return {one.name: tar.extractfile(one).read().decode() for one in tar}  # type: ignore[union-attr]


def test_no_byte_names_the_host(call: Call, run: Path, tmp_path: Path) -> None:
    said = call("bug-report", str(run))
    assert said.status == 0, said.err
    assert said.out.startswith("bug-report.tar.gz: ")
    content = gzip.decompress((tmp_path / "bug-report.tar.gz").read_bytes())
    for name in (HOST, SERIAL, USER, ADDRESS, str(tmp_path), "hunter2"):
        assert name.encode() not in content, name
        assert name.upper().encode() not in content
    raw = (tmp_path / "bug-report.tar.gz").read_bytes()
    assert not raw[3] & 8, "a name of the file in the header of gzip"


def test_it_takes_the_latest_run_also_without_results(call: Call, run: Path) -> None:
    said = call("bug-report")
    assert said.out.startswith(f"bug-report.tar.gz: {run.name}, ")
    assert "note:" not in said.err


def test_it_has_what_a_report_needs(call: Call, run: Path, tmp_path: Path) -> None:
    assert call("bug-report", run.name, "--to", "it.tar.gz").status == 0
    files = {name.partition("/")[2]: text for name, text in _files(tmp_path / "it.tar.gz").items()}
    assert {"README", "versions.txt", "doctor.txt", "manifest.json", "matrix.yaml", "matrix.log"} < files.keys()
    assert "host-1 did not answer" in files["matrix.log"]
    assert files["doctor.txt"].startswith("doctor of host-1\n")
    lost = next(text for name, text in files.items() if name.endswith("lost-1.log"))
    assert "host-1 did not answer" in lost
    assert json.loads(files["manifest.json"])["disks"][0]["serial"] == "disk-1"
    assert "host" in files["README"]
    with closing(sqlite3.connect(":memory:")) as copy:
        copy.executescript(files["journal.sql"])
        assert copy.execute("SELECT count(*) FROM trials WHERE outcome = 'broken'").fetchone()[0]


def test_figures_can_be_left_out(call: Call, run: Path, tmp_path: Path) -> None:
    measured = next(path for path in (tmp_path / "results").glob("small-dry-*") if path != run)

    def figures() -> tuple[int, int]:
        (sql,) = (text for name, text in _files(tmp_path / "bug-report.tar.gz").items() if name.endswith("journal.sql"))
        with closing(sqlite3.connect(":memory:")) as copy:
            copy.executescript(sql)
            found: tuple[int, int] = copy.execute("SELECT count(*), count(read_bw) FROM trials").fetchone()
        return found

    assert call("bug-report", str(measured)).status == 0
    trials, rates = figures()
    assert rates == trials > 0
    assert call("bug-report", "--no-figures", str(measured)).status == 0
    assert figures() == (trials, 0)
    assert not any("MB/s" in text for text in _files(tmp_path / "bug-report.tar.gz").values())


@pytest.mark.parametrize("link", ["hard", "symbolic", "folder", "journal"])
def test_a_link_in_the_folder_puts_no_other_file_into_the_report(
    link: str, call: Call, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "private").mkdir()
    secret = tmp_path / "private" / "matrix.log"
    secret.write_text("the key of my door\n")
    if link in {"hard", "symbolic"}:
        (run / "matrix.log").unlink()
    if link == "hard":
        (run / "matrix.log").hardlink_to(secret)
    elif link == "symbolic":
        (run / "matrix.log").symlink_to(secret)
    elif link == "journal":
        with closing(sqlite3.connect(tmp_path / "cookies")) as other:
            other.execute("CREATE TABLE doors AS SELECT 'the key of my door'")
            other.commit()
        (run / "journal.sqlite").unlink()
        (run / "journal.sqlite").hardlink_to(tmp_path / "cookies")
    else:
        cells = [path for path in (run / "cells").rglob("trial-*") if path.is_dir()]
        shutil.copytree(cells[0], tmp_path / "private" / "trial")
        for name in ("job.fio", "trial.log", "x.tsv"):
            (tmp_path / "private" / "trial" / name).write_text("the key of my door\n")
        for cell in cells:
            shutil.rmtree(cell)
            cell.symlink_to(tmp_path / "private" / "trial")
    assert call("bug-report", str(run)).status == 0
    files = _files(tmp_path / "bug-report.tar.gz")
    assert not [name for name, text in files.items() if "the key" in text]
    (about,) = (text for name, text in files.items() if name.endswith("README"))
    assert "is not whole: it is a link" in about


def test_a_damaged_run_has_a_report(call: Call, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "journal.sqlite").write_bytes(b"no database at all" * 100)

    def fail(*_: str) -> list[str]:
        raise HarnessBroken(f"{HOST} did not finish")

    monkeypatch.setattr("matrix_runner.session.bug_report._command", fail)
    assert call("bug-report", str(run)).status == 0
    files = _files(tmp_path / "bug-report.tar.gz")
    (about,) = (text for name, text in files.items() if name.endswith("README"))
    assert "journal.sql is not whole: " in about
    assert "doctor.txt is not whole: host-1 did not finish" in about


def test_no_run_is_an_error(call: Call, tmp_path: Path) -> None:
    assert call("bug-report").status == 2
    said = call("bug-report", "nothing")
    assert (said.status, said.err.splitlines()[0]) == (2, "matrix: nothing is not the folder of a run")
    assert not (tmp_path / "bug-report.tar.gz").exists()


def test_an_archive_that_cannot_be_written_is_an_error(call: Call, run: Path) -> None:
    said = call("bug-report", str(run), "--to", "missing/it.tar.gz")
    assert said.status == 2
    assert "missing/it.tar.gz" in said.err
    assert io.StringIO(said.err).readline().startswith("matrix: ")
