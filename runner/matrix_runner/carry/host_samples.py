"""Processor time of the host beneath a rig, sampled while steps run on the rig."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from matrix_runner.machines.base import HasHost, Rig, Step, StepResult

INTERVAL = 0.1  # seconds between two samples: short beside a trial, with little load on the host
#: The samples must span this part of a measurement. They do not if the host is too busy to take them.
LEAST_PART = 0.75


@dataclass(frozen=True)
class HostSamples:
    """The samples from before the first step until after the last one."""

    samples: Sequence[tuple[float, float | None]] = ()  # clock of the host, and seconds of its processors
    began: float = 0.0  # of the steps, on the clock of the rig
    ended: float = 0.0

    def processors(self, until: float, seconds: float) -> float | None:
        """Return how many processors worked on average in the last `seconds` before `until`, on the rig's clock.

        The two clocks fit together with an error: the time for which the steps and their results were under way. So
        only samples count that are in this time for sure. None: they span too little of it.
        """
        if not self.samples:
            return None
        first, last = self.samples[-1][0] - (self.ended - until) - seconds, self.samples[0][0] + until - self.began
        inside = [one for one in self.samples if first <= one[0] <= last]
        if not inside or inside[-1][0] - inside[0][0] < LEAST_PART * seconds:
            return None
        (start, before), (end, after) = inside[0], inside[-1]
        return None if before is None or after is None else (after - before) / (end - start)


async def run_sampled(
    rig: Rig, steps: Sequence[Step], *, expected: float, deadline: float
) -> tuple[list[StepResult], HostSamples]:
    """Run the steps, and sample the host meanwhile, if the rig has one."""
    if not isinstance(rig, HasHost):
        return await rig.run(steps, expected=expected, deadline=deadline), HostSamples()
    samples = [(time.monotonic(), rig.host_seconds())]

    async def sample() -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            samples.append((time.monotonic(), rig.host_seconds()))

    task = asyncio.create_task(sample())
    try:
        results = await rig.run(steps, expected=expected, deadline=deadline)
    finally:
        task.cancel()
        await asyncio.wait({task})
    samples.append((time.monotonic(), rig.host_seconds()))
    return results, HostSamples(samples, results[0].began, results[-1].began + results[-1].seconds)
