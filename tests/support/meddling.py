"""Rigs on which somebody else is at work."""

from collections.abc import Sequence
from dataclasses import replace

from matrix_runner.machines.base import Rig, Step, StepResult


class Meddled:
    """A rig on which somebody else is at work between tuning and read-back."""

    def __init__(self, rig: Rig, text: str) -> None:
        self._rig, self._text = rig, text
        self.facts, self.disks = rig.facts, rig.disks
        self.disk_reports = rig.disk_reports
        self.arm = rig.arm

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        tune, *rest = steps
        steps = [tune, Step("somebody", self._text), *rest]
        return [
            one for one in await self._rig.run(steps, expected=expected, deadline=deadline) if one.name != "somebody"
        ]


class MeddledMeanwhile(Meddled):
    """A rig on which somebody else is at work when all has been read back."""

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        begin = "\ncounted before\n"
        assert sum(step.text.count(begin) for step in steps) == 1
        steps = [replace(step, text=step.text.replace(begin, f"\n{self._text}{begin}")) for step in steps]
        return list(await self._rig.run(steps, expected=expected, deadline=deadline))
