"""What held the work back, from what was counted."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.records.counters import Bus, Processors, TrialUse, Use, evenness, find_bottleneck
from matrix_runner.work.fio.output import Figures
from matrix_runner.work.fio.workload import FioWorkload

WORK = FioWorkload.model_validate({"rw": "read", "bs": "4KiB", "iodepth": 4})


def use(number: int, busy: float, moved: int = 0) -> Use:
    return Use(f"disk{number}", f"vd{number}", 1, 1, moved, 0, 0.0, 0.0, busy)


def processors(idle: float) -> Processors:
    return Processors(10.0, {"idle": idle, "iowait": 0.0, "user": 1 - idle}, 0, 0)


@dataclass(frozen=True)
class Evidence:
    """Ten seconds in which nothing was anywhere near its limit."""

    seconds: float = 10.0
    disks: tuple[Use, ...] = (use(0, 2.0), use(1, 3.0))
    idle: float = 0.8
    fio: float = 0.2
    work: FioWorkload = WORK
    buses: tuple[Bus, ...] = ()
    overload: str = ""

    def bottleneck(self) -> str:
        beside = TrialUse(self.disks, processors(self.idle), self.seconds)
        figures = Figures(None, None, runtime=self.seconds, cpu_usr=100 * self.fio, cpu_sys=0.0, errors=0)
        return find_bottleneck(beside, figures, self.work, self.buses, self.overload)


EASY = Evidence()
BUFFERED = WORK.model_copy(update={"direct": False})


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (EASY, "queue depth: at most 4 under way, and the busiest disk was so for 30% of the time"),
        (replace(EASY, work=BUFFERED), "unclear: the busiest disk was so for 30% of the time"),
        (replace(EASY, disks=()), "unclear: there are no counters of its disks"),
        (replace(EASY, seconds=0.0), "unclear: there are no counters of its disks"),
        (replace(EASY, disks=(use(0, 9.5), use(1, 9.9))), "disks: each busy for at least 95% of the time"),
        (
            replace(EASY, disks=(use(0, 9.5), use(1, 3.0), use(2, 9.9))),
            "disk0 and disk2: busy for 95% of the time, no other disk for more than 30%",
        ),
        (replace(EASY, disks=(use(0, 1.0), use(1, 9.9))), "disk1: busy for 99% of the time, no other disk for more than 10%"),
        (replace(EASY, disks=(use(0, 1.0), use(1, 10.0))), "disk1: busy all the time, no other disk for more than 10%"),
        (replace(EASY, fio=0.97), "processor: each of fio's jobs used 97% of one"),
        (replace(EASY, idle=0.03), "processor: idle for 3% of the time"),
        (replace(EASY, buses=(Bus("pci", 130e6, 133e6),)), "bus pci: 130 of 133 MB/s"),
        (replace(EASY, buses=(Bus("pci", 13e6, 133e6),)), EASY.bottleneck()),
        (replace(EASY, overload="host: too slow", fio=1.0), "host: too slow"),
        (replace(EASY, disks=(use(0, 9.9), use(1, 9.9)), fio=1.0), "disks: each busy for at least 99% of the time"),
        (replace(EASY, disks=(use(0, 10.6), use(1, 11.0))), "disks: each busy all the time"),
    ],
)  # fmt: skip
def test_the_first_certain_bottleneck_is_named(found: Evidence, said: str) -> None:
    assert found.bottleneck() == said


def test_evenness_is_of_those_that_take_part() -> None:
    disks = [use(0, 1, 90), use(1, 1, 100), use(2, 1, 0)]
    assert evenness(disks) == 0
    assert evenness(disks, spares=1) == 0.9
    assert evenness(disks[:1]) is None
    assert evenness([use(0, 1), use(1, 1)]) is None


@given(st.lists(st.integers(1, 10**12), min_size=2, max_size=8))
def test_evenness_is_a_share_and_one_only_where_all_are_alike(moved: list[int]) -> None:
    even = evenness([use(number, 1, each) for number, each in enumerate(moved)])
    assert even is not None
    assert 0 < even <= 1
    assert (even == 1) == (len(set(moved)) == 1)
