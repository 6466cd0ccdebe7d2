"""A run of very many cells as JUnit XML: a suite per layout and a test case per workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from junitparser import Error, Failure, Properties, Property, Skipped, SystemOut, TestCase, TestSuite

from matrix_runner.pages.junit import document, put_below, result_of, strip_illegal, with_marks
from matrix_runner.records.record import outcome_of_cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from junitparser.junitparser import Result

    from matrix_runner.pages.run_data import RunData
    from matrix_runner.pages.survey import Survey, Tally


def junit_of_workloads(recorded: RunData, survey: Survey) -> bytes:
    layouts: dict[str, dict[str, Tally]] = {}
    for (layout, workload), tally in survey.tallies.items():
        if tally.trials:
            layouts.setdefault(layout, {})[workload] = tally
    tallies = [tally for several in layouts.values() for tally in several.values()]
    counts = {
        "tests": len(tallies) + len(recorded.judgements),
        "failures": sum(isinstance(_result(one), Failure) for one in tallies)
        + sum(one.failed for one in recorded.judgements),
        "errors": sum(isinstance(_result(one), Error) for one in tallies),
        "time": round(sum(one.seconds for one in tallies), 3),
    }
    return document(recorded, counts, (_suite(recorded, layout, several) for layout, several in layouts.items()))


def _suite(recorded: RunData, layout: str, workloads: Mapping[str, Tally]) -> TestSuite:
    suite = TestSuite(strip_illegal(with_marks(recorded, f"{recorded.matrix} on {recorded.machine}: {layout}")))
    properties = Properties()  # type: ignore[no-untyped-call]
    why = f"a test case is a workload, because the run has {len(recorded.every):,} cells; summary.csv has each cell"
    pairs = {"machine": recorded.machine, "synthetic": str(recorded.synthetic).lower(), "summarised": why}
    put_below(properties, [Property(name, strip_illegal(value)) for name, value in pairs.items()])
    classname = strip_illegal(".".join(part.replace(".", "_") for part in (recorded.matrix, layout)))
    results = [_result(one) for one in workloads.values()]
    cases = [
        _case(classname, workload, tally, result)
        for (workload, tally), result in zip(workloads.items(), results, strict=True)
    ]
    put_below(suite, [properties, *cases])
    kinds = [type(one) for one in results]
    suite.tests, suite.failures, suite.errors = len(cases), kinds.count(Failure), kinds.count(Error)
    suite.skipped, suite.time = kinds.count(Skipped), round(sum(one.seconds for one in workloads.values()), 3)
    if began := min(filter(None, (one.started for one in workloads.values())), default=""):
        suite.timestamp = strip_illegal(began)
    return suite


def _case(classname: str, workload: str, tally: Tally, result: Result | None) -> TestCase:
    case = TestCase(strip_illegal(workload), classname, round(tally.seconds, 3))
    if result:
        put_below(case, [result])
    put_below(case, [SystemOut(f"cells: {_counted(tally)}")])
    return case


def _counted(tally: Tally) -> str:
    return ", ".join(f"{count:,} {outcome or 'not yet run'}" for outcome, count in tally.cells.items())


def _result(tally: Tally) -> Result | None:
    """Return the worst outcome of the cells, with the first reasons."""
    outcome = outcome_of_cell({one: count for one, count in tally.cells.items() if one})
    return result_of(outcome, _counted(tally), "\n".join(tally.reasons))
