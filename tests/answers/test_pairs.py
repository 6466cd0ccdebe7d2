"""Pairs of cells: axes that change along with the compared one."""

from __future__ import annotations

from matrix_runner.answers.pairs import tied_axes


def test_an_empty_value_and_no_such_axis_are_one_value_of_an_axis_that_changes_along() -> None:
    left, right = [{"layout": "a", "fs.options": ""}, {"layout": "a"}], [{"layout": "b", "fs.options": "noatime"}]
    assert tied_axes("layout", left, right) == {"fs.options": ("", "noatime")}
    assert tied_axes("layout", [*left, *right], right) == {}
