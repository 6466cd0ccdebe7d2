"""Slower figures of a night on the kernel of the accepted level: whether the kernel is the reason."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from matrix_runner.answers.comparison import Comparison, Line, Speed, Suspect, Terms, compare_sides
from matrix_runner.answers.pairs import Side
from matrix_runner.answers.stored_samples import Samples, kernels_of, read_samples
from matrix_runner.base.errors import BadInput, MatrixError
from matrix_runner.records.address import IN_MEMORY
from matrix_runner.records.files import split_owner
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import load_old_kernel
from matrix_runner.records.store import SharedStore, describe_run

#: The part of the error probability for the comparison with the level: a level whose scatter seems too small is more
#: likely to cause an alarm. By simulation (`bench.confirm`).
_OF_LEVEL = 0.5
#: With so many trials of each kernel, all of one meet one of two distant states, and all of the other the other one, in
#: 0.2 % of cases at most.
_ENOUGH = 5


def cells_by_old_kernel(done: Comparison) -> dict[str, frozenset[str]]:
    """Return the slower cells whose level is from another kernel than theirs, by the kernel of its latest run."""
    found: dict[str, set[str]] = {}
    for line in done.lines:
        before = kernels_of([max(line.pair.left, key=lambda one: one.run.started)])
        if line.speed is Speed.SLOWER and len(before) == 1 and not before & kernels_of(line.pair.right):
            found.setdefault(before.pop(), set()).add(line.cells[1])
    return {kernel: frozenset(cells) for kernel, cells in found.items()}


def appliance_of(side: Side, kernel: str) -> str:
    """Return the appliance in which the latest run of a side had a kernel; empty: unknown."""
    for run in sorted(side.runs, key=lambda run: run.started, reverse=True):
        for name, text in run.environment.items():
            if split_owner(name) == (kernel, "appliance"):
                return text
    return ""


def suspect(before: Speed, now: Speed) -> Suspect:
    """Name the reason of a slower figure. `before`: the old kernel against the level; `now`: the new against the old.

    The second is measured in turns, so it decides where it can tell.
    """
    is_slow = before is Speed.SLOWER
    if now is Speed.SLOWER:
        return Suspect.BOTH if is_slow else Suspect.KERNEL
    if now is not Speed.UNKNOWN or is_slow:
        return Suspect.HOST
    return Suspect.UNKNOWN if before is Speed.UNKNOWN else Suspect.KERNEL


def with_old_kernel(done: Comparison, night: Path, terms: Terms) -> Comparison:
    """Add the reason of each slower figure that a night measured on the kernel of the accepted level, too."""
    metrics = tuple({line.metric for line in done.lines if line.again})
    found = _read(night, metrics) if metrics else []
    for kernel, cells in cells_by_old_kernel(done).items():
        old = [one.under(kernel.__eq__) for one in found if one.cell.id in cells]
        done = explain(done, kernel, [one for one in old if one.rows], terms)
    return done


def explain(done: Comparison, kernel: str, old: Sequence[Samples], terms: Terms) -> Comparison:
    """`old`: the trials of that night on the old kernel."""
    if not old:
        return done
    ids = {one.cell.id for one in old}
    level = Side("", [one for one in done.a.found if one.cell.id in ids])
    again = Side("", [one.again for one in done.b.found if one.cell.id in ids and one.again])
    before = _speeds(level, Side("", old), replace(terms, confidence=1 - _OF_LEVEL * (1 - terms.confidence)))
    # Not by pairs, of which there are few. Both kernels share a night, so its history is left out.
    has_states = min(len(one.rows) for one in (*old, *again.found)) < _ENOUGH
    now = _speeds(Side("", old), again, replace(terms, history=(), has_states=has_states))

    def explained(line: Line) -> Line:
        key = line.cells[1], line.metric
        if not (line.again and line.speed is Speed.SLOWER and key[0] in ids):
            return line
        why = suspect(before.get(key, Speed.UNKNOWN), now.get(key, Speed.UNKNOWN))
        return line._replace(old_kernel=kernel, suspect=why)

    return replace(done, lines=[explained(line) for line in done.lines])


def _read(night: Path, metrics: tuple[str, ...]) -> list[Samples]:
    with suppress(MatrixError):  # damaged: a report does not fail for it
        if old := load_old_kernel(night):
            with SharedStore.open(IN_MEMORY) as store, Journal.existing(old.journal) as journal:
                store.catch_up(old, journal)
                return read_samples(store, [describe_run(old)], metrics)
    return []


def _speeds(a: Side, b: Side, terms: Terms) -> Mapping[tuple[str, str], Speed]:
    with suppress(BadInput):  # no common figure
        lines = compare_sides(a, b, terms).lines
        return {(line.cells[1], line.metric): line.speed for line in lines}
    return {}
