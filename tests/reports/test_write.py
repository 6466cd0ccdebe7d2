from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.reports import explore, html
from runner.reports.html import page
from runner.reports.write import load_run_data, render_reports, write_reports
from runner.results.journal import Journal
from runner.results.run_folder import create
from tests.reports.samples import RUN
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
    explored = explore.page([explore.explored(RUN, run.path.name)], "sweep on qemu", report=True)
    people = {"report.html": page(RUN, run.manifest, run.path.name), "explore.html": explored}
    assert {path.name: path.read_bytes() for path in written} == render_reports(RUN) | people


def test_a_second_writing_replaces_the_files(tmp_path: Path) -> None:
    run = create(tmp_path, manifest(matrix="sweep"))
    empty = type(RUN)("sweep", "qemu", False, (), ())
    for content in (RUN, empty):
        write_reports(run, content)
        assert (run.path / "trials.csv").read_bytes() == render_reports(content)["trials.csv"]


def test_an_error_in_the_page_leaves_the_files_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> bytes:
        raise RuntimeError("a slip in the page")

    monkeypatch.setattr(html, "page", fails)
    run = create(tmp_path, manifest(matrix="sweep"))
    with pytest.raises(RuntimeError, match="a slip"):
        write_reports(run, RUN)
    assert {name for name in render_reports(RUN) if (run.path / name).exists()} == set(render_reports(RUN))
