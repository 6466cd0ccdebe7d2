"""Slow motion, on simulated time of the host: the same work takes as long in the time of the disk."""

from __future__ import annotations

import asyncio
import heapq
import random
import tempfile
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from matrix_runner.simdisks.clib import Board, Library, build_library, load_library
from matrix_runner.space.load import disk_model
from tests.support.closed_loop import SimulatedDisk, What

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB, KIB = 2**20, 2**10
SIZE = 2 * 2**30
TURN = 20e-6  # the host's seconds from an answer to the next request, whatever the factor


@pytest.fixture(scope="module")
def code() -> Library:
    return load_library(asyncio.run(build_library()))


@dataclass(frozen=True)
class Stream:
    """A closed loop of requests, as one job of fio sends them."""

    what: What = "read"
    block: int = 256 * KIB
    depth: int = 1
    begin: int | None = None  # the first byte of sequential work; None: random
    reads: float = 1.0  # the share of reads, if `what` is a read; the rest are writes
    flush_each: int = 0  # a flush after this many requests


JOBS: dict[str, tuple[str, tuple[Stream, ...], float]] = {
    "sequential read": ("st3500641as", (Stream(depth=4, begin=0),), 5),
    "sequential write": ("st3500641as", (Stream("write", depth=4, begin=0),), 5),
    "random read": ("st3500641as", (Stream(block=4 * KIB),), 60),
    "random write": ("st3500641as", (Stream("write", block=4 * KIB),), 60),
    "mixed": ("st3500641as", (Stream(block=16 * KIB, depth=4, reads=0.7),), 60),
    "flushes": ("st3500641as", (Stream("write", block=16 * KIB, begin=0, flush_each=8),), 30),
    "three streams": ("st3500641as", tuple(Stream(begin=at * SIZE // 3) for at in range(3)), 30),
    "queue depth 32": ("st3500641as", (Stream(block=4 * KIB, depth=32),), 60),
    "shingled": ("archive-smr", (Stream("write", block=16 * KIB, depth=4),), 120),
    "ssd burst": ("sata-ssd", (Stream("write", block=MIB, depth=4, begin=0),), 6),
}


def requests(stream: Stream, seed: int) -> Iterator[tuple[What, int, int]]:
    chance, at = random.Random(seed), stream.begin or 0  # noqa: S311 - no secret
    sent = 0
    while True:
        if stream.begin is None:
            at = chance.randrange(SIZE // stream.block) * stream.block
        elif at + stream.block > SIZE:
            at = 0
        yield stream.what if chance.random() < stream.reads else "write", at, stream.block
        at, sent = at + stream.block, sent + 1
        if stream.flush_each and sent % stream.flush_each == 0:
            yield "flush", 0, 0


def bytes_per_second(code: Library, kind: str, slow: int) -> float:
    """Return the rate in the host's seconds. Times are converted by the board, as in the server."""
    model, streams, seconds = JOBS[kind]
    disk = SimulatedDisk(code, disk_model(model).physics(1), SIZE)
    with tempfile.TemporaryFile() as sheet:
        board = Board(code, sheet.fileno(), slow=slow)
        clock_at, moment = (
            partial(function, board._board) for function in (board._c.board_clock_at, board._c.board_moment)
        )
        began = now = moment(0.0)
        end = began + seconds * slow
        lines = [requests(stream, at) for at, stream in enumerate(streams)]
        answers: list[tuple[float, int]] = []
        turns = deque[tuple[float, int]]()
        under_way: dict[int, tuple[int, int]] = {}
        moved = tags = 0

        def settle() -> None:
            for tag, at in disk.settled(clock_at(now)):
                heapq.heappush(answers, (moment(at), tag))

        def send(line: int) -> None:
            nonlocal tags
            what, offset, length = next(lines[line])
            under_way[tags] = line, length
            disk.submit(clock_at(now), what, offset, length, tags)
            tags += 1
            settle()

        for line, stream in enumerate(streams):
            for _ in range(stream.depth):
                send(line)
        while now < end:
            # A nanosecond later, as on a host: by rounding, its clock could stay just short of the decision.
            wakes = moment(disk.next_decision()) + 1e-9
            if turns and turns[0][0] <= min(wakes, answers[0][0] if answers else wakes):
                at, line = turns.popleft()
                now = max(now, at)
                send(line)
            elif answers and answers[0][0] <= wakes:
                at, tag = heapq.heappop(answers)
                now = max(now, at)
                line, length = under_way.pop(tag)
                moved += length
                turns.append((now + TURN, line))
            else:
                now = max(now, wakes)
                settle()
        board.close()
    return float(moved / (now - began))


@pytest.mark.parametrize("kind", JOBS)
def test_work_takes_as_long_in_the_time_of_a_slow_disk(code: Library, kind: str) -> None:
    usual = bytes_per_second(code, kind, 1)
    found = {slow: bytes_per_second(code, kind, slow) * slow for slow in (2, 4, 8)}
    assert found == pytest.approx(dict.fromkeys(found, usual), rel=0.01)
