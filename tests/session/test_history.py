"""Earlier runs in the report of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.pages.run_data import Past
from matrix_runner.pages.sections import sparkline
from matrix_runner.records.address import Address, address_of
from matrix_runner.records.environment import Host
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import load
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from matrix_runner.session import finish
from matrix_runner.session.finish import earlier_figures, report
from matrix_runner.statistics.stopping import Estimate
from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.records.run_folder import RunFolder

HEADLINES = {"c1": "read_iops", "c2": "total_iops"}


def run(results: Path, number: int, rate: float, **changes: Any) -> RunFolder:
    trials = (past.measured("c1", 1, rate), past.measured("c1", 2, rate), past.measured("c2", 1, rate, rate))
    return past.recorded(results, trials, number, **changes)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three runs on one host, and others that are no earlier ones of it."""
    for number, rate in ((1, 4096e3), (2, 8192e3), (3, 4096e4), (9, 4096e5)):
        run(tmp_path, number, rate)
    other = Host(kernel="6.1.0", cpu="another cpu", cores=2, memory=4 << 30, hostname="lab2")
    run(tmp_path, 4, 1e9, host=other)
    run(tmp_path, 5, 1e9, machine="local")
    run(tmp_path, 6, 1e9, synthetic=True, machine="dry")
    return tmp_path


def store_of(results: Path) -> Address:
    address = address_of(None, results)
    with SharedStore.open(address) as store:
        assert not bring_up_to_date(store, results)
    return address


def third(results: Path) -> RunFolder:
    return load(results / "run-3")


FIRST, SECOND = "2026-03-01T05:06:07+00:00", "2026-03-02T05:06:07+00:00"


def test_earlier_runs_of_this_machine_and_host_have_their_means(results: Path) -> None:
    assert earlier_figures(store_of(results), third(results), HEADLINES) == {
        "c1": [Past(FIRST, 1000.0), Past(SECOND, 2000.0)],
        "c2": [Past(FIRST, 2000.0), Past(SECOND, 4000.0)],
    }


def test_only_the_latest_runs_are_read(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = store_of(results)
    monkeypatch.setattr(finish, "MOST_TRIALS", 5)
    assert earlier_figures(address, third(results), {"c1": "read_iops"}) == {"c1": [Past(SECOND, 2000.0)]}
    monkeypatch.setattr(finish, "MOST_TRIALS", 50)
    monkeypatch.setattr(finish, "MOST_RUNS", 1)
    assert earlier_figures(address, third(results), {"c1": "read_iops"}) == {"c1": [Past(SECOND, 2000.0)]}


def test_without_a_readable_store_there_is_no_history(results: Path) -> None:
    folder, missing = third(results), address_of(None, results)
    assert earlier_figures(None, folder, HEADLINES) == {}
    assert earlier_figures(missing, folder, HEADLINES) == {}
    assert missing.file
    assert not missing.file.exists()
    assert earlier_figures(address_of("postgresql://nowhere.invalid/x", results), folder, HEADLINES) == {}
    missing.file.write_text("no database")
    assert earlier_figures(missing, folder, HEADLINES) == {}


def test_the_report_has_a_line_for_each_cell_with_earlier_runs(results: Path) -> None:
    folder, address = third(results), store_of(results)
    with Journal.existing(folder.journal) as journal:
        report(folder, journal, interrupted=False, store=address)
        page = (folder.path / "report.html").read_text()
        assert "2 earlier runs since 2026-03-01: 1,000 IOPS to 2,000 IOPS, the last 2,000 IOPS; this run 10,000" in page
        report(folder, journal, interrupted=False)
        assert "earlier run" not in (folder.path / "report.html").read_text()


def test_one_earlier_run_has_no_line(results: Path) -> None:
    """Two points are no line, and a page without a line does not explain it."""
    folder = load(results / "run-2")
    with Journal.existing(folder.journal) as journal:
        report(folder, journal, interrupted=False, store=store_of(results))
    page = (folder.path / "report.html").read_text()
    assert "earlier run" not in page
    assert "History:" not in page


def test_small_changes_look_small_and_large_ones_fill_the_height() -> None:
    level = sparkline([Past(FIRST, 100.0), Past(SECOND, 100.0)], Estimate(100.0, 3, None), "1/s")
    assert level.path == "3,9 42,9 81,9"
    assert level.text == "2 earlier runs since 2026-03-01: 100 IOPS, the last 100 IOPS; this run 100 IOPS"
    doubled = sparkline([Past(FIRST, 1e8)], Estimate(2e8, 3, None), "bytes/s")
    assert (doubled.path, doubled.end) == ("3,15 81,3", (81.0, 3.0))
    assert doubled.text == "1 earlier run since 2026-03-01: 100 MB/s, the last 100 MB/s; this run 200 MB/s"
    assert sparkline([Past(FIRST, 0.0)], Estimate(0.0, 3, None), "1/s").path == "3,9 81,9"
