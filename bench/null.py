"""Null comparisons of runs that were measured: random halves of one run, compared as two runs are.

    python -m bench.null [--results results] [--times 200] [RUN]

Whatever is then called faster or slower is a false alarm. How often any figure of a comparison is, is held against
what is stated (5 %). Every comparison draws its own half of the rounds, the same for all cells, as a run has all of its
cells in one mood. `bench.coverage` asks the same of synthetic noise; this asks a machine and its disks.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from bench.sides import require_difference
from matrix_runner.answers.comparison import Speed, Terms, compare_sides, noise_floor
from matrix_runner.answers.pairs import parts
from matrix_runner.answers.selectors import runs_named
from matrix_runner.answers.stored_samples import Samples, read_samples
from matrix_runner.records.address import address_of
from matrix_runner.records.store import SharedStore

METRICS = ("read_bw", "write_bw")


def halves(found: list[Samples], chance: random.Random) -> tuple[int, int, float]:
    """Of one comparison: how many figures there are, how many false alarms, and the noise floor."""
    rounds = sorted({round_number for one in found for _, round_number in one.identities})
    half = set(chance.sample(rounds, len(rounds) // 2))
    require_difference("rounds", frozenset(half), frozenset(rounds) - half)
    sides = parts("it", found, half.__contains__)
    done = compare_sides(*sides, Terms(metrics=METRICS))
    alarms = sum(line.speed in {Speed.FASTER, Speed.SLOWER} for line in done.lines)
    return len(done.lines), alarms, noise_floor(line.ratio for line in done.lines) or 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.null", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", nargs="?", default="latest")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with SharedStore.existing(address_of(str(asked.results / "store.db"), asked.results)) as store:
        found = read_samples(store, runs_named(asked.run, store.runs()), METRICS)
    chance = random.Random(asked.seed)  # noqa: S311 - a repeatable sample, not a secret
    seen = [halves(found, chance) for _ in range(asked.times)]
    figures, alarms = sum(count for count, _, _ in seen), [count for _, count, _ in seen]
    some = sum(count > 0 for count in alarms)
    print(f"{asked.times} null comparisons of {found[0].run.name}, {figures:,} ratios of halves")
    print(f"comparisons with any false alarm  {100 * some / asked.times:5.1f} %   (stated: 5 %)")
    print(f"figures with a false alarm        {100 * sum(alarms) / figures:5.2f} %")
    floors = sorted(one for _, _, one in seen)
    print(f"noise floor of two whole runs     {100 * floors[len(floors) // 2]:5.1f} %   (median)")


if __name__ == "__main__":
    main()
