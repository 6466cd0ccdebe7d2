"""The machine `dry`: it runs nothing, and returns plausible synthetic results."""

import hashlib
import random
import re
import shlex
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import orjson

from matrix_runner.base.findings import Place
from matrix_runner.language.matrix import kernel_error
from matrix_runner.machines.base import (
    Machine,
    Preparation,
    Processor,
    Refusal,
    RigSpec,
    Step,
    StepResult,
)
from matrix_runner.simdisks.clib import Report
from matrix_runner.simdisks.disk import Fault, slow_of
from matrix_runner.work.fio.bounds import JobBound, Option, Values, bound_of, parse_fio_size, parse_fio_time
from matrix_runner.work.fio.output import SYNTHETIC
from matrix_runner.work.jobs.file import JobReader, effective
from matrix_runner.work.metrics import SIDES

_READ_BACK = re.compile(r"^(?:look|look_anyway|told|told_role) (.+)$", re.MULTILINE)
_RECORDS = re.compile(r"^ *look_on (.+)$", re.MULTILINE)
_ANY = "synthetic"
_WINDOW = re.compile(r"\bwindow=(\d+)")
_PLACES = 100
_SYNC = re.compile(r"^sync_of=(\w+)$", re.MULTILINE)
_ROUNDS = re.compile(r"^rounds=\d+ ", re.MULTILINE)
_STEADY = 5  # rounds of a test of SNIA, which are steady
_PAUSES = frozenset({"rate", "rate_iops", "thinktime"})  # options with which a job waits on purpose
_MEMBER = 2**30  # bytes of a member in synthetic syncs


def plausible(step: Step, slow: int = 1) -> StepResult:
    """Return the result of a successful step, of disks in slow motion. The same step always has the same result."""
    output = ""
    if step.name == "verify":
        for words in _READ_BACK.findall(step.text):
            setting, wanted, *_ = _split(words)
            output += f"reading\t{setting}\t{wanted}\t{_ANY if wanted == '-' else wanted}\n"
    if step.name == "measure":
        for words in _RECORDS.findall(step.text):
            name, _, *files = _split(words)
            output += "".join(f"reading\t{name}.{file}\t-\t{_ANY}\n" for file in ("node", *files))
        if sync := _SYNC.search(step.text):
            output += _sync_line(sync[1], step, slow)
        if "trace.txt" in step.files:
            output += _replay(step.files["trace.txt"], step.files["job.fio"], slow)
        elif "job.fio" in step.files:
            times = _STEADY if _ROUNDS.search(step.text) else 1
            job = step.files["job.fio"]
            output += "\n".join(_fio_json(f"{job}# {number}\n" if number else job, slow) for number in range(times))
    if step.name == "profile":
        output = _profile(step, slow)
    return StepResult(step.name, 0, output, 0.0)


@lru_cache(4096)
def _split(words: str) -> tuple[str, ...]:
    return tuple(shlex.split(words))


def _sync_line(action: str, step: Step, slow: int) -> str:
    draw = random.Random(hashlib.blake2b(f"{step.text}{step.files}".encode(), digest_size=8).digest())  # noqa: S311
    rate = (60e6 if "job.fio" in step.files else 150e6) * draw.gauss(1, 0.01)
    report = {"action": action, "began": 0, "ended": _MEMBER / rate * slow, "bytes": _MEMBER, "mismatch_cnt": 0}
    return f"sync\t{orjson.dumps({**report, 'sync_speed_max': 0}).decode()}\n"


def _replay(trace: str, job: str, slow: int) -> str:
    """Return the output of a replay on time, with synthetic latencies."""
    draw = random.Random(hashlib.blake2b(f"{job}{trace}".encode(), digest_size=8).digest())  # noqa: S311 - synthetic on purpose
    words = [line.split() for line in trace.splitlines()]
    seconds = max(1, int(words[-1][0]) - int(words[0][0])) / 1000
    sides, requests = {}, 0
    for side in SIDES:
        sizes = [int(size) for _, action, _, size in words if action == side]
        requests += len(sizes)
        mean = sum(sizes) // max(1, len(sizes))
        sides[side] = _direction(len(sizes) / seconds, mean, round(seconds * 1000), 0.0)
        if sizes:
            latency = round(5e6 * slow * draw.gauss(1, 0.02))
            sides[side]["lat_ns"] |= {"max": latency, "mean": float(latency), "bins": {str(latency): len(sizes)}}
    figures = {"usr_cpu": 1.0, "sys_cpu": 2.0, "job_runtime": round(seconds * 1000), **sides}
    report = {"requests": requests, "late": 0, "worst": 0.0, "seconds": seconds}
    found = {"fio version": SYNTHETIC, "jobs": [{"jobname": "trial", "error": 0, **figures}]}
    return f"replay\t{orjson.dumps(report).decode()}\n{orjson.dumps(found).decode()}"


def _fio_json(job: str, slow: int) -> str:
    jobs = [_result(name, options, job, slow) for name, options in _jobs(job)]
    return orjson.dumps({"fio version": SYNTHETIC, "jobs": jobs}).decode()


def _result(name: str, options: Mapping[str, str], job: str, slow: int) -> dict[str, Any]:
    draw = random.Random(hashlib.blake2b(f"{name}{job}".encode(), digest_size=8).digest())  # noqa: S311 - synthetic on purpose
    depth = int(options.get("iodepth", "1")) * int(options.get("numjobs", "1"))
    bs = parse_fio_size(options.get("bs", "4k").partition(",")[0])
    kind = options.get("rw", "read").partition(":")[0]
    milliseconds = _milliseconds(options)
    rate = (120 * depth**0.5 if "rand" in kind else 150e6 / bs) / slow * draw.gauss(1, 0.02)
    mix = int(options.get("rwmixread", "50")) / 100
    only = kind.removeprefix("rand")
    shares = {only: 1.0} if only in SIDES else {"read": mix, "write": 1 - mix}
    rates = {side: rate * shares.get(side, 0.0) for side in SIDES}
    latencies = {side: depth / one for side, one in rates.items() if one}
    each = next((int(options[one]) for one in ("fsync", "fdatasync") if options.get(one, "0") != "0"), 0)
    if each:
        rates["write"] *= each / (each + 1)
    if not _PAUSES.isdisjoint(options):
        bound = bound_of(Values(name, {key: Option(key, value) for key, value in options.items()}))
        rates = {side: _paced(one, bound, bs) for side, one in rates.items()}
    directions = {side: _direction(rates[side], bs, milliseconds, latencies.get(side, 0.0)) for side in SIDES}
    if each and "write" in latencies:
        directions["sync"] = _direction(rates["write"] / each, 0, milliseconds, latencies["write"])
    steady = {"steadystate": {"ss": options["steadystate"], "attained": 1}} if "steadystate" in options else {}
    result = {"jobname": name, "error": 0, "usr_cpu": 1.0, "sys_cpu": 2.0, "job_runtime": milliseconds}
    return result | directions | steady


def _profile(step: Step, slow: int) -> str:
    """Return the rows of `profile.sh`: a disk that is half as fast at its end, or a workload with a constant rate."""
    options = _options(step.files["job.fio"])
    if window := _WINDOW.search(step.text):
        apart, ended, lines = int(window[1]), 0, []
        moved = int(options.get("zonesize", apart))
        places = int(options.get("io_size", _PLACES * moved)) // moved
        for place in range(places):
            began, ended = ended, ended + max(1, round(moved * slow / 150e3 / (1 - place / 2 / places)))
            lines.append(f"{place * apart}\t{moved}\t{began}\t{ended}\n")
        return "".join(lines)
    stretches = max(1, _milliseconds(options) // int(options["log_avg_msec"]))
    directions = [number for number, name in enumerate(("read", "write")) if name in options["rw"]] or [0, 1]
    return "".join(f"{at}\t{side}\t{150_000 // slow}\n" for at in range(1, stretches + 1) for side in directions)


def _options(job: str) -> Mapping[str, str]:
    return dict(_jobs(job))["trial"]


def _jobs(job: str) -> list[tuple[str, Mapping[str, str]]]:
    _, begins, body = job.partition("\n[trial]\n")
    if begins and not any(sign in body for sign in "[;#"):  # it is plain, which is much faster to read
        options = (line.partition("=") for line in body.splitlines() if line)
        return [("trial", {key: value or "1" for key, _, value in options})]
    jobs = effective(JobReader(lambda _: job, {}).read("job.fio", Place("job.fio", 1, 1)).sections)
    return [(name, {key: one.value or "1" for key, one in options.items()}) for name, options in jobs]


def _milliseconds(options: Mapping[str, str]) -> int:
    return round(parse_fio_time(options.get("runtime", "1")) * 1000)


def _paced(rate: float, bound: JobBound, bs: int) -> float:
    """Return the rate of a direction with the limits and think times of its jobs."""
    if rate and bound.think:
        rate = bound.numjobs / (bound.numjobs / rate + bound.think)
    return min(rate, bound.pace / bs * bound.numjobs) if bound.pace else rate


def _direction(iops: float, bs: int, milliseconds: int, seconds: float) -> dict[str, Any]:
    """Return the figures of requests that take so many seconds each."""
    count = round(iops * milliseconds / 1000)
    latency = round(seconds * 1e9)
    times = {"min": latency, "max": latency, "mean": float(latency), "stddev": 0.0, "N": count}
    return {
        "io_bytes": count * bs,
        "bw_bytes": round(iops * bs),
        "iops": iops,
        "runtime": milliseconds if count else 0,
        "total_ios": count,
        "lat_ns": {**times, "percentile": {}, "bins": {str(latency): count} if count else {}},
    }


class DryRig:
    def __init__(self, spec: RigSpec) -> None:
        self.disks = tuple(f"/dev/disk/by-id/matrix-{number}" for number in range(len(spec.disks)))
        self.facts: Mapping[str, str] = {"kernel": spec.kernel or "synthetic", "fio": "synthetic"}
        self._slow = slow_of(spec.disks)

    def disk_reports(self) -> tuple[Report, ...]:
        return ()

    def arm(self, faults: Sequence[Fault]) -> None: ...

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:  # noqa: ARG002
        results, files = [], dict[str, str]()
        for step in steps:
            files |= step.files  # files of earlier steps stay in the working directory
            results.append(plausible(replace(step, files=files), self._slow))
        return results


class Dry(Machine):
    name: ClassVar[str] = "dry"
    disposable: ClassVar[bool] = True
    zeroed: ClassVar[bool] = True
    brings_disks: ClassVar[bool] = True
    synthetic: ClassVar[bool] = True
    takes_folders: ClassVar[bool] = True

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        name = spec.kernel or ""
        return [Refusal(f"--kernel {name}: {why}")] if name and (why := kernel_error(name)) else []

    def kernel_refusal(self, kernel: str) -> str:  # noqa: ARG002
        return ""

    def find_kernel(self, release: str, appliance: str, names: Collection[str]) -> tuple[str, str]:  # noqa: ARG002
        return release, ""

    def processor(self) -> Processor:
        return "none"

    def preparation(self, specs: Collection[RigSpec]) -> Preparation:  # noqa: ARG002
        return Preparation()

    def max_rigs(self, spec: RigSpec) -> int:  # noqa: ARG002
        return 64

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:  # noqa: ARG002
        if self.options.folder_of and spec.kernel:
            await self.options.folder_of(spec.kernel)
        yield DryRig(spec)
