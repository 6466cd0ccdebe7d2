"""Which published ratios their source can tell."""

from typing import Any

import pytest
from pydantic import ValidationError

from matrix_runner.language.references import Published, Undecidable

ONE, TWO = {"layout": "single"}, {"layout": "raid0"}


def table(name: str, *values: float, first: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [
        {"where": where, "value": value} for where, value in zip((ONE, TWO), values, strict=True)
    ]
    rows[0] |= first or {}
    return {"id": name, "metric": "read.bw", "unit": "MB/s", "base": ONE, "rows": rows, **more}


def doubts(*tables: dict[str, Any]) -> list[Undecidable | None]:
    found = Published.model_validate({"source": "somebody", "tables": list(tables)})
    return [found.undecidable(one, row) for one in found.tables for row in one.rows]


@pytest.mark.parametrize("again", [116, 160])
def test_two_tables_that_contradict_each_other_tell_neither(again: float) -> None:
    first, second = doubts(table("a", 100, 100), table("b", 50, again / 2, repeats="a"))[1::2]
    assert first == ("repeat", f"table b has {again / 100:.2f} times for the same test")
    assert second == ("repeat", "table a has 1.00 times for the same test")


def test_two_tables_that_agree_tell_both() -> None:
    assert doubts(table("a", 100, 100), table("b", 50, 57, repeats="a")) == [None] * 4


def test_tables_are_no_repeats_unless_they_say_so() -> None:
    assert doubts(table("a", 100, 100), table("b", 100, 200)) == [None] * 4


@pytest.mark.parametrize(("key", "rule"), [("doubted", "doubted"), ("assumed", "no measurement"), ("input", "input")])
def test_a_mark_on_the_base_counts_for_its_ratios(key: str, rule: str) -> None:
    assert doubts(table("a", 100, 200, first={key: "why"})) == [None, (rule, "why")]


@pytest.mark.parametrize("name", ["a", "c"])
def test_a_repeat_needs_another_table(name: str) -> None:
    with pytest.raises(ValidationError, match="there is no other table of this name"):
        doubts(table("a", 1, 2, repeats=name), table("b", 1, 2))
