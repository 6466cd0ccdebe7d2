"""What is held against what in a table of published figures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from matrix_runner.language.references import Published, Table


def table(*rows: dict[str, Any], **more: Any) -> Table:
    return Table.model_validate({"id": "one", "metric": "read.bw", "unit": "MB/s", "rows": list(rows), **more})


def ratios(found: Table) -> list[float | None]:
    return [found.ratio(row, base) if (base := found.base_of(row)) else None for row in found.rows]


def test_rows_are_multiples_of_the_one_that_is_the_base() -> None:
    found = table(
        {"where": {"layout": "single"}, "value": 80},
        {"where": {"layout": "raid0"}, "value": 160},
        {"where": {"stripes": 3}, "value": 200},
        base={"layout": "single"},
    )
    assert ratios(found) == [None, 2.0, 2.5]


def test_the_base_is_that_of_the_same_place_on_all_other_axes() -> None:
    found = table(
        *({"where": {"layout": one, "bs": bs}, "value": value} for one, bs, value in [
            ("md", "4KiB", 10), ("md", "64KiB", 40), ("lvm", "4KiB", 5), ("lvm", "64KiB", 44),
        ]),
        base={"layout": "md"},
    )  # fmt: skip
    assert ratios(found) == [None, None, 0.5, 1.1]


def test_a_row_may_be_held_against_another_than_all_the_others() -> None:
    found = table(
        {"where": {"chunk": "4KiB"}, "value": 10},
        {"where": {"chunk": "64KiB"}, "value": 20},
        {"where": {"chunk": "1MiB"}, "value": 30, "to": {"chunk": "64KiB"}},
        base={"chunk": "4KiB"},
    )
    assert ratios(found) == [None, 2.0, 1.5]


def test_times_become_ratios_of_speeds_and_latencies_stay() -> None:
    rows = {"where": {"stripes": 1}, "value": 1000}, {"where": {"stripes": 2}, "value": 500}
    assert ratios(table(*rows, unit="s", base={"stripes": 1})) == [None, 2.0]
    assert ratios(table(*rows, unit="ms", metric="read.lat_p99", base={"stripes": 1})) == [None, 0.5]


def test_without_a_base_or_without_figures_there_is_no_ratio() -> None:
    rows = {"where": {"layout": "single"}, "value": 80}, {"where": {"layout": "raid0"}}
    assert ratios(table(*rows)) == [None, None]
    assert ratios(table(*rows, base={"layout": "single"})) == [None, None]


def test_reasons_are_a_rows_own_or_those_of_all_that_they_fit() -> None:
    found = table(
        {"where": {"layout": "a", "bs": "4KiB"}, "value": 1},
        {"where": {"layout": "a", "bs": "8KiB"}, "value": 1, "why": "its own"},
        {"where": {"layout": "b"}, "value": 1},
        whys=[{"where": {"layout": "a"}, "why": "of all"}],
    )
    assert [found.why(row) for row in found.rows] == ["of all", "its own", ""]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"value": 1}, "write the cells"),
        ({"where": {"layout": "a"}, "value": 0}, "greater than 0"),
        ({"where": {"layout": "a"}, "value": -3}, "greater than 0"),
        ({"where": {"layout": "a"}, "valeu": 3}, "valeu"),
    ],
)
def test_rows_without_meaning_are_refused(row: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        table(row)


def test_tables_need_different_ids() -> None:
    one = {"id": "one", "metric": "read.bw", "unit": "s", "rows": [{"where": {"a": 1}, "value": 1}]}
    with pytest.raises(ValidationError, match="several tables are called one"):
        Published.model_validate({"source": "somebody", "tables": [one, one]})


@given(st.lists(st.floats(1e-3, 1e9), min_size=2, max_size=8, unique=True), st.sampled_from(["MB/s", "s"]))
def test_published_ratios_multiply_back_to_the_figures(values: list[float], unit: str) -> None:
    rows = [{"where": {"stripes": at}, "value": value} for at, value in enumerate(values)]
    found = table(*rows, unit=unit, base={"stripes": 0})
    first, *others = ratios(found)
    assert first is None
    for ratio, value in zip(others, values[1:], strict=True):
        assert ratio is not None
        assert (values[0] / ratio if unit == "s" else values[0] * ratio) == pytest.approx(value)
