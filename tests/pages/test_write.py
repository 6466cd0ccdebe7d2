from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.pages import explore, html, write
from matrix_runner.pages.html import page
from matrix_runner.pages.write import load_run_data, write_reports
from matrix_runner.records.files import ARCHIVE
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import create
from matrix_runner.work.pts.output import ROUNDS
from tests.pages.samples import RUN, render_reports
from tests.support.begun_runs import manifest

if TYPE_CHECKING:
    from pathlib import Path


def test_from_the_journal_to_the_files(tmp_path: Path) -> None:
    run = create(tmp_path, manifest(matrix="sweep"))
    with Journal.open(run.journal) as journal:
        journal.add_cells(RUN.cells)
        for trial in RUN.trials:
            journal.record(trial)
        for attempt in RUN.attempts:
            journal.record_lost(attempt)
        content = load_run_data(run, journal, over=False)
    written = write_reports(run, content)
    assert [path.name for path in written] == ["trials.csv", "summary.csv", "junit.xml", "report.html", "explore.html"]
    library = explore.shared_library(run.path / "explore.html", tmp_path)
    explored = explore.page([explore.explored(RUN, run.path.name)], "sweep on qemu", report=True, library=library)
    people = {"report.html": page(RUN, run.manifest, run.path.name), "explore.html": explored}
    assert {path.name: path.read_bytes() for path in written} == render_reports(RUN) | people


def test_a_second_writing_replaces_the_files(tmp_path: Path) -> None:
    run = create(tmp_path, manifest(matrix="sweep"))
    empty = type(RUN)("sweep", "qemu", False, (), ())
    for content in (RUN, empty):
        write_reports(run, content)
        assert (run.path / "trials.csv").read_bytes() == render_reports(content)["trials.csv"]


def test_reports_that_are_not_written_again_do_not_stay(tmp_path: Path) -> None:
    run = create(tmp_path, manifest(matrix="sweep"))
    for name in ("verdicts.csv", "answer.txt", "found.csv", "jobs.csv", "notes-of-mine.txt", ROUNDS):
        (run.path / name).write_text("old")
    written = {path.name for path in write_reports(run, RUN)}
    files = {path.name for path in run.path.iterdir() if path.suffix in {".csv", ".txt"}}
    assert files == {name for name in written if not name.endswith((".html", ".xml"))} | {"notes-of-mine.txt", ROUNDS}


@pytest.mark.parametrize("archived", [True, False])
def test_an_older_table_of_rounds_is_called_so_if_the_raw_outputs_are_lost(tmp_path: Path, archived: bool) -> None:
    run = create(tmp_path, manifest(matrix="sweep", archived=archived))
    (run.path / ROUNDS).write_text("old")
    if archived:
        (run.path / ARCHIVE).write_text("no database")
    with Journal.open(run.journal) as journal:
        assert load_run_data(run, journal, over=True).unread.endswith("rounds.csv is of an earlier report")
        (run.path / ROUNDS).unlink()
        assert ("rounds.csv" in load_run_data(run, journal, over=True).unread) is False


@pytest.mark.parametrize(("most", "count"), [(4, 0), (10, 2)])
def test_raw_outputs_are_read_up_to_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, count: int
) -> None:
    run = create(tmp_path, manifest(matrix="sweep"))
    cells = [replace(cell, axes={**cell.axes, "workload.profile": "whole"}) for cell in RUN.cells]
    trials = [replace(trial, folder=f"cells/{trial.cell}-{trial.round}") for trial in RUN.trials]
    with Journal.open(run.journal) as journal:
        journal.add_cells(cells)
        journal.record_many(trials)
        for trial in trials:
            (run.path / trial.folder).mkdir(parents=True)
            (run.path / trial.folder / "profile.csv").write_bytes(b"12345")
        whole = load_run_data(run, journal, over=True)
        monkeypatch.setattr(write, "_MOST_OUTPUTS", most)
        content = load_run_data(run, journal, over=True)
        (run.path / ROUNDS).write_text("old")
        both = load_run_data(run, journal, over=True).unread
    assert whole.unread == ""
    assert content.unread.startswith("the reports lack raw outputs: cells/")
    kept, all_of_them = (sum(map(len, one.courses.values())) for one in (content, whole))
    assert kept == count < all_of_them
    assert both == f"{content.unread}; the raw outputs of its tests are missing; rounds.csv is of an earlier report"


def test_an_error_in_the_page_leaves_the_files_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> bytes:
        raise RuntimeError("a slip in the page")

    monkeypatch.setattr(html, "page", fails)
    run = create(tmp_path, manifest(matrix="sweep"))
    with pytest.raises(RuntimeError, match="a slip"):
        write_reports(run, RUN)
    assert {name for name in render_reports(RUN) if (run.path / name).exists()} == set(render_reports(RUN))
