"""The tests of SNIA's Performance Test Specification 2.0.2, and the rounds of one from fio's output."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import product, starmap
from typing import Any, Literal

import orjson

from matrix_runner.base.text import lines_of
from matrix_runner.statistics.stopping import WINDOW, Window, last_window
from matrix_runner.work.fio.output import Figures, FioFailed, csv_text, figures_of, jobs_of
from matrix_runner.work.metrics import PERCENTILES
from matrix_runner.work.workload import Result

KIB = 1024


@dataclass(frozen=True, slots=True)
class Point:
    read: int  # per cent of the requests
    size: int  # bytes of a request

    @property
    def name(self) -> str:
        size = f"{self.size // KIB}k" if self.size % KIB == 0 else str(self.size)
        return f"r{self.read}w{100 - self.read}-{size}"


Figure = Literal["iops", "bw", "lat"]


@dataclass(frozen=True, slots=True)
class PtsTest:
    title: str
    mixes: tuple[int, ...]  # per cent of reads, in the order of the specification
    sizes: tuple[int, ...]
    tracked: tuple[tuple[int, int], ...]  # mixes and sizes of the points that must be steady
    figure: Figure  # of these points
    iodepth: int
    numjobs: int
    rounds: int
    random: bool = True
    #: A device is written twice before, in requests of this size; 0: its own size; None: it stays purged.
    fill: int | None = 128 * KIB
    apart: int = 1  # rounds between the values of a window
    capacities: int = 0  # it ends when the capacity is written as often; 0: no such end
    fixed: frozenset[str] = frozenset()  # keys that the specification sets
    each_size: bool = False  # each size is a test of its own, with its own purge

    @property
    def points(self) -> Mapping[str, Point]:
        """Return the points by name, which is that of their jobs."""
        return {one.name: one for one in starmap(Point, product(self.mixes, self.sizes))}

    @property
    def is_curve(self) -> bool:
        """Return whether the course of the rounds is its result, with or without a steady state."""
        return self.capacities > 0


_IOPS_SIZES = tuple(size * KIB for size in (1024, 128, 64, 32, 16, 8, 4))
TESTS: Mapping[str, PtsTest] = {
    "snia-iops": PtsTest(
        "IOPS",
        mixes=(100, 95, 65, 50, 35, 5, 0),
        sizes=(*_IOPS_SIZES, 512),
        tracked=((0, 4 * KIB), (65, 64 * KIB), (100, 1024 * KIB)),
        figure="iops",
        iodepth=32,
        numjobs=4,
        rounds=25,
    ),
    "snia-throughput": PtsTest(
        "throughput",
        mixes=(100, 0),
        sizes=(1024 * KIB, 128 * KIB),
        tracked=((0, 0),),
        figure="bw",
        iodepth=32,
        numjobs=1,
        rounds=25,
        random=False,
        fill=0,
        each_size=True,
    ),
    "snia-latency": PtsTest(
        "latency",
        mixes=(100, 65, 0),
        sizes=(8 * KIB, 4 * KIB, 512),
        tracked=((0, 4 * KIB),),
        figure="lat",
        iodepth=1,
        numjobs=1,
        rounds=25,
        fixed=frozenset({"iodepth", "numjobs"}),
    ),
    "snia-wsat": PtsTest(
        "write saturation",
        mixes=(0,),
        sizes=(4 * KIB,),
        tracked=((0, 4 * KIB),),
        figure="iops",
        iodepth=32,
        numjobs=4,
        rounds=360,
        fill=None,
        apart=30,
        capacities=4,
    ),
}


ROUNDS = "rounds.csv"
#: Columns of the table after round, job and whether the round is one of the last five.
MEASURES = ("iops", "bw", "lat_mean", "lat_max")
COLUMNS = ("round", "job", "in_window", *MEASURES)


def documents(output: str) -> Iterator[Any]:
    """Yield the JSON documents of a text; braces at the beginning of a line enclose each."""
    lines: list[str] | None = None
    for line in lines_of(output):
        if line.startswith("{"):
            lines = []
        if lines is not None:
            lines.append(line)
        if lines and line.rstrip() == "}":
            yield _parsed("\n".join(lines))
            lines = None
        elif lines and len(lines) == 1 and line.rstrip().endswith("}"):
            yield _parsed(line)  # a document in one line
            lines = None
    if lines:
        raise FioFailed("fio's JSON is cut short", evidence="\n".join(lines[-20:]))


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise FioFailed(f"fio's JSON is damaged: {problem}", evidence=text[-2000:]) from problem


def pts_result(output: str, test: PtsTest, points: tuple[str, ...], deviations: str, slow: int = 1) -> Result:
    """Return the result of a test: the figures are those of the last five rounds, and of its first tracked point.

    Raise FioFailed without figures. `points`: the first one of a round, then the tracked ones. `slow`: the factor of
    its times.
    """
    first, *tracked = points
    rounds = [figures_of(jobs_of(one, output), output) for one in documents(output)]
    if not rounds:
        raise FioFailed("fio printed no JSON", evidence=output[-2000:])
    by_job = [one.jobs or {first: one} for one in rounds]
    missing = next((name for name in tracked if any(name not in one for one in by_job)), "")
    if missing:
        raise FioFailed(f"fio reported no figures of {missing} in a round")
    last = by_job[-WINDOW:]
    jobs = {name: _mean([one[name] for one in last]) for name in last[-1] if all(name in one for one in last)}
    main = replace(jobs[tracked[0]], jobs=jobs if len(jobs) > 1 else {})
    windows = {name: last_window([_value(one[name], test.figure) for one in by_job], test.apart) for name in tracked}
    steady = all(one and one.is_steady for one in windows.values())
    written = sum(one.write.bytes for each in by_job for one in each.values() if one.write)
    table = _table([{name: one.in_real_units(slow) for name, one in each.items()} for each in by_job])
    return Result(
        main.in_real_units(slow),
        _unsettled(windows, test, len(rounds)),
        notes={
            "rounds": str(len(rounds)),
            "written_in_rounds": str(written),
            **_notes(windows, test, len(rounds), steady=steady),
            **({"not_as_specified": deviations} if deviations else {}),
        },
        files={ROUNDS: table},
        steady=steady,
        written_in_rounds=written,
    )


def _mean(rounds: Sequence[Figures]) -> Figures:
    """Return the means over rounds; the maximum of a latency is that of all."""
    sides: dict[str, Any] = {}
    for side in rounds[0].all_sides:
        found = [one.all_sides[side] for one in rounds if side in one.all_sides]
        latencies = [(one.lat_mean, one.ios) for one in found if one.lat_mean is not None]
        count = sum(ios for _, ios in latencies)
        sides[side] = replace(
            found[-1],
            bw=sum(one.bw for one in found) / len(rounds),
            iops=sum(one.iops for one in found) / len(rounds),
            bytes=sum(one.bytes for one in found),
            ios=sum(one.ios for one in found),
            lat_mean=sum(mean * ios for mean, ios in latencies) / count if count else None,
            **dict.fromkeys(PERCENTILES),
            lat_max=max((one.lat_max for one in found if one.lat_max is not None), default=None),
            latencies=None,
        )
    return replace(
        rounds[-1],
        **sides,
        runtime=sum(one.runtime for one in rounds),
        cpu_usr=sum(one.cpu_usr for one in rounds) / len(rounds),
        cpu_sys=sum(one.cpu_sys for one in rounds) / len(rounds),
    )


def _value(figures: Figures, figure: Figure) -> float:
    if figure == "iops":
        return figures.total_iops
    if figure == "bw":
        return figures.total_bw
    return sum(side.lat_mean or 0.0 for side in figures.sides.values())


def _unsettled(windows: Mapping[str, Window | None], test: PtsTest, rounds: int) -> str:
    if test.is_curve:
        return ""
    missed = [f"{name}: {one or 'fewer than 5 rounds'}" for name, one in windows.items() if not (one and one.is_steady)]
    return f"no steady state in {rounds} rounds: {'; '.join(missed)}" if missed else ""


def _notes(windows: Mapping[str, Window | None], test: PtsTest, count: int, *, steady: bool) -> dict[str, str]:
    notes = {}
    if steady:
        first = count - (WINDOW - 1) * test.apart
        detail = "; ".join(f"{name}: {one}" for name, one in windows.items())
        notes["steady_state"] = f"rounds {first} to {count}; {detail}"
    elif test.is_curve:
        notes["steady_state"] = f"no steady state in {count} rounds"
    return notes


def _table(rounds: Sequence[Mapping[str, Figures]]) -> str:
    first = max(0, len(rounds) - WINDOW)
    rows = [
        (str(number + 1), name, str(int(number >= first)), *_measures(one))
        for number, each in enumerate(rounds)
        for name, one in each.items()
    ]
    return csv_text(COLUMNS, rows)


def _measures(figures: Figures) -> Iterator[str]:
    """Yield the measures of both directions together; latencies in nanoseconds."""
    sides = [*figures.sides.values()]
    count = sum(side.ios for side in sides if side.lat_mean is not None)
    total = sum(side.lat_mean * side.ios for side in sides if side.lat_mean is not None)
    yield f"{figures.total_iops:.6g}"
    yield f"{figures.total_bw:.0f}"
    yield f"{total / count:.0f}" if count else ""
    yield f"{max(side.lat_max or 0.0 for side in sides):.0f}"


@dataclass(frozen=True, slots=True)
class RoundRow:
    round: int
    job: str
    in_window: bool
    measures: Mapping[str, float | None]  # by MEASURES


def parse_rounds(table: str) -> list[RoundRow]:
    rows = csv.DictReader(StringIO(table))
    return [
        RoundRow(
            int(row["round"]),
            row["job"],
            row["in_window"] == "1",
            {name: float(row[name]) if row[name] else None for name in MEASURES},
        )
        for row in rows
    ]
