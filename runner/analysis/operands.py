"""The two sides of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from runner.analysis.axes import with_aliases
from runner.analysis.natural_sort import value_key
from runner.analysis.selectors import runs_named
from runner.analysis.tables import full_name
from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from runner.analysis.samples import Samples
    from runner.results.store import RunRow

#: The possible kinds of sides, besides an axis.
KINDS = ("run", "kernel", "host", "revision")
#: Kinds whose cells match by id only.
BY_ID = frozenset({"run", "host", "revision"})
_KERNEL_AXIS = "kernel"

_T = TypeVar("_T")


@dataclass(frozen=True)
class Side:
    """One side: its name and its trials."""

    name: str
    found: Sequence[Samples]

    @cached_property
    def runs(self) -> list[RunRow]:
        """Return the runs of its trials, latest first."""
        return list({one.run.id: one.run for one in self.found}.values())

    def without(self, runs: Collection[str]) -> Side:
        """Return the side without some runs."""
        return Side(self.name, [one for one in self.found if one.run.id not in runs])

    @cached_property
    def kernels(self) -> set[str]:
        """Return the kernels of its trials."""
        return {kernel for one in self.found for kernel in one.kernels}


def runs_of(kind: str, word: str, runs: Sequence[RunRow]) -> list[RunRow]:
    """Return the runs that may contain a side, before any trial is read."""
    if kind == "run":
        return runs_named(word, runs)
    if kind == "host":
        return _some([run for run in runs if run.host == word], kind, word, {run.host for run in runs})
    if kind == "revision":
        fitting = [run for run in runs if len(word) >= 4 and run.revision.startswith(word)]
        return _some(fitting, kind, word, {run.revision[:12] for run in runs})
    return list(runs)


def side_of(kind: str, word: str, found: Sequence[Samples]) -> Side:
    """Return the side from the trials of `runs_of`."""
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


def _some(fitting: list[_T], kind: str, word: str, there: Iterable[str]) -> list[_T]:
    if not fitting:
        known = ", ".join(sorted({*filter(None, there)}, key=value_key)[:12])
        raise BadInput(f"no run in the store has {kind} '{word}'", details=f"there are: {known}" if known else "")
    return fitting
