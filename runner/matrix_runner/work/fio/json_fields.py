"""The shape of fio's JSON: every value that is used has its type and range, or the output is refused.

It is parsed in output.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from matrix_runner.work.metrics import FLUSH, SIDES

#: Above any real value; sums of them stay below the limits of databases.
_LEAST, _MOST = 1e-30, 1e18  # of numbers that are not 0
_LONGEST = 1e12  # ms
_DIGITS = 18
_MOST_BINS = 10_000  # of a histogram; fio has 1,856

Check = Callable[[Any], bool]


def _is_number(value: Any, most: float = _MOST) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and (value == 0 or _LEAST <= value <= most)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value)


def _is_time(value: Any) -> bool:
    return _is_number(value, _LONGEST)


def _is_error(value: Any) -> bool:
    return isinstance(value, int) and -(1 << 31) <= value < 1 << 31


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_bins(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) > _MOST_BINS:
        return False
    return all(
        name.isdecimal() and name.isascii() and len(name) <= _DIGITS and _is_count(count)
        for name, count in value.items()
    )


def _is_percentiles(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


_JOB: dict[str, Check] = {"usr_cpu": _is_number, "sys_cpu": _is_number}
_JOB_OPTIONAL: dict[str, Check] = {
    "error": _is_error,
    "total_err": _is_count,
    "job_runtime": _is_time,
    "read": _is_map,
    "write": _is_map,
    "trim": _is_map,
    "sync": _is_map,
    "elapsed": _is_time,
    "job options": _is_map,
}
_SIDE: dict[str, Check] = {
    "runtime": _is_time,
    "bw_bytes": _is_number,
    "io_bytes": _is_count,
    "total_ios": _is_count,
    "iops": _is_number,
}
_SIDE_OPTIONAL: dict[str, Check] = {"lat_ns": _is_map}
_LATENCY_OPTIONAL: dict[str, Check] = {
    "N": _is_count,
    "max": _is_number,
    "mean": _is_number,
    "bins": _is_bins,
    "percentile": _is_percentiles,
}


def find_misfits(jobs: list[dict[str, Any]] | Any) -> Iterator[str]:
    """Yield the places of values that fio does not write."""
    for at, job in enumerate(jobs):
        place = f"jobs[{at}]"
        yield from _misfits(place, job, _JOB, _JOB_OPTIONAL)
        sides = [side for side in SIDES if isinstance(job.get(side), dict)]
        if not sides:
            yield f"{place} has neither `read` nor `write`"
        for side in sides:
            yield from _misfits(f"{place}.{side}", job[side], _SIDE, _SIDE_OPTIONAL)
        for side in (*sides, FLUSH):
            latency = found.get("lat_ns") if isinstance(found := job.get(side), dict) else None
            if isinstance(latency, dict):
                needed = {name: _LATENCY_OPTIONAL[name] for name in ("max", "mean")} if latency.get("N") else {}
                yield from _misfits(f"{place}.{side}.lat_ns", latency, needed, _LATENCY_OPTIONAL)
            elif latency is not None and side == FLUSH:
                yield f"{place}.{side}.lat_ns is {str(latency)[:60]}"


def _misfits(
    place: str, found: Mapping[str, Any], needed: Mapping[str, Check], optional: Mapping[str, Check]
) -> Iterator[str]:
    for name, fits in {**optional, **needed}.items():
        if name not in found:
            if name in needed:
                yield f"{place}.{name} is missing"
        elif not fits(found[name]):
            yield f"{place}.{name} is {str(found[name])[:60]}"
