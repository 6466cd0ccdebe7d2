"""SSDs that age: fast when new, slower when they are full of random writes, fast again when they are discarded."""

import asyncio
import random
import re
from collections.abc import Iterator
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.process import run
from matrix_runner.simdisks.check import serve_disk
from matrix_runner.simdisks.clib import Library, build_library, load_library
from matrix_runner.simdisks.disk import Disk, Physics
from matrix_runner.simdisks.server import counters_between
from matrix_runner.space.load import disk_model
from tests.support.closed_loop import SimulatedDisk
from tests.support.matrices import space

MIB, PAGE = 2**20, 4096
SIZE = 16 * MIB
PAGES = SIZE // PAGE


@pytest.fixture(scope="module")
def code() -> Library:
    return load_library(asyncio.run(build_library()))


def _physics(spare: float = 0.12, **others: float) -> Physics:
    found = disk_model("ageing-ssd").physics(1)
    return Physics("ssd", tuple({**dict(found.numbers), "spare": spare, "block": 65536.0, **others}.items()))


class _Work:
    """One request after another; each call returns their mean time in seconds."""

    def __init__(self, code: Library, physics: Physics, size: int = SIZE) -> None:
        self.disk, self.now, self.pages = SimulatedDisk(code, physics, size), 0.0, size // PAGE
        self.random = random.Random(1)  # noqa: S311 - offsets, not secrecy

    def _took(self, requests: Iterator[tuple[int, int]]) -> list[float]:
        took = []
        for tag, (offset, length) in enumerate(requests):
            self.disk.submit(self.now, "write", offset, length, tag)
            ((_, end),) = self.disk.settled(self.now)
            took.append(end - self.now)
            self.now = end
        return took

    def at_random(self, passes: float, length: int = PAGE) -> float:
        count = int(passes * self.pages)
        took = self._took((self.random.randrange(self.pages) * PAGE, length) for _ in range(count))
        return sum(took) / count

    def in_order(self, passes: int, length: int = 16 * PAGE) -> float:
        starts = range(0, self.pages * PAGE, length)
        took = self._took((start, length) for _ in range(passes) for start in starts)
        return sum(took) / len(took)

    def trim(self, offset: int, length: int) -> None:
        self.disk.submit(self.now, "trim", offset, length, 0)
        ((_, self.now),) = self.disk.settled(self.now)


def _amplification(spare: float) -> float:
    """Return Desnoyers' figure for uniform random writes: pages written to flash for each page of the host."""
    ratio, w = 1 + spare, -0.5
    x = -ratio * exp(-ratio)
    for _ in range(100):  # Newton's method for the Lambert function
        w -= (w * exp(w) - x) / (exp(w) * (w + 1))
    return ratio / (ratio + w)


@pytest.mark.parametrize("spare", [0.12, 0.28, 0.5])
def test_a_full_disk_copies_as_many_pages_as_theory_has(code: Library, spare: float) -> None:
    physics = _physics(spare, write_latency=1e-9, overhead=0.0, block=float(MIB // 4))
    work = _Work(code, physics, 4 * SIZE)
    fresh = work.at_random(0.5)
    work.at_random(4)
    steady = work.at_random(2)
    numbers = dict(_physics().numbers)
    copied = (steady - fresh) / (PAGE / numbers["read_rate"] + PAGE / numbers["write_rate"])
    assert 1 + copied == pytest.approx(_amplification(spare), rel=0.1)


def test_figures_fall_from_fresh_to_steady_and_stay_there(code: Library) -> None:
    work = _Work(code, _physics())
    course = [work.at_random(0.5) for _ in range(12)]
    assert course[1] == pytest.approx(course[0])
    assert course[-1] > 2.5 * course[0]
    assert max(course[-4:]) < 1.1 * min(course[-4:])
    assert course[2] < course[4]  # a transition, not a step


def test_writes_in_order_copy_no_pages(code: Library) -> None:
    work = _Work(code, _physics())
    first = work.in_order(1)
    assert work.in_order(4) == pytest.approx(first)


def test_order_lasts_only_until_random_writes_mix_the_blocks(code: Library) -> None:
    work = _Work(code, _physics())
    ordered = work.in_order(2)
    work.at_random(4)
    mixed = work.in_order(1)
    assert mixed > 1.2 * ordered
    work.in_order(8)
    assert work.in_order(1) == pytest.approx(ordered, rel=0.05)


def test_a_trim_of_everything_makes_the_disk_new(code: Library) -> None:
    work = _Work(code, _physics())
    fresh = work.at_random(0.5)
    work.at_random(4)
    work.trim(0, SIZE)
    assert work.at_random(0.5) == pytest.approx(fresh, rel=0.01)


def test_a_trim_of_a_part_gives_a_part_back(code: Library) -> None:
    work = _Work(code, _physics())
    work.at_random(4)
    steady = work.at_random(1)
    work.trim(0, SIZE // 2)
    work.random = random.Random(2)  # noqa: S311
    found = work._took((SIZE // 2 + work.random.randrange(PAGES // 2) * PAGE, PAGE) for _ in range(2 * PAGES))
    assert sum(found[PAGES:]) / PAGES < 0.5 * steady


def test_a_trim_of_less_than_a_page_keeps_it(code: Library) -> None:
    work, other = _Work(code, _physics()), _Work(code, _physics())
    for one in (work, other):
        one.at_random(3)
    for page in range(PAGES):
        work.trim(page * PAGE + 512, PAGE - 512)
    assert work.at_random(1) == pytest.approx(other.at_random(1))


def test_a_write_of_less_than_a_page_reads_the_rest_first(code: Library) -> None:
    numbers = dict(_physics().numbers)
    small, whole = (_Work(code, _physics()).at_random(0.2, length) for length in (512, PAGE))
    assert small - whole == pytest.approx(7 / 8 * PAGE / numbers["read_rate"])


@given(commands=st.lists(st.tuples(st.booleans(), st.integers(0, 511), st.integers(1, 300)), min_size=1, max_size=300))
def test_a_request_is_never_slower_than_the_deadline_assumes(
    code: Library, commands: list[tuple[bool, int, int]]
) -> None:
    physics, size = _physics(2.0, block=16384.0), 2 * MIB
    work = _Work(code, physics, size)
    for is_trim, page, count in commands * 3:
        offset, length = page * PAGE, min(count, 512 - page) * PAGE
        if is_trim and count % 5 == 0:
            work.trim(offset, length)
        else:
            (took,) = work._took(iter([(offset, length)]))
            assert took <= physics.slowest(length) + 1e-9


def test_the_estimate_of_a_plan_is_that_of_the_steady_state(code: Library) -> None:
    work = _Work(code, _physics())
    work.at_random(5)
    estimate = _physics().rate(PAGE, random=True, write=True, depth=1)
    assert PAGE / work.at_random(1) == pytest.approx(estimate, rel=0.3)


_SERVED = Disk(4 * MIB, "virtio", _physics())


def test_fio_sees_the_disk_age_and_a_trim_make_it_new() -> None:
    """The seconds are those of the model, which do not depend on the host."""
    usual = ("fio", "--ioengine=nbd", f"--size={_SERVED.size}", "--norandommap", "--randrepeat=0")
    jobs = {
        "fresh": ("--rw=randwrite", "--bs=4k", "--io_size=2m"),
        "ageing": ("--rw=randwrite", "--bs=4k", "--io_size=8m"),
        "steady": ("--rw=randwrite", "--bs=4k", "--io_size=2m"),
        "purge": ("--rw=trim", "--bs=1m"),
        "again": ("--rw=randwrite", "--bs=4k", "--io_size=2m"),
    }

    async def ask() -> dict[str, float]:
        async with serve_disk(_SERVED) as alone:
            found = {}
            for name, options in jobs.items():
                before = [alone.board.report(0)]
                done = await asyncio.to_thread(run, [*usual, f"--uri={alone.uri}", f"--name={name}", *options])
                assert done.returncode == 0, done.stdout + done.stderr
                (report,) = counters_between(before, [alone.board.report(0)])
                found[name] = report.owed / max(1, report.writes)
            return found

    found = asyncio.run(ask())
    assert found["again"] == pytest.approx(found["fresh"], rel=0.05)
    assert found["steady"] > 1.5 * found["fresh"], found


MATRIX = """
name: age
disks: {{count: 1, size: {size}, model: {{kind: ssd, read_latency: 90us, write_latency: 40us, channels: 4,
  bandwidth: 500MB/s, ageing: {ageing}}}}}
layouts: {{raw: [disk]}}
workloads: {{w: {{rw: {rw}}}}}
"""


@pytest.mark.parametrize(
    ("size", "ageing", "why"),
    [
        ("128GiB", "{spare: 7%}", "more than 16,777,216 pages; write `ageing: {page: 8KiB}`"),
        ("16MiB", "{spare: 7%}", "less than 8 blocks of 256KiB"),
        ("1GiB", "{spare: 7%, block: 70KiB}", "multiple of it"),
        ("1GiB", "{spare: 7%, page: 5KiB}", "power of two"),
    ],
)
def test_a_disk_that_cannot_age_so_is_refused(size: str, ageing: str, why: str) -> None:
    with pytest.raises(Exception, match=re.escape(why)):
        space(MATRIX.format(size=size, ageing=ageing, rw="read"))


def test_a_model_that_ages_has_trims() -> None:
    found = space(MATRIX.format(size="1GiB", ageing="{spare: 7%}", rw="randtrim"))
    assert found.count() == 1
