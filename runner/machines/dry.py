"""The machine that only writes down what it is told, and makes up plausible answers that are marked as such.

It is a real machine behind the real seam: the whole pipeline runs on it in milliseconds, and a test that wants a hung
guest or a knob that did not stick gives it another `answer`.
"""

from __future__ import annotations

import hashlib
import random
import re
import shlex
from configparser import ConfigParser
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

import orjson

from runner.machines.seam import Refusal, RigSpec, Step, StepResult, Wishes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from runner.disks.faults import Fault
    from runner.disks.native import Report

_READ_BACK = re.compile(r"^(look|look_anyway|look_on|told|told_role) (.+)$", re.MULTILINE)
_ANY = "made-up"


def plausible(step: Step) -> StepResult:
    """An answer such as a machine could give on which all goes well. Drawn from what is asked: the same every time."""
    if step.name == "verify":
        return StepResult(step.name, 0, _readings(step.text), 0.0)
    if step.name == "measure":
        return StepResult(step.name, 0, _fio_json(step.files["job.fio"]), 0.0)
    return StepResult(step.name, 0, "", 0.0)


def _readings(script: str) -> str:
    """Every setting exactly as it was wanted."""
    lines = []
    for how, words in _READ_BACK.findall(script):
        setting, wanted, *files = shlex.split(words)
        if how == "look_on":
            lines += [f"reading\t{setting}.{file}\t-\t{_ANY}\n" for file in (wanted, *files)]
            continue
        lines.append(f"reading\t{setting}\t{wanted}\t{_ANY if wanted == '-' else wanted}\n")
    return "".join(lines)


def _fio_json(job: str) -> str:
    parser = ConfigParser(interpolation=None)
    parser.read_string(job)
    options = parser["trial"]
    draw = random.Random(hashlib.blake2b(job.encode(), digest_size=8).digest())  # noqa: S311 - made up on purpose
    depth, bs = int(options["iodepth"]) * int(options["numjobs"]), int(options["bs"])
    kind = options["rw"].partition(":")[0]
    milliseconds = int(options.get("runtime", "1000ms").removesuffix("ms"))
    rate = (120 * depth**0.5 if "rand" in kind else 150e6 / bs) * draw.gauss(1, 0.02)
    mix = int(options.get("rwmixread", "50")) / 100
    share = {"read": 1.0, "randread": 1.0, "write": 0.0, "randwrite": 0.0}.get(kind, mix)
    directions = {
        "read": _direction(rate * share, bs, milliseconds, depth),
        "write": _direction(rate * (1 - share), bs, milliseconds, depth),
    }
    made_up: dict[str, Any] = {
        "fio version": "made up by the dry machine",
        "jobs": [
            {"jobname": "trial", "error": 0, "usr_cpu": 1.0, "sys_cpu": 2.0, "job_runtime": milliseconds, **directions}
        ],
    }
    return orjson.dumps(made_up).decode()


def _direction(iops: float, bs: int, milliseconds: int, depth: int) -> dict[str, Any]:
    count = round(iops * milliseconds / 1000)
    latency = round(depth / iops * 1e9) if iops else 0
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
    """Knows what it was told."""

    def __init__(self, spec: RigSpec, answer: Callable[[Step], StepResult]) -> None:
        self.disks = tuple(f"/dev/disk/by-id/matrix-{number}" for number in range(len(spec.disks)))
        self.facts: Mapping[str, str] = {"kernel": spec.kernel or "made up", "fio": "made up"}
        self.told: list[Step] = []
        self._answer = answer

    def disk_reports(self) -> tuple[Report, ...]:
        """No disk does anything here."""
        return ()

    def arm(self, faults: Sequence[Fault]) -> None:
        """Nothing can go wrong with disks that do nothing."""

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:  # noqa: ARG002
        """Write the steps down and answer them, up to the first that fails."""
        results = []
        for step in steps:
            self.told.append(step)
            results.append(self._answer(step))
            if results[-1].status != 0:
                break
        return results


class Dry:
    """See the module."""

    name: ClassVar[str] = "dry"
    disposable: ClassVar[bool] = True
    zeroed: ClassVar[bool] = True
    brings_disks: ClassVar[bool] = True
    made_up: ClassVar[bool] = True

    def __init__(self, answer: Callable[[Step], StepResult] = plausible) -> None:
        self._answer = answer
        self.rigs: list[DryRig] = []

    @classmethod
    def wished(cls, wishes: Wishes) -> Self:  # noqa: ARG003
        """There is nothing to wish for."""
        return cls()

    def refusals(self, spec: RigSpec) -> list[Refusal]:  # noqa: ARG002
        """It can do everything, as it does nothing."""
        return []

    def lacks(self, kernel: str) -> str:  # noqa: ARG002
        """It needs none."""
        return ""

    def room(self, spec: RigSpec) -> int:  # noqa: ARG002
        """They take up none; what is said of more could not be followed."""
        return 64

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:  # noqa: ARG002
        """A rig that is there at once."""
        rig = DryRig(spec, self._answer)
        self.rigs.append(rig)
        yield rig
