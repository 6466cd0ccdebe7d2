"""fio's `json+` into the figures we keep.

Every latency is the total one (`lat_ns`): from the moment a request is submitted until it is complete. md and others
may block inside the submission, which fio's completion latency (`clat_ns`, its default) leaves out.

Percentiles come from fio's own histogram (`lat_ns.bins`, which `lat_percentiles=1` asks for), merged over jobs before
anything is read off it (`runner.statistics.histogram`), and kept, to be merged over trials. For one job group this
therefore equals fio's own `lat_ns.percentile`, except that none is above the longest latency, as the middle of the last
bin may be, and that those of which there is too little to tell are not there.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from runner.base.errors import HarnessBroken
from runner.statistics.histogram import Histogram
from runner.statistics.percentile import needs, percentiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: The percentiles that are told, by the names of their figures.
PERCENTILES: dict[str, float] = {
    "lat_p50": 50,
    "lat_p90": 90,
    "lat_p95": 95,
    "lat_p99": 99,
    "lat_p999": 99.9,
    "lat_p9999": 99.99,
}
#: What stands for fio's version where nothing was measured.
MADE_UP = "made up by the dry machine"
_EVIDENCE = 2000  # characters of output that an error carries along


class FioFailed(HarnessBroken):
    """fio gave no result one could use; `evidence` is what it gave instead."""

    #: There is no result at all, so that all there is to know is in what it said.
    silent = False

    def __init__(self, brief: str, *, evidence: str = "", resolution: str = "") -> None:
        super().__init__(brief, details=evidence, resolution=resolution)
        self.evidence = evidence


class NoJson(FioFailed):
    """fio ended before it could write anything."""

    silent = True


@dataclass(frozen=True, slots=True)
class Direction:
    """What fio says of one direction. Rates are per second of fio's own run time.

    Latencies are total ones, submission and completion, in nanoseconds, and None where fio was told not to measure them
    (`gtod_reduce`, plain `json`, no `lat_percentiles`).
    """

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
    #: How many requests took how long; None where fio was not told to say.
    latencies: Histogram | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one measured trial. A direction that did no I/O is None, never a zero."""

    read: Direction | None
    write: Direction | None
    runtime: float  # s, of the job that ran longest
    cpu_usr: float  # %, of one CPU, averaged over jobs by their run time
    cpu_sys: float  # %
    errors: int  # I/O errors that the job was told to carry on after

    @property
    def total_bw(self) -> float:
        """Bytes/s of reading and writing together."""
        return sum(side.bw for side in (self.read, self.write) if side)

    @property
    def total_iops(self) -> float:
        """Requests per second of reading and writing together."""
        return sum(side.iops for side in (self.read, self.write) if side)


def parse(text: str) -> Figures:
    """Read fio's output; lines before the JSON (warnings, notes) are passed over. Raises FioFailed."""
    return figures_of(jobs_of(document(text), text), text)


def figures_of(jobs: Sequence[Mapping[str, Any]], text: str) -> Figures:
    """What these jobs measured side by side; `text` is where they were read from. Raises FioFailed."""
    _refuse_failed(jobs)
    try:
        figures = _figures(jobs)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise FioFailed(f"fio's JSON lacks what we read from it: {problem!r}", evidence=_clip(text)) from problem
    if figures.read is None and figures.write is None:
        raise FioFailed(
            "fio finished without a single read or write",
            evidence=_clip(text),
            resolution="check size, offset and runtime of the workload: nothing lay between start and end",
        )
    return figures


def unsettled(jobs: Iterable[Mapping[str, Any]]) -> str:
    """What jobs were told to attain and did not (fio's `steadystate`), in words; empty if there is nothing."""
    told = [found for job in jobs if isinstance(found := job.get("steadystate"), dict) and not found.get("attained")]
    words = (f"{one.get('ss')} over {one.get('duration')} s not attained: {one.get('criterion')}" for one in told)
    return "; ".join(dict.fromkeys(words))


def added_up(histograms: Iterable[Mapping[str, int]]) -> Counter[int]:
    """Histograms as fio prints them (bin value in ns, as text, to count), merged."""
    total: Counter[int] = Counter()
    for histogram in histograms:
        for value, count in histogram.items():
            total[int(value)] += count
    return total


def jobs_of(whole: Any, text: str) -> list[dict[str, Any]]:
    """The jobs of a document. Raises FioFailed."""
    jobs = whole.get("jobs") if isinstance(whole, dict) else None
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        raise FioFailed("fio's JSON names no jobs", evidence=_clip(text))
    return jobs


def document(text: str) -> Any:
    """The JSON object in the text: from the first line that begins with a brace to the last one that does."""
    lines = text.splitlines()
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
    """A job that stopped on an error has no result. With `continue_on_error` fio counts the errors instead."""
    for job in jobs:
        if "mixed" in job:
            raise FioFailed(
                "fio reported reads and writes as one figure",
                resolution="take `unified_rw_reporting` out of the workload; directions are kept apart here",
            )
        number = job.get("error", 0)
        if number and "total_err" not in job:
            name = errno.errorcode.get(number, f"error {number}")
            raise FioFailed(
                f"fio job {job.get('jobname', '?')!r} failed with {name} ({os.strerror(number)})",
                evidence=_clip(orjson.dumps(job.get("job options", {})).decode()),
            )


def _figures(jobs: Sequence[Mapping[str, Any]]) -> Figures:
    weights = [job.get("job_runtime", 0) for job in jobs]
    return Figures(
        read=_direction([job["read"] for job in jobs if "read" in job]),
        write=_direction([job["write"] for job in jobs if "write" in job]),
        runtime=max(job[side]["runtime"] for job in jobs for side in ("read", "write") if side in job) / 1000,
        cpu_usr=_weighted([job["usr_cpu"] for job in jobs], weights) or 0.0,
        cpu_sys=_weighted([job["sys_cpu"] for job in jobs], weights) or 0.0,
        errors=sum(job.get("total_err", 0) for job in jobs),
    )


def _direction(sides: Iterable[Mapping[str, Any]]) -> Direction | None:
    busy = [side for side in sides if _completed(side)]
    if not busy:
        return None
    longest = max((float(side["lat_ns"]["max"]) for side in busy if _counted(side)), default=None)
    bins = added_up(side.get("lat_ns", {}).get("bins", {}) for side in busy)
    histogram = Histogram.of(bins) if bins else None
    return Direction(
        bw=float(sum(side["bw_bytes"] for side in busy)),
        iops=float(sum(_iops(side) for side in busy)),
        bytes=sum(side["io_bytes"] for side in busy),
        ios=sum(map(_completed, busy)),
        lat_mean=_mean_latency(busy),
        **_percentiles(busy, histogram, longest),
        lat_max=longest,
        latencies=histogram,
    )


def _completed(side: Mapping[str, Any]) -> int:
    """fio counts requests when they are made, and their bytes and times when they end: those that were under way at the
    end of a ramp are in the latter alone, as many as the queue is deep."""
    return max(int(side["total_ios"]), int(side.get("lat_ns", {}).get("N", 0)))


def _iops(side: Mapping[str, Any]) -> float:
    """In the time in which all that were completed came to an end."""
    counted, completed = side["total_ios"], _completed(side)
    if not counted:
        # Told in whole milliseconds; of a side of none, fio tells no rate either.
        return float(completed * 1000 / side["runtime"]) if side["runtime"] else 0.0
    return float(side["iops"]) * completed / int(counted)


def _percentiles(
    busy: Sequence[Mapping[str, Any]], histogram: Histogram | None, longest: float | None
) -> dict[str, float | None]:
    if histogram:
        found = percentiles(histogram.unpack(), [*PERCENTILES.values()])
    elif len(busy) == 1:  # plain `json` has no histogram; of one job, fio's own are what it would give
        told = busy[0].get("lat_ns", {}).get("percentile", {})
        count = _completed(busy[0])
        found = [told.get(f"{one:.6f}") if count >= needs(one) else None for one in PERCENTILES.values()]
    else:
        found = [None] * len(PERCENTILES)
    values = (one if one is None else float(one if longest is None else min(one, longest)) for one in found)
    return dict(zip(PERCENTILES, values, strict=True))


def _mean_latency(busy: Iterable[Mapping[str, Any]]) -> float | None:
    counted = [side["lat_ns"] for side in busy if _counted(side)]
    return _weighted([latency["mean"] for latency in counted], [latency["N"] for latency in counted])


def _counted(side: Mapping[str, Any]) -> bool:
    """Whether fio measured latencies at all; where it did not, its zeros mean nothing."""
    return bool(side.get("lat_ns", {}).get("N"))


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float | None:
    """Mean of the values by weight; None when nothing has any weight."""
    total = sum(weights)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total if total else None


def _clip(text: str) -> str:
    """The end of a text, where the interesting part of an output usually is."""
    return text if len(text) <= _EVIDENCE else "…" + text[-_EVIDENCE:]
