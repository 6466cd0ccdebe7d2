"""Whether the kernel is the reason of a slower figure, by what both kernels show tonight."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from matrix_runner.answers.comparison import Speed, Suspect, Terms, compare_sides
from matrix_runner.answers.old_kernel import appliance_of, cells_by_old_kernel, explain, suspect
from matrix_runner.answers.pairs import Side
from matrix_runner.answers.stored_samples import Samples, samples_of
from matrix_runner.records.record import CellRow
from matrix_runner.records.store import RunRow

IOPS = "read_iops"
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


def night(old: Sequence[float], new: Sequence[float], level: Sequence[float] = (100, 101, 99, 100)) -> Suspect | None:
    """Return the reason of a slower cell: levels of earlier runs, and both kernels in the rounds after five others."""

    def run(name: str, by_round: dict[int, float | None]) -> Samples:
        facts: Any = {"synthetic": False, "host": "", "revision": "", "started": "2026-11-01", "finished": True}
        rule: Any = {"planned": 5, "confidence": 0.95, "until": None, "least": 5, "most": 5, "environment": {}}
        row = RunRow(name, name, "nas", "qemu", **facts, **rule)
        return samples_of(row, CellRow("c", "c", {}), (IOPS,), IOPS, by_round, host_limited=False)

    before = [run(f"level {at}", dict.fromkeys(range(1, 6), one)) for at, one in enumerate(level)]
    tonight = run("night", dict(enumerate([*new[:5], *new], 1)))
    terms = Terms(metrics=(IOPS,))
    done = compare_sides(Side("level", before), Side("night", [tonight]), terms)
    (line,) = explain(done, "6.12", [run("old", dict(enumerate(old, 6)))], terms).lines
    assert line.speed is Speed.SLOWER
    return line.suspect


NEW = (90.0, 84.0, 95.0, 86.0, 91.0)


def test_five_trials_of_each_kernel_tell_a_tenth_beside_noise() -> None:
    assert night((100.0, 94.0, 104.0, 96.0, 101.0), NEW) is Suspect.KERNEL
    assert night((90.5, 85.0, 94.0, 86.0, 90.0), NEW) is Suspect.HOST


def test_fewer_trials_may_all_meet_one_of_two_states() -> None:
    assert night((100.0, 94.0, 104.0, 96.0), NEW) is Suspect.UNKNOWN


def test_the_level_may_seem_too_narrow() -> None:
    """The old kernel differs from the level at 5 %, not at half of it."""
    assert night((96.3, 96.2, 96.3, 96.2, 96.3), NEW) is Suspect.KERNEL
