"""The two sides of a comparison, and which of their cells belong together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from runner.analysis.selectors import runs_named
from runner.analysis.tables import full_name
from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from runner.analysis.samples import Samples
    from runner.results.store import RunRow

#: What sides may be, besides the values of an axis.
KINDS = ("run", "kernel", "host", "revision")
#: Those of which cells belong together by their ids alone.
BY_ID = frozenset({"run", "host", "revision"})
_KERNEL_AXIS = "kernel"

_T = TypeVar("_T")
Key = tuple[str, ...]


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
    fitting = [one for one in found if one.cell.axes.get(axis) == word]
    return Side(word, _some(fitting, axis, word, {one.cell.axes.get(axis, "") for one in found}))


def key_of(kind: str, sides: Sequence[Side]) -> Callable[[Samples], Key]:
    """What tells that two cells are the same but for what is compared.

    The id of a cell says it all, unless it covers the very thing that is compared: an axis, or a kernel that the matrix
    names. Then cells of one matrix are the same if they stand on the same places of all other axes.
    """
    if kind in BY_ID:
        return lambda one: (one.cell.id,)
    axis = axis_of(kind, sides)
    bound = tied(kind, sides)

    def but_for(one: Samples) -> Key:
        if axis not in one.cell.axes:
            return (one.cell.id,)
        without = {axis, *bound.get(one.run.matrix, ())}
        places = sorted(one.cell.axes.items())
        return (one.run.matrix, *(f"{name}={value}" for name, value in places if name not in without))

    return but_for


def axis_of(kind: str, sides: Sequence[Side]) -> str:
    """The axis that is compared."""
    return _KERNEL_AXIS if kind == "kernel" else full_name(kind, [one for side in sides for one in side.found])


def tied(kind: str, sides: Sequence[Side]) -> dict[str, dict[str, tuple[str, str]]]:
    """By matrix, the axes that have one value on the one side and another on the other; empty: none there.

    They change with the axis that is compared (the name of a layout with its level) and are a part of it. What is done
    on a stack is not taken for a part of the stack, nor the other way round: that would be two questions at once.
    """
    axis = axis_of(kind, sides)
    found: dict[str, dict[str, tuple[str, str]]] = {}
    cells = [[one for one in side.found if axis in one.cell.axes] for side in sides]
    for matrix in {one.run.matrix for one in cells[0]} & {one.run.matrix for one in cells[1]}:
        axes = [[one.cell.axes for one in side if one.run.matrix == matrix] for side in cells]
        for name in sorted({name for side in axes for one in side for name in one} - {axis}):
            values = [{one.get(name, "") for one in side} for side in axes]
            if _of_work(name) == _of_work(axis) and len(values[0]) == len(values[1]) == 1 and values[0] != values[1]:
                found.setdefault(matrix, {})[name] = (values[0].pop(), values[1].pop())
    return found


def told_of_tied(kind: str, sides: Sequence[Side]) -> str:
    """What is compared besides the axis that was named; empty if nothing is."""
    if kind in KINDS:
        return ""
    changes = [
        f"{name} ({one or 'none'} → {other or 'none'})"
        for several in tied(kind, sides).values()
        for name, (one, other) in several.items()
    ]
    if not changes:
        return ""
    return f"changes along with {axis_of(kind, sides)}, and is compared with it: {', '.join(dict.fromkeys(changes))}"


def _of_work(axis: str) -> bool:
    return axis.partition(".")[0] == "workload"


def _on_kernel(word: str, found: Sequence[Samples]) -> list[Samples]:
    """The trials under one kernel: its release, or its beginning up to a dot or dash, or as the matrix names it."""

    def release(kernel: str) -> bool:
        return kernel == word or (kernel.startswith(word) and kernel[len(word)] in ".-+_")

    left = [one if one.cell.axes.get(_KERNEL_AXIS) == word else one.under(release) for one in found]
    kernels = {kernel for one in found for kernel in one.kernels}
    return _some([one for one in left if one.rows], "kernel", word, kernels)


def _some(fitting: list[_T], kind: str, word: str, there: Iterable[str]) -> list[_T]:
    if not fitting:
        known = ", ".join(sorted(filter(None, there))[:12])
        raise BadInput(f"nothing in the store has {kind} '{word}'", details=f"there are: {known}" if known else "")
    return fitting
