"""How many boots a search takes on a host that boots its kernels, and how often it finds the right one.

    python -m bench.boots [--times 100]

Simulated searches with 2 % noise: of each trial, or half or all of it of each boot, which its two trials share.
Without a change, two versions show how often one is found all the same.
One side: simulations against stated numbers.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from math import log1p
from typing import NamedTuple

import numpy as np

from matrix_runner.decide.bisect import OF_SHARED_BOOTS, Rule, State
from matrix_runner.decide.steering import Bisection, BisectSteering
from matrix_runner.records.record import CellRow, Outcome, Trial

NOISE = 0.02
VERSIONS = (2, 3, 4, 8, 16, 29)
CHANGES = (-0.2, -0.1, -0.05)
SHARES = (0.0, 0.5, 1.0)  # of the variance that is of the boot


class Search(Bisection):
    def value(self, cell: CellRow, trial: Trial) -> float:  # noqa: ARG002
        return trial.seconds


class Done(NamedTuple):
    boots: int
    found: bool
    right: bool


def search(versions: int, change: float, share: float, seed: int) -> Done:
    """Boot what the search names until it ends. The logarithm of a figure is in `seconds` of its trial."""
    chance = np.random.default_rng([versions, seed])
    names = tuple(map(str, range(versions)))
    cells = tuple((CellRow(name, name, {}),) for name in names)
    found = BisectSteering(Search("kernel", names, cells, None, Rule(worse=-1, variance=OF_SHARED_BOOTS), running=0))
    step, boots, of_boot = int(chance.integers(1, versions)), 0, chance.standard_normal()
    while not found.standing.state.is_over:
        if name := found.boot_next:
            boots, of_boot = boots + 1, chance.standard_normal()
            found.bisection = replace(found.bisection, running=int(name))
        version = found.bisection.running or 0
        noise = NOISE * (share**0.5 * of_boot + (1 - share) ** 0.5 * chance.standard_normal())
        level = log1p(change) if version >= step else 0.0
        found.add(Trial(names[version], found.open_round, Outcome.MEASURED, seconds=level + noise))
    is_found, best = found.standing.state is State.FOUND, found.standing.best
    return Done(boots, is_found, is_found and change != 0 and best.first <= step <= best.last)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.boots", description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    times = parser.parse_args().times
    print(f"{'versions':>8}{'change':>8}{'of boot':>9}{'boots':>7}{'9 of 10':>9}{'right':>7}{'wrong':>7}")
    cases = [(2, 0.0), *((versions, change) for versions in VERSIONS for change in CHANGES)]
    for (versions, change), share in ((case, share) for case in cases for share in SHARES):
        done = [search(versions, change, share, seed) for seed in range(times)]
        boots = [one.boots for one in done]
        right = sum(one.right for one in done) / times
        wrong = sum(one.found for one in done) / times - right
        shares = f"{share:>9.0%}{np.median(boots):>7.0f}{np.quantile(boots, 0.9):>9.0f}{right:>7.0%}{wrong:>7.0%}"
        print(f"{versions:>8}{change:>8.0%}{shares}", flush=True)


if __name__ == "__main__":
    main()
