"""Searches for the best value (`find:`) on planted curves: `python -m bench.find [--times 1000]`.

Each search runs to its end, as in `matrix run`. *Best* and *chosen*: the share of searches whose best value, and whose
smallest value that is about as good, is within 3 % of the true best. *Within*: the chosen one is within 5 %, as the
answer states. *Covered*: the interval of its figure has the true value. *Full*: all values, as often as an interval of
95 % needs to tell that one is within half of 5 %. Every second search has a drift of 30 %, and rounds that differ by
5 %, as in `bench.race`. Then a figure has no fixed true value, so it does not count as covered or not.
One side: simulated searches; the trials of the full axis come from a formula.
"""

from __future__ import annotations

import argparse
from math import exp, log, log1p, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from matrix_runner.answers.best import LAST, answer, next_values
from matrix_runner.statistics.ratios import PRACTICAL, student_interval, t_factor
from matrix_runner.statistics.stopping import Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

    Table = NDArray[np.float64]

RULE = Rule(3, 3)
NEAR = log(1 - 0.03)


def peak(at: Table, chance: Generator) -> Table:
    return -log(2) * np.square((at - chance.uniform(0.1, 0.9)) / chance.uniform(0.15, 0.5))


def plateau(at: Table, chance: Generator) -> Table:
    return np.minimum(0, (at - chance.uniform(0.1, 0.6)) * chance.uniform(1, 3))


def saturation(at: Table, chance: Generator) -> Table:
    return np.asarray(np.log(1 - np.exp(-(at + 0.03) / chance.uniform(0.05, 0.4))))


def none(at: Table, chance: Generator) -> Table:  # noqa: ARG001 - one of the curves
    return np.zeros(len(at))


class Ended(NamedTuple):
    best: bool
    chosen: bool
    within: bool
    trials: int
    decided: bool
    covered: bool | None


def search(truth: Table, noise: float, default: int, chance: Generator, *, drifts: bool) -> Ended:
    """Run a search over the logarithms of the true figures. The default is one of them, with a place of its own."""
    every = np.append(truth, truth[default])
    rounds = 0.05 * chance.standard_normal(LAST + 2) + np.linspace(0, 0.3, LAST + 2)
    rounds *= drifts
    figures: list[dict[int, float]] = [{} for _ in every]
    for number in range(1, LAST + 2):
        wanted = next_values(figures, len(truth), RULE, number)
        for at in wanted:
            figures[at][number] = exp(every[at] + rounds[number] + noise * chance.standard_normal())
        if not wanted:
            break
    found = answer(figures, len(truth), RULE)
    assert found
    top = truth.max()
    interval = None if drifts else student_interval([*found.again[found.chosen].values()])
    covered = None if interval is None else interval.low <= exp(every[found.chosen] + noise**2 / 2) <= interval.high
    return Ended(
        bool(truth[found.best] >= top + NEAR),
        bool(truth[found.chosen] >= top + NEAR),
        bool(truth[found.chosen] >= top - log1p(PRACTICAL)),
        sum(map(len, figures)),
        found.is_decided,
        covered,
    )


def full(values: int, noise: float) -> int:
    """Return the trials of the full axis: with the default, and fixed repeats."""
    half = log1p(PRACTICAL) / 2
    rounds = next(n for n in range(2, 1000) if t_factor(n - 1, 0.95) * noise * sqrt(2 / n) <= half)
    return rounds * (values + 1)


CURVES: tuple[Callable[[Table, Generator], Table], ...] = (peak, plateau, saturation, none)


def measure(curve: Callable[[Table, Generator], Table], values: int, noise: float, times: int) -> list[Ended]:
    found = []
    for time in range(times):
        chance = np.random.default_rng([CURVES.index(curve), values, int(noise * 1000), time])
        truth = curve(np.linspace(0, 1, values), chance)
        found.append(search(truth, noise, int(chance.integers(values)), chance, drifts=bool(time % 2)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.find", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--values", type=int, nargs="+", default=[16, 32, 64])
    asked = parser.parse_args()
    print("curve       values  noise    best  chosen  within  covered  decided  trials  full  share")
    for values in asked.values:
        for noise in (0.01, 0.02, 0.05):
            for curve in CURVES:
                ended = measure(curve, values, noise, asked.times)
                best, chosen, within, trials, decided = np.mean([one[:5] for one in ended], axis=0)
                covered = np.mean([one.covered for one in ended if one.covered is not None])
                every = full(values, noise)
                print(
                    f"{curve.__name__:10}  {values:6}  {noise:5.0%}  {best:6.1%}  {chosen:6.1%}  {within:6.1%}"
                    f"  {covered:7.1%}  {decided:7.1%}  {trials:6.1f}  {every:4}  {trials / every:5.0%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
