"""Parts of a matrix: together all of it, and no array in two of them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.errors import BadInput
from matrix_runner.space.select import Shard, select, sharded
from tests.support.matrices import space

SPACE = space()
ARRAYS = len(SPACE.stacks)
ONLY = st.sampled_from(
    [(), ("layout=parity",), ("workload=oltp",), ("layout=far,bs=4KiB", "layout=striped"), ("level=5|6",)]
)


@given(ONLY, st.integers(1, 30))
def test_the_parts_are_the_whole_and_share_no_array(only: tuple[str, ...], of: int) -> None:
    whole = select(SPACE, only)
    wanted = {cell.stack.key for cell in whole.cells()}
    parts = [sharded(whole, Shard(number, of)) for number in range(1, min(of, len(wanted)) + 1)]
    found = Counter(cell.id for part in parts for cell in part.cells())
    assert found == Counter(cell.id for cell in whole.cells())
    assert Counter(key for part in parts for key in (part.stacks or ())) == Counter(wanted)
    assert sum(part.count() for part in parts) == whole.count()


@given(st.integers(1, ARRAYS))
def test_no_part_is_larger_than_another_by_more_than_an_array(of: int) -> None:
    whole = select(SPACE)
    sizes = [sharded(whole, Shard(number, of)).count() for number in range(1, of + 1)]
    largest = max(sum(1 for _ in whole.cells_of(array)) for array in SPACE.stacks)
    assert max(sizes) - min(sizes) <= largest + ARRAYS, "cells, and one more for building each array"


def test_a_shard_is_reproducible() -> None:
    once = [cell.id for cell in sharded(select(space()), Shard(2, 3)).cells()]
    assert once == [cell.id for cell in sharded(select(space()), Shard(2, 3)).cells()]


def test_more_shards_than_arrays_are_refused_if_empty() -> None:
    whole = select(SPACE, ["layout=striped"])
    assert sharded(whole, Shard(3, 9)).count()
    with pytest.raises(BadInput, match="there are 3 stacks, and this shard gets none") as refused:
        sharded(whole, Shard(4, 9))
    assert "at most 3 shards" in refused.value.resolution


def test_cells_of_other_shards_are_not_reported_as_excluded() -> None:
    assert not any("no cell is left" in note for note in sharded(select(SPACE), Shard(1, 9)).notes())


@given(st.integers(1, 999), st.integers(1, 999))
def test_shards_are_written_as_fractions(number: int, of: int) -> None:
    if number <= of:
        assert Shard.parsed(f"{number}/{of}") == Shard(number, of)
        assert str(Shard(number, of)) == f"{number}/{of}"
    else:
        with pytest.raises(ValueError, match="is not a shard"):
            Shard.parsed(f"{number}/{of}")


@pytest.mark.parametrize(
    "text", ["", "2", "0/5", "6/5", "1/0", "-1/5", "1/5\n", " 1/5", "1/5/6", "a/b", "1.0/5", "\u0662/\u0665"]
)
def test_invalid_shards_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a shard"):
        Shard.parsed(text)
