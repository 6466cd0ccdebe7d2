"""Changes with one cause: cells that moved together, named by what they share and the others lack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from matrix_runner.answers.axes import is_workload_axis, value_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from matrix_runner.answers.axes import Axes

    #: The values that cells have on some axes.
    Shared: TypeAlias = "Mapping[str, tuple[str, ...]]"

_ALIKE = 1 / 3
_BY_NAME = ("layout", "workload", "rw", "bs")  # axes that people name first


@dataclass(frozen=True, slots=True)
class Cause:
    members: tuple[int, ...]  # positions of cells that moved, the strongest first
    shared: Shared  # empty: every cell moved

    def name(self, strongest: str) -> str:
        """Return its name; `strongest`: that of its strongest cell."""
        if len(self.members) == 1:
            return strongest
        return f"all {describe_shared(self.shared)}" if self.shared else "all cells"


def describe_shared(shared: Shared) -> str:
    words = [f"{axis}={'|'.join(values)}" for axis, values in shared.items() if axis != "layout"]
    return " with ".join(filter(None, ("|".join(shared.get("layout", ())), ", ".join(words))))


def find_causes(moved: Sequence[tuple[Axes, float]], unmoved: Collection[Axes]) -> list[Cause]:
    """Group cells that moved, each with the size of its move (a logarithm). `unmoved`: cells known to be as before.

    A group begins with its strongest cell, and grows while no unmoved cell has its values. Cells that moved less than a
    third as far do not make it grow.
    """
    left = sorted(range(len(moved)), key=lambda at: -abs(moved[at][1]))
    found = []
    while left:
        first, direction = moved[left[0]][0], moved[left[0]][1] > 0
        alike = [at for at in left if (moved[at][1] > 0) == direction]
        # Also the cells of other causes: an accepted change is found again by these values alone.
        others = [*unmoved, *(axes for at, (axes, _) in enumerate(moved) if at not in set(alike))]
        far = [at for at in alike if abs(moved[at][1]) >= _ALIKE * abs(moved[left[0]][1])]
        near = [moved[at][0] for at in alike if at not in set(far)]
        shared = _grown(first, [moved[at][0] for at in far], others, near)
        shared = _shortened(shared, [*others, *near], len(far))
        members = [at for at in alike if _has(moved[at][0], shared)]
        found.append(Cause(tuple(members), shared))
        left = [at for at in left if at not in set(members)]
    return found


def _has(axes: Axes, shared: Shared) -> bool:
    return all(axes.get(axis) in values for axis, values in shared.items())


def _grown(first: Axes, moved: Sequence[Axes], unmoved: Sequence[Axes], near: Sequence[Axes]) -> Shared:
    """Widen the values of the first cell as long as only moved cells have them; the step with most cells first."""
    every = [first, *moved, *unmoved, *near]
    varying = {axis for axes in every for axis in {*axes, *first} if axes.get(axis) != first.get(axis)}
    shared: Shared = {axis: (first[axis],) for axis in sorted(varying.intersection(first), key=_importance)}
    ties = {axis: _determined(axis, shared, every) for axis in shared}
    count = sum(_has(axes, shared) for axes in moved)
    while True:
        steps = [
            (sum(_has(axes, one) for axes in moved), one)
            for one in _wider(shared, moved, ties)
            if not any(_has(axes, one) for axes in unmoved)
        ]
        best = max(steps, key=lambda step: (step[0], -len(step[1])), default=(0, shared))
        if best[0] <= count:
            break
        count, shared = best
    return shared


def _shortened(shared: Shared, others: Sequence[Axes], count: int) -> Shared:
    """Leave out the axes without which no other cell has the values; a single cell keeps all."""
    for axis in [*shared] if count > 1 else ():
        less = {name: values for name, values in shared.items() if name != axis}
        if not any(_has(axes, less) and not _has(axes, shared) for axes in others):
            shared = less
    return dict(reversed([*shared.items()]))


def _determined(axis: str, others: Iterable[str], every: Iterable[Axes]) -> dict[str, dict[str, str]]:
    """Return the axes whose value follows from that of this axis, and their value by its value."""
    found: dict[str, dict[str, str]] = {other: {} for other in others if other != axis}
    for axes in every:
        if axis in axes:
            for other in [*found]:
                if found[other].setdefault(axes[axis], axes.get(other, "")) != axes.get(other, ""):
                    del found[other]
    return found


def _wider(shared: Shared, moved: Iterable[Axes], ties: Mapping[str, dict[str, dict[str, str]]]) -> Iterator[Shared]:
    """Yield the groups without an axis, and those with one value more. What follows from the axis changes with it."""
    for axis in shared:
        yield {name: values for name, values in shared.items() if name != axis and name not in ties[axis]}
    for axis, values in shared.items():
        for value in sorted({axes[axis] for axes in moved if axis in axes} - {*values}, key=value_key):
            tied = {name: by_value[value] for name, by_value in ties[axis].items() if name in shared}
            added = {**tied, axis: value}
            yield {name: _with_value(some, added.get(name)) for name, some in shared.items()}


def _with_value(values: tuple[str, ...], value: str | None) -> tuple[str, ...]:
    return values if value is None else tuple(sorted({*values, value}, key=value_key))


def _importance(axis: str) -> tuple[int, bool, str]:
    short = axis.rpartition(".")[2]
    at = _BY_NAME.index(short) if short in _BY_NAME else len(_BY_NAME)
    return -at, not is_workload_axis(axis), axis
