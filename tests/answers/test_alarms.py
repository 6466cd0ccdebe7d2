"""Alarms of figures, of which a cell may have several."""

from types import SimpleNamespace
from typing import Any

from matrix_runner.answers.comparison import Speed
from matrix_runner.answers.history import find_alarms


def line(layout: str, rw: str, speed: Speed) -> Any:
    axes = {"layout": layout, "workload.rw": rw}
    pair = SimpleNamespace(right=[SimpleNamespace(cell=SimpleNamespace(axes=axes))])
    moved = -0.3 if speed is Speed.SLOWER else 0.0
    return SimpleNamespace(pair=pair, cells=("", layout + rw), speed=speed, log_speed=moved, name=layout + rw)


def test_cells_of_which_one_figure_is_slower_are_one_alarm() -> None:
    lines = [line(layout, "randread", Speed.SAME) for layout in ("raid5", "raid10")]
    for layout in ("raid5", "raid10"):
        lines += [line(layout, "randrw", Speed.SLOWER), line(layout, "randrw", Speed.SAME)]
    assert [one.name for one in find_alarms(lines)] == ["all workload.rw=randrw"]
