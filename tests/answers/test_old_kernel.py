"""Whether the kernel is the reason of a slower figure, by what both kernels show tonight."""

from types import SimpleNamespace
from typing import Any

import pytest

from matrix_runner.answers.comparison import Speed, Suspect
from matrix_runner.answers.old_kernel import appliance_of, cells_by_old_kernel, suspect

SLOWER, FASTER, SAME, UNKNOWN = Speed.SLOWER, Speed.FASTER, Speed.SAME, Speed.UNKNOWN


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (SAME, SLOWER, Suspect.KERNEL),
        (FASTER, SLOWER, Suspect.KERNEL),
        (UNKNOWN, SLOWER, Suspect.KERNEL),
        (SLOWER, SLOWER, Suspect.BOTH),
        (SLOWER, SAME, Suspect.HOST),
        (SLOWER, FASTER, Suspect.HOST),
        (SAME, SAME, Suspect.HOST),
        (UNKNOWN, SAME, Suspect.HOST),
        (SLOWER, UNKNOWN, Suspect.HOST),
        (SAME, UNKNOWN, Suspect.KERNEL),
        (FASTER, UNKNOWN, Suspect.KERNEL),
        (UNKNOWN, UNKNOWN, Suspect.UNKNOWN),
    ],
)
def test_the_reason_follows_from_the_old_kernel(before: Speed, now: Speed, found: Suspect) -> None:
    assert suspect(before, now) is found


def samples(kernels: str, started: str = "") -> Any:
    rows = [["", "", 1, "measured", "", kernel] for kernel in kernels.split()]
    environment = {f"{kernels}: appliance": f"core-{started}", "appliance": "none"}
    return SimpleNamespace(rows=rows, run=SimpleNamespace(started=started, environment=environment))


def line(cell: str, speed: Speed, before: list[Any], now: str) -> Any:
    return SimpleNamespace(cells=("", cell), speed=speed, pair=SimpleNamespace(left=before, right=[samples(now)]))


def test_cells_are_measured_on_the_kernel_of_the_latest_run_of_their_level() -> None:
    level = [samples("6.12", "2026-02"), samples("6.1", "2026-01")]
    lines = [
        line("one", SLOWER, level, "7.0"),
        line("two", SLOWER, level[1:], "7.0"),
        line("three", SLOWER, [samples("6.12")], "7.0"),
        line("same kernel", SLOWER, level, "6.12"),
        line("as before", SAME, level, "7.0"),
        line("on two kernels", SLOWER, [samples("6.12 6.13")], "7.0"),
    ]
    found = cells_by_old_kernel(SimpleNamespace(lines=lines))  # type: ignore[arg-type]
    assert found == {"6.12": {"one", "three"}, "6.1": {"two"}}


def test_the_appliance_is_that_of_the_latest_run_on_the_kernel() -> None:
    runs = [samples("6.12", "1").run, samples("6.12", "2").run, samples("7.0", "3").run]
    side = SimpleNamespace(runs=runs)
    assert appliance_of(side, "6.12") == "core-2"  # type: ignore[arg-type]
    assert appliance_of(side, "6.9") == ""  # type: ignore[arg-type]
