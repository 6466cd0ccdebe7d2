"""Which value of an axis of the stacks is better with all else equal: RAID 5 or 6, this chunk or that, ext4 or XFS.

A dozen stacks often cannot be told apart one by one. The values of their axes can, as several stacks have each of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

from matrix_runner.answers.ranking import Places
from matrix_runner.statistics.ratios import Ratio, blocked_ratio

Rounds = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class ComparedAxis:
    axis: str
    best: str
    others: tuple[tuple[str, Ratio], ...]  # values, and how many times as good the best one is

    @property
    def behind(self) -> list[tuple[str, Ratio]]:
        return [(value, ratio) for value, ratio in self.others if ratio.low > 1]

    @property
    def level(self) -> list[tuple[str, Ratio]]:
        """Return the values that may be as good as the best one."""
        return [(value, ratio) for value, ratio in self.others if ratio.low <= 1]


def compare_values(
    stacks: Mapping[Places, Rounds],
    confidence: float,
    *,
    more_is_better: bool = True,
    lost_share: float = 0.0,
    first: int | None = None,
) -> tuple[ComparedAxis, ...]:
    """Compare the values of each axis of several, by the figure of each stack by round. All intervals hold together.

    `first`: so many rounds count; those of a race after which no stack had left it yet. `lost_share`: of the time, by a
    host that is too slow or too busy.
    """
    counted = sorted(set[int]().union(*stacks.values()))[:first]
    figures = {place: {number: one[number] for number in counted if number in one} for place, one in stacks.items()}
    axes = dict(_axes(list(stacks)))
    if len(axes) < 2:  # the stacks themselves are its values
        return ()
    pairs = [(axis, *two) for axis, values in axes.items() for two in combinations(values, 2)]
    sure, kept = 1 - (1 - confidence) / max(1, len(pairs)), 1 - lost_share
    ahead: dict[str, dict[str, dict[str, Ratio]]] = {axis: {one: {} for one in axes[axis]} for axis in axes}
    for axis, one, other in pairs:
        if ratio := blocked_ratio(list(_all_else_equal(figures, axis, tuple(axes), other, one)), sure):
            found = ratio if more_is_better else ratio.inverse
            found = found._replace(low=found.low * kept, high=found.high / kept if kept else inf)
            ahead[axis][one][other], ahead[axis][other][one] = found, found.inverse
    compared = (_best_first(axis, of_axis) for axis, of_axis in ahead.items())
    return tuple(one for one in compared if one.others)


def _axes(stacks: Sequence[Places]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the axes in which stacks differ with their values, without those that follow from an earlier one."""
    several = [dict(places) for places in stacks]
    columns: list[list[str]] = []
    for axis in dict.fromkeys(axis for one in several for axis in one):
        column = [one.get(axis, "") for one in several]
        values = tuple(dict.fromkeys(column))
        if len(values) > 1 and all(len(set(zip(one, column, strict=True))) > len(set(one)) for one in columns):
            columns.append(column)
            yield axis, values


def _all_else_equal(
    figures: Mapping[Places, Rounds], axis: str, axes: Sequence[str], one: str, other: str
) -> Iterator[tuple[Rounds, Rounds]]:
    sides: tuple[dict[Places, Rounds], dict[Places, Rounds]] = {}, {}
    for places, rounds in figures.items():
        known = dict(places)
        if (value := known.get(axis, "")) in {one, other}:
            sides[value == other][tuple((name, known.get(name, "")) for name in axes if name != axis)] = rounds
    return ((rounds, sides[1][place]) for place, rounds in sides[0].items() if place in sides[1])


def _best_first(axis: str, ahead: Mapping[str, Mapping[str, Ratio]]) -> ComparedAxis:
    """Choose the value that is compared with the most others and is behind none of them."""

    def rank(value: str) -> tuple[int, float]:
        others = ahead[value].values()
        return len(others), min((one.ratio for one in others), default=0.0)

    best = max(ahead, key=rank)
    return ComparedAxis(axis, best, tuple(sorted(ahead[best].items(), key=lambda other: other[1].ratio)))
