"""How often a verdict on a guideline is wrong, for every shape: `python -m bench.guidelines`.

* edge: the truth lies on the very bound of the claim, all of its cases there: either verdict says too much. This is
  the worst that noise can do, and at most the declared 5 % of runs may get one.
* noise: no cell differs from another, and four trials scatter by 40 %, so that next to nothing can be known.
* few: two trials of a cell that scatter by 30 %.
* false: the claim is wrong by a good deal; so many runs say that it fails.
* true: it is right by a good deal; so many say that it holds.
* steered: the edge once more, where trials go on until there is a verdict (`--until-decided`).
One side: simulations against stated error rates.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from matrix_runner.answers.cell_figures import Measured, Verdict
from matrix_runner.answers.verdicts import SHARE, judge_guidelines, looks
from matrix_runner.language.guidelines import Guideline, RatioOf
from matrix_runner.records.record import CellRow
from matrix_runner.statistics.stopping import Rule, StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.random import Generator
    from numpy.typing import NDArray

    Axes = Mapping[str, str]
    Truth = Callable[[Axes], float]

#: Of one trial.
NOISE = (0.01, 0.05, 0.2)
ROUNDS = (3, 5, 10)
#: What a round does to all of its cells.
MOOD = 0.05


@dataclass(frozen=True)
class Case:
    """A claim, the cells that it is about, and truths of which it is on the edge, wrong and right."""

    claim: Guideline
    cells: Sequence[CellRow]
    edge: Truth
    false: Truth
    true: Truth

    @property
    def shape(self) -> str:
        return self.claim.shape

    @property
    def noise(self) -> Truth:
        """Nothing differs from anything; where that would refute the claim, it is as near to it as can be."""
        claim = self.claim.claimed
        alike = isinstance(claim, RatioOf) and claim.limits[0] <= 1 <= claim.limits[1]
        return self.edge if self.shape in {"ratio", "scaling", "bound", "sum"} and not alike else lambda _: 1.0


def claim(**shape: Any) -> Guideline:
    return Guideline.model_validate({"id": "one", **shape})


def grid(**axes: Sequence[str]) -> list[CellRow]:
    """Every combination; `md_chunk` is the axis md.chunk."""
    names = [name.replace("_", ".", 1) for name in axes]
    found = [dict(zip(names, values, strict=True)) for values in itertools.product(*axes.values())]
    return [CellRow(" ".join(one.values()), " ".join(one.values()), one) for one in found]


def of_layout(far: float) -> Truth:
    return lambda axes: far if axes["layout"] == "far" else 1.0


def along(*levels: float) -> Truth:
    places = dict(zip(CHUNKS, levels, strict=True))
    return lambda axes: places[axes["md.chunk"]]


def striped(per: float) -> Truth:
    """Of n stripes, n times as much, but for the first."""
    return lambda axes: int(axes["lvm.stripes"]) * (per if axes["lvm.stripes"] != "1" else 1.0)


CHUNKS = ("64KiB", "256KiB", "1MiB")
WORK = ("seq", "rnd")
FIELD = grid(layout=("raid0", "far"), md_chunk=CHUNKS, workload=WORK)
ALONG = grid(md_chunk=CHUNKS, workload=WORK)
STRIPES = grid(lvm_stripes=("1", "2", "3", "4"))
SIDES = {"metric": "read.bw", "of": {"layout": "far"}}
WHOLE = {"metric": "read.bw", "whole": {"lvm.stripes": 3}}

CASES = (
    Case(
        claim(ratio={**SIDES, "to": {"layout": "raid0"}, "within": "10%"}),
        FIELD, of_layout(1.1), of_layout(1.5), of_layout(1.0),
    ),
    Case(
        claim(ratio={**SIDES, "to": {"layout": "raid0"}, "at_least": 1.3}),
        FIELD, of_layout(1.3), of_layout(1.0), of_layout(1.8),
    ),
    Case(
        claim(ratio={**SIDES, "to": {"layout": "raid0"}, "mean": True, "at_least": 1.0}),
        FIELD, of_layout(1.0), of_layout(0.7), of_layout(1.4),
    ),
    Case(
        claim(best={"metric": "read.bw", "along": "md.chunk", "is": "64KiB", "tolerance": "5%"}),
        ALONG, along(1, 1.05, 1.05), along(1, 1.4, 1.4), along(1.4, 1, 1),
    ),
    Case(
        claim(monotone={"metric": "read.bw", "along": "md.chunk", "direction": "rises"}),
        ALONG, along(1, 1, 1), along(2, 1.4, 1), along(1, 1.4, 2),
    ),
    Case(
        claim(scaling={"metric": "read.bw", "along": "lvm.stripes", "at_least": "0.9 per stripe"}),
        STRIPES, striped(0.9), striped(0.6), striped(1.2),
    ),
    Case(
        claim(bound={"metric": "read.bw", "where": {"layout": "far"}, "at_least": "1MB/s"}),
        FIELD, lambda _: 1e6, lambda _: 7e5, lambda _: 1.4e6,
    ),
    Case(
        claim(sum={**WHOLE, "parts": [{"lvm.stripes": 1}], "times": 3, "within": "10%"}),
        STRIPES, striped(1.1), striped(0.6), striped(1.0),
    ),
    Case(
        claim(profile={"metric": "read.bw", "along": "md.chunk", "follows": [1, 1, 1], "within": "10%"}),
        ALONG, along(1.1, 1, 1 / 1.1), along(2, 1, 0.5), along(1, 1, 1),
    ),
)  # fmt: skip


def correlated(chance: Generator, count: int, correlation: float) -> NDArray[np.float64]:
    """Return normal values, each of which keeps a share of the one before."""
    values = chance.standard_normal(count)
    for at in range(1, count if correlation else 0):
        values[at] = correlation * values[at - 1] + np.sqrt(1 - correlation**2) * values[at]
    return values


def drawn(
    case: Case,
    truth: Truth,
    noise: float,
    rounds: int,
    chance: Generator,
    mood: float = MOOD,
    *,
    correlation: float = 0.0,
) -> list[Measured]:
    """A run. A figure by itself has no round to be compared within, so there the rounds have no mood."""
    moods = np.exp((0.0 if case.shape == "bound" else mood) * chance.standard_normal(rounds))
    found = []
    for cell in case.cells:
        values = truth(cell.axes) * moods * np.exp(noise * correlated(chance, rounds, correlation))
        columns = {"read_bw": {round_number: float(value) for round_number, value in enumerate(values, start=1)}}
        found.append(Measured("run", cell, columns, Rule(rounds, rounds), StopReason.FIXED, rounds))
    return found


def verdict(case: Case, found: Sequence[Measured], share: float = 1.0) -> Verdict:
    (said,) = judge_guidelines([case.claim], found, share=share)
    return said.verdict


def shares(case: Case, truth: Truth, noise: float, rounds: int, runs: int, seed: int) -> dict[Verdict, float]:
    """How often each verdict is given."""
    chance = np.random.default_rng([seed, rounds, int(1e4 * noise), CASES.index(case)])
    said = Counter(verdict(case, drawn(case, truth, noise, rounds, chance)) for _ in range(runs))
    return {one: said[one] / runs for one in Verdict}


def steered(case: Case, noise: float, runs: int, seed: int, most: int) -> float:
    """How often a claim on the edge gets a verdict where trials go on until it has one."""
    chance = np.random.default_rng([seed, 99, int(1e4 * noise), CASES.index(case)])
    return sum(decided_after(case, drawn(case, case.edge, noise, most, chance)) > 0 for _ in range(runs)) / runs


def decided_after(case: Case, found: Sequence[Measured]) -> int:
    """Return the rounds after which trials that go on until there is a verdict would end; 0: never."""
    most = found[0].trials
    seen = (rounds for rounds in looks(3) if rounds <= most)
    return next((one for one in seen if verdict(case, _first(found, one), SHARE) is not Verdict.INCONCLUSIVE), 0)


def _first(found: Sequence[Measured], rounds: int) -> list[Measured]:
    """What was known after so many rounds."""
    return [replace(one, columns={"read_bw": _until(one.columns["read_bw"], rounds)}) for one in found]


def _until(values: Mapping[int, float], rounds: int) -> dict[int, float]:
    return {at: value for at, value in values.items() if at <= rounds}


def on_edge(case: Case, runs: int, seed: int) -> float:
    """The largest share of runs with a verdict, at any noise and number of rounds."""
    every = [shares(case, case.edge, noise, rounds, runs, seed) for noise in NOISE for rounds in ROUNDS]
    return max(1 - one[Verdict.INCONCLUSIVE] for one in every)


def in_noise(case: Case, runs: int, seed: int) -> float:
    """The share of runs with a verdict where nothing differs that the claim is about, and trials scatter by 40 %."""
    return 1 - shares(case, case.noise, 0.4, 4, runs, seed)[Verdict.INCONCLUSIVE]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="of every kind (200)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    runs, seed = asked.runs, asked.seed
    error = 100 * (0.05 * 0.95 / runs) ** 0.5
    print(f"verdicts in % of {runs} runs each (declared: 5 %, known here to \u00b1 {2 * error:.1f})")
    print(f"{'':10}{'on the edge':>26}{'noise':>8}{'few':>8}{'false: fails':>14}{'true: holds':>13}{'steered':>9}")
    print(f"{'':10}{'mean':>13}{'worst':>13}{'decided':>8}{'decided':>8}")
    for case in CASES:
        edges = [
            1 - shares(case, case.edge, noise, n, runs, seed)[Verdict.INCONCLUSIVE] for noise in NOISE for n in ROUNDS
        ]
        few = 1 - shares(case, case.edge, 0.3, 2, runs, seed)[Verdict.INCONCLUSIVE]
        told = [
            *(float(np.mean(edges)), max(edges), in_noise(case, runs, seed), few),
            shares(case, case.false, 0.03, 5, runs, seed)[Verdict.FAILS],
            shares(case, case.true, 0.03, 5, runs, seed)[Verdict.HOLDS],
            steered(case, 0.05, runs, seed, 94),
        ]
        row = "".join(f"{100 * one:>{width}.1f}" for one, width in zip(told, (13, 13, 8, 8, 14, 13, 9), strict=True))
        print(f"{case.shape:10}{row}")


if __name__ == "__main__":
    main()
