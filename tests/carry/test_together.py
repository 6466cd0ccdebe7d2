"""How many rigs may be at work: whatever trials say, in whatever order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.decide.concurrency import MOST_PATIENCE, Level, why_one_at_a_time
from matrix_runner.machines import MACHINES, PASSTHROUGH, machine
from matrix_runner.machines.base import MachineOptions, RigSpec
from matrix_runner.machines.qemu import Qemu
from matrix_runner.simdisks.disk import Disk, Physics
from tests.support.dry import Dry
from tests.support.engine import FAULTY
from tests.support.matrices import SMALL, space

COUNTS = st.integers(1, 40)
#: In how much company a trial was, and whether the host kept up.
TRIALS = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=200)


def after(level: Level, trials: list[tuple[int, bool]]) -> Level:
    for beside, kept_up in trials:
        level = level.kept_up(beside) if kept_up else level.host_limited(beside)
    return level


@given(COUNTS, TRIALS)
def test_a_fixed_level_stays(count: int, trials: list[tuple[int, bool]]) -> None:
    assert after(Level.of(count), trials) == Level.of(count)


@given(COUNTS, TRIALS)
def test_the_level_is_between_one_and_the_maximum(most: int, trials: list[tuple[int, bool]]) -> None:
    found = after(Level.up_to(most), trials)
    assert 1 <= found.now <= found.most == most


@given(COUNTS, TRIALS, st.integers(0, 40))
def test_overload_never_raises_it_and_a_trial_that_kept_up_never_lowers_it(
    most: int, trials: list[tuple[int, bool]], beside: int
) -> None:
    found = after(Level.up_to(most), trials)
    assert found.host_limited(beside).now == (min(found.now, beside) if beside else found.now)
    assert found.now <= found.kept_up(beside).now <= found.now + 1


@given(COUNTS, TRIALS, st.integers(1, 40))
def test_trials_that_were_host_limited_together_count_once(
    most: int, trials: list[tuple[int, bool]], beside: int
) -> None:
    once = after(Level.up_to(most), trials).host_limited(beside)
    assert after(once, [(beside, False)] * 5) == once


@given(COUNTS, TRIALS)
def test_trials_below_the_level_do_not_raise_it(most: int, trials: list[tuple[int, bool]]) -> None:
    found = after(Level.up_to(most), trials)
    assert after(found, [(beside, True) for beside in range(found.now - 1)]) == found


@given(st.integers(1, 12), TRIALS)
def test_without_host_limits_the_level_reaches_the_maximum(most: int, trials: list[tuple[int, bool]]) -> None:
    found = after(Level.up_to(most), trials)
    for _ in range(most * most * MOST_PATIENCE):
        found = found.kept_up(found.now - 1)
    assert found.now == most


@given(st.integers(1, 12), st.integers(1, 12))
def test_the_level_stays_near_the_capacity_of_the_host(most: int, borne: int) -> None:
    found: Level = Level.up_to(most)
    levels = []
    for _ in range(2000):
        levels.append(found.now)
        found = after(found, [(found.now - 1, found.now <= borne)])
    assert max(levels) <= max(2, borne + 1)
    assert set(levels[1000:]) <= {min(most, borne), borne + 1}
    assert sum(level > borne for level in levels[1000:]) <= 1000 / (borne * MOST_PATIENCE) + 1


MODELLED = RigSpec((Disk(1 << 28, "virtio", Physics("volume")),))


def test_only_disks_with_a_model_are_measured_side_by_side() -> None:
    bare = replace(MODELLED, disks=(*MODELLED.disks, Disk(1 << 28)))
    assert not why_one_at_a_time(Qemu(), [MODELLED], [])
    assert "disks without a model" in why_one_at_a_time(Qemu(), [MODELLED, bare], [])
    assert not why_one_at_a_time(Dry(), [bare], [])


@pytest.mark.parametrize("name", [*MACHINES, *PASSTHROUGH.values()])
def test_machines_with_one_set_of_disks_run_one_rig_at_a_time(name: str) -> None:
    why = why_one_at_a_time(machine(name, MachineOptions()), [MODELLED], [])
    made = name in {"qemu", "vagrant", "dry"}
    assert why.partition(":")[0] == ("" if made else f"{name} runs one rig at a time")


@pytest.mark.parametrize("work", ["sync: background", "state: rebuilding"])
def test_background_work_forces_one_rig_at_a_time(work: str) -> None:
    (array, _) = space(SMALL.replace("level: 5", f"level: 5, {work}")).stacks
    assert "RAID 5 resyncs in the background" in why_one_at_a_time(Qemu(), [MODELLED], [array])


def test_an_array_whose_disks_fail_may_rebuild_while_others_are_to_be_alone() -> None:
    array, *_ = (array for array in space(FAULTY).stacks if array.faults)
    assert "disks fail" in why_one_at_a_time(Qemu(), [MODELLED], [array])
