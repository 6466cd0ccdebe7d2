"""How often a machine is looked at beside the work."""

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.language.matrix import interval
from matrix_runner.space.load import parse
from tests.support.matrices import space

MATRIX = """\
name: m
disks: {count: 1, size: 64MiB}
layouts: {one: [disk]}
monitor: MONITOR
workloads: {work: {rw: read, bs: 4KiB, runtime: RUNTIME, ramp: 1s}}
"""


@pytest.mark.parametrize(
    ("monitor", "runtime", "seconds"),
    [
        ("auto", "8s", 0),
        ("auto", "9s", 1),
        ("auto", "1h", 1),
        ("off", "1h", 0),
        ("1s", "1s", 1),
        ("2m", "1h", 120),
    ],
)
def test_auto_samples_what_lasts(monitor: str, runtime: str, seconds: int) -> None:
    found = space(MATRIX.replace("MONITOR", monitor).replace("RUNTIME", runtime))
    (cell,) = found.cells()
    assert interval(found.matrix.monitor, cell.workload.value) == seconds


def test_work_that_ends_by_itself_may_last() -> None:
    found = space(MATRIX.replace("MONITOR", "auto").replace("runtime: RUNTIME, ramp: 1s", "size: 1MiB"))
    (cell,) = found.cells()
    assert interval(found.matrix.monitor, cell.workload.value) == 1


@pytest.mark.parametrize(
    ("monitor", "said"),
    [
        ("1", "neither a time, like 1s or 5s, nor auto or off"),
        ("fast", "neither a time, like 1s or 5s, nor auto or off"),
        ("500ms", "whole seconds; write 1s, 5s, auto or off"),
        ("[1s, 2s]", "neither a time"),
    ],
)
def test_impossible_monitors_are_refused_with_their_place(monitor: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        parse("m.yaml", MATRIX.replace("MONITOR", monitor).replace("RUNTIME", "1s"))
    assert "m.yaml:4:1" in error.value.details
    assert said in error.value.details


def test_monitors_do_not_change_the_id_of_a_cell() -> None:
    ids = {
        next(iter(space(MATRIX.replace("MONITOR", how).replace("RUNTIME", "1s")).cells())).id for how in ("off", "1s")
    }
    assert len(ids) == 1
