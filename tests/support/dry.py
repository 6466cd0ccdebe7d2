"""The machine `dry`, which remembers its rigs and their steps, and may return the answers of a test."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from matrix_runner.machines import dry
from matrix_runner.machines.base import NO_OPTIONS, MachineOptions, RigSpec, Step, StepResult
from matrix_runner.machines.dry import plausible
from matrix_runner.simdisks.disk import slow_of

Answer = Callable[[Step], StepResult]


class DryRig(dry.DryRig):
    def __init__(self, spec: RigSpec, answer: Answer | None = None) -> None:
        super().__init__(spec)
        self.steps: list[Step] = []
        self._answer = answer or partial(plausible, slow=slow_of(spec.disks))

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:  # noqa: ARG002
        results, files = [], dict[str, str]()
        for step in steps:
            self.steps.append(step)
            files |= step.files  # files of earlier steps stay in the working directory
            results.append(self._answer(replace(step, files=files)))
            if results[-1].status != 0:
                break
        return results


class Dry(dry.Dry):
    def __init__(self, answer: Answer | None = None, options: MachineOptions = NO_OPTIONS) -> None:
        super().__init__(options)
        self._answer = answer
        self.rigs: list[DryRig] = []

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:
        async with super().rig(spec, scratch):
            self.rigs.append(DryRig(spec, self._answer))
            yield self.rigs[-1]


class Unsynthetic(Dry):
    """A machine whose figures depend on the host, as far as the coordinator knows."""

    synthetic = False
