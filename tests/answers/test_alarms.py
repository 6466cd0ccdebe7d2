"""Alarms of figures, of which a cell may have several."""

from types import SimpleNamespace
from typing import Any

import pytest

from matrix_runner.answers.comparison import Speed
from matrix_runner.answers.history import find_alarms


def line(layout: str, rw: str, speed: Speed, moved: float = 0.0) -> Any:
    axes = {"layout": layout, "workload.rw": rw}
    pair = SimpleNamespace(right=[SimpleNamespace(cell=SimpleNamespace(axes=axes))])
    moved = -0.3 if speed is Speed.SLOWER else moved
    return SimpleNamespace(pair=pair, cells=("", layout + rw), speed=speed, log_speed=moved, name=layout + rw)


def test_cells_of_which_one_figure_is_slower_are_one_alarm() -> None:
    lines = [line(layout, "randread", Speed.SAME) for layout in ("raid5", "raid10")]
    for layout in ("raid5", "raid10"):
        lines += [line(layout, "randrw", Speed.SLOWER), line(layout, "randrw", Speed.SAME)]
    assert [one.name for one in find_alarms(lines)] == ["all workload.rw=randrw"]


@pytest.mark.parametrize(
    ("moved", "name"), [(-0.16, "all workload.rw=randrw"), (-0.14, "all raid10|raid5 with workload.rw=randrw")]
)
def test_an_unsure_figure_is_as_before_if_it_moved_less_than_half_as_far(moved: float, name: str) -> None:
    lines = [line(layout, "randrw", Speed.SLOWER) for layout in ("raid5", "raid10")]
    lines += [line("raid5", "randread", Speed.SAME), line("stripe", "randrw", Speed.UNKNOWN, moved)]
    assert [one.name for one in find_alarms(lines)] == [name]
