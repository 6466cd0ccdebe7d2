"""What a job of fio reaches on a simulated disk, on simulated time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.simdisks.clib import Library, build_library, load_library
from matrix_runner.simdisks.disk import Physics
from matrix_runner.simdisks.loop import PERCENTILES, Direction, Figures, Host, Pattern, simulate
from matrix_runner.simdisks.measured import Job, demerit, spots
from matrix_runner.space.load import disk_model

if TYPE_CHECKING:
    from collections.abc import Mapping

SSD = Physics(
    "ssd",
    (("read_latency", 1e-4), ("write_latency", 5e-5), ("channels", 4.0), ("read_rate", 1e12), ("write_rate", 1e12)),
)
HOST = Host(10**9, turn=1e-5, queue=32)
ONE = Pattern(1, 1.0)


@pytest.fixture(scope="module")
def code() -> Library:
    return load_library(asyncio.run(build_library()))


def answered(
    code: Library, pattern: Pattern, host: Host = HOST, *, most: int = 2000, physics: Physics = SSD, seed: int = 1
) -> Mapping[Direction, Figures]:
    return simulate(code, physics, host, pattern, 1e9, most, seed)


def figures(*percentiles: float) -> Figures:
    return Figures(1.0, 1.0, 1.0, 0.0, percentiles)


def test_the_demerit_is_the_distance_of_the_curves_in_means() -> None:
    ones = figures(*[1.0] * len(PERCENTILES))
    assert demerit(ones, ones) == 0
    assert demerit(figures(*[1.5] * len(PERCENTILES)), ones) == pytest.approx(0.5)
    assert demerit(ones, figures(*[2.0] * len(PERCENTILES))) == pytest.approx(0.5)


def test_a_drive_that_stopped_is_left_out() -> None:
    job = Job("one.json", ONE, figures(1.0), None)
    stopped = replace(job, read=replace(figures(1.0), longest=30.0))
    assert [spot.jobs for spot in spots([job, stopped])] == [(job,)]


def test_a_closed_loop_asks_when_it_is_answered(code: Library) -> None:
    found = answered(code, ONE)
    assert set(found) == {"read"}
    assert found["read"].iops == pytest.approx(1 / (1e-4 + 1e-5), rel=0.01)
    assert found["read"].mean == pytest.approx(1e-4, rel=0.01)
    deep = answered(code, replace(ONE, depth=64))["read"]
    assert deep.iops == pytest.approx(4 / 1e-4, rel=0.02)
    assert answered(code, replace(ONE, depth=64)) == {"read": deep}


def test_disks_share_requests_and_directions_their_number(code: Library) -> None:
    two = answered(code, replace(ONE, depth=64), replace(HOST, disks=2))["read"]
    assert two.iops == pytest.approx(8 / 1e-4, rel=0.1)
    mixed = answered(code, replace(ONE, depth=64, reads=0.75), most=8000)
    assert mixed["read"].iops == pytest.approx(3 * mixed["write"].iops, rel=0.1)


def test_requests_beyond_the_queue_are_sorted_by_the_scheduler(code: Library) -> None:
    """One command at a time is under way, so only the scheduler can shorten seeks."""
    hdd, host = disk_model("samsung-f1-1tb").physics(1), Host(10**12, 1e-5, queue=1)
    one, many = (simulate(code, hdd, host, replace(ONE, depth=depth), 60, 20_000)["read"].iops for depth in (1, 64))
    assert many > 1.2 * one


def test_a_sequence_reads_the_rate_of_its_place(code: Library) -> None:
    hdd, host = disk_model("samsung-f1-1tb").physics(1), Host(10**12)
    for first, rate in ((0.0, 110e6), (0.99, 55e6)):
        pattern = Pattern(4, 1.0, 256 * 1024, random=False, first=first, last=first + 0.01)
        assert simulate(code, hdd, host, pattern, 2, 100_000)["read"].iops * pattern.block == pytest.approx(
            rate, rel=0.02
        )


def test_a_safe_write_takes_the_time_of_a_flush(code: Library) -> None:
    physics = replace(SSD, numbers=(*SSD.numbers, ("flush", 2e-3)))
    write = Pattern(1, 0.0)
    assert answered(code, write, physics=physics)["write"].mean == pytest.approx(5e-5, rel=0.01)
    assert answered(code, replace(write, safe=True), physics=physics)["write"].mean == pytest.approx(2e-3, rel=0.01)


def test_another_seed_asks_for_other_places(code: Library) -> None:
    hdd = disk_model("samsung-f1-1tb").physics(1)
    one, other = (answered(code, ONE, physics=hdd, seed=seed)["read"] for seed in (1, 2))
    assert one != other
    assert one.mean == pytest.approx(other.mean, rel=0.03)
