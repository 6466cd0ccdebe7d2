"""Trials as they are read from the store: by run and cell, with the figures that were asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.history.ordering import of_name
from runner.stats.stopping import Rule, Stopped, estimated, stopped
from runner.store.record import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.history.choose import Wanted
    from runner.stats.stopping import Estimate
    from runner.store.record import CellRow
    from runner.store.shared import RunRow, SharedStore

#: What is read of every trial besides figures; the rates are what cells are stopped by.
_HEAD = ("run", "cell", "block", "outcome", "reason", "kernel", "strained", "read_bw", "write_bw")
_RUN, _CELL, _BLOCK, _OUTCOME, _REASON, _KERNEL, _STRAINED, _READ, _WRITE = range(len(_HEAD))
Row = tuple[Any, ...]


class Sample(NamedTuple):
    """One trial. `values`: as many as were asked for, None where nothing was measured."""

    block: int
    outcome: str
    reason: str
    strained: bool
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Samples:
    """The trials of one cell in one run, by block: rows as they were read, of which there may be a hundred thousand."""

    run: RunRow
    cell: CellRow
    metrics: tuple[str, ...]
    rows: Sequence[Row]

    @property
    def trials(self) -> list[Sample]:
        """They, one by one."""
        return [
            Sample(row[_BLOCK], row[_OUTCOME], row[_REASON], bool(row[_STRAINED]), tuple(row[len(_HEAD) :]))
            for row in self.rows
        ]

    def of_outcome(self, outcome: str) -> Samples:
        """Those trials alone that this became of."""
        return replace(self, rows=[row for row in self.rows if row[_OUTCOME] == outcome])

    def under(self, meant: Callable[[str], bool]) -> Samples:
        """Those trials alone that ran under such kernels."""
        return replace(self, rows=[row for row in self.rows if meant(row[_KERNEL])])

    @property
    def identities(self) -> Iterator[tuple[str, int]]:
        """Of its trials within the run."""
        return ((row[_CELL], row[_BLOCK]) for row in self.rows)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Trials by outcome."""
        return Counter(row[_OUTCOME] for row in self.rows)

    @property
    def outcome(self) -> str:
        """The worst that became of a trial."""
        order = (Outcome.BROKEN, Outcome.MEASURED, Outcome.SKIPPED)
        return next((outcome for outcome in order if self.counts.get(outcome)), "")

    @property
    def reasons(self) -> list[str]:
        """Why trials are broken or skipped, each once."""
        return list(dict.fromkeys(row[_REASON] for row in self.rows if row[_REASON]))

    @property
    def kernels(self) -> list[str]:
        """Those that ran."""
        return sorted({row[_KERNEL] for row in self.rows if row[_KERNEL]})

    @property
    def strained(self) -> int:
        """Trials in which the host could not keep up with modelled disks."""
        return sum(bool(row[_STRAINED]) for row in self.rows)

    def strained_of(self, metric: str) -> int:
        """So many of the values of a figure are of such trials."""
        at = len(_HEAD) + self.metrics.index(metric)
        return sum(bool(row[_STRAINED]) for row in self.rows if row[at] is not None)

    @cached_property
    def rule(self) -> Rule:
        """How long it was to be measured."""
        most = len(self.rows) if self.run.most is None else self.run.most
        return Rule(self.run.least, most, self.run.until, self.run.confidence, self.run.finished)

    @cached_property
    def stopped(self) -> Stopped:
        """Why no more trials follow."""
        rates = [(row[_READ] or 0.0, row[_WRITE] or 0.0) for row in self.rows if row[_OUTCOME] == Outcome.MEASURED]
        return stopped(rates, len(self.rows), self.rule)

    def blocks(self, metric: str) -> dict[int, float]:
        """What was measured of a figure, by block."""
        at = len(_HEAD) + self.metrics.index(metric)
        return {row[_BLOCK]: row[at] for row in self.rows if row[at] is not None}

    def estimate(self, metric: str) -> Estimate | None:
        """The mean of a figure and its doubt; None where nothing was measured."""
        values = list(self.blocks(metric).values())
        if not values:
            return None
        return estimated(values, self.rule, self.stopped)


def read(
    store: SharedStore, runs: Sequence[RunRow], metrics: Sequence[str], wanted: Wanted | None = None
) -> list[Samples]:
    """All trials of these runs, and of these cells if any are named; runs as given, cells by their names."""
    by_id = {run.id: run for run in runs}
    ids = None if wanted is None else wanted.ids
    known = {(one.run, one.cell.id): one.cell for one in store.cells(by_id, ids)}
    rows = store.trials((*_HEAD, *metrics), by_id, ids)
    asked = tuple(metrics)
    found = []
    for key, several in groupby(rows, key=itemgetter(_RUN, _CELL)):
        run, cell = by_id.get(key[0]), known.get(key)
        if run is not None and cell is not None and (wanted is None or wanted.takes(cell)):
            found.append(Samples(run, cell, asked, list(several)))
    place = {run.id: number for number, run in enumerate(runs)}
    return sorted(found, key=lambda one: (place[one.run.id], of_name(one.cell.name), one.cell.id))


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
