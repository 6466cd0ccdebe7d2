"""How often `matrix run --confirm` names the true reason of a slower night: its kernel, or its host.

    python -m bench.confirm [--times 1000]

Simulated nights on another kernel than the accepted level of eight runs: one cell, five planned rounds, and five more
on both kernels. Nights differ by 1 %, which both kernels of a night share. The shares are of the confirmed alarms.
`part`: both changed, and one of them is named. `wrong`: a reason is named that is none.
One side: simulations against the stated 5 %.
"""

from __future__ import annotations

import argparse
from collections import Counter
from math import exp, log1p
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from matrix_runner.answers.comparison import Speed, Suspect, Terms, compare_sides
from matrix_runner.answers.old_kernel import explain
from matrix_runner.answers.pairs import Side
from matrix_runner.answers.stored_samples import samples_of
from matrix_runner.records.record import CellRow
from matrix_runner.records.store import RunRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.random import Generator

    from matrix_runner.answers.stored_samples import Samples

NIGHTS, ROUNDS, OF_NIGHT = 8, 5, 0.01
METRIC = "read_iops"
CELL = CellRow("cell", "cell", {})
#: The reasons, and which part of the effect is of the kernel and of the host.
REASONS = {Suspect.KERNEL: (1, 0), Suspect.HOST: (0, 1), Suspect.BOTH: (1, 1), None: (0, 0)}
EFFECTS, NOISES = (0.05, 0.1, 0.2), (0.02, 0.05)


class Night(NamedTuple):
    alarm: bool
    suspect: Suspect | None


def run_of(name: str) -> RunRow:
    about = (name, name, "nas", "qemu", False, "", "", "2026-11-01", True)
    return RunRow(*about, planned=ROUNDS, confidence=0.95, until=None, least=ROUNDS, most=ROUNDS, environment={})


def draw(chance: Generator, run: RunRow, rounds: Sequence[int], level: float, noise: float) -> Samples:
    values = {at: exp(level + noise * chance.standard_normal()) for at in rounds}
    return samples_of(run, CELL, (METRIC,), METRIC, values, host_limited=False)


def night(chance: Generator, reason: Suspect | None, effect: float, noise: float) -> Night:
    of_kernel, of_host = (part * log1p(-effect) for part in REASONS[reason])
    moods = OF_NIGHT * chance.standard_normal(NIGHTS + 1)
    before = [draw(chance, run_of(f"{at}"), range(1, ROUNDS + 1), moods[at], noise) for at in range(NIGHTS)]
    mood, later = moods[NIGHTS] + of_host, range(ROUNDS + 1, 2 * ROUNDS + 1)
    now = draw(chance, run_of("night"), range(1, 2 * ROUNDS + 1), mood + of_kernel, noise)
    level, terms = Side("level", before), Terms(metrics=(METRIC,))
    planned = compare_sides(level, Side("night", [now.in_rounds(lambda at: at <= ROUNDS)]), terms)
    if not planned.slower:
        return Night(alarm=False, suspect=None)
    old = draw(chance, run_of("old"), later, mood, noise)
    (line,) = explain(compare_sides(level, Side("night", [now]), terms), "6.12", [old], terms).lines
    return Night(line.speed is Speed.SLOWER, line.suspect)


def judge(reason: Suspect | None, named: Suspect | None) -> str:
    if named is Suspect.UNKNOWN:
        return "cannot tell"
    if named is reason:
        return "right"
    return "part" if reason is Suspect.BOTH else "wrong"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.confirm", description=__doc__)
    parser.add_argument("--times", type=int, default=1000)
    times = parser.parse_args().times
    columns = ("right", "part", "wrong", "cannot tell")
    print(f"{'reason':<8}{'effect':>7}{'noise':>7}{'alarms':>8}", *(f"{name:>12}" for name in columns), sep="")
    for reason in REASONS:
        for effect in EFFECTS if reason else (0.0,):
            for noise in NOISES:
                nights = [night(np.random.default_rng([at, 7]), reason, effect, noise) for at in range(times)]
                found = Counter(judge(reason, one.suspect) for one in nights if one.alarm)
                shares = "".join(f"{found[name] / max(1, found.total()):>12.1%}" for name in columns)
                print(f"{reason or 'none':<8}{effect:>7.0%}{noise:>7.0%}{found.total():>8}{shares}", flush=True)


if __name__ == "__main__":
    main()
