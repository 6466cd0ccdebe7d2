"""Error rates of conclusions: `python -m bench.stated [--times 400] [--seed 1]` prints what is stated and measured.

Each row draws histories or runs in which the right conclusion is known, and counts the wrong ones (or those that find
what is there). `before`: the same row with the code of version 0.1.
One side: simulations against stated error rates; those of `before` are constants.
"""

from __future__ import annotations

import argparse
from math import exp
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.guidelines import Case, claim, decided_after, drawn, grid, of_layout
from matrix_runner.statistics.extremes import find_extreme
from matrix_runner.statistics.mixing import Sides, mixture_shares
from matrix_runner.statistics.ratios import Verdict, unpaired_ratio, verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator

NOISE = 0.02


class Row(NamedTuple):
    name: str
    stated: str
    before: str
    happens: Callable[[Generator], bool]


def calls_one_slower(places: int, rounds: int, last: float = 1.0) -> Callable[[Generator], bool]:
    """Return whether a stack is called slower: any of equal ones, or the last one if it is."""

    def happens(chance: Generator) -> bool:
        means = np.ones(places)
        means[-1] = last
        moods = 0.05 * chance.standard_normal(rounds)
        logs = np.log(means)[:, None] + moods + NOISE * chance.standard_normal((places, rounds))
        found = find_extreme([dict(enumerate(row)) for row in np.exp(logs)])
        assert found is not None
        return places - 1 not in found.candidates if last != 1 else len(found.candidates) < places

    return happens


RATIO = Case(
    claim(ratio={"metric": "read.bw", "of": {"layout": "far"}, "to": {"layout": "raid0"}, "at_least": 1.3}),
    grid(layout=("raid0", "far")), of_layout(1.3), of_layout(1.0), of_layout(1.43),
)  # fmt: skip


def decides_at_the_edge(correlation: float, rounds: int = 141) -> Callable[[Generator], bool]:
    """Return whether a claim gets a verdict with `--until-decided`, though its figure is exactly at the limit."""

    def happens(chance: Generator) -> bool:
        found = drawn(RATIO, RATIO.edge, NOISE, rounds, chance, correlation=correlation)
        return decided_after(RATIO, found) > 0

    return happens


def rounds_to_decide(distance: float, times: int) -> float:
    """Return the median rounds until a verdict, if the figure is so many standard deviations from its limit."""
    chance = np.random.default_rng([2, int(10 * distance)])
    truth = of_layout(1.3 * exp(distance * 2**0.5 * NOISE))
    return median(decided_after(RATIO, drawn(RATIO, truth, NOISE, 141, chance)) or 142 for _ in range(times))


def compares(cells: int, share: float, rounds: int = 3, changed: int = 0) -> Callable[[Generator], bool]:
    """Return whether any equal cell of two runs seems to differ; with `changed`, whether the first one of -10 % does.

    A share of the trials meets a second state that is 26 % slower; the noise is 1 %.
    """

    def happens(chance: Generator) -> bool:
        shape = (cells, 2 * rounds)
        logs = np.where(chance.random(shape) < share, -0.3, 0) + 0.01 * chance.standard_normal(shape)
        logs[:changed, rounds:] += np.log(0.9)
        sides = [Sides(row[:rounds], row[rounds:], paired=False) for row in np.exp(logs).tolist()]
        ratios = [one for side in sides if (one := unpaired_ratio(side.a, side.b))]
        shares = mixture_shares(sides, [one.p for one in ratios])
        found = verdicts([one._replace(p=max(one.p, by)) for one, by in zip(ratios, shares, strict=True)], 0.05)
        differ = [one in {Verdict.MORE, Verdict.LESS} for one in found]
        return differ[0] if changed else any(differ)

    return happens


ROWS = (
    Row("2 equal stacks, 3 trials: any called slower", "5 %", "5 %", calls_one_slower(2, 3)),
    Row("5 equal stacks, 3 trials: any called slower", "5 %", "14 %", calls_one_slower(5, 3)),
    Row("20 equal stacks, 3 trials: any called slower", "5 %", "21 %", calls_one_slower(20, 3)),
    Row("20 equal stacks, 5 trials: any called slower", "5 %", "25 %", calls_one_slower(20, 5)),
    Row("5 stacks, 3 trials: one of -6 % is found", "", "41 %", calls_one_slower(5, 3, 0.94)),
    Row("20 stacks, 3 trials: one of -6 % is found", "", "12 %", calls_one_slower(20, 3, 0.94)),
    Row("20 stacks, 5 trials: one of -6 % is found", "", "69 %", calls_one_slower(20, 5, 0.94)),
    Row("compare 200 equal cells, 3 trials, states 90:10: any", "5 %", "24 %", compares(200, 0.1)),
    Row("compare 200 equal cells, 3 trials, states 80:20: any", "5 %", "74 %", compares(200, 0.2)),
    Row("compare 200 equal cells, 3 trials, states 50:50: any", "5 %", "100 %", compares(200, 0.5)),
    Row("compare 20 equal cells, 3 trials, states 80:20: any", "5 %", "14 %", compares(20, 0.2)),
    Row("compare 200 cells, one state, one of -10 % is found", "", "35 %", compares(200, 0.0, changed=1)),
    Row("compare 20 cells, one state, one of -10 % is found", "", "75 %", compares(20, 0.0, changed=1)),
    Row("--until-decided, independent trials: wrong", "5 %", "4 %", decides_at_the_edge(0.0)),
    Row("--until-decided, correlation 0.3: wrong", "5 %", "20 %", decides_at_the_edge(0.3)),
    Row("--until-decided, correlation 0.5: wrong", "5 %", "41 %", decides_at_the_edge(0.5)),
    Row("--until-decided, correlation 0.8: wrong", "5 %", "87 %", decides_at_the_edge(0.8)),
    Row("--until-decided, correlation 0.9: wrong", "", "97 %", decides_at_the_edge(0.9)),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.stated", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only rows whose name has this text")
    asked = parser.parse_args()
    print(f"{'':60}{'stated':>8}{'before':>8}{'now':>8}")
    for row in ROWS:
        if asked.only in row.name:
            chance = np.random.default_rng([asked.seed, *row.name.encode()])
            share = sum(row.happens(chance) for _ in range(asked.times)) / asked.times
            print(f"{row.name:60}{row.stated:>8}{row.before:>8}{share:>8.1%}", flush=True)
    for distance in (20, 12, 8, 5, 3, 1):
        if "rounds" in asked.only or not asked.only:
            name = f"--until-decided, {distance} deviations beyond the limit: median rounds"
            print(f"{name:76}{rounds_to_decide(distance, asked.times // 4):>8.0f}", flush=True)


if __name__ == "__main__":
    main()
