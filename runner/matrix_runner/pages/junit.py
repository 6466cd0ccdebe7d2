"""A run as JUnit XML: a test case per trial; in a large run per cell; in a run of very many cells per workload.

A viewer shows all test cases at once, so that large runs need larger ones. Guidelines and searches have suites of their
own.

The common schema (Jenkins' junit-10.xsd) allows properties only on suites. So the values of one trial are in its
output, as `[[PROPERTY|name=value]]` lines, which several tools read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain, groupby
from operator import attrgetter
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from junitparser import Error, Failure, JUnitXml, Properties, Property, Skipped, SystemOut, TestCase, TestSuite
from junitparser.junitparser import Element, Result

from matrix_runner.answers.cell_figures import CellFigures, Verdict
from matrix_runner.answers.knee import Knee
from matrix_runner.answers.verdicts import Judgement
from matrix_runner.base.text import strip_illegal
from matrix_runner.pages.run_data import RunData, Survey, Tally
from matrix_runner.pages.verdicts import explain_verdict, knee_values, verdict_text
from matrix_runner.records.record import Kind, Outcome, Trial, outcome_of_cell
from matrix_runner.work.fio.output import Direction, Figures
from matrix_runner.work.metrics import FLUSH, OF_LATENCY

#: With more trials, a test case is a cell.
MOST_CASES = 10_000
_SHOWN = 20  # reasons of one cell
_setting_of = attrgetter("setting")


def junit(recorded: RunData, most: int = MOST_CASES) -> bytes:
    """Write one suite after the other: all test cases as objects would need gigabytes."""
    every: Iterable[Trial | Tally] = recorded.trials
    if recorded.survey:
        suites = _of_workloads(recorded, recorded.survey)
        every = [one for one in recorded.survey.tallies.values() if one.trials]
    else:
        suites = (_of_trials if len(recorded.trials) < most else _of_cells)(recorded)
    counts, parts = Counter[str](), list[bytes]()
    for suite in chain(suites, _others(recorded)):
        counts.update(tests=suite.tests, failures=suite.failures, errors=suite.errors)
        parts.append(suite.tostring())  # type: ignore[no-untyped-call]
    title = strip_illegal(_with_marks(recorded, f"{recorded.matrix} on {recorded.machine}"))
    numbers = {name: counts[name] for name in ("tests", "failures", "errors")} | {"time": _seconds(every)}
    attributes = " ".join(f'{name}="{number}"' for name, number in numbers.items())
    head = f"<?xml version='1.0' encoding='UTF-8'?>\n<testsuites name={quoteattr(title)} {attributes}>"
    return b"".join((head.encode(), *parts, b"</testsuites>"))


def merge_documents(documents: Sequence[bytes]) -> bytes:
    several = [JUnitXml.fromstring(document) for document in documents]
    title = ", ".join(dict.fromkeys(one.name for one in several))
    return document_of_suites(title, [suite for one in several for suite in one], several)


def document_of_suites(title: str, suites: Sequence[TestSuite], counted: Sequence[Element] = ()) -> bytes:
    """Write suites below one root. `counted`: the elements with their counts, if these are not the suites."""
    root = JUnitXml(title)
    _put_below(root, suites)
    for name in ("tests", "failures", "errors", "time"):
        setattr(root, name, round(sum(getattr(one, name) for one in counted or suites), 3))
    written = BytesIO()
    root.write(written)
    return written.getvalue()


def _of_trials(recorded: RunData) -> Iterator[TestSuite]:
    tails = {(attempt.cell, attempt.round): attempt.tail for attempt in recorded.attempts}
    for summary in recorded.summaries:
        cell, trials = summary.cell, recorded.by_cell[summary.cell.id]
        if trials:
            classname = _classname(recorded, *cell.setting.split("/"))
            cases = [_of_trial(classname, cell.work, one, tails.get((cell.id, one.round), "")) for one in trials]
            yield _suite(recorded, cell.name, cases, _cell_properties(recorded, summary), trials, trials[0].started)


def _of_cells(recorded: RunData) -> Iterator[TestSuite]:
    cells = sorted((cell for cell in recorded.cells if recorded.by_cell[cell.id]), key=_setting_of)
    why = f"a test case is a cell, because the run has {len(recorded.trials):,} trials; trials.csv has each trial"
    for stack, several in groupby(cells, _setting_of):
        classname = _classname(recorded, *stack.split("/"))
        found = [(cell.work, recorded.by_cell[cell.id]) for cell in several]
        cases = [_case(classname, work, _seconds(trials), _result_of_cell(trials)) for work, trials in found]
        every = [trial for _, trials in found for trial in trials]
        yield _suite(recorded, stack, cases, _summarised(recorded, why), every)


def _of_workloads(recorded: RunData, survey: Survey) -> Iterator[TestSuite]:
    layouts: dict[str, dict[str, Tally]] = {}
    for (layout, workload), tally in survey.tallies.items():
        if tally.trials:
            layouts.setdefault(layout, {})[workload] = tally
    why = f"a test case is a workload, because the run has {len(recorded.every):,} cells; summary.csv has each cell"
    for layout, workloads in layouts.items():
        cases = [_of_tally(_classname(recorded, layout), workload, one) for workload, one in workloads.items()]
        yield _suite(recorded, layout, cases, _summarised(recorded, why), [*workloads.values()])


def _others(recorded: RunData) -> Iterator[TestSuite]:
    """Yield the suites of guidelines, searches and added sections."""
    if recorded.judgements:
        classname, names = _classname(recorded, "guidelines"), {cell.id: cell.name for cell in recorded.every}
        yield _suite(recorded, "guidelines", [_of_guideline(classname, one, names) for one in recorded.judgements])
    if recorded.knees:
        classname = _classname(recorded, "searches")
        yield _suite(recorded, "searches", [_of_search(classname, one) for one in recorded.knees])
    for one in recorded.added:
        if one.cases:
            classname = _classname(recorded, one.title)
            cases = [
                _case(classname, name, 0.0, _with_text(Failure(text), text) if has_failed else None, text)
                for name, has_failed, text in one.cases
            ]
            yield _suite(recorded, one.title, cases)


class _Case(NamedTuple):
    element: TestCase
    result: Result | None


def _suite(
    recorded: RunData,
    about: str,
    cases: Sequence[_Case],
    properties: Iterable[tuple[str, str]] = (),
    parts: Sequence[Trial | Tally] = (),
    started: str | None = None,
) -> TestSuite:
    suite = TestSuite(strip_illegal(_with_marks(recorded, f"{recorded.matrix} on {recorded.machine}: {about}")))
    if pairs := [Property(strip_illegal(name), strip_illegal(value)) for name, value in properties]:
        of_suite = Properties()  # type: ignore[no-untyped-call]
        _put_below(of_suite, pairs)
        _put_below(suite, [of_suite])
    _put_below(suite, [case.element for case in cases])
    kinds = [type(case.result) for case in cases]
    suite.tests, suite.failures, suite.errors = len(cases), kinds.count(Failure), kinds.count(Error)
    suite.skipped, suite.time = kinds.count(Skipped), _seconds(parts)
    if started is None:
        started = min((one.started for one in parts if one.started), default="")
    if started:
        suite.timestamp = strip_illegal(started)
    return suite


def _summarised(recorded: RunData, why: str) -> list[tuple[str, str]]:
    return [("machine", recorded.machine), ("synthetic", str(recorded.synthetic).lower()), ("summarised", why)]


def _classname(recorded: RunData, *parts: str) -> str:
    """Join the parts. Dots separate packages, so a value such as 0.5 must not have one."""
    return strip_illegal(".".join(part.replace(".", "_") for part in (recorded.matrix, *parts)))


def _case(classname: str, name: str, seconds: float, result: Result | None, output: str | None = None) -> _Case:
    case = TestCase(strip_illegal(name), classname, seconds)
    _put_below(case, [*filter(None, [result]), *([] if output is None else [SystemOut(output)])])
    return _Case(case, result)


_RESULTS = {Kind.FAILURE: Failure, Kind.ERROR: Error, Kind.SKIPPED: Skipped}


def _result(outcome: Outcome | None, message: str, text: str | None) -> Result | None:
    """Return the result of a test case with this outcome; None if it passed."""
    kind = outcome.kind if outcome else Kind.SKIPPED
    if kind is Kind.PASSED:
        return None
    word = None if kind is Kind.SKIPPED else str(outcome)
    return _with_text(_RESULTS[kind](strip_illegal(message) or str(outcome), word), text)


def _with_text(result: Result, text: str | None) -> Result:
    if text is not None:
        result.text = strip_illegal(text)
    return result


def _of_trial(classname: str, work: str, trial: Trial, tail: str) -> _Case:
    tail = tail if trial.outcome.is_error else ""
    result = _result(trial.outcome, trial.reason, None if trial.outcome.is_skipped else tail or trial.reason)
    return _case(
        classname, f"{work} trial {trial.round}".strip(), _seconds([trial]), result, "\n".join(_trial_lines(trial))
    )


def _result_of_cell(trials: Sequence[Trial]) -> Result | None:
    """Return the worst outcome of a cell, with the reason of each trial that was not measured."""
    reasons = [f"trial {one.round}: {one.outcome}: {one.reason}" for one in trials if one.reason]
    brief = next((one.reason for one in trials if one.reason), "")
    outcome = outcome_of_cell(Counter(one.outcome for one in trials))
    return _result(outcome, brief, None if outcome is None or outcome.is_skipped else "\n".join(reasons[:_SHOWN]))


def _of_tally(classname: str, workload: str, tally: Tally) -> _Case:
    """Return the worst outcome of the cells, with the first reasons."""
    counts = ", ".join(f"{count:,} {outcome or 'not yet run'}" for outcome, count in tally.cells.items())
    outcome = outcome_of_cell({one: count for one, count in tally.cells.items() if one})
    result = _result(outcome, counts, "\n".join(tally.reasons))
    return _case(classname, workload, _seconds([tally]), result, f"cells: {counts}")


def _of_search(classname: str, knee: Knee) -> _Case:
    lines = [_line(name, str(value)) for name, value in knee_values(knee).items() if value not in {None, ""}]
    result = Skipped("not found") if knee.work is None else None
    return _case(classname, knee.search.name, 0.0, result, strip_illegal("\n".join(lines)))


def _of_guideline(classname: str, judgement: Judgement, names: Mapping[str, str]) -> _Case:
    guideline = judgement.guideline
    why = strip_illegal(f"{verdict_text(judgement)}: {explain_verdict(judgement)}")
    result: Result | None = None
    if judgement.failed:
        result = _with_text(Failure(why, "guideline"), f"{guideline.claim}\n{guideline.source}\n{why}".strip())
    elif judgement.synthetic or judgement.verdict in {Verdict.INCONCLUSIVE, Verdict.NOT_TESTED}:
        result = Skipped(why)
    facts = {"verdict": verdict_text(judgement), "claim": guideline.claim, "source": guideline.source}
    lines = [_line(name, _one_line(value)) for name, value in facts.items() if value]
    cells = (f"rests on {names.get(cell, cell)}" for cell in judgement.cells)
    return _case(classname, guideline.id, 0.0, result, strip_illegal("\n".join((*lines, why, *cells))))


def _cell_properties(recorded: RunData, summary: CellFigures) -> Iterator[tuple[str, str]]:
    yield "cell", summary.cell.id
    yield "machine", recorded.machine
    yield "synthetic", "true" if recorded.synthetic else "false"
    yield from summary.cell.axes.items()
    if recorded.slow:
        yield "slow", recorded.slow
    yield "stopped", str(summary.stopped)
    if summary.saturated:
        yield "saturated", str(summary.saturated)
    if summary.unsettled:
        yield "unsettled", str(summary.unsettled)
    reached = summary.reaches(recorded.until)
    if reached is not None:
        yield "until", f"{recorded.until:g}"
        yield "until_reached", "true" if reached else "false"
    of_jobs = {f"{job}.{name}": one for job, figures in summary.jobs.items() for name, one in figures.items()}
    for name, estimate in (*summary.figures.items(), *of_jobs.items()):
        yield name, repr(estimate.mean)
        relative = estimate.relative
        if relative is not None:
            yield f"{name}_rel", f"{relative:.4g}"


def _trial_lines(trial: Trial) -> Iterator[str]:
    if trial.figures:
        yield from _figures("", trial.figures)
        if sync := trial.figures.rebuild:
            yield _line("sync_seconds", f"{sync.seconds:.6g} s")
            yield _line("sync_bw", f"{sync.bw:.0f} bytes/s")
        yield _line("runtime", f"{trial.figures.runtime:g} s")
        for job, figures in trial.figures.jobs.items():
            yield from _figures(f"{_one_line(job)}.", figures)
    yield _line("attempts", str(trial.attempts))
    yield _line("folder", _one_line(trial.folder))
    for name, note in trial.notes.items():
        yield _line(_one_line(name), _one_line(note))
    for reading in trial.readings:
        wanted = "" if reading.wanted is None else f" (wanted {reading.wanted})"
        yield _line(_one_line(reading.setting), _one_line(f"{reading.got}{wanted}"))


def _figures(job: str, figures: Figures) -> Iterator[str]:
    for side, direction in figures.all_sides.items():
        yield from _direction(f"{job}{side}", direction)


def _direction(side: str, direction: Direction) -> Iterator[str]:
    if not side.endswith(FLUSH):
        yield _line(f"{side}_bw", f"{direction.bw:.0f} bytes/s")
    yield _line(f"{side}_iops", f"{direction.iops:.6g}")
    yield _line(f"{side}_ios", str(direction.ios))
    for name in OF_LATENCY:
        value = getattr(direction, name)
        if value is not None:
            yield _line(f"{side}_{name}", f"{value:.0f} ns")


def _line(name: str, value: str) -> str:
    return f"[[PROPERTY|{name}={value}]]"


def _put_below(parent: Element, children: Sequence[Element]) -> None:
    parent.extend(children)  # type: ignore[no-untyped-call]


def _with_marks(recorded: RunData, title: str) -> str:
    return f"{title} ({recorded.marks})" if recorded.marks else title


def _one_line(value: str) -> str:
    return value if value.isprintable() else " ".join(strip_illegal(value).split())


def _seconds(parts: Iterable[Trial | Tally]) -> float:
    return round(sum(one.seconds for one in parts), 3)
