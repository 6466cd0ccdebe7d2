"""Rigs that are up at the same time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from matrix_runner.machines.dry import plausible
from matrix_runner.simdisks.clib import Report
from tests.support.dry import Dry, DryRig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from matrix_runner.machines.base import RigSpec, Step, StepResult


NOTHING = Report(**{one.name: 0 for one in fields(Report)})


class Bearing(Dry):
    """Every step takes a while, and those during which more are at work than the host bears are host-limited."""

    def __init__(self, borne: int, answer: Callable[[Step], StepResult] = plausible) -> None:
        super().__init__(answer)
        self.borne, self.most, self.up = borne, 0, 0
        self.at_work: list[list[Step]] = []
        #: Of each measurement in its order: its job, and how many were at work during it at most.
        self.measured: list[tuple[str, int]] = []

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:  # noqa: ARG002
        rig = BearingRig(spec, self._answer, self)
        self.rigs.append(rig)
        self.up += 1
        try:
            yield rig
        finally:
            self.up -= 1


class BearingRig(DryRig):
    def __init__(self, spec: RigSpec, answer: Callable[[Step], StepResult] | None, host: Bearing) -> None:
        super().__init__(spec, answer)
        self._host, self._report = host, NOTHING

    def disk_reports(self) -> tuple[Report, ...]:
        return (self._report,)

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        host, mine, company = self._host, list(steps), 1
        host.at_work.append(mine)
        try:
            for _ in range(5):
                company = max(company, len(host.at_work))
                await asyncio.sleep(0)
            results = await super().run(steps, expected=expected, deadline=deadline)
        finally:
            host.at_work = [one for one in host.at_work if one is not mine]
        host.most = max(host.most, company)
        host.measured += [(step.files["job.fio"], company) for step in steps if step.name == "measure"]
        self._report = replace(
            self._report,
            owed=self._report.owed + 1,
            late=self._report.late + (company > host.borne),
            occupied=self._report.occupied + 1,
        )
        return results
