from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from runner.expand.select import select
from runner.plan.estimate import Pace, estimate
from runner.plan.order import Plan
from tests.matrices import SMALL, SWEEP, space


def plan(text: str = SWEEP, seed: int = 1) -> Plan:
    found = space(text)
    return Plan(select(found), found.matrix.repeat, seed)


@given(st.integers())
def test_every_block_holds_every_cell_once_and_every_array_once(seed: int) -> None:
    planned = plan(SMALL, seed)
    for block in planned.blocks:
        visits = list(planned.visits(block))
        cells = Counter(cell.id for visit in visits for cell in visit.cells)
        assert set(cells) == {cell.id for cell in planned.selection.cells()}
        assert set(cells.values()) == {1}
        assert len({visit.array.key for visit in visits}) == len(visits)
        assert all(cell.array is visit.array for visit in visits for cell in visit.cells)


def _order(planned: Plan, block: int) -> list[str]:
    return [cell.id for visit in planned.visits(block) for cell in visit.cells]


def test_the_order_follows_from_the_seed_and_differs_between_blocks() -> None:
    assert _order(plan(), 1) == _order(plan(), 1)
    assert _order(plan(), 1) != _order(plan(), 2)
    assert _order(plan(), 1) != _order(plan(seed=2), 1)


def test_cells_of_one_array_keep_their_order_when_others_are_left_out() -> None:
    """What `--only` leaves out must not reshuffle what it leaves in: a run can be narrowed and compared."""
    whole, found = plan(), space()
    part = Plan(select(found, ["layout=far"]), found.matrix.repeat, 1)
    of_whole = {visit.array.key: [cell.id for cell in visit.cells] for visit in whole.visits(1)}
    assert all([cell.id for cell in visit.cells] == of_whole[visit.array.key] for visit in part.visits(1))


def test_kernels_are_rigs_of_their_own_and_come_one_after_the_other() -> None:
    planned = plan(SMALL + "machine: {kernel: [debian-12, debian-13]}\n")
    kernels = [visit.array.kernel for visit in planned.visits(1)]
    assert len(kernels) == 4
    assert kernels in (["debian-12"] * 2 + ["debian-13"] * 2, ["debian-13"] * 2 + ["debian-12"] * 2)


def test_the_estimate_adds_up() -> None:
    found = estimate(plan(SMALL), Pace(overhead=0.5, set_up=2.0, write_rate=1e8, runs=1))
    assert (found.cells, found.arrays, found.rigs) == (4, 2, 1)
    assert (found.trials_least, found.trials_most) == (8, 8)
    assert found.seconds_least == found.seconds_most == 2 * (4 * 1.5 + 2 * 2.0)
    assert found.bytes_least == 2 * 2 * 10**8


def test_the_estimate_of_what_ends_with_its_size() -> None:
    text = SMALL.replace("runtime: 1s", "size: 10MiB, numjobs: 2").replace(
        "repeat: 2", "repeat: {min: 2, max: 5, until: 5%}"
    )
    found = estimate(plan(text), Pace(write_rate=1e8))
    assert found.bytes_least == 2 * 2 * 2 * (10 << 20)
    assert (found.trials_least, found.trials_most) == (8, 20)


def test_waiting_for_a_resync_writes_too() -> None:
    quiet, loud = (
        estimate(plan(text), Pace()).bytes_least for text in (SMALL, SMALL.replace("level: 5", "level: 5, sync: wait"))
    )
    assert loud - quiet == 2 * 2 * (64 << 20)


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
    first = next(planned.visits(1))
    assert len(first.cells) == 50_000
