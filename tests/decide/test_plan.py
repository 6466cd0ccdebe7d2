from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.decide.costs import EMULATED
from matrix_runner.decide.estimate import Pace, Slots, estimate
from matrix_runner.decide.plan import Plan
from matrix_runner.language.matrix import Repeat
from matrix_runner.space.select import select
from tests.support.costs import free
from tests.support.matrices import SMALL, SWEEP, space


def plan(text: str = SWEEP, seed: int = 1) -> Plan:
    found = space(text)
    return Plan(select(found), found.matrix.repeat, seed)


@given(st.integers())
def test_every_round_holds_every_cell_once_and_every_array_once(seed: int) -> None:
    planned = plan(SMALL, seed)
    for round_number in planned.rounds:
        batches = list(planned.batches(round_number))
        cells = Counter(cell.id for batch in batches for cell in batch.cells)
        assert set(cells) == {cell.id for cell in planned.selection.cells()}
        assert set(cells.values()) == {1}
        assert len({batch.stack.key for batch in batches}) == len(batches)
        assert all(cell.stack is batch.stack for batch in batches for cell in batch.cells)


SHARED = st.sampled_from(["layout=single", "layout=striped", "layout=parity", "layout=far"])


def _order(planned: Plan, round_number: int) -> list[str]:
    return [cell.id for batch in planned.batches(round_number) for cell in batch.cells]


def test_the_order_follows_from_the_seed_and_differs_between_rounds() -> None:
    assert _order(plan(), 1) == _order(plan(), 1)
    assert _order(plan(), 1) != _order(plan(), 2)
    assert _order(plan(), 1) != _order(plan(seed=2), 1)


def test_cells_of_one_array_keep_their_order_when_others_are_left_out() -> None:
    """What `--only` leaves out must not reshuffle what it leaves in: a run can be narrowed and compared."""
    whole, found = plan(), space()
    part = Plan(select(found, ["layout=far"]), found.matrix.repeat, 1)
    of_whole = {batch.stack.key: [cell.id for cell in batch.cells] for batch in whole.batches(1)}
    assert all([cell.id for cell in batch.cells] == of_whole[batch.stack.key] for batch in part.batches(1))


def test_kernels_are_rigs_of_their_own_and_come_one_after_the_other() -> None:
    planned = plan(SMALL + "machine: {kernel: [debian-12, debian-13]}\n")
    kernels = [batch.stack.kernel for batch in planned.batches(1)]
    assert len(kernels) == 4
    assert kernels in (["debian-12"] * 2 + ["debian-13"] * 2, ["debian-13"] * 2 + ["debian-12"] * 2)


def test_the_estimate_adds_up() -> None:
    found = estimate(plan(SMALL), Pace(free(trial=0.5, set_up=2.0)))
    assert (found.cells, found.stacks, found.rigs) == (4, 2, 1)
    assert (found.trials_least, found.trials_most) == (8, 8)
    assert found.seconds_least == found.seconds_most == pytest.approx(2 * (4 * 1.5 + 2 * 2.0), rel=0.001)
    assert (found.bytes_least, found.bytes_prepared) == (2 * 2 * 10**8, 0)


@given(SHARED, st.integers(1, 20))
def test_side_by_side_estimates_lie_between_their_bounds(chosen: str, jobs: int) -> None:
    planned, pace = Plan(select(space(), [chosen]), Repeat(min=2, max=2), 1), Pace(replace(EMULATED, program=0.0))
    one, several = estimate(planned, pace), estimate(planned, pace, Slots.of(jobs))
    assert one.seconds_least / jobs <= several.seconds_least <= one.seconds_least
    assert several.seconds_least >= max(one.seconds_least / jobs, one.seconds_least / one.stacks * 0.999)
    assert several.bytes_most == one.bytes_most


@pytest.mark.parametrize(
    ("hosts", "bound", "least", "most"),
    [
        ([], True, 20, 50),
        ([1], True, 20, 50),
        ([1, 1], True, 10, 40),  # the three rounds beyond the minimum are measured one by one
        ([1, 1, 1, 1], True, 10, 40),  # with two rounds, two hosts work
        ([2, 1], True, 20 / 3, 20 / 3 + 15),
        ([1, 1, 1, 1], False, 5, 20),
        ([8], True, 5, 20),  # a round takes at least as long as its longest stack
    ],
)
def test_the_estimate_of_a_cluster_takes_its_slots_into_account(
    hosts: list[int], bound: bool, least: float, most: float
) -> None:
    planned = plan(SMALL.replace("repeat: 2", "repeat: {min: 2, max: 5, until: 5%}"))
    found = estimate(planned, Pace(free(trial=0.5, set_up=2.0)), Slots.of_cluster(hosts, 2, bound=bound))
    assert (found.seconds_least, found.seconds_most) == pytest.approx((least, most), rel=0.001)


def test_the_estimate_of_a_workload_that_ends_with_its_size() -> None:
    text = SMALL.replace("runtime: 1s", "size: 10MiB, numjobs: 2").replace(
        "repeat: 2", "repeat: {min: 2, max: 5, until: 5%}"
    )
    found = estimate(plan(text), Pace(free()))
    assert found.bytes_least == 2 * 2 * 2 * (10 << 20)
    assert (found.trials_least, found.trials_most) == (8, 20)


@pytest.mark.parametrize(
    ("level", "disks"),
    [
        ("level: 1", 3),
        ("level: 4", 1),
        ("level: 5", 1),
        ("level: 6", 2),
        ("level: 10", 2),
        ("level: 10, layout: n4", 3),
        ("level: 10, layout: f2", 2),
        ("level: 5, spare: 1", 1),
        ("level: 1, groups: 2", 2),
    ],
)
def test_waiting_for_a_resync_writes_all_that_is_there_more_than_once(level: str, disks: int) -> None:
    text = SMALL.replace("level: 5, chunk: [16KiB, 64KiB]", level)
    quiet, loud = (
        estimate(plan(text.replace(level, f"{level}, sync: {sync}")), Pace()).bytes_least for sync in ("auto", "wait")
    )
    assert loud - quiet == pytest.approx(2 * disks * (64 << 20), rel=0.05)


@pytest.mark.parametrize(("offset", "rest"), [("48MiB", 16), ("50%", 32), ("0", 64)])
def test_an_offset_is_left_out_on_each_of_several_devices(offset: str, rest: int) -> None:
    text = f"""\
name: beside
disks: {{count: 4, size: 64MiB}}
layouts: {{all: [disks]}}
workloads: {{work: {{preset: dd-write, offset: {offset}}}}}
repeat: 2
"""
    assert estimate(plan(text), Pace()).bytes_least == 2 * 4 * rest << 20


@pytest.mark.parametrize(("size", "part"), [("100%", 1.0), ("25%", 0.25)])
def test_a_share_of_the_device_is_a_share_of_what_the_layout_holds(size: str, part: float) -> None:
    text = SMALL.replace("runtime: 1s", f"size: {size}").replace("chunk: [16KiB, 64KiB]", "chunk: 64KiB")
    found = estimate(plan(text), Pace(free(1e6)))
    holds = part * 3 * (64 << 20)
    assert found.bytes_least == pytest.approx(2 * holds, rel=0.05), "one of the two workloads writes"
    assert found.seconds_least == pytest.approx(2 * 2 * holds / 1e6, rel=0.05)


@given(st.sets(SHARED, min_size=1), st.integers(1, 5))
def test_costs_of_parts_add_up_to_the_whole(chosen: set[str], repeats: int) -> None:
    found, pace = space(), Pace(free(trial=0.5, set_up=2.0))
    repeat = Repeat(min=repeats, max=repeats)
    whole = estimate(Plan(select(found, sorted(chosen)), repeat, 1), pace)
    parts = [estimate(Plan(select(found, [one]), repeat, 1), pace) for one in chosen]
    for field in ("cells", "stacks", "trials_least", "seconds_most", "bytes_least"):
        assert getattr(whole, field) == pytest.approx(sum(getattr(part, field) for part in parts)), field
    assert whole.trials_least == whole.trials_most == whole.cells * repeats


@given(st.integers(), st.sets(SHARED), st.integers(1, 50))
def test_no_round_leaves_a_wanted_cell_out_or_takes_another_in(seed: int, chosen: set[str], round_number: int) -> None:
    selection = select(space(), sorted(chosen))
    batches = list(Plan(selection, Repeat(min=50, max=50), seed).batches(round_number))
    assert Counter(cell.id for batch in batches for cell in batch.cells) == Counter(
        cell.id for cell in selection.cells()
    )
    assert {batch.round for batch in batches} == {round_number}
    assert len({batch.stack.key for batch in batches}) == len(batches)


def test_orders_are_not_all_alike() -> None:
    """Over many seeds every cell comes first at some time: none is always measured on a cold host."""
    small = select(space(SMALL))
    firsts = {next(Plan(small, Repeat(min=1, max=1), seed).batches(1)).cells[0].id for seed in range(60)}
    assert firsts == {cell.id for cell in small.cells()}


def test_a_million_cells_are_counted_and_planned_one_at_a_time() -> None:
    sizes = ", ".join(f"{4 * number}KiB" for number in range(1, 51))
    depths = ", ".join(str(number) for number in range(1, 101))
    text = f"""\
name: large
disks: {{count: 4, size: 1GiB}}
layouts: {{p: [md: {{level: [0, 5, 6, 10], chunk: [4KiB, 8KiB, 16KiB, 32KiB, 64KiB]}}]}}
tune: {{readahead: [{sizes}]}}
workloads: {{w: {{rw: [read, write, randread, randwrite, rw], bs: [4KiB, 64KiB], iodepth: [{depths}]}}}}
"""
    planned = plan(text)
    assert planned.selection.count() == 1_000_000
    first = next(planned.batches(1))
    assert len(first.cells) == 50_000


def test_skipped_bytes_are_not_counted_as_written() -> None:
    sized = SMALL.replace("rw: [read, randwrite], bs: 4KiB, runtime: 1s", "rw: write, bs: 64KiB, size: 10MiB")
    whole, holed = (estimate(plan(text), Pace()) for text in (sized, sized.replace("bs:", "skip: 192KiB, bs:")))
    assert whole.bytes_least == 4 * holed.bytes_least
