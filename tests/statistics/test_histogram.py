from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.statistics.percentile import Distribution, Histogram, merge

bins = st.dictionaries(st.integers(0, 2**62), st.integers(1, 10**9), min_size=1, max_size=30)
shares = st.floats(0.0001, 1)
#: Nanoseconds, from a memory to an hour.
latencies = st.integers(1, 3_600 * 10**9)


def unpacked(counts: dict[int, int]) -> Distribution:
    return Histogram.of(counts).unpack()


def bin_of(latency: int) -> tuple[int, int]:
    """The value that fio prints for the bin of a latency, and the bin's width (`plat_val_to_idx` of its stat.c)."""
    bits = max(0, latency.bit_length() - 7)
    return ((latency >> bits) << bits) + (1 << bits) // 2, 1 << bits


@given(bins)
def test_it_is_unpacked_as_it_was_packed(counts: dict[int, int]) -> None:
    whole = unpacked(counts)
    assert dict(zip(whole.values, whole.counts, strict=True)) == counts
    assert list(whole.values) == sorted(counts)
    assert whole.total == sum(counts.values())


@given(bins, shares)
def test_at_least_the_stated_part_lies_at_or_below_a_percentile(counts: dict[int, int], share: float) -> None:
    whole = unpacked(counts)
    value = whole.at(share)
    assert value in counts
    assert whole.up_to(value) >= share * whole.total
    assert whole.up_to(value - 1) < share * whole.total


@given(bins, st.lists(shares, min_size=2))
def test_percentiles_rise(counts: dict[int, int], several: list[float]) -> None:
    whole = unpacked(counts)
    found = [whole.at(share) for share in sorted(several)]
    assert found == sorted(found)
    assert whole.at(1.0) == max(counts)


@given(st.lists(latencies, min_size=1, max_size=200), st.randoms(use_true_random=False), st.integers(1, 5))
def test_merged_parts_equal_the_whole(values: list[int], chance: object, parts: int) -> None:
    apart = [Counter[int]() for _ in range(parts)]
    for at, value in enumerate(values):
        apart[at % parts][bin_of(value)[0]] += 1
    whole = unpacked(Counter(bin_of(value)[0] for value in values))
    again = merge(unpacked(part) for part in apart)
    assert (list(again.values), list(again.counts), again.total) == (
        list(whole.values),
        list(whole.counts),
        whole.total,
    )


@given(st.lists(latencies, min_size=1, max_size=300), shares)
def test_it_lies_within_the_width_of_a_bin_of_what_all_requests_say(values: list[int], share: float) -> None:
    """numpy's way of fio's convention, on every latency as it was."""
    found = unpacked(Counter(bin_of(value)[0] for value in values)).at(share)
    exact = int(np.percentile(values, 100 * share, method="inverted_cdf"))
    ranked = sorted(values)
    rank = ranked.index(exact)
    # The two may disagree by one rank, where a share of a count is a whole number but for the last digit of a float.
    near = ranked[max(0, rank - 1) : rank + ranked.count(exact) + 1]
    assert any(abs(found - one) <= bin_of(one)[1] for one in near)


@pytest.mark.parametrize(("latency", "printed"), [(1, 1), (127, 127), (128, 129), (1_000_000, 1_003_520)])
def test_bins_are_those_of_fio(latency: int, printed: int) -> None:
    assert bin_of(latency)[0] == printed


def test_empty_histograms_merge() -> None:
    assert unpacked({}).total == merge([]).total == 0


def test_four_hundred_bins_take_less_than_a_kilobyte() -> None:
    chance = np.random.default_rng(1)
    drawn = Counter(bin_of(int(value))[0] for value in chance.lognormal(14, 0.7, 60_000))
    assert len(drawn) > 350
    assert len(Histogram.of(drawn).packed) < 1000
