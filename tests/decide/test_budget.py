"""What a budget buys."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.decide.budget import ENDLESS, Cost, Wish, choose_affordable, repeats

COSTS = st.builds(Cost, st.floats(0.1, 100), st.sampled_from([0.0, 1e6, 5e7]))
WISHES = st.lists(
    st.builds(Wish, st.text("abcdefgh", min_size=1, max_size=3), st.sampled_from("XYZ"), st.floats(0, 2), COSTS),
    unique_by=lambda wish: wish.cell,
    max_size=20,
)
SET_UPS = {"X": Cost(5, 0), "Y": Cost(1, 1e6), "Z": Cost()}


def wish(cell: str, doubt: float, seconds: float = 1.0, array: str = "Z", written: float = 0.0) -> Wish:
    return Wish(cell, array, doubt, Cost(seconds, written))


def test_everybody_alike_is_as_often_as_the_scarcer_of_time_and_bytes_allows() -> None:
    assert repeats(Cost(100, inf), Cost(10, 5), 20) == 10
    assert repeats(Cost(100, 24), Cost(10, 5), 20) == 4
    assert repeats(Cost(100, 24), Cost(10, 0), 20) == 10
    assert repeats(ENDLESS, Cost(10, 5), 20) == 20
    assert repeats(Cost(1, 1), Cost(), 20) == 20


def test_the_least_certain_cell_is_chosen_first() -> None:
    wishes = [wish("a", 0.1), wish("b", 0.3), wish("c", inf), wish("d", 0.2)]
    assert choose_affordable(wishes, {}, Cost(2, inf)) == {"c", "b"}


def test_cheaper_trials_follow_one_that_does_not_fit() -> None:
    assert choose_affordable([wish("slow", 0.5, 10), wish("quick", 0.1, 1)], {}, Cost(3, inf)) == {"quick"}


def test_an_array_is_paid_for_once() -> None:
    wishes = [wish("a", 0.3, 1, "X"), wish("b", 0.2, 1, "X"), wish("c", 0.1, 1, "X")]
    assert choose_affordable(wishes, SET_UPS, Cost(7, inf)) == {"a", "b"}
    assert choose_affordable(wishes, SET_UPS, Cost(5.5, inf)) == set()


def test_a_trial_without_writes_needs_no_bytes() -> None:
    wishes = [wish("writes", 0.5, written=10), wish("reads", 0.1)]
    assert choose_affordable(wishes, {}, Cost(inf, 5)) == {"reads"}
    assert choose_affordable(wishes, {}, Cost(inf, -5)) == {"reads"}


@given(WISHES, COSTS)
def test_a_budget_is_kept_and_an_endless_one_buys_everything(wishes: list[Wish], left: Cost) -> None:
    found = choose_affordable(wishes, SET_UPS, left)
    taken = [one for one in wishes if one.cell in found]
    total = sum((one.cost for one in taken), sum((SET_UPS[array] for array in {one.stack for one in taken}), Cost()))
    assert total.seconds <= left.seconds + 1e-6
    assert total.written <= left.written or not total.written
    assert choose_affordable(wishes, SET_UPS, ENDLESS) == {one.cell for one in wishes}


@given(WISHES, COSTS)
def test_the_most_doubted_is_left_out_only_if_it_does_not_fit(wishes: list[Wish], left: Cost) -> None:
    if not wishes:
        return
    first = min(wishes, key=lambda one: (-one.doubt, one.cell))
    fits = (first.cost + SET_UPS[first.stack]).within(left)
    assert (first.cell in choose_affordable(wishes, SET_UPS, left)) == fits
