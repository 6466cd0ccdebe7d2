"""How often a search for a change finds the right version, and how many trials it takes.

    python -m bench.bisect [--times 500] [--quick]

Simulated searches over 256 versions. Beside `matrix bisect`: Pinpoint's rule (compare two neighbours of the tree by
Mann-Whitney's test at alpha = 0.001, with ten more trials of each side until p is below it, or above an upper limit),
and a plain bisect, which compares five trials of each version with the middle between good and bad.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.sides import require_difference
from matrix_runner.decide.bisect import Rule, Standing, State

if TYPE_CHECKING:
    from numpy.random import Generator

VERSIONS = 256
NOISE = 0.02


class Case(NamedTuple):
    name: str
    change: float = -0.05
    drift: float = 0.0  # from trial to trial, a random walk
    broken: float = 0.0  # the share of versions without figures
    changes: int = 1  # 2: again at another version; 3: it comes back, and then again


CASES = (
    Case("-5 %"),
    Case("-2 %", -0.02),
    Case("-10 %", -0.10),
    Case("-20 %", -0.20),
    Case("-5 %, drift of 1 % a trial", drift=0.01),
    Case("-5 %, 10 % of versions broken", broken=0.1),
    Case("no change", 0.0),
    Case("-5 %, and -5 % elsewhere", changes=2),
    Case("-5 %, comes back, and again", changes=3),
)


class Host:
    """A simulated machine: versions with their levels, noise, drift and broken versions."""

    def __init__(self, case: Case, chance: Generator) -> None:
        self.chance, self.case, self.trials, self.drift = chance, case, 0, 0.0
        self.steps = sorted(chance.choice(np.arange(1, VERSIONS), size=case.changes, replace=False).tolist())
        self.levels = np.zeros(VERSIONS)
        for number, step in enumerate(self.steps):
            sign = -1 if case.changes == 3 and number == 1 else 1
            self.levels[step:] += sign * np.log1p(case.change)
        self.broken = set(np.flatnonzero(chance.random(VERSIONS) < case.broken).tolist()) - {0, VERSIONS - 1}

    def measure(self, version: int) -> float:
        self.trials += 1
        self.drift += self.case.drift * self.chance.standard_normal()
        return float(self.levels[version] + self.drift + NOISE * self.chance.standard_normal())


class Answer(NamedTuple):
    first: int  # 0: no culprit
    last: int
    state: str


Search = Callable[[Host], Answer]


def by_odds(host: Host) -> Answer:
    rounds: list[dict[int, float]] = []
    skipped: set[int] = set()
    while True:
        found = Standing(VERSIONS - 1, rounds, frozenset(skipped), Rule(worse=-1))
        if found.state.is_over:
            suspects = found.best if found.state is State.FOUND else None
            return Answer(suspects.first, suspects.last, "") if suspects else Answer(0, 0, found.state.name)
        wanted = [0, VERSIONS - 1, *found.candidates()]
        host.chance.shuffle(wanted)
        skipped |= host.broken & set(wanted)
        rounds.append({one: host.measure(one) for one in wanted if one not in host.broken})


def _working(host: Host, low: int, high: int) -> int | None:
    """Return the version nearest to the middle that is not broken."""
    inner = [one for one in range(low + 1, high) if one not in host.broken]
    return min(inner, key=lambda one: abs(one - (low + high) / 2), default=None)


def by_pinpoint(host: Host) -> Answer:
    """Compare neighbours that were measured, and put a version between those that differ, until they are adjacent."""
    from scipy.stats import mannwhitneyu

    def measured(version: int) -> list[float]:
        return [host.measure(version) for _ in range(10)]

    def differ(a: int, b: int) -> bool:
        while True:
            p = mannwhitneyu(values[a], values[b]).pvalue
            if p < 0.001:
                return True
            if p > 0.3 or len(values[a]) >= 60:  # its upper limit falls with the number of trials
                return False
            values[a] += measured(a)
            values[b] += measured(b)

    values = {one: measured(one) for one in (0, VERSIONS - 1)}
    if not differ(0, VERSIONS - 1):
        return Answer(0, 0, "EQUAL")
    low, high = 0, VERSIONS - 1
    while (middle := _working(host, low, high)) is not None:
        values[middle] = measured(middle)
        if differ(low, middle):
            high = middle
        elif differ(middle, high):
            low = middle
        else:
            return Answer(0, 0, "LOST")
    return Answer(low + 1, high, "")


def by_plain_bisect(host: Host, repeats: int = 5) -> Answer:
    def mean(version: int) -> float:
        return float(np.mean([host.measure(version) for _ in range(repeats)]))

    limit = (mean(0) + mean(VERSIONS - 1)) / 2
    low, high = 0, VERSIONS - 1
    while (middle := _working(host, low, high)) is not None:
        low, high = (low, middle) if mean(middle) < limit else (middle, high)
    return Answer(low + 1, high, "")


SEARCHES: dict[str, Search] = {"matrix": by_odds, "Pinpoint": by_pinpoint, "plain": by_plain_bisect}


@dataclass(frozen=True)
class Row:
    right: float
    wrong: float
    none: float
    counts: tuple[int, ...]  # of trials, by search

    @property
    def trials(self) -> float:
        return median(self.counts)

    @property
    def most(self) -> float:
        """Nine of ten searches take at most so many trials."""
        return float(np.quantile(self.counts, 0.9))


def searched(case: Case, search: Search, times: int, seed: int = 1) -> Row:
    right = wrong = 0
    trials = []
    for number in range(times):
        host = Host(case, np.random.default_rng([seed, number]))
        answer = search(host)
        hit = case.change != 0 and any(answer.first <= step <= answer.last for step in host.steps)
        right += bool(answer.first) and hit
        wrong += bool(answer.first) and not hit
        trials.append(host.trials)
    share = 1 / times
    none = 1 - (right + wrong) * share
    return Row(right * share, wrong * share, none, tuple(trials))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bisect", description=__doc__)
    parser.add_argument("--times", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="20 searches of each case")
    options = parser.parse_args()
    times = 20 if options.quick else options.times
    print(f"{VERSIONS} versions, {NOISE:.0%} noise, {times} searches of each case")
    print(f"{'':<32}{'':<10}{'right':>7}{'wrong':>7}{'none':>7}{'trials':>8}{'9 of 10':>8}")
    for case in CASES:
        rows = {name: searched(case, search, times) for name, search in SEARCHES.items()}
        require_difference("numbers of trials", *(row.counts for row in rows.values()))
        for name, row in rows.items():
            shares = "".join(f"{share:>7.1%}" for share in (row.right, row.wrong, row.none))
            print(f"{case.name:<32}{name:<10}{shares}{row.trials:>8.0f}{row.most:>8.0f}", flush=True)


if __name__ == "__main__":
    main()
