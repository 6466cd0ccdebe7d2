"""Alarms of a night: the figures that are slower than the accepted level, one alarm for each cause."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from statistics import fmean
from typing import TYPE_CHECKING

from matrix_runner.answers.accepted import ACCEPTED, accepted_level, baseline_of, runs_of_baseline
from matrix_runner.answers.causes import Cause, find_causes
from matrix_runner.answers.comparison import Comparison, Line, Speed, compare_sides
from matrix_runner.answers.pairs import Side, earlier_groups
from matrix_runner.answers.stored_samples import LATENCIES, USUAL_RATES, read_samples
from matrix_runner.base.errors import BadInput
from matrix_runner.records.address import IN_MEMORY
from matrix_runner.records.store import SharedStore, describe_run
from matrix_runner.records.store_sync import bring_up_to_date
from matrix_runner.space.declared_files import load_accepted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matrix_runner.answers.selectors import CellSelection
    from matrix_runner.language.references import KnownChange
    from matrix_runner.records.address import Address
    from matrix_runner.records.journal import Journal
    from matrix_runner.records.run_folder import RunFolder
    from matrix_runner.records.store import RunRow
    from matrix_runner.space.declared_files import AcceptedFiles

#: Differences up to this size count as equal; the confidence of verdicts.
WITHIN, CONFIDENCE = 0.05, 0.95


@dataclass(frozen=True, slots=True)
class Alarm:
    """Figures that became slower together."""

    lines: Sequence[Line]  # the strongest first
    cause: Cause

    @property
    def name(self) -> str:
        return self.cause.name(self.lines[0].name)

    @property
    def speed(self) -> float:
        """Return how many times as fast these figures are as before, on average."""
        return exp(fmean(line.log_speed for line in self.lines))


def find_alarms(lines: Sequence[Line], chosen: CellSelection | None = None) -> list[Alarm]:
    """Group slower figures, or those of some cells, by cause.

    A figure that cannot be told is as before if it moved less than half as far as the others.
    """
    slower = [
        line
        for line in lines
        if line.speed is Speed.SLOWER and (chosen is None or chosen.takes(line.pair.right[0].cell))
    ]
    least = min((-line.log_speed for line in slower), default=0.0) / 2
    taken = {line.cells for line in slower}  # another figure of such a cell may be as before
    unmoved = [
        line
        for line in lines
        if line.cells not in taken and (line.speed is not Speed.UNKNOWN or -line.log_speed < least)
    ]
    moved = [(line.pair.right[0].cell.axes, line.log_speed) for line in slower]
    causes = find_causes(moved, [line.pair.right[0].cell.axes for line in unmoved])
    return [Alarm([slower[at] for at in cause.members], cause) for cause in causes]


def read_levels(store: SharedStore, nights: Sequence[RunRow], files: AcceptedFiles) -> list[RunRow]:
    """Return the runs that nights are compared with. A baseline for them that names no run is an error."""
    runs = store.runs()
    used = {id(baseline_of(run, files.baselines.entries)) for run in nights}
    files.check_baselines(lambda one: id(one) not in used or runs_of_baseline(one, runs))
    found = {one.id: one for run in nights for one in _read_level(store, run, files)}
    return list(found.values())


def _read_level(store: SharedStore, night: RunRow, files: AcceptedFiles) -> list[RunRow]:
    def is_slower(run: RunRow, level: Sequence[RunRow]) -> bool:
        found = read_samples(store, [run, *level], (*USUAL_RATES, *LATENCIES), histograms=False)
        before, now = ([one for one in found if (one.run is run) == is_night] for is_night in (False, True))
        try:
            sides = Side("level", before), Side(run.name, now)
            return bool(
                compare_sides(*sides, "run", (), within=WITHIN, confidence=CONFIDENCE, known=files.changes).slower
            )
        except BadInput:  # they have no common cell
            return False

    return accepted_level(night, store.runs(), files.baselines.entries, is_slower)


def compare_with_level(folder: RunFolder, journal: Journal, address: Address, *, planned: bool = False) -> Comparison:
    """Compare a run at work with the accepted level by the files in its folder; `planned`: by its planned rounds."""
    night, files, metrics = describe_run(folder), load_accepted(folder.path), (*USUAL_RATES, *LATENCIES)
    with SharedStore.open(IN_MEMORY) as own, SharedStore.existing(address) as shared:
        own.catch_up(folder, journal)
        found = read_samples(own, [night], metrics)
        bring_up_to_date(shared, folder.path.parent)
        level = read_levels(shared, [night], files)
        if not level:
            raise BadInput("there is no accepted level yet", resolution="it takes an earlier good run, or a baseline")
        last = night.most or 0
        b = Side(night.name, [one.in_rounds(lambda at: at <= last) for one in found] if planned else found)
        a = Side(ACCEPTED, read_samples(shared, level, metrics))
        groups = earlier_groups(a, b, shared.runs())
        history = [Side("", read_samples(shared, group, metrics, histograms=False)) for group in groups]
    return compare_sides(a, b, "run", (), within=WITHIN, confidence=CONFIDENCE, known=files.changes, history=history)


@dataclass(frozen=True, slots=True)
class Known:
    """An accepted change, and what became of it in a comparison."""

    change: KnownChange
    lines: int
    gone: int


def known_changes(lines: Iterable[Line]) -> list[Known]:
    found: dict[int, Known] = {}
    for line in lines:
        for change in line.known:
            before = found.get(id(change), Known(change, 0, 0))
            found[id(change)] = Known(change, before.lines + 1, before.gone + any(change is one for one in line.gone))
    return list(found.values())
