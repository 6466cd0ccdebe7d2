"""The sides of a comparison: runs, rounds of one run, and earlier runs that show the usual difference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, log, sqrt
from typing import TYPE_CHECKING, TypeVar

from runner.analysis.axes import with_aliases
from runner.analysis.naming import value_key
from runner.analysis.selectors import runs_named
from runner.analysis.tables import full_name
from runner.base.errors import BadInput
from runner.reports.terminal import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from runner.analysis.compare import Comparison
    from runner.analysis.samples import Samples
    from runner.results.store import RunRow
    from runner.statistics.ratios import Ratio

#: The possible kinds of sides, besides an axis.
KINDS = ("run", "kernel", "host", "revision")
#: Kinds whose cells match by id only.
BY_ID = frozenset({"run", "host", "revision"})
_KERNEL_AXIS = "kernel"

_T = TypeVar("_T")


@dataclass(frozen=True)
class Side:
    name: str
    found: Sequence[Samples]

    @cached_property
    def runs(self) -> list[RunRow]:
        return list({one.run.id: one.run for one in self.found}.values())

    def without(self, runs: Collection[str]) -> Side:
        return Side(self.name, [one for one in self.found if one.run.id not in runs])

    @cached_property
    def kernels(self) -> set[str]:
        return {kernel for one in self.found for kernel in one.kernels}


def runs_of(kind: str, word: str, runs: Sequence[RunRow]) -> list[RunRow]:
    if kind == "run":
        return runs_named(word, runs)
    if kind == "host":
        return _some([run for run in runs if run.host == word], kind, word, {run.host for run in runs})
    if kind == "revision":
        fitting = [run for run in runs if len(word) >= 4 and run.revision.startswith(word)]
        return _some(fitting, kind, word, {run.revision[:12] for run in runs})
    return list(runs)


def side_of(kind: str, word: str, found: Sequence[Samples]) -> Side:
    if kind in BY_ID:
        return Side(word, found)
    if kind == "kernel":
        return Side(word, _on_kernel(word, found))
    axis = full_name(kind, found)
    values = {id(one): with_aliases(one.cell.axes).get(axis, "") for one in found}
    fitting = [one for one in found if values[id(one)] == word]
    return Side(word, _some(fitting, axis, word, values.values()))


def axis_of(kind: str, sides: Sequence[Side]) -> str:
    return _KERNEL_AXIS if kind == "kernel" else full_name(kind, [one for side in sides for one in side.found])


def _on_kernel(word: str, found: Sequence[Samples]) -> list[Samples]:
    """Return the trials on one kernel: by release, prefix of it up to a dot or dash, or name in the matrix."""

    def release(kernel: str) -> bool:
        return kernel == word or (kernel.startswith(word) and kernel[len(word)] in ".-+_")

    left = [one if one.cell.axes.get(_KERNEL_AXIS) == word else one.under(release) for one in found]
    kernels = {kernel for one in found for kernel in one.kernels}
    return _some([one for one in left if one.rows], "kernel", word, kernels)


def _some(fitting: list[_T], kind: str, word: str, values: Iterable[str]) -> list[_T]:
    if not fitting:
        known = ", ".join(sorted({*filter(None, values)}, key=value_key)[:12])
        raise BadInput(f"no run in the store has {kind} '{word}'", details=f"there are: {known}" if known else "")
    return fitting


#: The share of figures within the noise floor.
_SHARE = 0.95


def is_odd(round_number: int) -> bool:
    """Return whether a round is odd. Alternate rounds spread drift over both parts."""
    return round_number % 2 == 1


def parts(name: str, found: Sequence[Samples], first: Callable[[int], bool] = is_odd) -> tuple[Side, Side]:
    """Split a run into two sides by rounds."""
    return (
        Side(f"{name}, odd rounds", [one.in_rounds(first) for one in found]),
        Side(f"{name}, even rounds", [one.in_rounds(lambda round_number: not first(round_number)) for one in found]),
    )


def describe_noise_floor(done: Comparison) -> str:
    least = noise_floor(line.ratio for line in done.lines)
    if least is None:
        return ""
    return (
        "a run with itself: A is its odd rounds and B its even ones, so what differs is noise. Noise floor: of two "
        f"such runs, each whole, 95 % of the figures lie within \u00b1{percent(least)} of each other"
    )


def noise_floor(ratios: Iterable[Ratio | None]) -> float | None:
    """Return the relative difference that 95 % of the figures of two such runs stay below.

    Half a run has more noise than a whole one because of fewer trials. The result is corrected for that.
    """
    whole_run = ((one.ratio, sqrt((2 / (one.n_a + one.n_b)) / (1 / one.n_a + 1 / one.n_b))) for one in ratios if one)
    apart = sorted(abs(log(ratio)) * correction for ratio, correction in whole_run)
    if not apart:
        return None
    return exp(apart[min(len(apart) - 1, int(_SHARE * len(apart)))]) - 1


#: Cells are equal by their ids, for any rest of the matrix and any order.
_IRRELEVANT = frozenset({"seed", "digest.matrix"})
#: The most earlier runs to use. More add little precision, and their level is older.
_MOST = 20


def earlier_groups(a: Side, b: Side, runs: Sequence[RunRow]) -> list[list[RunRow]]:
    """Return groups of runs, latest first, that ended well before the later side began and match the environment of A
    or B.

    Empty unless each side is one run: several runs show their own scatter.
    """
    sides = [side.runs for side in (a, b)]
    if any(len(side) != 1 for side in sides) or sides[0] == sides[1]:
        return []
    compared = [run for (run,) in sides]
    ids, last = {run.id for run in compared}, max(run.started for run in compared)
    groups: dict[Hashable, list[RunRow]] = {_conditions(run): [] for run in compared}
    for run in runs:
        alike = groups.get(_conditions(run))
        if alike is not None and run.finished and run.id not in ids and run.started < last and len(alike) < _MOST:
            alike.append(run)
    return [group for group in groups.values() if group]


def _conditions(run: RunRow) -> Hashable:
    facts = frozenset(fact for fact in run.environment.items() if fact[0] not in _IRRELEVANT)
    return run.matrix, run.machine, run.synthetic, run.host, facts
