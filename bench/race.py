"""Races of stacks: `python -m bench.race [--times 2000]` counts wrong answers, and trials beside fixed repeats.

Each race draws stacks, the best of them at random, and runs to its end as `matrix run --race` does. An answer is wrong
if the true rate of the named stack is more than 5 % below the best. Three kinds of noise take turns: normal, lognormal,
and with drift. *Edge*: all stacks but one are just more than 5 % slower; with *3x*, that one scatters three times as
much as the others. *Together*: three workloads, and the answer for all of them.

Beside it, the same rounds as fixed repeats: the number from 2 on that a user has to choose so that the intervals at the
end decide in 95 % of runs, and in as many runs as the race, by Student's t with the same correction for the number of
stacks. *Own* uses the scatter of each pair, *shared* also that of the others, as the race does.
"""

from __future__ import annotations

import argparse
from math import log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.sides import require_difference
from matrix_runner.language.matrix import Repeat
from matrix_runner.statistics.race import SHARED, error_of_pair
from matrix_runner.statistics.ratios import PRACTICAL, t_factor
from matrix_runner.statistics.simulated_race import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

    Table = NDArray[np.float64]

LEAST, MOST, CONFIDENCE = Repeat().of_race.min, 200, 0.95
WITHIN = log(1 + PRACTICAL)


class Ended(NamedTuple):
    rounds: int
    trials: int
    decided: bool
    wrong: bool


def drawn(effects: str, stacks: int, noise: float, kind: int, chance: Generator) -> tuple[Table, Table]:
    """Return the true logarithms of rates, and those of each stack (row) in each round."""
    truth = np.log(1 - chance.uniform(0, 0.5, stacks))
    if effects == "equal":
        truth[:] = 0.0
    if effects.startswith("edge"):  # the most chances for a wrong answer
        truth[:] = -1.001 * WITHIN
        truth[chance.integers(stacks)] = 0.0
    scatter = noise * chance.standard_normal((stacks, MOST))
    if effects == "edge 3x":
        scatter[np.argmax(truth)] *= 3
    if kind == 0:
        return truth, truth[:, None] + np.log(np.maximum(1 + scatter, 0.05))
    drift = 0.3 * np.linspace(0, 1, MOST) + 0.05 * chance.standard_normal(MOST) if kind == 2 else 0.0
    return truth, truth[:, None] + scatter + drift


def race(truth: Table, logs: Table, together: tuple[float, ...] = ()) -> Ended:
    (*_, ended), trials = simulate(logs, LEAST, CONFIDENCE, PRACTICAL, together)
    wrong = ended.decided and bool(truth[ended.at] < truth.max() - WITHIN)
    return Ended(ended.rounds, trials, ended.decided, wrong)


def decides_after(logs: Table) -> Iterator[tuple[bool, bool]]:
    """Yield for each number of fixed repeats whether its intervals decide: by own scatter, and by that of all."""
    error, totals = error_of_pair(len(logs), CONFIDENCE), np.cumsum(logs, axis=1)
    for rounds in range(2, MOST + 1):
        seen = logs[:, :rounds]
        apart = seen[np.argmax(totals[:, rounds - 1])] - seen
        own, others = rounds - 1, (len(logs) - 2) * (rounds - 1)
        variance, shared = apart.var(axis=1, ddof=1), min(others, SHARED)
        rest = (seen - seen.mean(axis=0)).var(axis=1).sum() * rounds
        of_others = np.maximum(2 * rest - own * variance, 0) / max(others, 1)
        low = apart.mean(axis=1) - t_factor(own, 1 - error) * np.sqrt(variance / rounds)
        half = t_factor(own + shared, 1 - error) * np.sqrt(
            (own * variance + shared * of_others) / (own + shared) / rounds
        )
        yield bool((low >= -WITHIN).all()), bool((apart.mean(axis=1) - half >= -WITHIN).all())


def measure(effects: str, stacks: int, noise: float, times: int) -> tuple[list[Ended], list[float]]:
    """Return the races, and the fixed repeats by own and by shared scatter: in 95 % of runs, and as often as races."""
    ended, counts, beside = [], np.zeros((MOST - 1, 2)), list[bool]()
    for time in range(times):
        chance = np.random.default_rng([stacks, int(noise * 1000), time])
        truth, logs = drawn(effects, stacks, noise, time % 3, chance)
        if effects == "edge together":
            others = [truth[:, None] + noise * chance.standard_normal(logs.shape) for _ in range(2)]
            ended.append(race(truth, np.array([logs, *others]), (1 / 3,) * 3))
            continue
        ended.append(race(truth, logs[None]))
        if time % FIXED == 0:
            counts += np.array(list(decides_after(logs)))
            beside.append(ended[-1].decided)
    if effects == "0..50 %" and stacks > 2:  # of two, both are measured to the end
        require_difference("trials", sum(one.trials for one in ended), sum(one.rounds * stacks for one in ended))
    enough = np.hstack([counts >= CONFIDENCE * len(beside), counts >= sum(beside)]).T if beside else np.zeros((4, 1))
    return ended, [float(np.argmax(one) + 2) if one.any() else np.inf for one in enough]


FIXED = 8  # every eighth race is also measured with fixed repeats, which take longer to compute
_SIZES = (2, 5, 10, 20, 50)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.race", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="few races, to test this program")
    asked = parser.parse_args()
    sizes, times = ((2, 5), 16) if asked.quick else (_SIZES, asked.times)
    print(
        "effects        stacks  noise  wrong  decided  rounds  trials | fixed repeats: own, shared; as often as races"
    )
    for effects in ("0..50 %", "edge", "edge 3x", "equal", "edge together"):
        for stacks in sizes:
            for noise in (0.02, 0.10):
                count = times if effects == "0..50 %" else times // 4
                ended, fixed = measure(effects, stacks, noise, count)
                trials = np.mean([one.trials for one in ended])
                print(
                    f"{effects:13}  {stacks:5}  {noise:4.0%}  {np.mean([one.wrong for one in ended]):5.1%}"
                    f"  {np.mean([one.decided for one in ended]):7.1%}  {np.mean([one.rounds for one in ended]):6.1f}"
                    f"  {trials:6.0f} | {' '.join(f'{one:4.0f}' for one in fixed)}  their trials"
                    f" {' '.join(f'{one * stacks:5.0f}' for one in fixed)}  share"
                    f" {' '.join(f'{trials / one / stacks:5.0%}' for one in fixed)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
