"""The two sides of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from runner.analysis.axes import with_aliases
from runner.analysis.natural_sort import of_value
from runner.analysis.selectors import runs_named
from runner.analysis.tables import full_name
from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from runner.analysis.samples import Samples
    from runner.results.store import RunRow

#: What sides may be, besides the values of an axis.
KINDS = ("run", "kernel", "host", "revision")
#: Those of which cells belong together by their ids alone.
BY_ID = frozenset({"run", "host", "revision"})
_KERNEL_AXIS = "kernel"

_T = TypeVar("_T")


@dataclass(frozen=True)
class Side:
    """One of them: what it was called, and the trials that are meant by that."""

    name: str
    found: Sequence[Samples]

    @cached_property
    def runs(self) -> list[RunRow]:
        """The runs that its trials are from, the latest first."""
        return list({one.run.id: one.run for one in self.found}.values())

    def without(self, runs: Collection[str]) -> Side:
        """It without some runs."""
        return Side(self.name, [one for one in self.found if one.run.id not in runs])

    @cached_property
    def kernels(self) -> set[str]:
        """The kernels that ran."""
        return {kernel for one in self.found for kernel in one.kernels}


def runs_of(kind: str, word: str, runs: Sequence[RunRow]) -> list[RunRow]:
    """The runs that one side can be found in, before any trial is read."""
    if kind == "run":
        return runs_named(word, runs)
    if kind == "host":
        return _some([run for run in runs if run.host == word], kind, word, {run.host for run in runs})
    if kind == "revision":
        fitting = [run for run in runs if len(word) >= 4 and run.revision.startswith(word)]
        return _some(fitting, kind, word, {run.revision[:12] for run in runs})
    return list(runs)


def side_of(kind: str, word: str, found: Sequence[Samples]) -> Side:
    """What of these trials belongs to a side. `found`: of the runs that it can be found in."""
    if kind in BY_ID:
        return Side(word, found)
    if kind == "kernel":
        return Side(word, _on_kernel(word, found))
    axis = full_name(kind, found)
    values = {id(one): with_aliases(one.cell.axes).get(axis, "") for one in found}
    fitting = [one for one in found if values[id(one)] == word]
    return Side(word, _some(fitting, axis, word, values.values()))


def axis_of(kind: str, sides: Sequence[Side]) -> str:
    """The axis that is compared."""
    return _KERNEL_AXIS if kind == "kernel" else full_name(kind, [one for side in sides for one in side.found])


def _on_kernel(word: str, found: Sequence[Samples]) -> list[Samples]:
    """The trials under one kernel: its release, or its beginning up to a dot or dash, or as the matrix names it."""

    def release(kernel: str) -> bool:
        return kernel == word or (kernel.startswith(word) and kernel[len(word)] in ".-+_")

    left = [one if one.cell.axes.get(_KERNEL_AXIS) == word else one.under(release) for one in found]
    kernels = {kernel for one in found for kernel in one.kernels}
    return _some([one for one in left if one.rows], "kernel", word, kernels)


def _some(fitting: list[_T], kind: str, word: str, there: Iterable[str]) -> list[_T]:
    if not fitting:
        known = ", ".join(sorted({*filter(None, there)}, key=of_value)[:12])
        raise BadInput(f"nothing in the store has {kind} '{word}'", details=f"there are: {known}" if known else "")
    return fitting
