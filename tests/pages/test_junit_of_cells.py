"""JUnit of a large run: a test case per cell, with its worst outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from matrix_runner.pages.junit import junit
from matrix_runner.records.record import Outcome, Trial
from tests.pages import samples
from tests.support.junit import parsed, properties, tree

if TYPE_CHECKING:
    from lxml import etree

    from matrix_runner.pages.run_data import RunData


__all__ = ["tree"]  # with lxml and without


def case(document: etree._Element, name: str) -> etree._Element:
    (found,) = document.iterfind(f".//testcase[@name='{name}']")
    return found


def test_a_case_is_a_cell_and_a_suite_a_stack() -> None:
    root = parsed(junit(samples.RUN, 0))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "0", "1")
    assert [suite.get("name") for suite in root] == [
        "sweep on qemu: parity/level=5,chunk=64KiB",
        "sweep on qemu: single",
    ]
    assert [one.get("classname") for one in root.iter("testcase")] == [
        "sweep.parity.level=5,chunk=64KiB",
        "sweep.single",
    ]
    assert "the run has 5 trials; trials.csv has each trial" in properties(root[0])["summarised"]


def test_a_case_has_the_worst_outcome_of_its_trials() -> None:
    root = parsed(junit(samples.RUN, 0))
    (error,) = case(root, "oltp")
    assert error.tag == "error"
    assert error.text == "trial 2: broken: the guest panicked\ntrial 3: skipped: quarantined: the guest panicked"
    assert len(case(root, "seqread/bs=1MiB")) == 0


@pytest.mark.parametrize(("outcome", "tag"), [(Outcome.CORRUPT, "failure"), (Outcome.SKIPPED, "skipped")])
def test_other_outcomes(outcome: Outcome, tag: str) -> None:
    run = replace(samples.RUN, trials=(Trial("c2", 1, outcome, "why"),), attempts=())
    (found,) = case(parsed(junit(run, 0)), "oltp")
    assert (found.tag, found.get("message")) == (tag, "why")


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(samples.runs())
def test_any_run_is_valid(run: RunData) -> None:
    root = parsed(junit(run, 0))
    assert len(list(root.iter("testcase"))) == int(root.get("tests", "-1"))


def test_only_large_runs_are_summarised() -> None:
    assert b"summarised" not in junit(samples.RUN)
    assert b"summarised" in junit(samples.RUN, 4)
