"""`matrix merge`: the runs of all shards as one run, and refusals of runs that do not fit together."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import socket
import sqlite3
import tarfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records import run_folder
from matrix_runner.records.cell_files import open_files
from matrix_runner.records.environment import Requested
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import HOST, CellRow, Trial
from matrix_runner.records.run_folder import RunFolder, load
from matrix_runner.records.tables import IN_JOURNAL
from matrix_runner.session import merge as session
from matrix_runner.session import run_request
from tests.support.matrices import SMALL
from tests.support.sealing import reseal

if TYPE_CHECKING:
    from tests.support.command import Call


@pytest.fixture(autouse=True)
def _matrix(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)


@pytest.fixture(autouse=True)
def _no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matrix_runner.session.bug_report._command", lambda *words: [*words])


def ran(call: Call, *arguments: str, matrix: str = "small.yaml") -> RunFolder:
    assert call("run", "--on", "dry", "--quiet", "--folder-to", "folder", *arguments, matrix).status == 0
    return load(Path(Path("folder").read_text().rstrip("\n")))


def shards(call: Call) -> list[RunFolder]:
    return [ran(call, "--shard", f"{number}/2") for number in (1, 2)]


def merged(call: Call, *runs: RunFolder) -> RunFolder:
    said = call("merge", *(str(run.path) for run in runs), "--to", "night")
    assert said.status == 0, said.err
    return load(Path("results/night"))


def change(run: RunFolder, **changes: object) -> RunFolder:
    return run.update_manifest(**changes)


def on_host(run: RunFolder, name: str, **changes: object) -> RunFolder:
    return run.update_manifest(host=run.manifest.host.model_copy(update={"hostname": name}), **changes)


def content(run: RunFolder) -> tuple[list[CellRow], dict[tuple[str, int], Trial]]:
    with Journal.existing(run.journal) as journal:
        trials = list(journal.trials())
        assert max(Counter((one.cell, one.round) for one in trials).values()) == 1
        return journal.cells(), {(one.cell, one.round): one for one in trials}


def figures(run: RunFolder) -> dict[tuple[str, int], object]:
    return {at: (one.figures, one.readings, one.notes, one.folder) for at, one in content(run)[1].items()}


def files(run: RunFolder) -> dict[str, dict[str, bytes]]:
    with open_files(run) as found:
        return {cell.name: dict(found.of_cell(cell.name)) for cell in content(run)[0]}


def test_merged_shards_are_the_run_of_the_whole_matrix(call: Call) -> None:
    whole, made = ran(call), merged(call, *reversed(shards(call)))
    assert figures(made) == figures(whole)
    assert [one.name for one in content(made)[0]] == [one.name for one in content(whole)[0]]
    assert {cell: sorted(one) for cell, one in files(made).items()} == {
        cell: sorted(one) for cell, one in files(whole).items()
    }
    ours, theirs = made.manifest, whole.manifest
    assert (ours.planned, ours.part, ours.finished, ours.exit) == (theirs.planned, "", True, 0)
    assert ours.fingerprint == theirs.fingerprint
    rows = csv.DictReader((made.path / "trials.csv").read_text().splitlines())
    assert len(list(rows)) == theirs.planned == 8
    assert not [path.name for path in Path("results").glob(".merging*")]
    assert json.loads(call("results", "night", "--format", "json").out)["rows"]


@pytest.mark.parametrize("archived", ["shards", "merged"])
def test_files_come_from_archives_and_go_to_archives(
    call: Call, monkeypatch: pytest.MonkeyPatch, archived: str
) -> None:
    if archived == "shards":
        monkeypatch.setattr(run_request, "MOST_IN_FOLDERS", 1)
    parts = shards(call)
    if archived == "merged":
        monkeypatch.setattr(session, "MOST_IN_FOLDERS", 7)
    made = merged(call, *parts)
    assert [one.manifest.archived for one in (*parts, made)] == [archived == "shards"] * 2 + [archived == "merged"]
    assert files(made) == files(parts[0]) | files(parts[1])


def test_cells_of_different_hosts_name_their_host_so_that_they_are_not_compared(call: Call) -> None:
    parts = [on_host(run, f"h{number}", synthetic=False) for number, run in enumerate(shards(call))]
    made = merged(call, *parts)
    assert Counter(trial.notes[HOST] for trial in content(made)[1].values()) == {"h0": 4, "h1": 4}
    assert made.manifest.host.hostname == "h0, h1"
    assert "No round in common" in (made.path / "answer.txt").read_text()


def test_lost_attempts_and_set_up_times_come_along(call: Call) -> None:
    parts = shards(call)
    with Journal.open(parts[1].journal) as journal:
        journal.record_trouble("2026", "smoke")
    made = merged(call, *parts)
    with Journal.existing(made.journal) as journal:
        assert journal.troubles() == ["smoke"]
        assert len(journal.set_up_times()) == 4


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_in_a_shard_puts_no_other_file_into_the_run(call: Call, tmp_path: Path, link: str) -> None:
    parts, secret = shards(call), tmp_path / "secret"
    secret.mkdir()
    (secret / "4-measure.sh").write_text("a secret")
    file = next((parts[1].path / "cells").rglob("4-measure.sh"))
    if link == "folder":
        shutil.rmtree(file.parent)
        file.parent.symlink_to(secret)
    else:
        file.unlink()
        file.symlink_to(secret / "4-measure.sh")
    said = call("merge", *(str(part.path) for part in parts), "--to", "night")
    assert said.status in {2, 3}
    assert "it is a link, perhaps to a file that is not of the run" in said.err
    assert not Path("results/night").exists()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
@pytest.mark.parametrize("name", ["4-measure.sh", "fio.json"])
def test_a_shard_with_a_pipe_or_a_socket_is_refused(call: Call, kind: str, name: str) -> None:
    parts = shards(call)
    file = next((parts[1].path / "cells").rglob(name))
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    else:
        with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(file.parent):  # the whole path is too long for it
            one.bind(name)
    said = call("merge", *(str(part.path) for part in parts), "--to", "night")
    assert (said.status, f"it is a {kind}; a regular file is needed" in said.err) == (2, True)
    assert f"{name} cannot be read" in said.err
    assert not Path("results/night").exists()


def test_a_run_is_named_without_a_folder(call: Call) -> None:
    parts = shards(call)
    said = call("merge", *(str(part.path) for part in parts), "--to", "../esc")
    assert said.status == 2
    assert "'../esc' cannot name a run" in said.err


def test_runs_that_differ_are_refused_with_what_differs(call: Call) -> None:
    first = ran(call, "--shard", "1/2")
    Path("other.yaml").write_text(SMALL.replace("repeat: 2", "repeat: 2\nseed: 7"))
    second = ran(call, "--shard", "2/2", matrix="other.yaml")
    said = call("merge", str(first.path), str(second.path), "--to", "night")
    assert said.status == 2
    assert "are not shards of the same run" in said.err
    assert "- seed: 1, 7" in said.err
    assert "- text of the matrix differs" in said.err
    assert not Path("results/night").exists()


def test_missing_repeated_unfinished_and_unsharded_runs_are_refused(call: Call) -> None:
    first, second = shards(call)
    again = ran(call, "--fresh", "--shard", "1/2")
    whole = ran(call)

    def refusal(*runs: RunFolder) -> str:
        said = call("merge", *(str(run.path) for run in runs), "--to", "night")
        assert said.status == 2
        return said.err

    assert "missing 2/2" in refusal(first)
    assert "several runs of shard 1/2" in refusal(first, second, again)
    assert "is not a run of a shard" in refusal(first, whole)
    for text in ("0/0", "3/2", "x", "1/2\n", f"1/{'9' * 5000}"):
        requested = whole.manifest.requested.model_copy(update={"shard": text})
        assert "is not a run of a shard" in refusal(first, whole.update_manifest(requested=requested.model_dump()))
    assert "is not finished" in refusal(first, change(second, finished=False))
    change(second, finished=True)
    merged(call, first, second)
    assert "exists already" in refusal(first, second)


def test_the_merged_run_has_the_rules_of_its_shards(call: Call) -> None:
    rules = ("--only", "rw=read", "--only", "chunk=16KiB|64KiB")
    made = merged(call, *(ran(call, *rules, "--shard", f"{number}/2") for number in (1, 2)))
    assert made.manifest.requested == Requested(only=("chunk=16KiB|64KiB", "rw=read"))
    assert made.manifest.part == "only chunk=16KiB|64KiB, only rw=read"


def test_a_merge_that_was_killed_leaves_no_run_and_is_repeated(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = shards(call)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "record_many", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert call("merge", *(str(run.path) for run in parts), "--to", "night").status == 130
    assert len(run_folder.run_folders(Path("results"))) == 2
    assert len(figures(merged(call, *parts))) == 8


HOSTILE = (
    "UPDATE trials SET read_bw = 9e999, write_bw = 9e999 WHERE id = 1",
    "UPDATE trials SET round = -1 WHERE id = 1",
    "UPDATE trials SET attempts = 9223372036854775807 WHERE id = 1",
    "UPDATE trials SET outcome = 'meazured' WHERE id = 1",
    "UPDATE trials SET started = 'never' WHERE id = 1",
    "UPDATE trials SET folder = '../../../etc' WHERE id = 1",
    "UPDATE trials SET reason = x'ff' WHERE id = 1",
    "UPDATE trials SET reason = printf('%.2000000c', 'x') WHERE id = 1",
    "UPDATE trials SET cell = 'other' WHERE id = 1",
    "UPDATE trials SET notes = '[1]' WHERE id = 1",
    "UPDATE cells SET name = '../../evil' WHERE id = (SELECT min(id) FROM cells)",
    "UPDATE cells SET axes = '[1]' WHERE id = (SELECT min(id) FROM cells)",
    "DELETE FROM trials WHERE id = 1",
)


@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("statement", HOSTILE)
def test_hostile_rows_are_refused_or_lead_nowhere(call: Call, statement: str, is_sealed: bool) -> None:
    """A shard from another host; also with right checksums, which another program can write."""
    runs = shards(call)
    with closing(sqlite3.connect(runs[0].journal)) as connection, connection:
        connection.execute(statement)
        if is_sealed:
            for table in (IN_JOURNAL.trials, IN_JOURNAL.cells):
                reseal(connection, table)
    said = call("merge", *(str(run.path) for run in runs), "--to", "night")
    assert said.status in ({0, 2, 3} if is_sealed else {3}), said
    assert "Traceback" not in said.err
    assert Path("results/night").exists() == (said.status == 0)
    for name in ("night",) if said.status == 0 else ():
        for command in (("report", name), ("results", name), ("show", name), ("site", "--to", "pages")):
            found = call(*command)
            assert found.status in {0, 2, 3}, (command, found)
            assert "Traceback" not in found.err
    assert not Path("evil").exists()
    said = call("bug-report", str(runs[0].path), "--to", "report.tar.gz")
    assert (said.status, "Traceback" in said.err) == (0, False)
    with tarfile.open("report.tar.gz") as archive:
        names = archive.getnames()
    assert any(name.endswith("/README") for name in names)
    assert not [name for name in names if ".." in name or name.startswith("/")]
