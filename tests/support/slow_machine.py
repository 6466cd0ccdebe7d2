"""The dry machine with a slower disk, or kernel, for some work: its figures are a share of the usual ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import orjson
import pytest

from matrix_runner.machines import dry

if TYPE_CHECKING:
    from collections.abc import Callable

    from matrix_runner.machines.base import RigSpec, Step, StepResult

_USUAL = dry.plausible


@dataclass
class SlowMachine:
    speed: float = 1.0
    job: str = ""  # a text of the fio jobs that are slower
    trials: int = 10**6  # so many of them are slower, the later ones are not
    ends: Callable[[], None] | None = None  # called instead of the trial after them
    count: int = 0
    kernels: dict[str, float] = field(default_factory=dict)  # the speed on some kernels
    kernel: str = ""  # of the rig at work

    def answer(self, step: Step, slow: int = 1) -> StepResult:
        found = _USUAL(step, slow)
        if step.name != "measure" or self.job not in step.files.get("job.fio", ""):
            return found
        self.count += 1
        if self.count > self.trials:
            if self.ends:
                self.ends()
            return found
        begin = found.output.index("{")
        content = orjson.loads(found.output[begin:])
        for side in (one[name] for one in content["jobs"] for name in ("read", "write")):
            side |= {name: side[name] * self.kernels.get(self.kernel, self.speed) for name in ("bw_bytes", "iops")}
        return replace(found, output=found.output[:begin] + orjson.dumps(content).decode())


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> SlowMachine:
    made = SlowMachine()
    monkeypatch.setattr(dry, "plausible", made.answer)
    usual = dry.DryRig.__init__

    def start(rig: dry.DryRig, spec: RigSpec) -> None:
        usual(rig, spec)
        made.kernel = spec.kernel or ""

    monkeypatch.setattr(dry.DryRig, "__init__", start)
    return made
