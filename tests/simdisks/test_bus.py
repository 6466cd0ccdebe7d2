"""A bus that disks share: it moves no more than its rate, and all of it if the disks have enough for it."""

from __future__ import annotations

import asyncio
import random
import tempfile
from typing import TYPE_CHECKING

import pytest

from matrix_runner.simdisks.clib import Board, Library, build_library, load_library
from tests.support.closed_loop import declared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RATE = 133e6


@pytest.fixture(scope="module")
def code() -> Library:
    return load_library(asyncio.run(build_library()))


@pytest.fixture
def transfer(code: Library) -> Iterator[Callable[[float, float, float], float]]:
    """Book a transfer that is ready, has a length and can begin; times are from a moment of the future."""
    with tempfile.TemporaryFile() as sheet:
        board = Board(code, sheet.fileno(), (RATE,))
        zero = board.clock() + 1000
        yield (
            lambda ready, length, begun: (
                declared(code).board_bus_end(board._board, 0, zero + ready, length, zero + begun) - zero
            )
        )
        board.close()


def test_no_gap_is_too_short_for_a_transfer(transfer: Callable[[float, float, float], float]) -> None:
    """Each second 4 KiB stand in the way of a MiB; all else waits from the begin on."""
    takes = {length: length / RATE for length in (4096, 1 << 20)}
    for number in range(100):  # the middle of each place for a MiB
        transfer((number + 0.5) * takes[1 << 20], 4096, 0)
    last = max(transfer(0, 1 << 20, 0) for _ in range(100))
    assert last == pytest.approx(100 * (takes[4096] + takes[1 << 20]), rel=1e-6)


def test_small_transfers_in_any_order_get_no_more_than_the_rate(
    transfer: Callable[[float, float, float], float],
) -> None:
    draw = random.Random(1)  # noqa: S311 - not for secrets
    booked = []
    for number in range(20_000):
        begun = number * 4096 / RATE / 1.1  # more than the bus can take
        length = draw.choice([512, 4096, 65536])
        ready = begun + draw.choice([0, 0.001, 0.01])
        end = transfer(ready, length, begun)
        assert end >= max(ready, begun + length / RATE) - 1e-9
        booked.append((max(begun, ready - length / RATE), end, length))
    for low, high in ((0, 0.5), (0.1, 0.2), (0.3, 10.0)):
        moved = sum(length for begun, end, length in booked if begun >= low and end <= high)
        assert moved <= (high - low) * RATE * (1 + 1e-9)


def test_a_transfer_of_the_past_takes_no_time_that_is_gone(transfer: Callable[[float, float, float], float]) -> None:
    ends = [transfer(number * 1e-3, 4096, 0) for number in range(1000)]
    late = [transfer(0, 1 << 20, 0) for _ in range(20)]
    assert min(late) > ends[500]
    assert max(late) >= 20 * (1 << 20) / RATE
