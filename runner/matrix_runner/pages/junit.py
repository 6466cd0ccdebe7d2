"""Recorded trials as JUnit XML: a suite per cell, a test case per trial.

The common schema (Jenkins' junit-10.xsd) allows properties only on suites. So the values of one trial are in its
output, as `[[PROPERTY|name=value]]` lines, which several tools read. One more suite has a test case for each guideline,
and another one for each search.

For large runs: junit_of_cells.py and junit_of_workloads.py.
"""

from __future__ import annotations

import re
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from junitparser import Error, Failure, JUnitXml, Properties, Property, Skipped, SystemOut, TestCase, TestSuite

from matrix_runner.answers.samples import Verdict
from matrix_runner.pages.knees import knee_values
from matrix_runner.pages.verdicts import explain_verdict, verdict_text
from matrix_runner.records.record import Kind, Outcome, Trial
from matrix_runner.work.metrics import FLUSH, OF_LATENCY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from junitparser.junitparser import Element, Result

    from matrix_runner.answers.knee import Knee
    from matrix_runner.answers.verdicts import Judgement
    from matrix_runner.pages.run_data import CellSummary, RunData
    from matrix_runner.work.fio.output import Direction, Figures

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")

_RESULTS: Mapping[Kind, type[Failure | Error | Skipped]] = {
    Kind.FAILURE: Failure,
    Kind.ERROR: Error,
    Kind.SKIPPED: Skipped,
}
Tails = dict[tuple[str, int], str]  # the last console output of lost rigs, by cell and round


def junit(recorded: RunData) -> bytes:
    tails = {(attempt.cell, attempt.round): attempt.tail for attempt in recorded.attempts}
    counts = {
        "tests": len(recorded.trials) + len(recorded.judgements) + len(recorded.knees),
        "failures": sum(one.failed for one in recorded.judgements) + count_kind(recorded.trials, Kind.FAILURE),
        "errors": count_kind(recorded.trials, Kind.ERROR),
        "time": _seconds(recorded.trials),
    }
    shown = (summary for summary in recorded.summaries if recorded.by_cell[summary.cell.id])
    return document(recorded, counts, (_suite(recorded, summary, tails) for summary in shown))


def document(recorded: RunData, counts: Mapping[str, float], suites: Iterable[TestSuite]) -> bytes:
    """Write one suite after the other: all test cases as objects would need gigabytes."""
    title = strip_illegal(with_marks(recorded, f"{recorded.matrix} on {recorded.machine}"))
    attributes = " ".join(f'{name}="{count}"' for name, count in counts.items())
    head = f"<?xml version='1.0' encoding='UTF-8'?>\n<testsuites name={quoteattr(title)} {attributes}>"
    parts = (one.tostring() for one in chain(suites, _more_suites(recorded)))  # type: ignore[no-untyped-call]
    return b"".join((head.encode(), *parts, b"</testsuites>"))


def _more_suites(recorded: RunData) -> list[TestSuite]:
    """Return the suites of guidelines and searches."""
    guidelines = [_guideline_suite(recorded)] if recorded.judgements else []
    return [*guidelines, *([_search_suite(recorded)] if recorded.knees else [])]


def merge_documents(documents: Sequence[bytes]) -> bytes:
    several = [JUnitXml.fromstring(document) for document in documents]
    root = JUnitXml(", ".join(dict.fromkeys(one.name for one in several)))
    for one in several:
        put_below(root, list(one))
    for name in ("tests", "failures", "errors", "time"):
        setattr(root, name, round(sum(getattr(one, name) for one in several), 3))
    return _content(root)


def _content(root: JUnitXml) -> bytes:
    written = BytesIO()
    root.write(written)
    return written.getvalue()


def strip_illegal(text: str) -> str:
    """Remove terminal colours and characters that XML cannot hold."""
    if text.isprintable():  # true for most texts, and much faster
        return text
    return _ILLEGAL.sub("", _COLOURS.sub("", text))


def _suite(recorded: RunData, summary: CellSummary, tails: Tails) -> TestSuite:
    cell, trials = summary.cell, recorded.by_cell[summary.cell.id]
    properties = Properties()  # type: ignore[no-untyped-call]
    pairs = _cell_properties(recorded, summary)
    put_below(properties, [Property(strip_illegal(name), strip_illegal(value)) for name, value in pairs])
    # Dots separate packages, so a value such as 0.5 must not have one.
    classname = strip_illegal(".".join(part.replace(".", "_") for part in (recorded.matrix, *cell.setting.split("/"))))
    suite = _filled_suite(
        with_marks(recorded, f"{recorded.matrix} on {recorded.machine}: {cell.name}"),
        [properties, *(_case(classname, cell.work, trial, tails) for trial in trials)],
        tests=len(trials),
        failures=count_kind(trials, Kind.FAILURE),
        errors=count_kind(trials, Kind.ERROR),
        skipped=count_kind(trials, Kind.SKIPPED),
        time=_seconds(trials),
    )
    if trials[0].started:
        suite.timestamp = strip_illegal(trials[0].started)
    return suite


def _guideline_suite(recorded: RunData) -> TestSuite:
    classname = strip_illegal(f"{recorded.matrix.replace('.', '_')}.guidelines")
    names = {cell.id: cell.name for cell in recorded.every}
    judgements = recorded.judgements
    return _filled_suite(
        with_marks(recorded, f"{recorded.matrix} on {recorded.machine}: guidelines"),
        [_guideline_case(classname, one, [names.get(cell, cell) for cell in one.cells]) for one in judgements],
        tests=len(judgements),
        failures=sum(one.failed for one in judgements),
        errors=0,
        skipped=sum(_is_open(one) for one in judgements),
        time=0.0,
    )


def _search_suite(recorded: RunData) -> TestSuite:
    classname = strip_illegal(f"{recorded.matrix.replace('.', '_')}.searches")
    return _filled_suite(
        with_marks(recorded, f"{recorded.matrix} on {recorded.machine}: searches"),
        [_search_case(classname, one) for one in recorded.knees],
        tests=len(recorded.knees),
        failures=0,
        errors=0,
        skipped=sum(one.work is None for one in recorded.knees),
        time=0.0,
    )


def _search_case(classname: str, knee: Knee) -> TestCase:
    case = TestCase(strip_illegal(knee.search.name), classname, 0.0)
    if knee.work is None:
        put_below(case, [Skipped("not found")])
    lines = [_line(name, str(value)) for name, value in knee_values(knee).items() if value not in {None, ""}]
    put_below(case, [SystemOut(strip_illegal("\n".join(lines)))])
    return case


def _filled_suite(title: str, children: Sequence[Element], **counts: float) -> TestSuite:
    suite = TestSuite(strip_illegal(title))
    put_below(suite, children)
    for name, count in counts.items():
        setattr(suite, name, count)
    return suite


def _guideline_case(classname: str, judgement: Judgement, cells: Sequence[str]) -> TestCase:
    case = TestCase(judgement.guideline.id, classname, 0.0)
    why = strip_illegal(f"{verdict_text(judgement)}: {explain_verdict(judgement)}")
    if judgement.failed:
        failure = Failure(why, "guideline")
        failure.text = strip_illegal(f"{judgement.guideline.claim}\n{judgement.guideline.source}\n{why}".strip())
        put_below(case, [failure])
    elif _is_open(judgement):
        put_below(case, [Skipped(why)])
    guideline = judgement.guideline
    facts = {"verdict": verdict_text(judgement), "claim": guideline.claim, "source": guideline.source}
    lines = [_line(name, _one_line(value)) for name, value in facts.items() if value]
    put_below(case, [SystemOut(strip_illegal("\n".join((*lines, why, *(f"rests on {name}" for name in cells)))))])
    return case


def _is_open(judgement: Judgement) -> bool:
    return judgement.synthetic or judgement.verdict in {Verdict.INCONCLUSIVE, Verdict.NOT_TESTED}


def _cell_properties(recorded: RunData, summary: CellSummary) -> Iterator[tuple[str, str]]:
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


def _case(classname: str, what: str, trial: Trial, tails: Tails) -> TestCase:
    case = TestCase(strip_illegal(f"{what} trial {trial.round}".strip()), classname, round(trial.seconds, 3))
    if result := _result(trial, tails):
        put_below(case, [result])
    put_below(case, [SystemOut("\n".join(_trial_lines(trial)))])
    return case


def _result(trial: Trial, tails: Tails) -> Result | None:
    tail = tails.get((trial.cell, trial.round), "") if trial.outcome.is_error else ""
    return result_of(trial.outcome, trial.reason, None if trial.outcome.is_skipped else tail or trial.reason)


def result_of(outcome: Outcome | None, message: str, text: str | None) -> Result | None:
    """Return the result of a test case with this outcome; None if it passed."""
    kind = outcome.kind if outcome else Kind.SKIPPED
    if kind is Kind.PASSED:
        return None
    result = _RESULTS[kind](strip_illegal(message) or str(outcome), None if kind is Kind.SKIPPED else str(outcome))
    if text is not None:
        result.text = strip_illegal(text)
    return result


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


def put_below(parent: Element, children: Sequence[Element]) -> None:
    parent.extend(children)  # type: ignore[no-untyped-call]


def with_marks(recorded: RunData, title: str) -> str:
    return f"{title} ({recorded.marks})" if recorded.marks else title


def _one_line(value: str) -> str:
    return value if value.isprintable() else " ".join(strip_illegal(value).split())


def count_kind(trials: Iterable[Trial], kind: Kind) -> int:
    return sum(trial.outcome.kind is kind for trial in trials)


def _seconds(trials: Iterable[Trial]) -> float:
    return round(sum(trial.seconds for trial in trials), 3)
