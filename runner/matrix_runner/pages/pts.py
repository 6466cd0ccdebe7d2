"""The tables of tests of SNIA: results, steady state, and the course of the rounds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

from matrix_runner.answers.axes import grouped
from matrix_runner.pages.axis_charts import Plot, Series, point
from matrix_runner.pages.charts import ticks
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.table import Grid, Sheet, Value, as_sheet
from matrix_runner.pages.terminal_text import figure
from matrix_runner.records.record import UNSETTLED, CellRow, Trial
from matrix_runner.statistics.stopping import MOST_RANGE, MOST_SLOPE, last_window
from matrix_runner.work.fio.output import csv_text
from matrix_runner.work.pts.output import COLUMNS, KIB, MEASURES, TESTS, Point, PtsTest, RoundRow, parse_rounds

PRESET = "workload.preset"
_MOST_LINES = 6  # lines of a chart: the page has as many styles
_MOST_REPORTS = 10  # on the terminal
_MOST_ROUNDS = 50  # rows of a table of rounds; the CSV file has all
_SHOWN: Mapping[str, tuple[tuple[str, str, str], ...]] = {  # title, measure and unit of the result tables
    "iops": (("IOPS", "iops", "1/s"),),
    "bw": (("Throughput", "bw", "bytes/s"),),
    "lat": (("Average latency", "lat_mean", "ns"), ("Maximum latency", "lat_max", "ns")),
}
_UNITS = {test: (measure, unit) for test, ((_, measure, unit), *_) in _SHOWN.items()}


@dataclass(frozen=True, slots=True)
class PtsReport:
    """The report of one cell, from all trials that have rounds."""

    name: str
    facts: tuple[str, ...]
    results: tuple[tuple[str, Grid], ...]  # with their captions; empty if the course is the result
    course: tuple[tuple[str, Grid], ...]
    chart: Plot

    @property
    def tables(self) -> tuple[tuple[str, Grid], ...]:
        return (*self.results, *self.course)


def pts_reports(recorded: RunData) -> Iterator[PtsReport]:
    for cell in recorded.cells:
        tables = [parse_rounds(one) for one in recorded.rounds.get(cell.id, {}).values()]
        if tables and (test := TESTS.get(cell.axes.get(PRESET, ""))):
            trials = [one for one in recorded.by_cell[cell.id] if one.outcome.counts]
            yield _report(cell.name, test, tables, trials)


def has_tables(cell: CellRow) -> bool:
    """Return whether the results of its points have a separate table, so that a table of jobs is not needed."""
    test = TESTS.get(cell.axes.get(PRESET, ""))
    return test is not None and not test.is_curve


def pts_sheets(recorded: RunData) -> Iterator[Sheet]:
    """Yield the tables of results for the terminal."""
    for report in islice(pts_reports(recorded), _MOST_REPORTS):
        for caption, grid in report.results:
            yield replace(as_sheet(grid), title=f"{report.name}: {caption}")


def _report(name: str, test: PtsTest, tables: Sequence[Sequence[RoundRow]], trials: Sequence[Trial]) -> PtsReport:
    tracked = _tracked(test, tables[-1])
    several = f", means of {len(tables)} trials" if len(tables) > 1 else ""
    results = [
        (f"{title} by request size and R/W mix, last five rounds{several}", _result_table(test, tables, measure, unit))
        for title, measure, unit in _SHOWN[test.figure]
    ]
    last = tables[-1]
    return PtsReport(
        name,
        tuple(_facts(test, trials)),
        () if test.is_curve else tuple(results),
        (
            ("Steady state of the last trial", _steady_table(test, last, tracked)),
            ("Rounds of the last trial", _round_table(last, test, tracked)),
        ),
        _chart(name, test, last, tracked),
    )


def _facts(test: PtsTest, trials: Sequence[Trial]) -> Iterator[str]:
    yield f"Test {test.title} of SNIA's Performance Test Specification 2.0.2."
    for note, words in (("not_as_specified", "Not as specified"), ("purge", "Purge"), ("precondition", "Filled")):
        yield from dict.fromkeys(f"{words}: {trial.notes[note]}." for trial in trials if note in trial.notes)
    for trial in trials:
        found = trial.notes.get(UNSETTLED) or trial.notes.get("steady_state", "")
        yield f"Trial {trial.round}: {'steady state in ' * bool(trial.facts.steady)}{found}."


def _tracked(test: PtsTest, rows: Sequence[RoundRow]) -> list[str]:
    """Return the jobs that must be steady, in the order of the test."""
    jobs = dict.fromkeys(row.job for row in rows)
    points = {job: test.points[job] for job in jobs}
    return [
        job
        for read, size in test.tracked
        for job, point in points.items()
        if point.read == read and size in {0, point.size}
    ]


def _result_table(test: PtsTest, tables: Sequence[Sequence[RoundRow]], measure: str, unit: str) -> Grid:
    combine: Callable[[Sequence[float]], float] = max if measure == "lat_max" else fmean
    counted = ((test.points[row.job], row.measures[measure]) for rows in tables for row in rows if row.in_window)
    found = grouped((point, value) for point, value in counted if value is not None)
    reads, sizes = (dict.fromkeys(getattr(point, name) for point in found) for name in ("read", "size"))
    rows_of_grid: list[tuple[Value, ...]] = []
    for size in sizes:
        values = [found.get(Point(read, size)) for read in reads]
        texts = (figure(combine(one), unit) if one else "" for one in values)
        rows_of_grid.append((f"{size / KIB:g}", *texts))
    headings = [f"R/W {read}/{100 - read}" for read in reads]
    return Grid(("request in KiB", *headings), rows_of_grid, (), frozenset(headings))


def _steady_table(test: PtsTest, rows: Sequence[RoundRow], tracked: Sequence[str]) -> Grid:
    measure, unit = _UNITS[test.figure]
    columns = ("point", "average", "range", "allowed range", "rise of the line", "allowed rise", "line", "steady")
    found: list[tuple[Value, ...]] = []
    for job in tracked:
        window = last_window([row.measures[measure] or 0.0 for row in rows if row.job == job], test.apart)
        if window is None:
            found.append((job, *([""] * (len(columns) - 2)), "too few rounds"))
            continue
        average = window.average
        values = (average, window.range, MOST_RANGE * average, window.excursion, MOST_SLOPE * average)
        start, slope = (figure(one, unit) for one in (average - 2 * window.slope, abs(window.slope)))
        line = f"{start} {'+' if window.slope >= 0 else '-'} {slope} each round"
        found.append((job, *(figure(one, unit) for one in values), line, "yes" if window.is_steady else "no"))
    return Grid(columns, found, (), frozenset(columns[1:-2]))


def _round_table(rows: Sequence[RoundRow], test: PtsTest, tracked: Sequence[str]) -> Grid:
    measures = ("iops", "lat_mean", "lat_max") if test.is_curve else (_UNITS[test.figure][0],)
    units = {measure: unit for several in _SHOWN.values() for _, measure, unit in several}
    words = {"iops": "IOPS", "bw": "throughput", "lat_mean": "average latency", "lat_max": "maximum latency"}
    shown = [(job, measure) for job in tracked for measure in measures]
    columns = ("round", *(f"{job}: {words[measure]}" for job, measure in shown))
    count = max((row.round for row in rows), default=0)
    by_round = {(row.round, row.job): row for row in rows}
    every = -(-count // _MOST_ROUNDS)
    lines: list[tuple[Value, ...]] = [
        (str(number), *(_text(by_round.get((number, job)), measure, units[measure]) for job, measure in shown))
        for number in range(1, count + 1, every)
    ]
    notes = (f"one in {every} rounds; rounds.csv has all",) if every > 1 else ()
    return Grid(columns, lines, notes, frozenset(columns[1:]))


def _text(row: RoundRow | None, measure: str, unit: str) -> str:
    return figure(row.measures[measure], unit) if row else ""


def _chart(name: str, test: PtsTest, rows: Sequence[RoundRow], tracked: Sequence[str]) -> Plot:
    measure, unit = _UNITS[test.figure]
    writes = dict.fromkeys(row.job for row in rows if not test.points[row.job].read)
    known = [*dict.fromkeys((*(job for job in tracked if job in writes), *writes))]
    jobs = known[:_MOST_LINES]
    count = max((row.round for row in rows), default=1)
    top = max((row.measures[measure] or 0.0 for row in rows if row.job in jobs), default=0.0) or 1.0
    series = tuple(
        Series(
            job,
            tuple(
                point(row.round, count, value or 0.0, top, f"round {row.round}: {figure(value, unit)}")
                for row in rows
                for value in (row.measures[measure],)
                if row.job == job
            ),
        )
        for job in jobs
    )
    across = tuple(replace(one, text=one.text.partition(".")[0]) for one in ticks(count, "", 100))
    about = f"A line for each request size, over the rounds of the last trial: the {test.title} of writes."
    part = f" ({len(jobs)} of {len(known)} request sizes)" if len(known) > len(jobs) else ""
    return Plot(f"{name}: writes by round{part}", about, series, across, ticks(top, unit, 100), dots=count <= 30)


HEAD = ("cell", "trial", "machine", "synthetic")


def rounds_csv(recorded: RunData) -> str:
    """Return a row for each round and point of all tests; empty without such tests."""
    place = (recorded.machine, str(recorded.synthetic).lower())
    rows = [
        (cell.name, str(trial), *place, str(row.round), row.job, str(int(row.in_window)), *texts)
        for cell in recorded.cells
        for trial, table in recorded.rounds.get(cell.id, {}).items()
        for row in parse_rounds(table)
        for texts in [["" if one is None else f"{one:.10g}" for one in map(row.measures.get, MEASURES)]]
    ]
    return csv_text((*HEAD, *COLUMNS), rows) if rows else ""
