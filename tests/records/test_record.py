from __future__ import annotations

import pytest

from matrix_runner.records.record import CellRow


@pytest.mark.parametrize(
    ("name", "axes", "parts"),
    [
        ("striped/chunk=1/tuned/read/bs=4", {"workload": "read"}, ("striped/chunk=1/tuned", "read/bs=4")),
        ("read/read", {"workload": "read"}, ("read", "read")),
        ("striped/other/bs=4", {}, ("striped", "other/bs=4")),
        ("single", {"workload": "x"}, ("single", "")),
    ],
)
def test_a_name_has_a_setting_and_a_work(name: str, axes: dict[str, str], parts: tuple[str, str]) -> None:
    cell = CellRow("c1", name, axes)
    assert (cell.setting, cell.work) == parts


def test_layout_and_workload_are_axes_or_parts_of_the_name() -> None:
    named = CellRow("c1", "a/b/c", {"layout": "raid", "workload": "random"})
    assert (named.layout, named.workload) == ("raid", "random")
    plain = CellRow("c1", "a/b/c", {})
    assert (plain.layout, plain.workload) == ("a", "b/c")
