"""How often `history` finds a change of level, and how often it sees one where there is none.

    python -m bench.changes [--times 1000]

Histories of simulated nights with 2 % noise. The last column is the least that we want to see.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from runner.statistics.changes import find_changes

NOISE = 0.02


class Case(NamedTuple):
    name: str
    nights: int
    begin: int
    end: int
    change: float
    wanted: str


CASES = (
    Case("no change, 40 nights: false alarms", 40, 0, 0, 0.0, "≤ 1 %"),
    Case("-3 % from night 21 of 40 on", 40, 20, 40, -0.03, "≥ 82 %"),
    Case("-6 % for 5 of 45 nights", 45, 20, 25, -0.06, "≥ 90 %"),
    Case("-6 % for 10 of 50 nights", 50, 20, 30, -0.06, "≥ 98 %"),
    Case("-6 % in the last 3 of 33 nights", 33, 30, 33, -0.06, "≥ 79 %"),
    Case("-6 % in the last 2 of 32 nights", 32, 30, 32, -0.06, "≥ 50 %"),
)


def share_found(case: Case, times: int) -> float:
    chance = np.random.default_rng(1)
    found = 0
    for _ in range(times):
        logs = NOISE * chance.standard_normal(case.nights)
        logs[case.begin : case.end] += np.log1p(case.change)
        found += bool(find_changes(np.exp(logs).tolist()))
    return found / times


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.changes", description=__doc__)
    parser.add_argument("--times", type=int, default=1000)
    times = parser.parse_args().times
    for case in CASES:
        print(f"{case.name:<40} {share_found(case, times):6.1%}   {case.wanted}", flush=True)


if __name__ == "__main__":
    main()
