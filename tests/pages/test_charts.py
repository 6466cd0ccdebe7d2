from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.pages.charts import (
    Chart,
    RatioLine,
    chart,
    figure_and_interval,
    interval,
    log_ticks,
    ratio_chart,
    step,
    ticks,
)
from matrix_runner.pages.terminal_text import ratio_texts, times_between, times_within
from matrix_runner.statistics.ratios import Interval, Ratio
from matrix_runner.statistics.stopping import Estimate


def estimate(mean: float, low: float | None = None, high: float | None = None) -> Estimate:
    known = None if low is None or high is None else Interval(mean, low, high, 3, 0.95)
    return Estimate(mean, 3 if known else 1, known)


def drawn(*measured: dict[str, Estimate], unit: str = "bytes/s", most: int = 99) -> Chart:
    made = chart("t", unit, [(f"cell {number}", one) for number, one in enumerate(measured)], most=most)
    assert made
    return made


def test_lengths_from_zero_on_are_in_the_ratio_of_the_figures() -> None:
    small, large = drawn({"read": estimate(1e8)}, {"read": estimate(2e8, 1.5e8, 2.5e8)}).rows
    assert large.dots[0].x == pytest.approx(2 * small.dots[0].x, abs=0.02)
    assert (small.dots[0].low, small.dots[0].high) == (None, None)
    assert large.dots[0].low == pytest.approx(large.dots[0].x * 0.75, abs=0.02)
    assert large.dots[0].high == pytest.approx(large.dots[0].x * 1.25, abs=0.02)
    assert large.dots[0].text == "read 200 MB/s (150 to 250 MB/s)"


def test_ticks_are_round_and_have_a_unit() -> None:
    assert [tick.text for tick in drawn({"read": estimate(1.2e8)}).ticks] == ["0", "50.0 MB/s", "100 MB/s"]
    assert [tick.text for tick in drawn({"read": estimate(9e6)}, unit="ns").ticks] == [
        "0", "2.50 ms", "5.00 ms", "7.50 ms",
    ]  # fmt: skip


def test_an_interval_that_would_make_all_else_small_is_cut_and_looks_so() -> None:
    wide, narrow = drawn({"read": estimate(1e8, 0, 1e12)}, {"read": estimate(9e7, 8e7, 1e8)}).rows
    assert (wide.dots[0].beyond, wide.dots[0].high) == (True, 100.0)
    assert not narrow.dots[0].beyond
    assert narrow.dots[0].x > 40


def test_an_interval_without_an_upper_end_has_an_arrow_instead_of_a_line_to_the_edge() -> None:
    (row,) = drawn({"read": estimate(2e6, 1e6, inf)}, unit="ns").rows
    (dot,) = row.dots
    assert (dot.is_open, dot.beyond, dot.high) == (True, False, dot.x)
    assert dot.low == pytest.approx(dot.x / 2, abs=0.02)
    assert dot.text == "read 2.00 ms (from 1.00 ms)"
    assert not drawn({"read": estimate(2e6, 1e6, 3e6)}).rows[0].dots[0].is_open


@pytest.mark.parametrize(
    ("low", "high", "shown", "spare"),
    [
        (2e6, 9e6, ["1.00 ms", "2.00 ms", "5.00 ms", "10.0 ms"], []),
        (2e6, 9e7, ["1.00 ms", "10.0 ms"], ["2.00 ms", "5.00 ms", "20.0 ms", "50.0 ms"]),
        (1, 9e9, ["1.00 ns", "1.00 \u00b5s", "1.00 ms", "1.00 s"], None),
    ],
)
def test_ticks_that_do_not_fit_a_telephone_are_spare(low: float, high: float, shown: list[str], spare: object) -> None:
    _, marks = log_ticks(low, high, "ns")
    assert [one.text for one in marks if not one.spare] == shown
    assert spare is None or [one.text for one in marks if one.spare] == spare


def test_every_second_tick_of_long_texts_is_spare() -> None:
    assert [one.text for one in ticks(1e9, "bytes/s", 100) if not one.spare] == ["0", "500 MB/s", "1,000 MB/s"]
    assert not any(one.spare for one in ticks(4.0, "s", 100))


@pytest.mark.parametrize(("low", "high", "beyond"), [(0.91, 1.067, False), (0.8, 1.25, False), (0.5, 2.0, True)])
def test_a_usual_interval_of_a_ratio_near_one_is_drawn_in_full(low: float, high: float, beyond: bool) -> None:
    made = ratio_chart("t", [RatioLine("4096 instead of default", Ratio(0.985, low, high, 6, 6, 0.95, 0.5))])
    (dot,) = made.rows[0].dots
    assert dot.beyond is beyond


def test_an_interval_around_a_ratio_of_one_is_drawn_in_full() -> None:
    made = ratio_chart("t", [RatioLine("odd against even rounds", Ratio(1.0, 0.5, 2.0, 6, 6, 0.95, 0.5))])
    assert not made.rows[0].dots[0].beyond


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.91, 1.06, ["0.9\u00d7", "0.95\u00d7", "1\u00d7", "1.05\u00d7", "1.1\u00d7"]),
        (0.4, 2.6, ["0.5\u00d7", "0.7\u00d7", "1\u00d7", "1.5\u00d7", "2\u00d7"]),
        (0.1, 20, ["0.1\u00d7", "0.3\u00d7", "1\u00d7", "3\u00d7", "10\u00d7"]),
    ],
)
def test_ticks_of_ratios_are_short_numbers_with_room_between_them(low: float, high: float, texts: list[str]) -> None:
    both = (Ratio(one, low, high, 6, 6, 0.95, 0.5) for one in (low * 1.2, high / 1.2))
    made = ratio_chart("t", [RatioLine("4096 instead of default", one) for one in both])
    assert [one.text for one in made.ticks] == texts
    assert all(b.x - a.x >= 12 for a, b in pairwise(made.ticks))


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.912, 1.174, "0.912\u00d7 to 1.174\u00d7"),
        (1.0089, 2.713, "1.009\u00d7 to 2.713\u00d7"),
        (0.76, 2.82, "0.76\u00d7 to 2.82\u00d7"),
        (0.95, 12.3, "0.950\u00d7 to 12.3\u00d7"),
    ],
)
def test_both_bounds_of_an_interval_of_ratios_have_the_same_digits(low: float, high: float, text: str) -> None:
    assert times_between(low, high) == text


def test_a_ratio_has_the_digits_of_its_interval() -> None:
    assert times_within(1.13, 1.02, 1.25) == "1.130\u00d7 (1.020\u00d7 to 1.250\u00d7)"
    assert times_within(0.7, 0.62, 0.8) == "0.70\u00d7 (0.62\u00d7 to 0.80\u00d7)"


def test_both_directions_stand_below_each_other() -> None:
    made = drawn({"read": estimate(1), "write": estimate(2)}, {"write": estimate(3)})
    ys = [dot.y for row in made.rows for dot in row.dots]
    assert ys == sorted(set(ys))
    assert made.sides == ["read", "write"]
    assert all(row.y < dot.y < made.height for row in made.rows for dot in row.dots)


def test_lines_beyond_the_limit_are_counted() -> None:
    made = drawn(*({"read": estimate(1)} for _ in range(5)), most=2)
    assert (len(made.rows), made.left) == (2, 3)


def test_no_chart_without_measurements() -> None:
    assert chart("t", "1/s", [], most=9) is None
    assert chart("t", "1/s", [("cell", {})], most=9) is None


def test_intervals_in_words() -> None:
    assert interval(estimate(1e6), "bytes/s") == ""
    assert interval(estimate(1e6, 5e5, 2e6), "ns") == "500 µs to 2.00 ms"
    assert interval(estimate(1e6, 5e5, float("inf")), "ns") == "from 500 µs"
    assert interval(estimate(1e6, -1, float("inf")), "ns") == "unbounded"


@given(st.floats(1e-9, 1e18))
def test_a_step_is_round_and_goes_a_few_times_into_the_whole(end: float) -> None:
    apart = step(end)
    assert 1.5 <= end / apart <= 4.1
    assert f"{apart:e}"[0] in "125"


numbers = st.floats(0, 1e18)


@given(st.lists(st.tuples(numbers, numbers, st.booleans()), min_size=1, max_size=5))
def test_all_dots_and_intervals_lie_within_the_chart(found: list[tuple[float, float, bool]]) -> None:
    made = drawn(
        *(
            {"read": estimate(mean, mean - half, mean + half) if known else estimate(mean)}
            for mean, half, known in found
        )
    )
    for row in made.rows:
        for dot in row.dots:
            assert 0 <= (dot.low or 0) <= dot.x <= 96
            assert dot.high is None or dot.x <= dot.high <= 100
    places = [tick.x for tick in made.ticks]
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] <= 96.2
    assert len(places) <= 5


def test_a_figure_has_its_interval_beside_it() -> None:
    assert figure_and_interval(estimate(2e6, 1e6, 3e6), "ns") == ("2.00 ms", "1.00 to 3.00 ms")
    assert figure_and_interval(None, "ns") == ("", "")


def test_a_ratio_has_its_interval_beside_it_if_it_is_known() -> None:
    known = Ratio(1.5, 1.2, 1.8, 6, 6, 0.95, 0.01)
    assert ratio_texts(known) == ("1.50\u00d7", "1.20\u00d7 to 1.80\u00d7")
    assert ratio_texts(known._replace(low=0.0, high=inf)) == ("1.50\u00d7", "")
    assert ratio_texts(None) == ("", "")
