"""The JSON of other versions of fio, of its clients and of its other reports, in the shape of today's.

| version | difference |
| --- | --- |
| up to 2.99 | latencies in µs, as `lat` and `clat`; `io_bytes` in KiB |
| up to 3.1 | `bw` in KiB/s and no `bw_bytes` |
| up to 3.18 | no count `N` of latencies |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matrix_runner.work.metrics import FLUSH, SIDES

_ALL = "All clients"  # the entry of fio's client that sums up those of its servers
_OF_COMPLETIONS = "of completions"  # a key of latencies with percentiles of `clat`
_KIB, _MICROSECOND = 1024, 1000
_TIMES = ("min", "max", "mean", "stddev")
#: What else fio writes, by the first line that is not empty.
_OTHER_REPORTS = (
    (re.compile(r"[2345];fio-[\d.]"), "fio's terse output"),
    (re.compile(r"\d+, -?\d+, [012](, \d+)*\s*$"), "a log of fio (`write_bw_log` and others)"),
    (re.compile(r".*\(g=\d+\): rw="), "fio's output for people"),
    (re.compile(r"fio-\d"), "fio's output for people"),
)


def other_report(text: str) -> str:
    """Name a report of fio that is not JSON; empty if it is none."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return next((name for pattern, name in _OTHER_REPORTS if pattern.match(line)), "")


def jobs_in(whole: Any) -> list[dict[str, Any]]:
    """Return the jobs in today's shape; empty if there are none."""
    found = whole.get("jobs", whole.get("client_stats")) if isinstance(whole, dict) else None
    if not isinstance(found, list) or not all(isinstance(job, dict) for job in found):
        return []
    return [_modern(job) for job in _without_sum(found)]


def _without_sum(jobs: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return each request once. Of several servers with one job, fio's own sum has percentiles, too."""
    apart = [job for job in jobs if job.get("jobname") != _ALL]
    sums = [job for job in jobs if job.get("jobname") == _ALL]
    if not sums or not apart or len({(job.get("jobname"), job.get("groupid")) for job in apart}) > 1:
        return apart or jobs
    kept: dict[str, Any] = {name: apart[0][name] for name in ("jobname", "groupid", "job options") if name in apart[0]}
    return [{**sums[0], **kept}]


def _modern(job: Mapping[str, Any]) -> dict[str, Any]:
    sides = {side: _side(job[side]) for side in SIDES if isinstance(job.get(side), dict)}
    runtimes = [one.get("runtime") for one in sides.values()]
    longest = max((one for one in runtimes if isinstance(one, int | float)), default=0)
    sync = job.get(FLUSH)
    if isinstance(sync, dict):
        sides[FLUSH] = {**sync, **_latencies(sync, sync.get("total_ios"))}
    return {"job_runtime": longest, **job, **sides}


def _side(found: Mapping[str, Any]) -> dict[str, Any]:
    side = dict(found)
    bw, moved, runtime, iops = (_number(side.get(name)) for name in ("bw", "io_bytes", "runtime", "iops"))
    if "bw_bytes" not in side and bw is not None:
        side["bw_bytes"] = round(bw * _KIB)
        if moved and runtime and "io_kbytes" not in side and moved * 1000 / runtime < bw * _KIB**0.5:
            side["io_bytes"] = int(moved * _KIB)
    if "total_ios" not in side and iops is not None and runtime is not None:
        side["total_ios"] = round(iops * runtime / 1000)
    return {**side, **_latencies(side, side.get("total_ios"))}


def _latencies(side: Mapping[str, Any], count: Any) -> dict[str, Any]:
    """Return the whole latencies; where only those of completions have percentiles, with these."""
    whole, completed = _in_ns(side, "lat"), _in_ns(side, "clat")
    if whole is None:
        return {}
    if _number(whole.get("mean")):
        whole["N"] = count or whole.get("N", 0)
    if not (whole.get("percentile") or whole.get("bins")) and completed:
        whole |= {name: completed[name] for name in ("percentile", "bins") if completed.get(name)}
        whole[_OF_COMPLETIONS] = True
    return {"lat_ns": whole}


def has_percentiles_of_completions(job: Mapping[str, Any]) -> bool:
    """Return whether only the latencies without submission have percentiles."""
    found = (job[side].get("lat_ns", {}) for side in SIDES if side in job)
    return any(one.get("N") and one.get(_OF_COMPLETIONS) for one in found)


def _in_ns(side: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    for key, unit in ((f"{name}_ns", 1), (name, _MICROSECOND), (f"{name}_us", _MICROSECOND), (f"{name}_ms", 1_000_000)):
        if isinstance(found := side.get(key), dict):
            return {**found, **dict(_scaled(found, unit))}
    return None


def _scaled(found: Mapping[str, Any], unit: int) -> Iterator[tuple[str, Any]]:
    for name in _TIMES:
        if (value := _number(found.get(name))) is not None:
            yield name, value * unit
    if isinstance(percentile := found.get("percentile"), dict):
        yield "percentile", dict(_percentiles(percentile, unit))


def _percentiles(found: Mapping[str, Any], unit: int) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        number = _number(value)
        try:
            yield f"{float(name):.6f}", value if number is None else number * unit
        except ValueError:
            yield name, value


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
