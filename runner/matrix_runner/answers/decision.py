"""The table to decide by: what each stack offers (room, safety, time to rebuild) beside its figure of each workload."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log, prod
from typing import Self, TypeVar

from matrix_runner.answers.all_else_equal import ComparedAxis, compare_values
from matrix_runner.answers.ranking import (
    Places,
    RankedStack,
    Ranking,
    Setting,
    Settings,
    Standing,
    sort_samples,
    stack_name,
)
from matrix_runner.records.run_folder import StackFacts
from matrix_runner.work.metrics import KNOWN

T = TypeVar("T")
_REBUILD = KNOWN["rebuild.bw"]
_UNKNOWN = StackFacts(capacity=0)


@dataclass(frozen=True, slots=True)
class Rebuild:
    seconds: float
    measured: bool  # False: computed from the rate of the disks


@dataclass(frozen=True, slots=True)
class StackChoice:
    name: str
    capacity: int  # usable bytes; 0: unknown
    losses: int | None  # lost disks that its data survives, whichever they are; None: unknown
    rebuild: Rebuild | None
    figures: tuple[RankedStack | None, ...]  # by workload
    beaten: bool = False  # another stack offers as much, and is faster at every workload

    @property
    def shares(self) -> list[float]:
        """Return its figures as shares of the best ones."""
        return [1.0 if not one.behind else 1 / one.behind.ratio for one in self.figures if one and one.is_compared]


@dataclass(frozen=True, slots=True)
class Decision:
    rankings: tuple[Ranking, ...]  # of the columns
    choices: tuple[StackChoice, ...]  # the best first
    weights: Mapping[str, float]
    overall: tuple[Setting, ...]  # the best first; empty without weights
    axes: tuple[tuple[ComparedAxis, ...], ...] = ()  # by ranking, then of all together; empty without weights

    def name_of(self, setting: Setting) -> str:
        return next(
            stack_name(one.cell) for each in self.rankings for one in each.stacks if one.cell.id in setting.cells
        )


def decide(
    rankings: Sequence[Ranking],
    losses: Mapping[str, int],
    facts: Mapping[str, StackFacts],
    weights: Mapping[str, float],
    first: int | None = None,
) -> Decision | None:
    """Return the table of all stacks; None if there is nothing to choose from. Maps are by label of the stack.

    `first`: the rounds of a race before a stack may leave it.
    """
    figures: dict[str, list[RankedStack | None]] = {}
    for at, ranking in enumerate(rankings):
        for one in ranking.stacks:
            figures.setdefault(stack_name(one.cell), [None] * len(rankings))[at] = one
    if len(figures) < 2:
        return None
    rebuilt = [one.metric == _REBUILD and "workload.under.rw" not in one.fastest.cell.axes for one in rankings]
    choices = []
    for name, several in figures.items():
        cell = next(one.cell for one in several if one)
        known = of_stack(cell.name, facts) or _UNKNOWN
        measured = [one.level for one, is_rebuild in zip(several, rebuilt, strict=True) if one and is_rebuild]
        rate, size = max(measured, default=known.rebuild_rate), known.rebuild_bytes
        rebuild = Rebuild(size / rate, bool(measured)) if rate and size else None
        choices.append(StackChoice(name, known.capacity, of_stack(cell.name, losses), rebuild, tuple(several)))
    choices.sort(key=lambda one: (-len(one.shares), -sum(map(log, one.shares)), one.name))
    if not weights:
        return Decision(tuple(rankings), tuple(_mark_beaten(choices)), weights, ())
    whole = _Whole.of(rankings, weights)
    sure, raced = rankings[0].rule.sure, rankings[0].raced
    lost = [max(stack.lost_share for stack in one.stacks) for one in rankings]
    every = [(_rounds(one), one.metric.more_is_better) for one in rankings]
    axes = (
        compare_values(samples, sure, more_is_better=more, lost_share=share, first=first if raced else None)
        for (samples, more), share in zip([*every, (whole.samples, True)], [*lost, max(lost)], strict=True)
    )
    overall = sort_samples(whole.settings, whole.samples, sure, raced=raced)
    found = Decision(tuple(rankings), (), weights, overall, tuple(axes))
    places = {found.name_of(one): (not one.candidate, at) for at, one in enumerate(overall)}
    choices.sort(key=lambda one: places.get(one.name, (True, len(places))))
    return replace(found, choices=tuple(_mark_beaten(choices)))


def _rounds(one: Ranking) -> dict[Places, dict[int, float]]:
    return {place: dict(measured.rounds(one.metric)) for place, measured in one.measured.items()}


@dataclass(frozen=True, slots=True)
class _Whole:
    """All workloads with a weight together: by round, the weighted geometric mean of the figures of a stack."""

    settings: Settings
    samples: Mapping[Places, dict[int, float]]

    @classmethod
    def of(cls, rankings: Sequence[Ranking], weights: Mapping[str, float]) -> Self:
        wanted = [one for one in rankings if one.workload in weights]
        powers = powers_of([(one.workload, one.metric.more_is_better) for one in wanted], weights)
        settings: Settings = {}
        rounds: dict[Places, list[Mapping[int, float]]] = {}
        for at, one in enumerate(wanted):
            for place, samples in _rounds(one).items():
                settings.setdefault(place, {})[(("", str(at)),)] = one.measured[place]
                rounds.setdefault(place, []).append(samples)
        complete = {place: works for place, works in settings.items() if len(works) == len(wanted)}
        return cls(complete, {place: combine(rounds[place], powers) for place in complete})


def powers_of(works: Sequence[tuple[str, bool]], weights: Mapping[str, float]) -> list[float]:
    """Return the powers of a weighted geometric mean, from names of workloads and whether more of a figure is better.

    The variants of a workload share its weight.
    """
    variants = Counter(name for name, _ in works)
    total = sum(weights[name] for name in variants)
    return [weights[name] / variants[name] / total * (1 if more else -1) for name, more in works]


def combine(rounds: Sequence[Mapping[int, float]], powers: Sequence[float]) -> dict[int, float]:
    """Return the product of powers of values, in the rounds that have all of them."""
    common = sorted(set[int](rounds[0]).intersection(*rounds[1:]))
    return {number: prod(one[number] ** power for one, power in zip(rounds, powers, strict=True)) for number in common}


def of_stack(cell: str, facts: Mapping[str, T]) -> T | None:
    """Return the fact of the stack of a cell: names of cells begin with the label of their stack."""
    parts = cell.split("/")
    labels = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((facts[label] for label in labels if label in facts), None)


def _mark_beaten(choices: Iterable[StackChoice]) -> list[StackChoice]:
    found: list[StackChoice] = []
    for one in choices:
        unbeaten = (other for other in found if not other.beaten)
        found.append(replace(one, beaten=any(_beats(other, one) for other in unbeaten)))
    return found


def _beats(one: StackChoice, other: StackChoice) -> bool:
    offers = one.capacity >= other.capacity and _is_as_safe(one, other)
    one_seconds, other_seconds = (each.rebuild.seconds if each.rebuild else inf for each in (one, other))
    if not offers or one_seconds > other_seconds:
        return False
    pairs = zip(one.figures, other.figures, strict=True)
    return all(a and b and _is_slower(b, a) for a, b in pairs)


def _is_slower(one: RankedStack, other: RankedStack) -> bool:
    """Return whether it is, and its slowest syncs take no less time: those decide for work such as etcd's."""
    in_rate = one.standing is Standing.SLOWER and other.most_behind < one.least_behind
    return in_rate and (one.sync_p99 or inf) >= (other.sync_p99 or 0.0)


def _is_as_safe(one: StackChoice, other: StackChoice) -> bool:
    """Return whether data on one stack survives as many lost disks as on another, or more."""
    if one.losses is None or other.losses is None:
        return one.losses == other.losses
    return one.losses >= other.losses
