"""Parser of fio's `json+` output, and of profiles of a rate over a device or over time."""

import csv
import errno
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import StringIO
from types import MappingProxyType
from typing import Any

import orjson

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.text import lines_of, without_formula
from matrix_runner.statistics.percentile import Histogram, needs, percentiles
from matrix_runner.work.fio.json_fields import find_misfit
from matrix_runner.work.metrics import FLUSH, OF_LATENCY, PERCENTILES, RATES, SIDES, STALL

#: The fio version of a synthetic trial, and the one that older versions of matrix wrote.
SYNTHETIC, FORMERLY_SYNTHETIC = "synthetic, from the dry machine", "made up by the dry machine"
_EVIDENCE = 2000  # characters of output in an error


class FioFailed(HarnessBroken):
    silent = False  # fio printed no JSON at all, so the output is the only evidence

    def __init__(self, brief: str, *, evidence: str = "", resolution: str = "") -> None:
        super().__init__(brief, details=evidence, resolution=resolution)
        self.evidence = evidence


class NoJson(FioFailed):
    silent = True


@dataclass(frozen=True, slots=True)
class Direction:
    """fio's figures of one direction. Latencies are total ones in nanoseconds; None: fio did not measure them."""

    bw: float  # bytes/s
    iops: float
    bytes: int
    ios: int
    lat_mean: float | None
    lat_p50: float | None
    lat_p90: float | None
    lat_p95: float | None
    lat_p99: float | None
    lat_p999: float | None
    lat_p9999: float | None
    lat_max: float | None
    latencies: Histogram | None = None  # the latency histogram; None if fio did not print one

    def in_real_units(self, slow: int) -> "Direction":
        """Return the figures without slow motion."""
        found = {name: value / slow for name in OF_LATENCY if (value := getattr(self, name)) is not None}
        rates = {name: getattr(self, name) * slow for name in RATES}
        return replace(self, latencies=self.latencies and self.latencies.divided(slow), **rates, **found)


@dataclass(frozen=True, slots=True)
class Sync:
    """A rebuild, resync, check or repair of an array."""

    seconds: float
    bw: float  # bytes of one member per second

    def in_real_units(self, slow: int) -> "Sync":
        return Sync(self.seconds / slow, self.bw * slow)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one measured trial. A direction without I/O is None, never zero."""

    read: Direction | None
    write: Direction | None
    runtime: float  # s, of the longest job
    cpu_usr: float  # %, of one CPU, mean over jobs weighted by run time
    cpu_sys: float  # %
    errors: int  # I/O errors that the job ignored on request (`continue_on_error`)
    jobs: "Mapping[str, Figures]" = field(
        default_factory=dict, hash=False
    )  # by name, in fio's order, if there are several
    trim: Direction | None = None
    rebuild: Sync | None = None
    sync: Direction | None = None  # fsync and fdatasync, without data

    @property
    def sides(self) -> dict[str, Direction]:
        """Return the directions with I/O by name."""
        return {name: side for name in SIDES if (side := getattr(self, name))}

    @property
    def all_sides(self) -> dict[str, Direction]:
        """Return the directions with I/O and the syncs by name."""
        return self.sides | ({FLUSH: self.sync} if self.sync else {})

    @property
    def is_stalled(self) -> bool:
        """Return whether one request took a large part of the time, and was far longer than the others."""
        share, times = STALL
        longest = ((one.lat_max or 0.0, one.lat_mean or 0.0) for one in self.all_sides.values())
        return any(most > max(share * 1e9 * self.runtime, times * mean) for most, mean in longest)

    def in_real_units(self, slow: int) -> "Figures":
        """Return the figures without slow motion. Processors are not slowed down, so their shares stay."""
        if slow == 1:
            return self
        sides: dict[str, Any] = {name: side.in_real_units(slow) for name, side in self.all_sides.items()}
        jobs = {name: one.in_real_units(slow) for name, one in self.jobs.items()}
        rebuild = self.rebuild and self.rebuild.in_real_units(slow)
        return replace(self, **sides, runtime=self.runtime / slow, jobs=jobs, rebuild=rebuild)

    @property
    def deciding_rate(self) -> float:
        """Return the rate whose interval decides how often a cell is measured."""
        return self.rebuild.bw if self.rebuild else self.total_bw

    @property
    def total_bw(self) -> float:
        return sum(side.bw for side in self.sides.values())

    @property
    def total_iops(self) -> float:
        return sum(side.iops for side in self.sides.values())


def parse(text: str) -> Figures:
    return figures_of(jobs_of(find_json(text), text), text)


#: Without entries, all jobs run at the same time.
Phases = Mapping[str, int]


def figures_of(jobs: Sequence[Mapping[str, Any]], text: str, phases: Phases = MappingProxyType({})) -> Figures:
    """Return the figures of all jobs together. Jobs of a later phase begin when those of an earlier one have ended."""
    _refuse_failed(jobs)
    if misfit := find_misfit(jobs):
        raise FioFailed(f"fio's JSON cannot be used: {misfit}", evidence=_clip(text))
    figures = _figures(jobs, phases)
    if not figures.sides:
        raise FioFailed(
            "fio finished without a single read, write or trim",
            evidence=_clip(text),
            resolution="check size, offset and runtime of the workload: its range may be empty",
        )
    return replace(figures, jobs=_figures_by_job(jobs))


def _figures_by_job(jobs: Sequence[Mapping[str, Any]]) -> dict[str, Figures]:
    """Return the figures of jobs with one name together, as fio's `group_reporting` gives them."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for job in jobs:
        if name := job.get("jobname"):  # a job that fio counts with another group has an entry without name and figures
            by_name.setdefault(str(name), []).append(job)
    return {name: _figures(several, {}) for name, several in by_name.items()} if len(by_name) > 1 else {}


def missed_steady_states(jobs: Iterable[Mapping[str, Any]]) -> str:
    missed = [found for job in jobs if isinstance(found := job.get("steadystate"), dict) and not found.get("attained")]
    words = (f"{one.get('ss')} over {one.get('duration')} s not reached: {one.get('criterion')}" for one in missed)
    return "; ".join(dict.fromkeys(words))


def merge_histograms(histograms: Iterable[Mapping[str, int]]) -> Counter[int]:
    """Merge histograms as fio prints them: bin value in ns, as text, to count."""
    total: Counter[int] = Counter()
    for histogram in histograms:
        for value, count in histogram.items():
            total[int(value)] += count
    return total


def jobs_of(whole: Any, text: str) -> list[dict[str, Any]]:
    jobs = whole.get("jobs") if isinstance(whole, dict) else None
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        raise FioFailed("fio's JSON names no jobs", evidence=_clip(text))
    return jobs


def find_json(text: str) -> Any:
    lines = lines_of(text)
    first = next((number for number, line in enumerate(lines) if line.startswith("{")), None)
    if first is None:
        raise NoJson("fio printed no JSON", evidence=_clip(text))
    last = max((number for number, line in enumerate(lines) if line.rstrip() == "}"), default=len(lines))
    body = "\n".join(lines[first : last + 1])
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise FioFailed(f"fio's JSON is cut short or damaged: {problem}", evidence=_clip(text)) from problem


def _refuse_failed(jobs: Iterable[Mapping[str, Any]]) -> None:
    for job in jobs:
        if "mixed" in job and "read" not in job:  # `unified_rw_reporting=both` has all
            raise FioFailed(
                "fio reported reads and writes as one figure",
                resolution="remove `unified_rw_reporting` from the workload; matrix needs separate directions",
            )
        number = job.get("error", 0)
        if number and "total_err" not in job and isinstance(number, int) and abs(number) < 1 << 31:
            name = errno.errorcode.get(number, f"error {number}")
            raise FioFailed(
                f"fio job {job.get('jobname', '?')!r} failed with {name} ({os.strerror(number)})",
                evidence=_clip(orjson.dumps(job.get("job options", {})).decode()),
            )


def _figures(jobs: Sequence[Mapping[str, Any]], phases: Phases) -> Figures:
    weights = [job.get("job_runtime", 0) for job in jobs]
    order = [phases.get(str(job.get("jobname", "")), 0) for job in jobs]
    sides: dict[str, Any] = {
        side: _direction([(at, job[side]) for at, job in zip(order, jobs, strict=True) if side in job])
        for side in SIDES
    }
    return Figures(
        **sides,
        sync=_syncs(zip(order, jobs, strict=True)),
        runtime=max(job[side]["runtime"] for job in jobs for side in SIDES if side in job) / 1000,
        cpu_usr=_weighted([job["usr_cpu"] for job in jobs], weights) or 0.0,
        cpu_sys=_weighted([job["sys_cpu"] for job in jobs], weights) or 0.0,
        errors=sum(job.get("total_err", 0) for job in jobs),
    )


def _direction(sides: Iterable[tuple[int, Mapping[str, Any]]]) -> Direction | None:
    """Return the figures of one direction from the phase and the figures of each job."""
    ordered = [(at, side) for at, side in sides if _completed(side)]
    busy = [side for _, side in ordered]
    if not busy:
        return None
    ios = sum(map(_completed, busy))
    return Direction(
        bw=_rate((at, side["io_bytes"], side["bw_bytes"]) for at, side in ordered),
        iops=_rate((at, _completed(side), _iops(side)) for at, side in ordered),
        bytes=sum(side["io_bytes"] for side in busy),
        ios=ios,
        **_latencies([side.get("lat_ns", {}) for side in busy], ios),
    )


def _syncs(jobs: Iterable[tuple[int, Mapping[str, Any]]]) -> Direction | None:
    """Return the figures of fsync and fdatasync. fio counts them with their latencies, and names no rate of them."""
    busy = [(at, job, found) for at, job in jobs if (found := _timely(job)).get("N")]
    if not busy:
        return None
    spent = [max((job[side]["runtime"] for side in SIDES if side in job), default=0) for _, job, _ in busy]
    counts = [int(found["N"]) for *_, found in busy]
    rates = [count * 1000 / time if time else 0.0 for count, time in zip(counts, spent, strict=True)]
    return Direction(
        bw=0.0,
        iops=_rate(zip((at for at, *_ in busy), counts, rates, strict=True)),
        bytes=0,
        ios=sum(counts),
        **_latencies([found for *_, found in busy], sum(counts)),
    )


def _timely(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the latencies of a job's syncs, without those that fio dates before the job began (seen with libaio)."""
    found: Mapping[str, Any] = job.get("sync", {}).get("lat_ns", {})
    bins = merge_histograms([found.get("bins", {})])
    if len(bins) < 2 or found.get("max", 0) <= (job.get("elapsed", math.inf) + 1) * 1e9:
        return found
    del bins[max(bins)]  # fio's last bin has all that is longer
    count = bins.total()
    mean = sum(value * times for value, times in bins.items()) / count
    kept = {str(value): times for value, times in bins.items()}
    return {"N": count, "mean": mean, "max": max(bins), "bins": kept}


def _latencies(several: Sequence[Mapping[str, Any]], count: int) -> dict[str, Any]:
    # If fio did not measure latencies, its zeros have no meaning.
    counted = [one for one in several if one.get("N")]
    longest = max((float(one["max"]) for one in counted), default=None)
    bins = merge_histograms(one.get("bins", {}) for one in several)
    histogram = Histogram.of(bins) if bins else None
    return {
        "lat_mean": _weighted([one["mean"] for one in counted], [one["N"] for one in counted]),
        **_percentiles(several, count, histogram, longest),
        "lat_max": longest,
        "latencies": histogram,
    }


def _rate(parts: Iterable[tuple[int, float, float]]) -> float:
    """Return the rate of all jobs from phase, amount and rate of each: a sum in a phase, a mean over time beyond it."""
    amounts: dict[int, float] = {}
    rates: dict[int, float] = {}
    for at, amount, rate in parts:
        amounts[at] = amounts.get(at, 0.0) + amount
        rates[at] = rates.get(at, 0.0) + rate
    if len(rates) == 1 or not all(rates.values()):
        return float(sum(rates.values()))
    return sum(amounts.values()) / sum(amounts[at] / rates[at] for at in rates)


def _completed(side: Mapping[str, Any]) -> int:
    """Return the completed requests. Those in flight at the end of a ramp are only in fio's count of latencies."""
    return max(int(side["total_ios"]), int(side.get("lat_ns", {}).get("N", 0)))


def _iops(side: Mapping[str, Any]) -> float:
    counted, completed = side["total_ios"], _completed(side)
    if not counted:
        # runtime is in milliseconds, and zero for a direction without requests, which has no rate
        return float(completed * 1000 / side["runtime"]) if side["runtime"] else 0.0
    return float(side["iops"]) * completed / int(counted)


def _percentiles(
    several: Sequence[Mapping[str, Any]], count: int, histogram: Histogram | None, longest: float | None
) -> dict[str, float | None]:
    if histogram:
        found = percentiles(histogram.unpack(), [*PERCENTILES.values()])
    elif len(several) == 1:  # plain `json` has no histogram; for one job, fio's own percentiles are equivalent
        own = several[0].get("percentile", {})
        found = [own.get(f"{one:.6f}") if count >= needs(one) else None for one in PERCENTILES.values()]
    else:
        found = [None] * len(PERCENTILES)
    values = (one if one is None else float(one if longest is None else min(one, longest)) for one in found)
    return dict(zip(PERCENTILES, values, strict=True))


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float | None:
    total = sum(weights)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total if total else None


def _clip(text: str) -> str:
    """Return the end of an output, because the cause of an error is usually there."""
    return text if len(text) <= _EVIDENCE else "…" + text[-_EVIDENCE:]


_READ, _WRITE = 0, 1
_DIGITS = 18
_POSITIONS = ("offset", "bytes", "seconds", "bw")


def table_by_position(output: str, slow: int = 1) -> str:
    """Return a CSV table of a full pass: offset and rate. Each place ends where the next begins."""
    places = sorted(_numbers(output, 4))
    starts = [0, *(last for *_, last in places[:-1])]
    rows = [_row(at, moved, (last - start) / slow) for (at, moved, _, last), start in zip(places, starts, strict=False)]
    return csv_text(_POSITIONS, rows)


def table_by_sample(output: str, bs: int, slow: int = 1) -> str:
    """Return the same table for samples: the rate from the first to the last completion at each place."""
    places = sorted(_numbers(output, 4))
    return csv_text(_POSITIONS, [_row(at, moved - bs, (last - first) / slow) for at, moved, first, last in places])


def _row(offset: int, moved: int, milliseconds: float) -> tuple[int, int, str, str]:
    seconds = milliseconds / 1000
    return offset, moved, f"{seconds:.3f}", f"{moved / seconds:.0f}" if seconds > 0 else ""


def table_by_time(output: str, stretch: float, slow: int = 1) -> str:
    """Return a CSV table of the rates over time. `stretch`: the seconds of an interval, without slow motion."""
    rates = {(number, direction): rate * 1024 * slow for number, direction, rate in _numbers(output, 3)}
    numbers = sorted({number for number, _ in rates})
    rows = [(f"{at * stretch:g}", rates.get((at, _READ), 0), rates.get((at, _WRITE), 0)) for at in numbers]
    return csv_text(("seconds", "read_bw", "write_bw"), rows)


@dataclass(frozen=True, slots=True)
class Piece:
    along: str  # the column of the position: `offset` or `seconds`
    at: float
    length: float
    side: str  # the direction; empty if the table has only one
    moved: float
    seconds: float


def parse_pieces(table: str) -> Iterator[Piece]:
    for row in csv.DictReader(StringIO(table)):
        with suppress(KeyError, TypeError, ValueError):
            seconds = float(row["seconds"])
            if "offset" in row:
                moved = float(row["bytes"])
                yield Piece("offset", float(row["offset"]), moved, "", moved, seconds)
            else:
                sides = [(side, float(row[f"{side}_bw"])) for side in ("read", "write")]
                yield from (Piece("seconds", seconds, 0.0, side, rate, 1.0) for side, rate in sides)


def mark_synthetic(table: str) -> str:
    head, *rows = lines_of(table)
    return "".join(f"{line}\n" for line in (f"{head},synthetic", *(f"{row},true" for row in rows)))


def _numbers(output: str, count: int) -> Iterator[tuple[int, ...]]:
    for line in lines_of(output):
        words = line.split("\t")
        if len(words) == count and all(word.isdecimal() and len(word) <= _DIGITS for word in words):
            yield tuple(int(word) for word in words)


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(without_formula, row) for row in (head, *rows))
    return text.getvalue()
