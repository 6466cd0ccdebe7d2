"""Rankings of cells that hosts of different speed measured: those of each host alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.answers.ranking import Standing
from matrix_runner.records.record import HOST
from tests.answers.rankings import run
from tests.support.facts import noted

if TYPE_CHECKING:
    from matrix_runner.pages.run_data import RunData
    from matrix_runner.records.record import Trial

WRITE = "random/rw=randwrite"
STACKS = {"raid5": {WRITE: 160.0}, "raid10-far": {WRITE: 300.0}, "mirror": {WRITE: 301.0}, "stripe": {WRITE: 324.0}}
SPEEDS = {"fast": 10.0, "usual": 1.0, "slow": 0.2, "slowest": 0.05}


def on_host(trial: Trial, host: str) -> Trial:
    assert trial.figures
    assert trial.figures.write
    side = trial.figures.write
    faster = replace(side, bw=side.bw * SPEEDS[host], iops=side.iops * SPEEDS[host])
    return replace(trial, figures=replace(trial.figures, write=faster), **noted({**trial.notes, HOST: host}))


def standings(recorded: RunData) -> list[tuple[str, Standing]]:
    (ranking,) = recorded.rankings
    return [(one.cell.axes["layout"], one.standing) for one in ranking.stacks]


def ratios(recorded: RunData) -> list[float]:
    (ranking,) = recorded.rankings
    return [one.behind.ratio for one in ranking.stacks if one.behind]


def test_rounds_on_four_kinds_of_hosts_give_the_verdicts_of_each_host_alone() -> None:
    alone = run(STACKS, noise=0.003)
    hosts = list(SPEEDS)
    mixed = replace(alone, trials=[on_host(one, hosts[one.round % 4]) for one in alone.trials])
    assert standings(mixed) == standings(alone)
    assert ratios(mixed) == pytest.approx(ratios(alone))
    for host in hosts:
        assert standings(replace(alone, trials=[on_host(one, host) for one in alone.trials])) == standings(alone)


def test_stacks_that_never_met_on_a_host_are_not_compared() -> None:
    alone = run({"raid5": {WRITE: 160.0}, "stripe": {WRITE: 648.0}}, noise=0.003)
    raid5 = next(cell.id for cell in alone.cells if cell.axes["layout"] == "raid5")
    apart = [on_host(one, "fast" if one.cell == raid5 else "slow") for one in alone.trials]
    assert {standing for _, standing in standings(replace(alone, trials=apart))} == {Standing.NOT_COMPARED}
