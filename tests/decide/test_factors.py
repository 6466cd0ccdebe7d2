"""The factor of slow motion of each trial, from what the host needed before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from matrix_runner.decide.costs import COSTS, Factors
from matrix_runner.decide.estimate import Pace, estimate
from matrix_runner.decide.plan import Plan
from matrix_runner.pages.terminal_text import slow_motion
from matrix_runner.records.record import TrialFacts
from matrix_runner.space.load import parse
from matrix_runner.space.select import select

if TYPE_CHECKING:
    from matrix_runner.machines.base import Processor
    from matrix_runner.space.space import Cell, Space

MATRIX = """\
name: factors
disks: {count: 4, size: 64MiB, model: MODEL}
layouts: {stripe: [md: {level: 0, chunk: [64KiB, 512KiB]}], parity: [md: {level: 5}]}
workloads:
  seeks: {rw: randread, bs: 4KiB, runtime: 1s}
  stream: {rw: write, bs: 1MiB, iodepth: 8, runtime: 1s, fio: {rate: 100m}}
  snail: {rw: randread, bs: 4KiB, runtime: 1s, fio: {rate_iops: 6}}
"""


def space_of(model: str = "nas-7200") -> Space:
    return parse("factors", MATRIX.replace("MODEL", model)).space


def cell_of(space: Space, layout: str, work: str, chunk: str = "64KiB") -> Cell:
    return next(
        one
        for one in space.cells()
        if (one.axes["layout"], one.axes["workload"]) == (layout, work) and one.axes.get("md.chunk", chunk) == chunk
    )


def factors_of(space: Space, known: dict[str, int] | None = None, costs: Processor = "emulated") -> Factors:
    return Factors(space.matrix, COSTS[costs], known)


def limited(slow: int, lost: float = 0.1) -> TrialFacts:
    return TrialFacts(slow=slow, lost=lost, host_limited_share=lost)


def well(slow: int, lost: float = 0.03) -> TrialFacts:
    return TrialFacts(slow=slow, host_limited_share=lost)


def test_a_formula_gives_the_first_factor_and_seeks_of_hard_disks_need_none() -> None:
    space = space_of()
    factors = factors_of(space)
    assert factors.of(cell_of(space, "stripe", "seeks")) == 1
    assert factors.of(cell_of(space, "stripe", "stream")) == 4  # 4 disks of 200 MB/s against 300 MB/s
    assert factors.of(cell_of(space, "parity", "stream")) == 8  # an emulated processor computes 120 MB/s of parity
    assert factors_of(space, costs="virtual").of(cell_of(space, "parity", "stream")) == 1  # nobody measured it


@pytest.mark.parametrize(("lost", "steps"), [(0.1, [1, 2, 4, 8, 16]), (0.5, [1, 4, 16])])
def test_a_host_limited_trial_is_measured_again_until_there_is_no_larger_factor(lost: float, steps: list[int]) -> None:
    space = space_of()
    factors, cell = factors_of(space), cell_of(space, "stripe", "seeks")
    found = [factors.of(cell)]
    while factors.learn(cell, limited(found[-1], lost)):
        found.append(factors.of(cell))
    assert found == steps


def test_cells_alike_begin_with_what_was_learned_also_in_a_later_run() -> None:
    space, learned = space_of(), dict[str, int]()
    factors = Factors(space.matrix, COSTS["emulated"], keep=learned.__setitem__)
    factors.learn(cell_of(space, "stripe", "seeks"), limited(1))
    for one in (factors, factors_of(space, learned)):
        assert one.of(cell_of(space, "stripe", "seeks", "512KiB")) == 2
        assert one.of(cell_of(space, "parity", "seeks")) == 1
    other_seed = parse("factors", f"seed: 7\n{MATRIX}".replace("MODEL", "nas-7200")).space
    assert factors_of(other_seed, learned).of(cell_of(other_seed, "stripe", "seeks")) == 2
    assert factors_of(space_of("archive-smr"), learned).of(cell_of(space, "stripe", "seeks")) == 1


def test_a_trial_that_lost_little_halves_the_factor_but_not_to_one_that_failed() -> None:
    space = space_of()
    factors, cell = factors_of(space), cell_of(space, "parity", "stream")
    assert not factors.learn(cell, well(8, 0.001))
    assert factors.of(cell) == 4
    assert factors.learn(cell, limited(4))
    assert not factors.learn(cell, well(8, 0.001))
    assert factors.of(cell) == 8


def test_a_factor_that_fio_cannot_express_is_not_taken() -> None:
    space = space_of()
    factors, cell = factors_of(space), cell_of(space, "stripe", "snail")
    assert factors.learn(cell, limited(1))
    assert factors.of(cell) == 2  # 6 requests a second are 3, but not 1.5
    assert not factors.learn(cell, limited(2))


@pytest.mark.parametrize(("model", "costs"), [("nas-7200", "none"), ("{kind: ideal}", "emulated")])
def test_there_is_no_slow_motion_where_it_is_of_no_use(model: str, costs: Processor) -> None:
    space = space_of(model)
    factors, cell = factors_of(space, costs=costs), cell_of(space, "parity", "stream")
    assert factors.of(cell) == 1
    assert not factors.learn(cell, limited(1, 0.9))


def test_a_trial_without_counted_losses_does_not_change_factors() -> None:
    space = space_of()
    factors, cell = factors_of(space), cell_of(space, "parity", "stream")
    assert not factors.learn(cell, TrialFacts(slow=8))
    assert factors.of(cell) == 8


def test_an_estimate_states_the_factors_with_which_a_run_would_begin() -> None:
    space = parse("factors", MATRIX.replace("MODEL", "nas-7200")).space
    plan = Plan(select(space, ("workload=seeks|stream",)), space.matrix.repeat, 1)
    found = estimate(plan, Pace(factors=factors_of(space))).factors
    assert found == {1: 3, 4: 2, 8: 1}
    text = "3 cells at full speed; 2 in slow motion, 4 times slower; 1 in slow motion, 8 times slower"
    assert slow_motion(found) == f"{text} (what this host needed before, else a guess)"
    assert estimate(plan, Pace()).factors == {}
    assert slow_motion({}) == slow_motion({1: 6}) == ""
