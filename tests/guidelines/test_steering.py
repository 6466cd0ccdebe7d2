"""Where trials go so that guidelines are decided, and when it is looked whether they are."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from runner.fio.result import Direction, Figures
from runner.guidelines.steering import MOST, Steering, looks
from runner.model.guidelines import Guideline
from runner.store.record import CellRow, Outcome, Trial
from tests.guidelines.world import cells, guideline

FIELD = cells(layout=["raid0", "far", "single"])


def compare(other: str, within: str = "10%", name: str = "one") -> Guideline:
    claim = {"metric": "read.bw", "of": {"layout": other}, "to": {"layout": "raid0"}, "within": within}
    return guideline(compare=claim).model_copy(update={"id": name})


def trial(cell: CellRow, block: int, bw: float) -> Trial:
    read = Direction(bw, bw, 1, 1, *[None] * 8)
    return Trial(cell.id, block, Outcome.MEASURED, figures=Figures(read, None, 1, 1, 1, 0))


def steered(*guidelines: Guideline) -> Steering:
    return Steering(guidelines, FIELD, 3)


def feed(steering: Steering, block: int, **bw: float) -> None:
    for cell in FIELD:
        steering.add(trial(cell, block, bw.get(cell.axes["layout"], 100.0)))


def test_only_cells_of_what_is_open_are_wanted() -> None:
    steering = steered(compare("far"), compare("single", name="other"))
    for block, noise in enumerate((0.0, 0.2, -0.2), start=1):
        feed(steering, block, raid0=100.0, far=100.0 + noise, single=100.0 * (1 + noise))
    assert set(steering.wanted(4)) == {"layout=raid0", "layout=single"}


def test_what_would_be_decided_first_has_the_most_weight() -> None:
    steering = steered(compare("far"), compare("single", name="other"))
    for block, noise in enumerate((0.0, 0.1, -0.1), start=1):
        feed(steering, block, far=100.0 * (1 + noise), single=100.0 * (1 + 3 * noise))
    wanted = steering.wanted(4)
    assert wanted["layout=raid0"] == wanted["layout=far"] > wanted["layout=single"] > 0


def test_it_is_looked_seldom() -> None:
    steering = steered(compare("far"))
    for block, noise in enumerate((0.0, 0.2, -0.2, 0.0, 0.0, 0.0), start=1):
        feed(steering, block, far=100.0 * (1 + noise) if block < 4 else 100.0)
        if block >= 3:
            assert steering.wanted(block + 1), "it is open at 3 and 4, and at 5 it is seen that it still is"


def test_once_all_is_decided_nothing_is_wanted_any_more() -> None:
    steering = steered(compare("far"))
    for block in (1, 2, 3):
        feed(steering, block, far=100.0 + block / 100)
    assert steering.wanted(4) == {}


def test_what_broke_for_good_is_not_waited_for() -> None:
    steering = steered(compare("far"))
    for block in (1, 2, 3):
        for cell in FIELD:
            broken = cell.axes["layout"] == "far"
            steering.add(Trial(cell.id, block, Outcome.BROKEN, "x") if broken else trial(cell, block, 100.0))
    assert steering.wanted(4) == {}


@given(st.integers(1, 30))
def test_looks_lie_farther_and_farther_apart(least: int) -> None:
    found = list(looks(least))
    assert found[0] == max(2, least)
    assert found[-1] <= MOST
    steps = [later - earlier for earlier, later in pairwise(found)]
    assert steps == sorted(steps)
    assert len(found) <= 13
