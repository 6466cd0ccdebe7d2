"""Reports of a large run: one pass over its journal, and pages of a part."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.pages import write
from matrix_runner.pages.csv_files import figures_of, jobs_csv, summary_csv, trials_csv
from matrix_runner.pages.write import every_summary
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import HOST, HOST_LIMITED, SLOW, UNSETTLED, Outcome, Trial
from matrix_runner.records.run_folder import create
from matrix_runner.session.finish import Ending, report
from tests.pages import samples
from tests.pages.large import CELLS, TRIALS, journal, surveyed
from tests.pages.samples import direction, measured, two_jobs
from tests.support.begun_runs import manifest
from tests.support.facts import noted

__all__ = ["journal"]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from matrix_runner.pages.run_data import RunData, Survey
    from matrix_runner.records.run_folder import RunFolder


def written(path: Path) -> str:
    return path.read_bytes().decode()


def check(folder: Path, journal: Journal, recorded: RunData) -> Survey:
    """Check that the pass writes and counts what the reports of a small run do."""
    found = surveyed(folder, journal, recorded)
    assert written(folder / "trials.csv") == "".join(trials_csv(recorded))
    assert written(folder / "summary.csv") == "".join(summary_csv(recorded))
    jobs = folder / "jobs.csv"
    assert (written(jobs) if jobs.exists() else "") == jobs_csv(recorded)
    assert found.concerns.concerns() == recorded.concerns
    assert found.trials == recorded.counts
    assert found.has_jobs == recorded.has_jobs
    assert list(found.imprecise) == list(recorded.imprecise)
    assert set(found.reasons) == set(recorded.reasons)
    return found


@pytest.mark.parametrize("recorded", [samples.RUN, samples.SYNTHETIC, replace(samples.RUN, until=0.05, over=True)])
def test_the_files_are_those_of_a_small_run(recorded: RunData, tmp_path: Path, journal: Journal) -> None:
    check(tmp_path, journal, recorded)


def test_the_hosts_of_a_cluster_are_counted(tmp_path: Path, journal: Journal) -> None:
    trials = [replace(one, **noted({**one.notes, HOST: f"r{one.round}"})) for one in TRIALS]
    recorded = replace(samples.RUN, cells=CELLS, trials=trials)
    found = surveyed(tmp_path, journal, recorded)
    assert found.hosts
    assert replace(recorded, trials=(), survey=found).trials_by_host == recorded.trials_by_host


def test_cells_of_one_trial_have_the_figures_of_the_trial(tmp_path: Path, journal: Journal) -> None:
    exact = replace(
        direction(3e6, 4096), lat_p50=4e6, lat_p90=8e6, lat_p95=8.5e6, lat_p99=9e6, lat_p999=None, lat_p9999=None
    )
    both = measured("raid0-1", 1, exact, replace(exact, bw=0.1, lat_mean=None, latencies=None))
    odd = [
        replace(both, **noted({HOST_LIMITED: "by 5 %", "iowait": "0.1"})),
        replace(both, **noted({UNSETTLED: "by 9 %"})),
        replace(both, **noted({SLOW: "4"})),
        replace(both, outcome=Outcome.CORRUPT, reason="bad, data"),
        Trial("raid0-1", 1, Outcome.BROKEN, 'fio "failed"\n', attempts=2),
        Trial("raid0-1", 1, Outcome.SKIPPED),
    ]
    trials = [replace(one, cell=cell.id) for one, cell in zip([both, *odd], CELLS, strict=False)]
    recorded = replace(samples.RUN, cells=CELLS[:9], trials=trials, until=0.01)
    assert len(check(tmp_path, journal, recorded).imprecise) == 3


def test_the_figures_of_a_trial_become_text_once(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Mock(side_effect=figures_of)
    monkeypatch.setattr("matrix_runner.pages.write.figures_of", made)
    surveyed(tmp_path, journal, replace(samples.RUN, cells=CELLS, trials=TRIALS))
    assert made.call_count == len(TRIALS)


def test_jobs_have_their_file(tmp_path: Path, journal: Journal) -> None:
    check(tmp_path, journal, replace(samples.JOBS, trials=[two_jobs(1)]))
    assert "reader" in written(tmp_path / "jobs.csv")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recorded=samples.runs(), seed=st.integers())
def test_any_run(recorded: RunData, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp(f"run{seed % 1000}")
    trials = [without_histograms(trial) for trial in recorded.trials]
    with Journal.open(folder / "journal.sqlite") as journal:
        check(folder, journal, replace(recorded, trials=trials))


def without_histograms(trial: Trial) -> Trial:
    """Percentiles of a histogram may be beyond the longest latency; those of a trial are not."""
    if trial.figures is None:
        return trial
    sides: dict[str, Any] = {name: replace(side, latencies=None) for name, side in trial.figures.all_sides.items()}
    return replace(trial, figures=replace(trial.figures, **sides))


def large_run(folder: Path, monkeypatch: pytest.MonkeyPatch, trials: Iterable[Trial] = TRIALS) -> RunFolder:
    monkeypatch.setattr(write, "MOST_CELLS", 99)
    monkeypatch.setattr(write, "MOST_SHOWN", 10)
    run = create(folder, manifest(matrix="sweep", planned=len(CELLS), least=1, most=1))
    with Journal.open(run.journal) as journal:
        journal.add_cells(CELLS)
        journal.record_many(trials)
    return run


def reported(run: RunFolder) -> Ending:
    with Journal.existing(run.journal) as journal:
        return report(run, journal, interrupted=False)


PART = "8 of 100 cells, with iodepth 1, 17, 33, 50 (4 of 50 values)"


def test_the_pages_say_which_part_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = large_run(tmp_path, monkeypatch)
    end = reported(run)
    for name in ("report.html", "explore.html", "answer.txt"):
        assert PART in (run.path / name).read_text()
    assert f"the pages show {PART}; summary.csv and trials.csv have all" in end.lines()
    page = (run.path / "report.html").read_text()
    assert "<dd>100: 100 measured</dd>" in page
    assert "100 of 100 planned: 100 measured" in page
    assert [path.name for path in end.files[:3]] == ["trials.csv", "summary.csv", "junit.xml"]
    assert len((run.path / "summary.csv").read_text().splitlines()) == 101


def test_trouble_outside_of_the_part_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Trial("raid0-2", 1, Outcome.BROKEN, "the guest panicked")
    run = large_run(tmp_path, monkeypatch, [one for one in TRIALS if one.cell != broken.cell] + [broken])
    end = reported(run)
    assert end.exit == 3
    assert "Broken: 1 cell, 1 of them without figures. Figures are from other trials." in end.lines()
    assert "raid0/random/iodepth=2" in (run.path / "report.html").read_text()


def test_only_trials_of_the_part_become_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = large_run(tmp_path, monkeypatch)
    read: dict[str, list[int]] = {}

    def counted(name: str, whole: Callable[..., Iterable[object]]) -> Callable[..., Iterable[object]]:
        def count(*args: Any) -> Iterable[object]:
            found = list(whole(*args))
            read.setdefault(name, []).append(len(found))
            return found

        return count

    for name in ("trials", "trials_of_cells", "plain_rows"):
        monkeypatch.setattr(Journal, name, counted(name, getattr(Journal, name)))
    reported(run)
    assert read == {"trials_of_cells": [8], "plain_rows": [100]}


def test_pytest_has_the_summaries_of_all_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = large_run(tmp_path, monkeypatch)
    with Journal.existing(run.journal) as journal:
        part = write.load_run_data(run, journal, over=True)
        monkeypatch.setattr(write, "MOST_CELLS", 100)
        whole = write.load_run_data(run, journal, over=True)
        assert (len(part.cells), len(whole.cells)) == (8, 100)
        assert list(every_summary(journal, part)) == list(every_summary(journal, whole)) == whole.summaries


def test_a_search_keeps_all_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = large_run(tmp_path, monkeypatch)
    cells = [replace(cell, axes={**cell.axes, "workload.preset": "snia-iops"}) for cell in CELLS]
    for found in (CELLS, cells):
        monkeypatch.setattr(Journal, "cells", lambda _, found=found: found)
        with Journal.existing(run.journal) as journal:
            content = write.load_run_data(run, journal, over=True)
        assert len(content.cells) == (8 if found is CELLS else 100)


def test_damage_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = large_run(tmp_path, monkeypatch)
    with sqlite3.connect(run.journal) as connection:
        connection.execute("UPDATE trials SET read_bw = 1e300 WHERE cell = 'raid0-2'")
    with pytest.raises(HarnessBroken, match="damaged"):
        reported(run)
