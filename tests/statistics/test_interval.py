from __future__ import annotations

import pytest
import scipy  # its parts are imported when they are used
from hypothesis import assume, given
from hypothesis import strategies as st

from matrix_runner.statistics.ratios import likely_correlation, student_interval

values = st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=30)


@given(values, st.floats(0.5, 0.999))
def test_it_is_the_interval_that_scipy_gives(sample: list[float], confidence: float) -> None:
    interval = student_interval(sample, confidence)
    assert interval is not None
    error = scipy.stats.sem(sample)
    assume(error > 1e-6 and not likely_correlation(sample))
    low, high = scipy.stats.t.interval(confidence, len(sample) - 1, loc=interval.mean, scale=error)
    assert interval.low == pytest.approx(low, rel=1e-6, abs=1e-3)
    assert interval.high == pytest.approx(high, rel=1e-6, abs=1e-3)


@given(values)
def test_the_mean_lies_in_the_middle(sample: list[float]) -> None:
    interval = student_interval(sample)
    assert interval is not None
    assert interval.low <= interval.mean <= interval.high
    assert interval.half_width == pytest.approx(interval.mean - interval.low, abs=1e-3)
    assert interval.n == len(sample)


@given(values, st.floats(0.5, 0.9), st.floats(0.01, 0.09))
def test_more_confidence_is_never_narrower(sample: list[float], confidence: float, more: float) -> None:
    narrow, wide = student_interval(sample, confidence), student_interval(sample, confidence + more)
    assert narrow is not None
    assert wide is not None
    assert wide.half_width >= narrow.half_width


@given(values, st.floats(0.001, 1000))
def test_the_relative_width_does_not_know_the_unit(sample: list[float], factor: float) -> None:
    one, other = student_interval(sample), student_interval([value * factor for value in sample])
    assert one is not None
    assert other is not None
    assume(abs(one.mean) > 1 and abs(other.mean) > 1)
    assert other.relative == pytest.approx(one.relative, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("sample", [[], [1.0]])
def test_one_value_has_no_interval(sample: list[float]) -> None:
    assert student_interval(sample) is None


def test_equal_values_leave_no_doubt() -> None:
    interval = student_interval([5.0, 5.0, 5.0])
    assert interval is not None
    assert (interval.low, interval.high, interval.relative) == (5.0, 5.0, 0.0)


def test_around_zero_there_is_no_relative_width() -> None:
    interval = student_interval([-1.0, 1.0])
    assert interval is not None
    assert interval.relative is None


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1])
def test_a_confidence_outside_its_range_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        student_interval([1.0, 2.0], confidence)
