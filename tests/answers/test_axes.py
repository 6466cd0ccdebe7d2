"""Cells side by side: properties of the matching, and the meaning of an absent axis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.answers.axes import (
    MOST,
    Key,
    TooManyRows,
    aliases_of,
    combinations,
    keys_of,
    side_by_side,
    unite_axes,
    with_aliases,
)

PLACES = 4
keys = st.tuples(*[st.sampled_from([None, "a", "b", "c"])] * PLACES)
columns = st.lists(st.lists(keys, max_size=5), min_size=1, max_size=4)


def agree(one: Key, other: Key) -> bool:
    return all(None in pair or pair[0] == pair[1] for pair in zip(one, other, strict=True))


def numbered(drawn: list[list[Key]]) -> list[list[tuple[Key, tuple[int, int]]]]:
    return [[(key, (at, number)) for number, key in enumerate(column)] for at, column in enumerate(drawn)]


@given(columns)
def test_every_item_is_in_a_row_and_rows_hold_what_agrees(drawn: list[list[Key]]) -> None:
    rows = side_by_side(numbered(drawn))
    seen = {item for row in rows for items in row.columns for item in items}
    assert seen == {(at, number) for at, column in enumerate(drawn) for number in range(len(column))}
    for row in rows:
        for at, items in enumerate(row.columns):
            assert all(agree(drawn[at][number], row.key) for _, number in items)


@given(columns)
def test_items_share_a_row_exactly_if_they_agree(drawn: list[list[Key]]) -> None:
    rows = side_by_side(numbered(drawn))
    together = {
        (one, other) for row in rows for left in row.columns for right in row.columns for one in left for other in right
    }
    items = [(key, item) for column in numbered(drawn) for key, item in column]
    assert together == {(one, other) for left, one in items for right, other in items if agree(left, right)}


@given(columns)
def test_the_order_of_items_and_columns_does_not_matter(drawn: list[list[Key]]) -> None:
    def found(order: list[list[Key]]) -> set[Key]:
        return {row.key for row in side_by_side(numbered(order))}

    turned = [[*reversed(column)] for column in reversed(drawn)]
    assert found(drawn) == found(turned)


@given(columns)
def test_no_two_rows_could_be_one(drawn: list[list[Key]]) -> None:
    rows = [row.key for row in side_by_side(numbered(drawn))]
    assert len(set(rows)) == len(rows)
    assert not any(agree(one, other) for one in rows for other in rows if one != other)


def test_too_many_combinations_are_refused() -> None:
    several = [tuple(str(value) if at == axis else None for at in range(6)) for axis in range(6) for value in range(6)]
    with pytest.raises(TooManyRows):
        combinations(several)
    assert MOST < 6**6


RAID5 = {"layout": "raid5", "md.level": "5", "md.chunk": "64KiB"}
LVM = {"layout": "lvm", "lvm.stripes": "2", "lvm.stripe_size": "64KiB"}
BOTH = {"layout": "both", "md.chunk": "64KiB", "lvm.stripe_size": "512KiB"}


def test_layers_share_names() -> None:
    assert aliases_of(RAID5) == {"stripe_unit": "64KiB"}
    assert aliases_of(LVM) == {"stripe_unit": "64KiB", "width": "2"}
    assert aliases_of(BOTH) == {}, "which of the two would it be?"
    assert aliases_of({"md.devices": "4", "width": "odd"}) == {}
    assert with_aliases(RAID5)["md.chunk"] == "64KiB"


def test_shared_names_are_used_where_they_unite_cells() -> None:
    united = unite_axes([RAID5, LVM], {"layout"})
    assert [one["stripe_unit"] for one in united] == ["64KiB", "64KiB"]
    assert united[1]["lvm.stripes"] == "2", "no md.devices that it could be united with"
    assert unite_axes([RAID5, RAID5], {"layout"}) == [RAID5, RAID5]
    assert unite_axes([RAID5, LVM, BOTH], {"layout"}) == [RAID5, LVM, BOTH]
    assert unite_axes([RAID5, LVM], {"md.chunk"}) == [RAID5, LVM], "it was asked for by its own name"
    assert unite_axes([RAID5], {"stripe_unit"})[0]["stripe_unit"] == "64KiB"


def placed(cells: list[dict[str, str]], name: str, runs: list[str] | None = None) -> list[str | None]:
    return [key[0] for key in keys_of(cells, [name], runs or ["run"] * len(cells))]


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("tune.md.stripe_cache_size", ("default", "4096"), ["default", "4096", "default"]),
        ("tune.md.stripe_cache_size", ("256", "4096"), ["256", "4096", None]),
        ("lvm.stripes", ("2", "4"), ["2", "4", None]),
        ("stripe_unit", ("2", "4"), ["2", "4", None]),
        ("workload.bs", ("4KiB", "1MiB"), ["4KiB", "1MiB", ""]),
        ("kernel", ("6.1", "6.12"), ["6.1", "6.12", ""]),
    ],
)
def test_a_missing_axis_is_placed_beside_the_declared_values(
    name: str, values: tuple[str, str], found: list[str | None]
) -> None:
    cells = [*({"layout": "one", name: value} for value in values), {"layout": "other"}]
    assert placed(cells, name) == found


def test_an_axis_that_came_into_the_matrix_later_is_not_lacking_but_unknown() -> None:
    name = "tune.md.stripe_cache_size"
    cells = [{"layout": "raid5"}, {"layout": "raid5", name: "4096"}, {"layout": "far"}]
    assert placed(cells, name, ["old", "new", "old"]) == ["", "4096", None]
