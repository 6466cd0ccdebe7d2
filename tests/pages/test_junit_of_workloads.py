"""JUnit of a run of very many cells: a test case per workload, with the worst outcome of its cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from matrix_runner.pages.junit import junit
from matrix_runner.records.record import Outcome, Trial
from tests.pages import samples
from tests.pages.large import CELLS, TRIALS, journal, surveyed
from tests.support.junit import parsed, properties, tree

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.records.journal import Journal

__all__ = ["journal", "tree"]  # with lxml and without


def test_a_case_is_a_workload_and_a_suite_a_layout(tmp_path: Path, journal: Journal) -> None:
    trials = [*TRIALS[1:], Trial("raid0-1", 1, Outcome.BROKEN, "the guest panicked")]
    recorded = replace(samples.RUN, cells=CELLS, trials=trials, attempts=())
    found = surveyed(tmp_path, journal, recorded)
    root = parsed(junit(replace(recorded, survey=found)))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "0", "1")
    assert [one.get("classname") for one in root.iter("testcase")] == ["sweep.raid0", "sweep.raid5"]
    (error,) = root.iter("error")
    assert error.get("message") == "1 broken, 49 measured"
    assert error.text == "raid0/random/iodepth=1, trial 1: broken: the guest panicked"
    assert "the run has 100 cells; summary.csv has each cell" in properties(root[0])["summarised"]
