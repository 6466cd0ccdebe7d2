"""Trials as they are read from the store: by run and cell, with the figures that were asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from runner.stats.stopping import Rule, Stopped, interval_of, stopped
from runner.store.record import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.history.choose import Wanted
    from runner.stats.interval import Interval
    from runner.store.record import CellRow
    from runner.store.shared import RunRow, SharedStore

#: What is read of every trial besides figures; the rates are what cells are stopped by.
_HEAD = ("run", "cell", "block", "outcome", "reason", "kernel", "strained", "read_bw", "write_bw")


@dataclass(frozen=True, slots=True)
class Sample:
    """One trial. `values`: as many as were asked for, None where nothing was measured."""

    block: int
    outcome: str
    reason: str
    kernel: str
    strained: bool
    rates: tuple[float, float]
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean over trials; no interval where one value leaves the doubt unknown."""

    mean: float
    n: int
    interval: Interval | None

    @property
    def relative(self) -> float | None:
        """Half width of the interval as a part of the mean."""
        return self.interval.relative if self.interval else None


@dataclass(frozen=True)
class Samples:
    """The trials of one cell in one run, by block."""

    run: RunRow
    cell: CellRow
    metrics: tuple[str, ...]
    trials: Sequence[Sample]

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Trials by outcome."""
        return Counter(trial.outcome for trial in self.trials)

    @property
    def outcome(self) -> str:
        """The worst that became of a trial."""
        order = (Outcome.BROKEN, Outcome.MEASURED, Outcome.SKIPPED)
        return next((outcome for outcome in order if self.counts.get(outcome)), "")

    @property
    def reasons(self) -> list[str]:
        """Why trials are broken or skipped, each once."""
        return list(dict.fromkeys(trial.reason for trial in self.trials if trial.reason))

    @property
    def kernels(self) -> list[str]:
        """Those that ran."""
        return sorted({trial.kernel for trial in self.trials if trial.kernel})

    @property
    def strained(self) -> int:
        """Trials in which the host could not keep up with modelled disks."""
        return sum(trial.strained for trial in self.trials)

    @cached_property
    def rule(self) -> Rule:
        """How long it was to be measured."""
        most = len(self.trials) if self.run.most is None else self.run.most
        return Rule(self.run.least, most, self.run.until, self.run.confidence)

    @cached_property
    def stopped(self) -> Stopped:
        """Why no more trials follow."""
        rates = [trial.rates for trial in self.trials if trial.outcome == Outcome.MEASURED]
        return stopped(rates, len(self.trials), self.rule)

    def blocks(self, metric: str) -> dict[int, float]:
        """What was measured of a figure, by block."""
        at = self.metrics.index(metric)
        return {trial.block: value for trial in self.trials if (value := trial.values[at]) is not None}

    def estimate(self, metric: str) -> Estimate | None:
        """The mean of a figure and its doubt; None where nothing was measured."""
        values = list(self.blocks(metric).values())
        if not values:
            return None
        interval = interval_of(values, self.rule, self.stopped)
        return Estimate(interval.mean if interval else values[0], len(values), interval)


def read(
    store: SharedStore, runs: Sequence[RunRow], metrics: Sequence[str], wanted: Wanted | None = None
) -> list[Samples]:
    """All trials of these runs, and of these cells if any are named; runs in the order given, cells by their names."""
    by_id = {run.id: run for run in runs}
    ids = None if wanted is None else wanted.ids
    known = {(one.run, one.cell.id): one.cell for one in store.cells(by_id, ids)}
    rows = store.trials((*_HEAD, *metrics), by_id, ids)
    asked = tuple(metrics)
    found = []
    for key, several in groupby(rows, key=itemgetter(0, 1)):
        run, cell = by_id.get(key[0]), known.get(key)
        if run is None or cell is None or (wanted is not None and not wanted.takes(cell)):
            continue
        trials = [
            Sample(block, outcome, reason, kernel, bool(strained), (read or 0.0, write or 0.0), tuple(values))
            for _, _, block, outcome, reason, kernel, strained, read, write, *values in several
        ]
        found.append(Samples(run, cell, asked, trials))
    place = {run.id: number for number, run in enumerate(runs)}
    return sorted(found, key=lambda one: (place[one.run.id], one.cell.name, one.cell.id))


def read_some(
    store: SharedStore, runs: Sequence[RunRow], metrics: Sequence[str], wanted: Wanted | None, least: int
) -> tuple[list[Samples], int]:
    """The same, but no more runs than it takes for so many cells; and in how many runs nobody looked."""
    found: list[Samples] = []
    for number, run in enumerate(runs):
        if len(found) > least:
            return found, len(runs) - number
        found += read(store, [run], metrics, wanted)
    return found, 0
