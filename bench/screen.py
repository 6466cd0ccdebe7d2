"""Screens of effects planted in 9,216 cells: `python -m bench.screen [--times 200]` counts right and false ones.

Four of twelve axes change the rate by 10 to 40 %, and two pairs of them interact by 10 to 30 %. A screen measures 100
cells once, of at most 25 stacks. *Found*: the share of the six effects; *false*: the share of screens that name more.
One side: simulations against what was planted.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from itertools import product
from math import log

import numpy as np

from matrix_runner.statistics.screening import Term, choose, screen

VALUES = (3, 3, *(2,) * 10)  # of twelve axes; the first six are of the stack
HARD, CELLS, STACKS = 6, 100, 25
DESIGNS = 20  # each takes most of a second
LEVELS = np.array(list(product(*map(range, VALUES))))
_, PLOTS = np.unique(LEVELS[:, :HARD], axis=0, return_inverse=True)


def planted(chance: np.random.Generator) -> tuple[dict[Term, float], np.ndarray]:
    """Return the size of each effect, and the logarithm of the rate of each cell."""
    axes = [int(at) for at in chance.permutation(len(VALUES))[:4]]
    pairs: list[Term] = [tuple(sorted(axes[:2])), tuple(sorted(axes[2:]))]
    sizes: dict[Term, float] = {(at,): float(chance.choice([-1, 1]) * log(1 + chance.uniform(0.1, 0.4))) for at in axes}
    sizes |= {pair: float(chance.choice([-1, 1]) * log(1 + chance.uniform(0.1, 0.3))) for pair in pairs}
    last = np.array(VALUES) - 1 == LEVELS
    centred = last - last.mean(axis=0)
    logs = sum(size * centred[:, list(term)].prod(axis=1) for term, size in sizes.items())
    return sizes, np.asarray(logs)


@lru_cache
def chosen(seed: int) -> list[int]:
    return choose(LEVELS, CELLS, PLOTS.ravel().tolist(), STACKS, seed)


def measure(noise: float, times: int, set_ups: float = 0.0) -> tuple[float, float]:
    """Return the share of effects found, and of screens with a false one; `set_ups`: how much set-ups scatter."""
    hits = wrong = 0
    for time in range(times):
        chance = np.random.default_rng([int(noise * 1000), time])
        sizes, logs = planted(chance)
        rows = chosen(time % DESIGNS)
        figures = logs[rows] + noise * chance.standard_normal(CELLS)
        stacks = PLOTS.ravel()[rows]
        figures += set_ups * chance.standard_normal(len(LEVELS))[stacks]
        found = screen(LEVELS[rows], [{1: one} for one in np.exp(figures)], stacks.tolist(), 0.95)
        named = {one.term for one in (*found.axes, *found.pairs) if one.is_active}
        hits += len(named & sizes.keys())
        wrong += bool(named - sizes.keys())
    return hits / times / 6, wrong / times


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.screen", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=200)
    asked = parser.parse_args()
    print("noise  of set-ups  found  false")
    for noise, set_ups in product((0.01, 0.02, 0.03, 0.05), (0.0, 0.02, 0.05)):
        found, false = measure(noise, asked.times, set_ups)
        print(f"{noise:5.0%}  {set_ups:10.0%}  {found:5.1%}  {false:5.1%}", flush=True)


if __name__ == "__main__":
    main()
