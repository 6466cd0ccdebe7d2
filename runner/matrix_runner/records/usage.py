"""The use of disks and processors over time in a trial, from the files of its samples. Pure."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import inf, isfinite
from statistics import median_low
from typing import Any

from matrix_runner.base.errors import MatrixError
from matrix_runner.records.counters import NODE
from matrix_runner.records.record import Reading
from matrix_runner.work.fio.output import find_json, jobs_of

SAMPLES, SIMULATED, OF_FIO = "samples.json", "disks-over-time.csv", "fio.json"  # files of a trial
_KIB = 1024
#: Kinds of processor time that are shown, and their names in samples of sysstat.
KINDS: dict[str, tuple[str, ...]] = {
    "iowait": ("iowait",),
    "kernel": ("sys", "irq", "soft"),
    "programs": ("usr", "nice"),
}
STACK = "stack"  # the device on top, in Usage.latencies
_WHOLE = 0.9  # least length of a last sample as a part of that before it
_FEW = 0.05  # part of the largest rate; the set-ups of 60 real trials reached 0.012 of it
_MILLISECOND = 1e6  # in ns
Course = tuple[tuple[float, float], ...]  # seconds since the start, and the value until then


@dataclass(frozen=True, slots=True)
class Usage:
    rates: Mapping[str, Course] = field(default_factory=dict)  # bytes/s by disk
    busy: Mapping[str, Course] = field(default_factory=dict)  # shares of the time by disk
    processors: Mapping[str, Course] = field(default_factory=dict)  # shares of all processors by KINDS
    #: Mean latency of requests in ns, by disk and of the STACK, at moments with requests.
    latencies: Mapping[str, Course] = field(default_factory=dict)
    source: str = field(default=SAMPLES, kw_only=True)  # the file with rates and busy; SAMPLES has the others
    is_host_limited: bool = field(default=False, kw_only=True)
    has_files: bool = field(default=False, kw_only=True)  # it may include the time in which fio wrote its files


def usage(files: Mapping[str, str], readings: Sequence[Reading], slow: int = 1, runtime: float = inf) -> Usage:
    """Read the samples of a trial, of simulated disks those of their server. Figures are without slow motion.

    `runtime`: the seconds that fio measured. The samples begin before fio, so short work of the set-up is cut. With the
    output of fio, also the time in which it wrote its files.
    """
    found = _of_sysstat(files.get(SAMPLES, ""), readings, slow, runtime)
    own = _of_simulated(files.get(SIMULATED, ""), runtime)
    seconds = _seconds_of_jobs(files[OF_FIO]) if OF_FIO in files else inf  # no files: nothing to leave out
    if seconds is not None:
        found, own = _last(found, seconds / slow), _last(own, seconds / slow)
    source = own if own.rates else found
    return Usage(
        *(source.rates, source.busy, found.processors, found.latencies),
        source=SIMULATED if own.rates else SAMPLES,
        has_files=seconds is None,
    )


def _of_sysstat(text: str, readings: Sequence[Reading], slow: int, runtime: float) -> Usage:
    devices = {one.got: one.setting.removesuffix(NODE) for one in readings if one.setting.endswith(NODE)}
    disks = {node: name for node, name in devices.items() if name.startswith("disk")}
    try:
        samples = json.loads(text)["sysstat"]["hosts"][0]["statistics"]
        ends = [at / slow for at in accumulate(_number(one["timestamp"]["interval"]) for one in samples)]
        del samples[_count_whole(ends) :], ends[_count_whole(ends) :]
        rates, busy, kinds = zip(*(_sample(one) for one in samples), strict=True)
        waits = [_waits(one["disk"], disks, _tops(devices), slow) for one in samples]
    except (ValueError, KeyError, TypeError, IndexError):
        return Usage()  # none, cut short, or of another version
    used = [node for node in disks if any(node in of for of in rates)]
    moved = {node: _course(ends, rates, node) for node in used}
    start = _start(moved, runtime)
    courses = (
        {disks[node]: tuple((at, slow * rate) for at, rate in moved[node]) for node in used},
        {disks[node]: _course(ends, busy, node) for node in used},
        {kind: _course(ends, kinds, kind) for kind in KINDS},
        {name: course for name in (STACK, *disks.values()) if (course := _course(ends, waits, name))},
    )
    return Usage(*({name: _since(start, course) for name, course in of.items()} for of in courses))


def _tops(devices: Mapping[str, str]) -> frozenset[str]:
    """Return the nodes of the upper layer; readings have it last, before the disks. None of a bare disk."""
    layers = {node: name.partition("[")[0] for node, name in devices.items() if not name.startswith("disk")}
    top = next(reversed(layers.values()), "")
    return frozenset(node for node, name in layers.items() if name == top)


def _waits(
    sample: Sequence[Mapping[str, Any]], disks: Mapping[str, str], tops: frozenset[str], slow: int
) -> dict[str, float]:
    """Return the mean latencies in one sample. That of several devices on top is the mean over their requests."""
    asked = {one["disk-device"]: _number(one.get("tps", 0)) for one in sample if "await" in one}
    waited = {one["disk-device"]: _number(one["await"]) * _MILLISECOND / slow for one in sample if "await" in one}
    found = {name: waited[node] for node, name in disks.items() if asked.get(node)}
    if total := sum(asked[node] for node in tops & asked.keys()):
        found[STACK] = sum(asked[node] * waited[node] for node in tops & asked.keys()) / total
    return found


def _sample(sample: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Return the rate and the busy share of each disk, and the shares of the processors."""
    all_of = {one["cpu"]: one for one in sample["cpu-load"]}["all"]
    return (
        {one["disk-device"]: _KIB * (_number(one["rkB"]) + _number(one["wkB"])) for one in sample["disk"]},
        {one["disk-device"]: min(1.0, _number(one["util-percent"]) / 100) for one in sample["disk"]},
        {kind: sum(_number(all_of[name]) for name in names) / 100 for kind, names in KINDS.items()},
    )


def _course(ends: Sequence[float], values: Iterable[Mapping[str, float]], name: str) -> Course:
    return tuple((at, of[name]) for at, of in zip(ends, values, strict=True) if name in of)


def _of_simulated(text: str, runtime: float) -> Usage:
    rates: dict[str, list[tuple[float, float]]] = {}
    busy: dict[str, list[tuple[float, float]]] = {}
    before: dict[str, float] = {}
    try:
        for row in csv.DictReader(text.splitlines()):
            disk, at = f"disk{int(row['disk'])}", _number(row["seconds"])
            took = at - before.get(disk, 0.0)
            before[disk] = at
            if took > 0:
                moved = _number(row["read_bytes"]) + _number(row["written_bytes"])
                rates.setdefault(disk, []).append((at, moved / took))
                busy.setdefault(disk, []).append((at, min(1.0, _number(row["busy"]) / took)))
    except (ValueError, KeyError, TypeError):
        return Usage()
    start = _start(rates, runtime)
    for course in (*rates.values(), *busy.values()):
        del course[_count_whole([at for at, _ in course]) :]
    used = [disk for disk, course in rates.items() if any(rate for _, rate in course)]  # a stack may use only some
    return Usage(
        {disk: _since(start, rates[disk]) for disk in used}, {disk: _since(start, busy[disk]) for disk in used}
    )


def _count_whole(ends: Sequence[float]) -> int:
    """Return the number of samples without a last one that was cut short.

    After the work, the array marks itself as clean: in a short time this looks like much use.
    """
    took = [end - begin for begin, end in pairwise(ends)]
    return len(ends) - (len(took) > 1 and took[-1] < _WHOLE * median_low(took[:-1]))


def _start(courses: Mapping[str, Sequence[tuple[float, float]]], runtime: float) -> float:
    """Return the end of the time before the work. Few requests are of the set-up if the rest is as long as the work."""
    totals: dict[float, float] = {}
    for at, rate in (sample for course in courses.values() for sample in course):
        totals[at] = totals.get(at, 0.0) + rate
    few, latest = _FEW * max(totals.values(), default=0.0), max(totals, default=0.0) - runtime
    start, moved = 0.0, 0.0
    for at, rate in sorted(totals.items()):
        moved += rate
        if rate > few or (moved and at > latest):
            break
        start = at
    return start


def _seconds_of_jobs(text: str) -> float | None:
    """Return the seconds since fio began its jobs, after it had written its files.

    None: this version does not tell, or the samples go on after fio, while buffered data is written.
    """
    try:
        whole = find_json(text)
        jobs = jobs_of(whole, text)
        options = [{**whole.get("global options", {}), **job["job options"]} for job in jobs]
        seconds = (_number(whole["timestamp_ms"]) - min(_number(job["job_start"]) for job in jobs)) / 1000
    except (MatrixError, ValueError, KeyError, TypeError):
        return None
    is_direct = all(one.get("direct") == "1" for one in options)
    return seconds if is_direct and seconds > 0 else None  # the clock of a guest may be set meanwhile


def _last(found: Usage, seconds: float) -> Usage:
    """Return the samples of the last seconds, from the beginning of the first one."""
    every = (found.rates, found.busy, found.processors, found.latencies)
    ends = {at for courses in every for course in courses.values() for at, _ in course}
    start = max((at for at in ends if at <= max(ends) - seconds), default=0.0)
    return Usage(*({name: _since(start, course) for name, course in courses.items()} for courses in every))


def _since(start: float, course: Iterable[tuple[float, float]]) -> Course:
    return tuple((at - start, value) for at, value in course if at > start)


def _number(value: Any) -> float:
    number = float(value)
    if number < 0 or not isfinite(number):
        raise ValueError("not a sample")
    return number
