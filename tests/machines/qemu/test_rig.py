"""A guest whose clock is wrong is lost before anything is measured by it."""

import asyncio
import time
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.machines.base import RigLost
from matrix_runner.machines.qemu import rig as clock
from matrix_runner.machines.qemu.rig import Reading, clock_error, pace

if TYPE_CHECKING:
    from matrix_runner.machines.qemu.guest import Guest

DELAYS = st.floats(0, 2)


def read(rate: float, at: float, before: float, after: float) -> Reading:
    """Of a clock that runs at this rate, by somebody whose question and whose answer take a while."""
    return Reading(at, 1.7e9 + (at + before) * rate, at + before + after)


@given(st.floats(0.1, 10), DELAYS, DELAYS, DELAYS, DELAYS, st.floats(0.4, 10))
def test_the_true_pace_lies_between_the_bounds(
    rate: float, a: float, b: float, c: float, d: float, between: float
) -> None:
    least, most = pace(read(rate, 0, a, b), read(rate, a + b + between, c, d))
    assert least <= rate * 1.0001
    assert most >= rate * 0.9999


@given(DELAYS, DELAYS, DELAYS, DELAYS, st.floats(0.4, 10))
def test_a_right_clock_is_never_called_wrong(a: float, b: float, c: float, d: float, between: float) -> None:
    assert not clock_error(read(1, 0, a, b), read(1, a + b + between, c, d))


@pytest.mark.parametrize("rate", [0.3, 2.63])
def test_a_wrong_one_is_found_though_answers_are_slow(rate: float) -> None:
    first = read(rate, 0, 0.4, 0.4)
    second = read(rate, 0.8 + clock.PATIENCE * 0.8, 0.4, 0.4)
    assert "the guest's clock is wrong" in clock_error(first, second)


class Guest26:
    """A guest whose seconds pass 2.6 times too fast."""

    async def shell(self, script: str, *, deadline: float) -> bytes:
        assert (script, deadline) == ("echo $EPOCHREALTIME\n", clock.ANSWER_DEADLINE)
        return f"{time.monotonic() * 2.6:.6f}\n".encode()

    def tail(self) -> str:
        return "its last words"


def test_such_a_rig_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "LEAST", 0.02)
    with pytest.raises(RigLost, match=r"clock is wrong.*no figure is affected"):
        asyncio.run(clock.check_clock(cast("Guest", Guest26())))
