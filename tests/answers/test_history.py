"""A month of nights: what is an alarm, in which cells, from which night on, and until when."""

from __future__ import annotations

from datetime import date
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from matrix_runner.answers.history import Alarm, Level, Series, find_history_alarms, timelines
from matrix_runner.answers.stored_samples import Samples, samples_of
from matrix_runner.language.references import Baseline, KnownChange
from matrix_runner.records.record import CellRow
from matrix_runner.records.store import RunRow

if TYPE_CHECKING:
    from collections.abc import Callable

METRIC = "write_iops"
CELLS = [
    CellRow(
        f"{layout}-{rw}-{bs}",
        f"{layout}/oltp/rw={rw},bs={bs}",
        {"layout": layout, "workload": "oltp", "workload.rw": rw, "workload.bs": bs},
    )
    for layout, rw, bs in product(("raid5", "raid10", "stripe"), ("write", "randwrite"), ("4KiB", "64KiB"))
]
#: The first nights of the two regressions, and the only one in which a disk stalled.
RAID5_SLOW, RAID10_SLOW, STALLED, REPLACED = 10, 17, 23, 15
MISSING = {5, 13, 20}
NIGHTS = [night for night in range(1, 32) if night not in MISSING]
ACCEPTED = KnownChange.model_validate(
    {
        "host": "lab1",
        "cells": {"layout": "raid5", "rw": "randwrite"},
        "change": "-8%",
        "since": f"2026-03-{RAID5_SLOW}",
        "reason": "md",
    }
)


def a_run(night: int, host: str) -> RunRow:
    """The host lab2 gets another processor in the middle of the month."""
    cpu = "new" if host == "lab2" and night >= REPLACED else "old"
    name = f"{host}-{night:02}"
    started = f"2026-03-{night:02}T01:23:00+00:00"
    environment = {"host.cpu": cpu}
    return RunRow(name, name, "nas", "local", False, host, "", started, True, 36, 0.95, None, 3, 3, environment)


def speed(cell: CellRow, night: int, host: str) -> float:
    axes = cell.axes
    weekend = 0.97 if date(2026, 3, night).weekday() >= 5 else 1.0
    if host == "lab2":
        return weekend * (0.85 if night >= REPLACED else 1.0)
    slower = 1.0
    if axes["layout"] == "raid5" and axes["workload.rw"] == "randwrite" and night >= RAID5_SLOW:
        slower *= 0.92
    if axes["layout"] == "raid10" and night >= RAID10_SLOW:
        slower *= 0.93
    if axes["layout"] == "stripe":
        slower *= 1 - 0.12 * night / 31
    return slower * weekend


@pytest.fixture(scope="module")
def month() -> list[Samples]:
    chance = np.random.default_rng(5)
    found = []
    for night, host in product(NIGHTS, ("lab1", "lab2")):
        run = a_run(night, host)
        for cell in CELLS:
            level = 1e4 * speed(cell, night, host) * np.exp(0.008 * chance.standard_normal())
            values = {at: float(level * np.exp(0.01 * chance.standard_normal())) for at in (1, 2, 3)}
            if (night, host, cell.id) == (STALLED, "lab1", "stripe-write-4KiB"):
                values[2] /= 10
            found.append(samples_of(run, cell, (METRIC,), METRIC, values, host_limited=False))
    return found


def alarms(month: list[Samples], last: int, level: Level | None = None) -> list[Alarm[Series]]:
    until = [one for one in month if one.run.started <= f"2026-03-{last:02}T99"]
    return find_history_alarms(timelines(until, (METRIC,), level))


def briefly(found: list[Alarm[Series]]) -> list[tuple[str, int, str, int]]:
    return [
        (one.name, len(one.figures), one.first.name if one.first else "drift", round(100 * (one.speed - 1)))
        for one in found
    ]


def test_the_month_has_two_alarms_and_a_drift_with_their_cells_and_nights(month: list[Samples]) -> None:
    found = briefly(alarms(month, 31))
    assert [(name, count, first) for name, count, first, _ in found] == [
        ("all raid5 with workload.rw=randwrite", 2, f"lab1-{RAID5_SLOW}"),
        ("all raid10", 4, f"lab1-{RAID10_SLOW}"),
        ("all stripe", 4, "drift"),
    ]
    assert [percent for *_, percent in found] == pytest.approx([-8, -7, -11], abs=2)


def test_an_alarm_stays_every_night_until_it_is_accepted(month: list[Samples]) -> None:
    level = Level((), [ACCEPTED])
    for night in (16, 26, 31):
        names = [name for name, *_ in briefly(alarms(month, night))]
        assert "all raid5 with workload.rw=randwrite" in names, night
        assert ("all raid10" in names) == (night >= 26), night
        accepted = [name for name, *_ in briefly(alarms(month, night, level))]
        assert not any("raid5" in name for name in accepted), night


def test_nothing_is_an_alarm_before_the_first_regression(month: list[Samples]) -> None:
    assert [one for one in alarms(month, RAID5_SLOW - 1) if one.first] == []


def test_a_step_that_is_gone_is_no_alarm(month: list[Samples]) -> None:
    mended = [
        replaced(one, 1 / 0.92)
        if one.run.host == "lab1" and one.run.started >= "2026-03-19" and one.cell.id.startswith("raid5-randwrite")
        else one
        for one in month
    ]
    assert not any("raid5" in one.name for one in alarms(mended, 31))
    series = timelines(mended, (METRIC,), Level((), [ACCEPTED]))
    gone = [one.cell.id for one in series if one.gone]
    assert gone == ["raid5-randwrite-4KiB", "raid5-randwrite-64KiB"]


def replaced(one: Samples, factor: float) -> Samples:
    values = {at: value * factor for at, value in one.rounds(METRIC).items()}
    return samples_of(one.run, one.cell, (METRIC,), METRIC, values, host_limited=False)


def test_a_history_begins_with_its_baseline(month: list[Samples]) -> None:
    level = Level([Baseline(matrix="nas", host="lab1", run=f"lab1-{RAID10_SLOW}")])
    names = [one.name for one in alarms(month, 31, level)]
    assert not any("raid5" in name or "raid10" in name for name in names)
    series = [one for one in timelines(month, (METRIC,), level) if one.host == "lab1"]
    assert {one.points[0].samples.run.name for one in series} == {f"lab1-{RAID10_SLOW}"}


def test_a_latency_that_rises_is_an_alarm(month: list[Samples]) -> None:
    metric = "write_lat_mean"
    rising = [
        samples_of(one.run, one.cell, (metric,), metric, values, host_limited=False)
        for one in month
        for values in [{at: 1e9 / value for at, value in one.rounds(METRIC).items()}]
    ]
    found = find_history_alarms(timelines(rising, (metric,)))
    assert [one.name for one in found] == ["all raid5 with workload.rw=randwrite", "all raid10", "all stripe"]
    assert all(one.speed < 1 for one in found)


def test_a_figure_that_stays_does_not_part_the_cells_whose_other_figure_moved(month: list[Samples]) -> None:
    steady = [
        samples_of(one.run, one.cell, ("read_iops",), "read_iops", {1: 1e4, 2: 1.01e4, 3: 0.99e4}, host_limited=False)
        for one in month
    ]
    found = find_history_alarms([*timelines(month, (METRIC,)), *timelines(steady, ("read_iops",))])
    assert [one.name for one in found] == ["all raid5 with workload.rw=randwrite", "all raid10", "all stripe"]


def series_of(speed_of: Callable[[CellRow, int], float], metric: str = METRIC) -> list[Samples]:
    """Return thirty nights with little noise; `speed_of`: how many times as fast a cell is in a night."""
    chance = np.random.default_rng(7)
    found = []
    for night in range(1, 31):
        run = a_run(night, "lab1")
        for cell in CELLS:
            level = 1e4 * speed_of(cell, night) * np.exp(0.002 * chance.standard_normal())
            values = {at: float(level if metric == METRIC else 1e9 / level) for at in (1, 2, 3)}
            found.append(samples_of(run, cell, (metric,), metric, values, host_limited=False))
    return found


@pytest.mark.parametrize(("apart", "alarms"), [(1, 1), (2, 1), (3, 2)])
def test_steps_up_to_two_nights_apart_are_of_one_cause(apart: int, alarms: int) -> None:
    def speed_of(cell: CellRow, night: int) -> float:
        first = 12 if cell.axes["workload.rw"] == "write" else 12 + apart
        return 0.7 if cell.axes["layout"] == "raid5" and night >= first else 1.0

    found = find_history_alarms(timelines(series_of(speed_of), (METRIC,)))
    assert [len(one.figures) for one in found] == [4 // alarms] * alarms
    assert found[0].first
    assert found[0].first.name == "lab1-12"


def accepted(change: str) -> KnownChange:
    values = {"cells": {"layout": "raid5"}, "change": change, "since": "2026-03-10", "reason": "md"}
    return KnownChange.model_validate(values)


@pytest.mark.parametrize("change", [-30, 30])
@pytest.mark.parametrize(("left", "is_gone"), [(0.0, True), (0.4, True), (0.6, False), (1.0, False)])
def test_an_accepted_change_is_gone_if_less_than_half_is_left(change: int, left: float, is_gone: bool) -> None:
    def speed_of(cell: CellRow, night: int) -> float:
        share = (night >= 10) * (left if night >= 20 else 1.0)
        return float((1 + change / 100) ** share) if cell.axes["layout"] == "raid5" else 1.0

    series = timelines(series_of(speed_of), (METRIC,), Level((), [accepted(f"{change:+}%")]))
    assert [bool(one.gone) for one in series] == [one.cell.axes["layout"] == "raid5" and is_gone for one in series]


@pytest.mark.parametrize("metric", [METRIC, "write_lat_mean"])
def test_an_accepted_change_is_no_alarm_of_a_rate_or_of_a_latency(metric: str) -> None:
    def speed_of(cell: CellRow, night: int) -> float:
        return 0.7 if cell.axes["layout"] == "raid5" and night >= 10 else 1.0

    found = series_of(speed_of, metric)
    assert [one.name for one in find_history_alarms(timelines(found, (metric,)))] == ["all raid5"]
    assert not find_history_alarms(timelines(found, (metric,), Level((), [accepted("-30%")])))
