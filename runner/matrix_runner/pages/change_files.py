"""Comparisons and histories for other programs: as JUnit XML, and as OpenMetrics for the textfile collector."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from math import exp
from typing import NamedTuple

from junitparser import Failure, Skipped, TestCase, TestSuite

from matrix_runner.answers.comparison import Comparison, Line, Speed
from matrix_runner.answers.history import Alarm, Series, find_alarms
from matrix_runner.base.text import strip_illegal
from matrix_runner.pages.compare_table import describe_alarm, describe_change, describe_line
from matrix_runner.pages.junit import document_of_suites
from matrix_runner.pages.timeline import describe_history_alarm
from matrix_runner.records.store import RunRow

HELP = {
    "matrix_speed_ratio": "How many times as fast the run is as the accepted level.",
    "matrix_alarm": "1 if the figure is slower than the accepted level.",
    "matrix_run_start_seconds": "The start of the latest run, in seconds since 1970.",
}


_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Checked(NamedTuple):
    """A figure of a cell, and what is wrong with it."""

    run: RunRow
    cell: str
    figure: str
    alarm: str = ""  # its name; empty: no alarm
    text: str = ""
    unknown: str = ""  # why there is no verdict
    speed: float | None = None


def checks_of_comparison(done: Comparison) -> list[Checked]:
    alarms = {id(line): alarm for alarm in find_alarms(done.lines) for line in alarm.figures}
    return [_checked_line(line, alarms.get(id(line))) for line in done.lines]


def _checked_line(line: Line, alarm: Alarm[Line] | None) -> Checked:
    run = line.pair.right[-1].run
    text = "\n".join((describe_line(line), *(f"accepted: {describe_change(one)}" for one in line.known)))
    name, about = (alarm.name, describe_alarm(alarm)) if alarm else ("", "")
    unknown = "the interval is too wide to tell" if line.speed is Speed.UNKNOWN else ""
    text = f"{text}\n{about}" if about else text
    return Checked(run, line.name, line.metric, name, text, unknown, exp(line.log_speed))


def checks_of_history(series: Sequence[Series], alarms: Sequence[Alarm[Series]]) -> list[Checked]:
    by_series = {id(one): alarm for alarm in alarms for one in alarm.figures}
    found = []
    for one in series:
        alarm = by_series.get(id(one))
        name, text = (alarm.name, describe_history_alarm(alarm)) if alarm else ("", "")
        found.append(Checked(one.points[-1].samples.run, one.cell.name, one.metric, name, text))
    return found


def junit_of_changes(title: str, checks: Iterable[Checked]) -> bytes:
    suites: dict[str, TestSuite] = {}
    for one in checks:
        place = f"{one.run.matrix} on {one.run.machine}{f' of {one.run.host}' if one.run.host else ''}"
        case = TestCase(strip_illegal(f"{one.cell} {one.figure}"), strip_illegal(f"{one.run.matrix}.changes"), 0)
        if one.alarm:
            result = Failure(strip_illegal(f"slower: {one.alarm}"), "slower")
            result.text = strip_illegal(one.text)
            case.result = [result]
        elif one.unknown:
            case.result = [Skipped(one.unknown)]
        suites.setdefault(place, TestSuite(strip_illegal(place))).add_testcase(case)
    return document_of_suites(strip_illegal(title), [*suites.values()])


def metrics_of_changes(checks: Sequence[Checked]) -> bytes:
    """Return gauges by figure. Labels name the matrix, machine, host, cell, figure and alarm."""
    return "".join(f"{line}\n" for line in (*_metric_lines(checks), "# EOF")).encode()


def _metric_lines(checks: Sequence[Checked]) -> Iterator[str]:
    in_order = sorted(checks, key=lambda one: one.run.started)
    latest = {tuple(_of_run(one.run).items()): one.run for one in in_order}
    # A changed cell has the name of the one before it. Collectors refuse a file that has labels twice.
    checks = [*{tuple(_labels(one).items()): one for one in in_order}.values()]
    samples: dict[str, list[tuple[dict[str, str], float]]] = {
        "matrix_speed_ratio": [(_labels(one), one.speed) for one in checks if one.speed is not None],
        "matrix_alarm": [(_labels(one) | {"alarm": one.alarm}, int(bool(one.alarm))) for one in checks],
        "matrix_run_start_seconds": [
            (_of_run(run), datetime.fromisoformat(run.started).timestamp()) for run in latest.values()
        ],
    }
    for name, several in samples.items():
        if several:
            yield from (f"# TYPE {name} gauge", f"# HELP {name} {HELP[name]}")
        for labels, value in several:
            texts = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
            yield f"{name}{{{texts}}} {value:.10g}"


def _of_run(run: RunRow) -> dict[str, str]:
    return {"matrix": run.matrix, "machine": run.machine, "host": run.host}


def _labels(one: Checked) -> dict[str, str]:
    return {**_of_run(one.run), "cell": one.cell, "figure": one.figure}
