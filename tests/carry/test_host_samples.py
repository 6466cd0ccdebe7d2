"""The processor time of the host during the measured part of a trial."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from matrix_runner.carry import host_samples
from matrix_runner.carry.host_samples import HostSamples, run_sampled
from matrix_runner.machines.base import Rig, Step, StepResult

#: A busy second of set-up, four seconds of measurement with half a processor, and an idle second, ten samples each.
#: The clock of the rig is that of the host plus 1000.
SECONDS = [at / 10 for at in range(61)]
USED = [min(at, 1.0) + 0.5 * min(max(at - 1.0, 0.0), 4.0) for at in SECONDS]
SAMPLES: list[tuple[float, float | None]] = [*zip(SECONDS, USED, strict=True)]


def test_only_the_measured_part_counts() -> None:
    host = HostSamples(SAMPLES, 1000.0, 1006.0)
    assert host.processors(1005.0, 4.0) == pytest.approx(0.5)
    assert host.processors(1005.0, 5.0) == pytest.approx(0.6), "with its set-up"


def test_the_time_under_way_between_the_clocks_does_not_count() -> None:
    """The steps began 0.3 s after they were sent, and their results were under way for as long."""
    host = HostSamples(SAMPLES, 1000.3, 1005.7)
    assert host.processors(1005.0, 4.0) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param([], id="no host beneath"),
        pytest.param([SAMPLES[0], SAMPLES[-1]], id="none inside"),
        pytest.param([SAMPLES[0], *SAMPLES[20:40], SAMPLES[-1]], id="they span half of it"),
        pytest.param([one if one[0] < 4.8 else (one[0], None) for one in SAMPLES], id="a program has ended"),
    ],
)
def test_without_enough_samples_there_is_no_figure(samples: Sequence[tuple[float, float | None]]) -> None:
    assert HostSamples(samples, 1000.0, 1006.0).processors(1005.0, 4.0) is None


class Plain:
    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:  # noqa: ARG002
        for _ in range(5):
            await asyncio.sleep(0)
        return [StepResult(step.name, 0, "", 2.0, began=100.0 + 2 * at) for at, step in enumerate(steps)]


class OnHost(Plain):
    used = 0.0

    def host_seconds(self) -> float:
        self.used += 1.0
        return self.used


def _run(rig: Plain) -> HostSamples:
    steps = [Step("tune", ""), Step("measure", "")]
    results, host = asyncio.run(run_sampled(cast("Rig", rig), steps, expected=0.0, deadline=1.0))
    assert [one.name for one in results] == ["tune", "measure"]
    return host


def test_the_host_is_sampled_from_before_the_steps_until_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_samples, "INTERVAL", 0.0)
    host = _run(OnHost())
    assert (host.began, host.ended) == (100.0, 104.0)
    assert [used for _, used in host.samples] == [float(at + 1) for at in range(len(host.samples))]
    assert len(host.samples) > 3
    assert _run(Plain()) == HostSamples()
