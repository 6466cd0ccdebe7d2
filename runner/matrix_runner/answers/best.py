"""The rule of a search for the best value (`find:` without `while`): the values to try in a round. It does no I/O.

The first rounds look for the best: values all along the axis, then those between the best and its neighbours, and below
the smallest that is about as good. Each round measures the best ones again, so that the effect of a round cancels. If
trials scatter little, these rounds end as soon as no value is left to try.

Later rounds measure only the values that the answer names: the smallest that is about as good as the best, the best (or
the second best), and the default. Only these rounds are reported: a value that was chosen for a high figure is lower
when measured again. They end when each of these is decided: within `practical:` of the best, or not. See `bench.find`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, log1p, sqrt

from matrix_runner.statistics.race import stand
from matrix_runner.statistics.ratios import Ratio
from matrix_runner.statistics.rounds import cell_levels, residuals
from matrix_runner.statistics.stopping import Rule, is_precise

EXPLORING = 5  # rounds that look for the best value, at most
_LEAST_EXPLORING = 3
LAST = EXPLORING + 40  # no more rounds decide
_LEAST_TRIED = 5  # values in the first round
_AGAIN = 2  # of the best values so far, in each later round that looks; three times as many if trials scatter more
#: Of the differences that count as equal. So near, a few rounds show that a value is as good as the best.
_ALIKE = 0.3
_LITTLE = 0.4  # of them: so little may trials scatter, by simulation (`bench.find`)


def next_values(figures: Sequence[Mapping[int, float]], default: int | None, rule: Rule, number: int) -> set[int]:
    """Return the values to measure in a round, from the rounds before it. `default` is no place on the axis."""
    before = _up_to(figures, number - 1)
    places = [at for at in range(len(before)) if at != default]
    if number == 1 or not any(before[at] for at in places):
        return _grid(places) if number <= EXPLORING else set()
    if number <= explored(before, default, rule):
        return _explore(before, places, rule)
    found = answer(before, default, rule)
    return set() if found is None or found.is_over(rule, number) else {*found.wanted}


def explored(figures: Sequence[Mapping[int, float]], default: int | None, rule: Rule) -> int:
    """Return the last of the rounds that look for the best value."""
    places = [at for at in range(len(figures)) if at != default]
    for number in range(_LEAST_EXPLORING, EXPLORING):
        before = _up_to(figures, number)
        tried = {at for at in places if before[at]}
        little = _LITTLE * log1p(rule.practical)
        if tried and _explore(before, places, rule) <= tried and scatter([before[at] for at in tried]) <= little:
            return number
    return EXPLORING


def _up_to(figures: Sequence[Mapping[int, float]], last: int) -> list[dict[int, float]]:
    return [{number: value for number, value in one.items() if number <= last} for one in figures]


def _grid(places: Sequence[int]) -> set[int]:
    """Return values with equal distances, which the later rounds but one that look can halve to neighbours."""
    steps = max(_LEAST_TRIED - 1, ceil((len(places) - 1) / 2 ** (EXPLORING - 2)))
    return {places[round(step * (len(places) - 1) / steps)] for step in range(steps + 1)}


def _explore(figures: Sequence[Mapping[int, float]], places: Sequence[int], rule: Rule) -> set[int]:
    equal = log1p(rule.practical)
    found = levels([figures[at] for at in places])
    tried = sorted(found)
    best = max(tried, key=found.__getitem__)
    at, smallest = tried.index(best), min(one for one, level in found.items() if level >= found[best] - _ALIKE * equal)
    beside = [*tried[max(0, at - 1) : at], *tried[at + 1 : at + 2]]
    wanted = {tried[tried.index(smallest) - 1] + smallest >> 1} if smallest != tried[0] else set()
    if any(found[best] - found[one] > equal for one in beside):  # else the best between them is hardly better
        wanted |= {(one + best) // 2 for one in beside}
    again = _AGAIN if not _LITTLE * equal < scatter([figures[places[at]] for at in tried]) < inf else 3 * _AGAIN
    wanted |= {*sorted(tried, key=found.__getitem__)[-again:]}
    return {places[one] for one in wanted}


def scatter(figures: Sequence[Mapping[int, float]]) -> float:
    """Return the standard deviation of a logarithm, without the effects of values and rounds; inf if unknown."""
    squares, freedom = residuals(figures)
    return sqrt(squares / freedom) if freedom > 0 else inf


def levels(figures: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the logarithm of each measured value, without the effects of rounds."""
    measured = {at: one for at, one in enumerate(figures) if one}
    return dict(zip(measured, cell_levels([*measured.values()]), strict=True)) if measured else {}


@dataclass(frozen=True, slots=True)
class Answer:
    chosen: int  # the smallest value that is about as good as the best
    best: int
    default: int | None
    named: tuple[int, ...]
    again: Mapping[int, Mapping[int, float]]  # of named values: the figures of the second measurement by round
    behind: Mapping[int, Ratio | None]  # how many times as good the leader of these rounds is; None for itself
    leader: int | None  # None without such rounds
    explored: int  # the last round that looked for the best value
    practical: float  # differences up to this size count as equal

    def is_within(self, at: int) -> bool:
        """Return whether a value is known to be as good as the best, up to differences that count as equal."""
        if at == self.leader:
            return all(one is None or one.low >= 1 / (1 + self.practical) for one in self.behind.values())
        ratio = self.behind.get(at)
        return ratio is not None and ratio.high <= 1 + self.practical

    @property
    def _default_is_decided(self) -> bool:
        ratio = self.behind.get(self.default) if self.default is not None else None
        slower = ratio is not None and ratio.low > 1
        return self.default is None or slower or self.is_within(self.default)

    @property
    def is_decided(self) -> bool:
        return self.is_within(self.chosen) and self._default_is_decided

    @property
    def wanted(self) -> tuple[int, ...]:
        """Return the values to measure again. A default that is decided needs no more."""
        kept = {self.chosen, self.leader}
        return tuple(at for at in self.named if at in kept or at != self.default or not self._default_is_decided)

    def is_over(self, rule: Rule, number: int) -> bool:
        values = [*self.again[self.chosen].values()]
        precise = rule.until is None or len(values) >= rule.most or is_precise(values, rule)
        enough = len(values) >= max(2, rule.least) and all(self.again[at] for at in self.named)
        return number > LAST or (enough and self.is_decided and precise)


def answer(figures: Sequence[Mapping[int, float]], default: int | None, rule: Rule) -> Answer | None:
    """Return the answer so far; None if no value has a figure."""
    last = explored(figures, default, rule)
    first, again = ([{n: v for n, v in one.items() if (n > last) == later} for one in figures] for later in (0, 1))
    found = levels([{} if at == default else one for at, one in enumerate(first)])
    if not found:
        return None
    best, *others = sorted(found, key=found.__getitem__, reverse=True)
    alike = found[best] - _ALIKE * log1p(rule.practical)
    candidates = [at for at in sorted(found) if at < best and found[at] >= alike] + [best, *others[:1]]
    every = dict.fromkeys((*candidates, *(() if default is None else (default,))))
    places = [at for at in every if again[at]]  # others are not compared
    standings = stand([again[at] for at in places], rule.confidence)
    behind = {place: standings.ahead(at) for at, place in enumerate(places)} if standings else {}
    most = 1 + rule.practical
    chosen = next((at for at in candidates if not (ratio := behind.get(at)) or ratio.low <= most), best)
    rival = best if chosen != best else candidates[-1]
    named = tuple(dict.fromkeys((chosen, rival, *(() if default is None else (default,)))))
    leader = places[standings.at] if standings else None
    return Answer(chosen, best, default, named, dict(enumerate(again)), behind, leader, last, rule.practical)


def usual_trials(values: int, rounds: int) -> int:
    """Return the number of trials of most searches."""
    tried, later = len(_grid(range(values))), _LEAST_EXPLORING - 1
    return tried + later * min(values, _AGAIN) + min(2 * later, values - tried) + min(values, 2) * max(7, rounds)
