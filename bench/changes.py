"""How often `history` finds a change of level, and how often it sees one where there is none.

    python -m bench.changes [--times 1000] [--seed 1] [--critical]

Histories of simulated nights with 2 % noise. `certain` and `perhaps`: histories with such a change, of which `perhaps`
has no certain one; `drift`: those that are called a drift. `wanted` is about certain ones where there is no change,
and about both where there is one.
With `--critical`, it prints the table of `statistics/correlated_changes.py` (an hour).
One side: simulations against stated error rates.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.guidelines import correlated
from matrix_runner.statistics.changes import read_history
from matrix_runner.statistics.correlated_changes import CORRELATIONS, NIGHTS, change_evidence

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

NOISE = 0.02
WANTED = 0.01  # the share of histories without a change that may have a certain one


class Case(NamedTuple):
    name: str
    nights: int
    begin: int
    end: int
    change: float
    wanted: str
    correlation: float = 0.0
    weekends: float = 0.0  # how much slower they are
    bad: float = 0.0  # how much slower one early night is
    drift: float = 0.0  # from the first night to the last
    missing: float = 0.0  # the share of nights that did not run
    replaced: int = 0  # the first night on another host, whose history begins there

    def draw(self, chance: Generator) -> NDArray[np.float64]:
        logs = NOISE * correlated(chance, self.nights, self.correlation)
        logs[self.begin : self.end] += np.log1p(self.change)
        logs[5::7] += np.log1p(self.weekends)
        logs[6::7] += np.log1p(self.weekends)
        logs[self.begin // 2] += np.log1p(self.bad)
        values: NDArray[np.float64] = np.exp(logs + np.linspace(0, np.log1p(self.drift), self.nights))
        return values

    def weekdays_and_values(self, chance: Generator) -> tuple[list[int], list[float]]:
        """Return the nights that ran, on the last host."""
        values = self.draw(chance)
        ran = [at for at in range(self.replaced, self.nights) if chance.random() >= self.missing]
        return [at % 7 for at in ran], [float(values[at]) for at in ran]


CASES = (
    Case("no change, 40 nights: false alarms", 40, 0, 0, 0.0, "≤ 1 %"),
    Case("no change, 40 nights, correlation 0.3", 40, 0, 0, 0.0, "≤ 1 %", correlation=0.3),
    Case("no change, 40 nights, correlation 0.6", 40, 0, 0, 0.0, "≤ 1 %", correlation=0.6),
    Case("no change, 56 nights, weekends -4 %", 56, 0, 0, 0.0, "≤ 1 %", weekends=-0.04),
    Case("no change, 40 nights, weekends -4 %", 40, 0, 0, 0.0, "≤ 1 %", weekends=-0.04),
    Case("no change, 40 nights, correlation 0.8", 40, 0, 0, 0.0, "", correlation=0.8),
    Case("no change, 100 nights, correlation 0.6", 100, 0, 0, 0.0, "≤ 1 %", correlation=0.6),
    Case("no change, 20 nights, correlation 0.6", 20, 0, 0, 0.0, "≤ 1 %", correlation=0.6),
    Case("no change, 40 nights, the newest -30 %", 40, 39, 40, -0.3, "≤ 1 %"),
    Case("no change, 40 nights, the newest -10 %", 40, 39, 40, -0.1, "≤ 1 %"),
    Case("no change, 40 nights, one in four missing", 40, 0, 0, 0.0, "≤ 1 %", missing=0.25),
    Case("no change, 60 nights, host replaced at 21", 60, 0, 20, 0.2, "≤ 1 %", replaced=20),
    Case("no step, 60 nights, drift -10 %", 60, 0, 0, 0.0, "", drift=-0.1),
    Case("-3 % from night 21 of 40 on", 40, 20, 40, -0.03, "≥ 82 %"),
    Case("-6 % for 5 of 45 nights", 45, 20, 25, -0.06, "≥ 90 %"),
    Case("-6 % for 10 of 50 nights", 50, 20, 30, -0.06, "≥ 98 %"),
    Case("-6 % in the last 3 of 33 nights", 33, 30, 33, -0.06, "≥ 79 %"),
    Case("-6 % in the last 2 of 32 nights", 32, 30, 32, -0.06, "≥ 50 %"),
    Case("-6 % from night 21 of 40 on, correlation 0.6", 40, 20, 40, -0.06, "", correlation=0.6),
    Case("-6 % from night 21 of 40 on, one night -30 %", 40, 20, 40, -0.06, "≥ 98 %", bad=-0.3),
    Case("-6 % from night 31 of 56 on, weekends -4 %", 56, 30, 56, -0.06, "≥ 98 %", weekends=-0.04),
    Case("-6 % from night 21 of 40 on, one in four missing", 40, 20, 40, -0.06, "≥ 98 %", missing=0.25),
    Case("-6 % from night 41 of 60 on, host replaced at 21", 60, 40, 60, -0.06, "≥ 98 %", replaced=20),
)


def shares_found(case: Case, times: int, seed: int = 1) -> tuple[float, float, float]:
    """Return the shares of histories with a certain change, with possible ones only, and with a drift."""
    chance = np.random.default_rng(seed)
    certain = perhaps = drifts = 0
    for _ in range(times):
        weekdays, values = case.weekdays_and_values(chance)
        found = read_history(values, weekdays)
        is_certain = any(one.certain for one in found.changes)
        certain += is_certain
        perhaps += bool(found.changes) and not is_certain
        drifts += found.trend is not None
    return certain / times, perhaps / times, drifts / times


def critical_evidence(nights: int, times: int) -> list[float]:
    """Return the evidence that 1 % of nights without a change exceed for all correlations, whichever is theirs."""
    chance = np.random.default_rng(11)
    found = []
    for correlation in CORRELATIONS:
        parts = [
            change_evidence(np.array([correlated(chance, nights, correlation) for _ in range(50)]))
            for _ in range(times // 50)
        ]
        found.append(np.concatenate(parts, axis=1))
    shares = np.arange(0.97, 0.995, 0.001)
    every = [[float(np.quantile(one[at], share)) for at, one in enumerate(found)] for share in shares]
    few = (
        limits
        for limits in every
        if max((one > np.array(limits)[:, None]).all(axis=0).mean() for one in found) <= WANTED
    )
    return next(few)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.changes", description=__doc__)
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the histories: rows near a limit need several")
    parser.add_argument("--critical", action="store_true", help="print the table of critical evidence")
    wanted = parser.parse_args()
    times = wanted.times
    for nights in NIGHTS if wanted.critical else ():
        print(f"{nights:>5}", *(f"{one:5.2f}" for one in critical_evidence(nights, 10 * times)), flush=True)
    if wanted.critical:
        return
    print(f"{'':<50}{'certain':>8}{'perhaps':>8}{'drift':>8}   wanted")
    for case in CASES:
        certain, perhaps, drifts = shares_found(case, times, wanted.seed)
        print(f"{case.name:<50}{certain:>8.1%}{perhaps:>8.1%}{drifts:>8.1%}   {case.wanted}", flush=True)


if __name__ == "__main__":
    main()
