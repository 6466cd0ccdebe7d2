"""A large run as JUnit XML: a suite per stack and a test case per cell, because viewers show all test cases at once."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from junitparser import Error, Failure, Properties, Property, Skipped, TestCase, TestSuite

from matrix_runner.pages.junit import document, put_below, result_of, strip_illegal, with_marks
from matrix_runner.records.record import outcome_of_cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from junitparser.junitparser import Result

    from matrix_runner.pages.run_data import RunData
    from matrix_runner.records.record import CellRow, Trial

#: With more trials, a test case is a cell.
MOST_CASES = 10_000
_SHOWN = 20  # reasons of one cell
_setting = attrgetter("setting")


def junit_of_cells(recorded: RunData) -> bytes:
    cells = [cell for cell in recorded.cells if recorded.by_cell[cell.id]]
    cells.sort(key=_setting)
    trials = recorded.trials
    counts = {
        "tests": len(cells) + len(recorded.judgements) + len(recorded.knees),
        "failures": len({one.cell for one in trials if one.outcome.is_failure})
        + sum(one.failed for one in recorded.judgements),
        "errors": len({one.cell for one in trials if one.outcome.is_error}),
        "time": round(sum(one.seconds for one in trials), 3),
    }
    suites = (_suite(recorded, stack, list(several)) for stack, several in groupby(cells, _setting))
    return document(recorded, counts, suites)


def _suite(recorded: RunData, stack: str, cells: Sequence[CellRow]) -> TestSuite:
    trials = [trial for cell in cells for trial in recorded.by_cell[cell.id]]
    suite = TestSuite(strip_illegal(with_marks(recorded, f"{recorded.matrix} on {recorded.machine}: {stack}")))
    properties = Properties()  # type: ignore[no-untyped-call]
    told = f"a test case is a cell, because the run has {len(recorded.trials):,} trials; trials.csv has each trial"
    pairs = {"machine": recorded.machine, "synthetic": str(recorded.synthetic).lower(), "summarised": told}
    put_below(properties, [Property(name, strip_illegal(value)) for name, value in pairs.items()])
    classname = strip_illegal(".".join(part.replace(".", "_") for part in (recorded.matrix, *stack.split("/"))))
    results = {cell.id: _result(recorded.by_cell[cell.id]) for cell in cells}
    put_below(suite, [properties, *_cases(recorded, classname, cells, results)])
    kinds = [type(one) for one in results.values()]
    suite.tests, suite.failures, suite.errors = len(cells), kinds.count(Failure), kinds.count(Error)
    suite.skipped, suite.time = kinds.count(Skipped), round(sum(one.seconds for one in trials), 3)
    if began := min((trial.started for trial in trials if trial.started), default=""):
        suite.timestamp = strip_illegal(began)
    return suite


def _cases(
    recorded: RunData, classname: str, cells: Sequence[CellRow], results: dict[str, Result | None]
) -> Iterator[TestCase]:
    for cell in cells:
        seconds = sum(trial.seconds for trial in recorded.by_cell[cell.id])
        case = TestCase(strip_illegal(cell.work), classname, round(seconds, 3))
        if result := results[cell.id]:
            put_below(case, [result])
        yield case


def _result(trials: Sequence[Trial]) -> Result | None:
    """Return the worst outcome of a cell, with the reason of each trial that was not measured."""
    reasons = [f"trial {one.round}: {one.outcome}: {one.reason}" for one in trials if one.reason]
    text = "\n".join(reasons[:_SHOWN])
    brief = next((one.reason for one in trials if one.reason), "")
    outcome = outcome_of_cell(Counter(one.outcome for one in trials))
    return result_of(outcome, brief, None if outcome is None or outcome.is_skipped else text)
