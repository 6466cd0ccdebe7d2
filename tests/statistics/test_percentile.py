from __future__ import annotations

import zlib
from collections import Counter
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matrix_runner.statistics.percentile import DamagedHistogram, Histogram, estimated_percentiles, needs, percentiles
from matrix_runner.statistics.stopping import Rule, StopReason
from tests.support.amounts import times

RULE = Rule(3, 3)
trials = st.lists(
    st.dictionaries(st.integers(1, 10**6), st.integers(1, 5000), min_size=1, max_size=8).map(Histogram.of),
    min_size=1,
    max_size=5,
)


def test_a_percentile_needs_enough_requests() -> None:
    assert [needs(percent) for percent in (50, 90, 95, 99, 99.9, 99.99)] == [1, 1, 1, 1, 10_000, 100_000]


@pytest.mark.parametrize(("count", "told"), [(99_999, None), (100_000, 7)])
def test_a_tail_is_stated_from_enough_requests(count: int, told: int | None) -> None:
    assert percentiles(Histogram.of({7: count}).unpack(), [99.99]) == [told]


GOOD = Histogram.of({10: 1, 500: 2}).packed


@pytest.mark.parametrize(
    "packed",
    [
        *(GOOD[:-1], GOOD[:-1] + b"x", b"", "text"),
        *map(zlib.compress, (b"", b"{", b"7", b"[[1], [2], [3]]", b"[[1], [2, 3]]", b"[[1, 0.5], [2, 3]]")),
        *map(zlib.compress, (b'[["a"], [1]]', b"[[1], [null]]", b"[[1], [[2]]]", b"[" * 10**6)),
        zlib.compress(b" " * (1 << 25) + b"[[1], [2]]"),
    ],
    ids=range(15),
)
def test_a_damaged_histogram_is_named(packed: Any) -> None:
    with pytest.raises(DamagedHistogram, match="a histogram of latencies"):
        Histogram(packed).unpack()


def test_trials_too_short_for_a_tail_have_one_together() -> None:
    one = Histogram.of({10: 39_990, 500: 10})
    (alone,) = estimated_percentiles([one], [99.99], RULE, StopReason.FIXED)
    (three,) = estimated_percentiles([one] * 3, [99.99], RULE, StopReason.FIXED)
    assert alone is None
    assert three is not None
    assert three.mean == 500


def test_a_percentile_of_trials_is_not_the_mean_of_theirs() -> None:
    fast, slow = Histogram.of({100: 9_000}), Histogram.of({900: 1_000})
    (median,) = estimated_percentiles([fast, slow], [50], RULE, StopReason.FIXED)
    assert median is not None
    assert (median.mean, median.n) == (100, 2)


@given(trials)
def test_bounds_hold_the_percentile_and_rise_with_confidence(several: list[Histogram]) -> None:
    percents = (50, 90, 99)
    less, more = (
        estimated_percentiles(several, percents, Rule(3, 3, confidence=confidence), StopReason.FIXED)
        for confidence in (0.8, 0.95)
    )
    for narrow, wide in zip(less, more, strict=True):
        assert narrow is not None
        assert wide is not None
        assert (narrow.interval is None) == (len(several) == 1)
        if narrow.interval and wide.interval:
            assert wide.interval.low <= narrow.interval.low <= narrow.mean <= narrow.interval.high <= wide.interval.high
    means = [one.mean for one in more if one]
    assert means == sorted(means)


@given(st.dictionaries(st.integers(1, 10**6), st.integers(1, 5000), min_size=1, max_size=8), st.integers(2, 5))
def test_trials_that_are_all_alike_leave_no_doubt(bins: dict[int, int], count: int) -> None:
    (found,) = estimated_percentiles([Histogram.of(bins)] * count, [90], RULE, StopReason.FIXED)
    assert found is not None
    assert found.interval is not None
    assert found.interval.low <= found.mean <= found.interval.high
    # Where a part of the requests ends with a bin, the last digit of a float decides between that and the next.
    ordered = sorted(bins)
    assert ordered.index(int(found.interval.high)) - ordered.index(int(found.interval.low)) <= 1


def test_disagreeing_trials_have_no_upper_bound() -> None:
    one, other = Histogram.of({10: 990, 99: 10}), Histogram.of({10: 900, 99: 100})
    (found,) = estimated_percentiles([one, other], [99], RULE, StopReason.FIXED)
    assert found is not None
    assert found.interval is not None
    assert found.interval.high == inf
    assert (found.relative, found.bounds) == (None, (10.0, None))


def test_an_early_stopped_cell_keeps_the_requested_width() -> None:
    rule = Rule(3, 20, until=0.05)
    (found,) = estimated_percentiles([Histogram.of({1000: 500})] * 4, [50], rule, StopReason.PRECISE)
    assert found is not None
    assert list(found.bounds) == pytest.approx([950, 1050])


def test_trials_without_requests_have_no_percentile() -> None:
    empty, one = Histogram.of({}), Histogram.of({5: 3})
    assert estimated_percentiles([empty], [50], RULE, StopReason.FIXED) == [None]
    (found,) = estimated_percentiles([empty, one], [50], RULE, StopReason.FIXED)
    assert found is not None
    assert (found.mean, found.n) == (5, 1)


@settings(max_examples=times(8), deadline=None)
@given(st.sampled_from([50.0, 90.0, 99.0]), st.integers(3, 8))
def test_bounds_hold_the_truth_as_often_as_they_say(percent: float, count: int) -> None:
    """Trials that differ by 10 %, of which the truth is what they have on average in all."""
    chance, spread, held = np.random.default_rng([int(percent), count]), 0.1, 0
    many = np.exp(chance.normal(0, spread, 20_000))[:, None] * chance.lognormal(10, 0.5, (20_000, 10))
    truth = float(np.percentile(many, percent))
    for _ in range(120):
        several = np.exp(chance.normal(0, spread, count))[:, None] * chance.lognormal(10, 0.5, (count, 500))
        kept = [Histogram.of(Counter(np.round(trial, -2).astype(int).tolist())) for trial in several]
        (found,) = estimated_percentiles(kept, [percent], RULE, StopReason.FIXED)
        assert found is not None
        assert found.interval is not None
        held += int(found.interval.low - 50 <= truth <= found.interval.high + 50)
    assert held >= 120 * 0.86
