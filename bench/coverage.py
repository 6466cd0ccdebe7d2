"""What intervals, ratios and alarms are worth, by simulation: how often they hold what they say.

    python -m bench.coverage [--cells 20000] [--seed 1]

Cells of synthetic noise are measured by the rule of `repeat: {min, max, until: 5%, confidence: 95%}`, and it is counted
how often the interval that is reported holds the truth. Beside it `naive`: stop as soon as the interval of 95 % is
narrow, report that. Truth is the mean of what trials are drawn from; where the machine drifts, its mean over the rounds
in which the cell was measured. The rule is written for whole arrays here; a test holds it to the one of
`matrix_runner.statistics.stopping`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from bench.sides import require_difference
from matrix_runner.statistics.changes import read_history
from matrix_runner.statistics.extremes import find_extreme
from matrix_runner.statistics.ratios import (
    DOUBT,
    LEAST_VALUES,
    MOST_CORRELATION,
    Verdict,
    correlated_t_factor,
    paired_ratio,
    ratio_by_history,
    unpaired_ratio,
    verdicts,
)
from matrix_runner.statistics.rounds import correlation_of_rounds, drift
from matrix_runner.statistics.stopping import FIRST_LOOK_SHARE, LEAST_ROUNDS, Rule, StopReason, interval_of, is_precise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.random import Generator
    from numpy.typing import NDArray

    from matrix_runner.statistics.ratios import Ratio

    Table = NDArray[np.float64]
    Shape = tuple[int, int]

UNTIL = 0.05
RULE = Rule(least=3, most=20, until=UNTIL)
NOISE = (0.001, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)
#: What is promised of intervals of 95 %.
PROMISED = (93.0, 97.0)
BOUNDS = ((2, 20), (3, 10), (3, 50), (5, 20), (6, 20), (10, 30))
RUNS, CELLS_A_RUN = 400, 20
DRIFT_RUNS = 8000  # cheap, and 400 would give 5 % only within 2 %


def normal(chance: Generator, shape: Shape, noise: float) -> Table:
    values: Table = 1 + noise * chance.standard_normal(shape)
    return values


def lognormal(chance: Generator, shape: Shape, noise: float) -> Table:
    spread = np.sqrt(np.log1p(noise**2))
    values: Table = np.exp(spread * chance.standard_normal(shape) - spread**2 / 2)
    return values


def two_states(share: float, apart: float) -> Callable[[Generator, Shape, float], Table]:
    """Two states, so many standard deviations of their own noise apart; `share` of the trials meet the second."""

    def draw(chance: Generator, shape: Shape, noise: float) -> Table:
        values = apart * (chance.random(shape) < share) + chance.standard_normal(shape)
        scaled: Table = 1 + noise * (values - apart * share) / np.sqrt(1 + apart**2 * share * (1 - share))
        return scaled

    return draw


def correlated(share: float) -> Callable[[Generator, Shape, float], Table]:
    """Return draws in which each trial keeps this share of the deviation of the one before."""

    def draw(chance: Generator, shape: Shape, noise: float) -> Table:
        values = chance.standard_normal(shape)
        for at in range(1, shape[1]):
            values[:, at] = share * values[:, at - 1] + np.sqrt(1 - share**2) * values[:, at]
        scaled: Table = 1 + noise * values
        return scaled

    return draw


@dataclass(frozen=True)
class Scenario:
    name: str
    draw: Callable[[Generator, Shape, float], Table]
    #: How far the machine drifts in 20 rounds, as a multiple of the noise.
    drift: float = 0.0


SCENARIOS = (
    Scenario("normal", normal),
    Scenario("lognormal", lognormal),
    Scenario("two states 50:50, 3 sd apart", two_states(0.5, 3)),
    Scenario("two states 80:20, 3 sd apart", two_states(0.2, 3)),
    Scenario("drift of 1 x noise", normal, drift=1),
    Scenario("drift of 3 x noise", normal, drift=3),
    Scenario("two states 50:50, 10 sd apart", two_states(0.5, 10)),
    Scenario("two states 80:20, 10 sd apart", two_states(0.2, 10)),
    *(Scenario(f"correlation {share}", correlated(share)) for share in (0.3, 0.5, 0.8)),
)


@dataclass(frozen=True)
class Stops:
    """For each cell: how many trials, whether known by then, and the mean and half width that are reported."""

    counts: NDArray[np.int64]
    precise: NDArray[np.bool_]
    means: Table
    halves: Table


def running(values: Table) -> tuple[Table, Table]:
    """Mean and standard error after every round."""
    n = np.arange(1, values.shape[1] + 1)
    base = values[:, :1]  # far from zero, squares of what matters would drown in the mean's
    means = np.cumsum(values - base, axis=1) / n
    squares = np.cumsum((values - base) ** 2, axis=1) - n * means**2
    return means + base, np.sqrt(np.maximum(squares, 0) / np.maximum(n - 1, 1) / n)


def factors(rounds: int, confidence: float) -> Table:
    """Student's, after every round."""
    return np.concatenate([[np.inf], stdtrit(np.arange(1, rounds), (1 + confidence) / 2)])


def correlated_factors(values: Table, confidence: float) -> Table:
    """Student's, after every round, with the allowance for correlation."""
    rounds = values.shape[1]
    found = np.tile(factors(rounds, confidence), (len(values), 1))
    for n in range(LEAST_VALUES, rounds + 1):
        apart = values[:, :n] - values[:, :n].mean(axis=1, keepdims=True)
        squares = (apart**2).sum(axis=1)
        lags = (apart[:, 1:] * apart[:, :-1]).sum(axis=1) / np.where(squares > 0, squares, 1)
        doubt = DOUBT / np.sqrt(n)
        likely = np.minimum(MOST_CORRELATION, (lags * n + 1) / (n - 3) + doubt).round(2)
        known, places = np.unique(np.where(lags > doubt - 1 / n, likely, 0.0), return_inverse=True)
        found[:, n - 1] = np.array([correlated_t_factor(n, float(one), confidence) for one in known])[places]
    return found


def measured(values: Table, rule: Rule, *, independent: bool = False) -> Stops:
    """As `matrix_runner.statistics.stopping` would have it; `independent`: without the allowance for correlation."""
    means, errors = running(values)
    confidence = rule.checked_confidence
    with np.errstate(invalid="ignore"):
        factor = factors(values.shape[1], confidence) if independent else correlated_factors(values, confidence)
        halves = factor * errors
    if rule.until is None:
        return _at_stop(np.zeros(values.shape, bool), means, halves)
    narrow = halves <= (rule.until or 0) * abs(means)
    narrow[:, 0] = False
    known = narrow.copy()
    known[:, rule.first_look :] &= narrow[:, rule.first_look - 1 : -1]
    known[:, : rule.first_look - 1] = False
    known[:, rule.first_look - 1] = (halves <= FIRST_LOOK_SHARE * (rule.until or 0) * abs(means))[
        :, rule.first_look - 1
    ]
    found = _at_stop(known, means, halves)
    least = (rule.until or 0) * abs(found.means) * (found.precise & (found.counts > rule.first_look))
    return Stops(found.counts, found.precise, found.means, np.maximum(found.halves, least))


def naive(values: Table, rule: Rule) -> Stops:
    """Stop at the first interval that is narrow enough, and report that."""
    means, errors = running(values)
    with np.errstate(invalid="ignore"):
        halves = factors(values.shape[1], rule.confidence) * errors
    known = halves <= (rule.until or 0) * abs(means)
    known[:, : rule.first_look - 1] = False
    return _at_stop(known, means, halves)


def _at_stop(known: NDArray[np.bool_], means: Table, halves: Table) -> Stops:
    precise: NDArray[np.bool_] = np.any(known, axis=1, keepdims=True)[:, 0]
    last = known.shape[1] - 1
    at = np.where(precise, known.argmax(axis=1), last)
    rows = np.arange(len(known))
    return Stops(at + 1, precise, means[rows, at], halves[rows, at])


@dataclass(frozen=True)
class Covered:
    """Per cent of cells whose interval holds the truth, that stopped early, and that do of those that stopped early."""

    all: float
    early: float
    of_early: float
    trials: float


def coverage(scenario: Scenario, noise: float, rule: Rule, cells: int, seed: int) -> tuple[Covered, Covered]:
    """By our rule, and by the naive one."""
    chance = np.random.default_rng([seed, *scenario.name.encode(), int(noise * 1e6)])
    slope = scenario.drift * noise * np.arange(rule.most) / 19
    values = scenario.draw(chance, (cells, rule.most), noise) + slope
    truths = 1 + np.cumsum(slope) / np.arange(1, rule.most + 1)
    return _covered(measured(values, rule), truths), _covered(naive(values, rule), truths)


def _covered(stops: Stops, truths: Table) -> Covered:
    hold = abs(stops.means - truths[stops.counts - 1]) <= stops.halves
    early = stops.precise
    of_early = 100 * float(hold[early].mean()) if early.any() else float("nan")
    return Covered(100 * float(hold.mean()), 100 * float(early.mean()), of_early, float(stops.counts.mean()))


def show_coverage(scenarios: Sequence[Scenario], rule: Rule, cells: int, seed: int) -> None:
    header = "".join(f"{100 * noise:7g}%" for noise in NOISE)
    print(f"\ncovered by intervals of 95 %, until ± 5 %, min {rule.least}, max {rule.most} (!: not in 93 to 97)")
    print(f"{'noise of one trial':38}{header}")
    for scenario in scenarios:
        rows = [coverage(scenario, noise, rule, cells, seed) for noise in NOISE]
        require_difference("trials", *(tuple(one.trials for one in side) for side in zip(*rows, strict=True)))
        print(f"{scenario.name:32}{'ours':6}" + "".join(_marked(ours.all) for ours, _ in rows))
        print(f"{'':32}{'naive':6}" + "".join(_marked(plain.all) for _, plain in rows))
        if scenario is scenarios[0]:
            print(f"{'  mean trials':32}{'ours':6}" + "".join(f"{ours.trials:7.1f} " for ours, _ in rows))
            print(f"{'':32}{'naive':6}" + "".join(f"{plain.trials:7.1f} " for _, plain in rows))
            print(f"{'':32}{'fixed':6}" + f"{rule.most:7.1f} " * len(rows))
            print(f"{'  stopped as precise, %':32}{'ours':6}" + "".join(f"{ours.early:7.1f} " for ours, _ in rows))
            print(
                f"{'    covered, of these alone':32}{'ours':6}" + "".join(f"{ours.of_early:7.1f} " for ours, _ in rows)
            )


def _marked(covered: float) -> str:
    return f"{covered:7.1f}" + (" " if PROMISED[0] <= covered <= PROMISED[1] else "!")


#: Rules of the table of correlated trials.
CORRELATED = (RULE, Rule(8, 20, UNTIL), Rule(8, 50, UNTIL), Rule(10, 10), Rule(20, 20))


def show_correlated(cells: int, seed: int) -> None:
    print(
        "\nintervals of 95 % that lack the true mean, if trials are correlated from one to the next: %, over all noises"
    )
    print(f"{'':24}{'correlation':>12}{'stated':>8}{'before':>15}{'now':>15}{'trials before, now':>22}")
    for rule in CORRELATED:
        how = f"until 5 %, min {rule.least}, max {rule.most}" if rule.until else f"repeat: {rule.most}"
        for share in (0.0, 0.3, 0.5, 0.8):
            drawn = [
                correlated(share)(np.random.default_rng([seed, int(1e6 * noise)]), (cells, rule.most), noise)
                for noise in NOISE
            ]
            truths = np.ones(rule.most)
            now, before = (
                [_covered(measured(values, rule, independent=independent), truths) for values in drawn]
                for independent in (False, True)
            )
            misses = (
                f"{100 - max(x.all for x in one):.1f} to {100 - min(x.all for x in one):.1f}" for one in (before, now)
            )
            trials = " ".join(f"{np.mean([x.trials for x in one]):.1f}" for one in (before, now))
            print(
                f"{how:24}{share:>12}{'5':>8}" + "".join(f"{one:>15}" for one in misses) + f"{trials:>22}", flush=True
            )


def show_together(runs: int, seed: int, cells: int = 24) -> None:
    """As the scheduler does it: five rounds of all cells show a correlation that fewer than eight of one cannot."""
    print(f"\nthe same with {RULE.least} trials or more, in runs of {cells} cells: each by itself, and by all together")
    print(f"{'correlation':>12}{'stated':>8}{'alone':>8}{'together':>10}{'trials alone, together':>25}")
    for share in (0.0, 0.3, 0.5, 0.8):
        misses, trials = np.zeros(2), np.zeros(2)
        for run in range(runs):
            noises = np.resize(NOISE, (cells, 1))
            table = (correlated(share)(np.random.default_rng([seed, run]), (cells, RULE.most), 1.0) - 1) * noises + 1
            for way in range(2):
                stopped = stop_together(table.tolist(), together=bool(way))
                trials[way] += sum(map(len, stopped))
                for values in stopped:
                    how = StopReason.PRECISE if is_precise(values, RULE) else StopReason.MAX
                    found = interval_of(values, RULE, how)
                    misses[way] += found is None or not found.low <= 1 <= found.high
        alone, both = (f"{100 * one / runs / cells:.1f}" for one in misses)
        counts = " ".join(f"{one / runs / cells:.2f}" for one in trials)
        print(f"{share:>12}{'5':>8}{alone:>8}{both:>10}{counts:>25}", flush=True)


def stop_together(rows: Sequence[Sequence[float]], *, together: bool) -> list[list[float]]:
    """Return the values of each cell up to its last round."""
    counts = [RULE.least] * len(rows)
    for number in range(RULE.least, RULE.most):
        known = [list(row[:count]) for row, count in zip(rows, counts, strict=True)]
        found = correlation_of_rounds(known) if together and number >= LEAST_ROUNDS else None
        rule = replace(RULE, correlation=round(found or 0.0, 2))
        counts = [count + (not is_precise(one, rule)) for count, one in zip(counts, known, strict=True)]
    return [list(row[:count]) for row, count in zip(rows, counts, strict=True)]


def show_bounds(cells: int, seed: int) -> None:
    print("\nworst and best coverage over all these noises, by bounds")
    print(f"{'':16}{'normal':>16}{'lognormal':>16}{'50:50, 3 sd':>16}{'80:20, 3 sd':>16}{'50:50, 10 sd':>16}")
    for least, most in BOUNDS:
        rule = Rule(least, most, UNTIL)
        cases = [*SCENARIOS[:4], SCENARIOS[6]]
        spans = [[coverage(one, noise, rule, cells, seed)[0].all for noise in NOISE] for one in cases]
        told = "".join(f"{f'{min(span):.1f} to {max(span):.1f}':>16}" for span in spans)
        print(f"min {least:2}, max {most:2}  {told}")


def show_confidences(cells: int, seed: int) -> None:
    print("\nworst and best coverage over all these noises, normal, min 3, max 20, by what is stated")
    for confidence in (0.8, 0.9, 0.95, 0.99):
        rule = Rule(3, 20, UNTIL, confidence)
        span = [coverage(SCENARIOS[0], noise, rule, cells, seed)[0].all for noise in NOISE]
        print(f"{100 * confidence:.0f} %            {min(span):.1f} to {max(span):.1f}")


def pairs(
    chance: Generator, cells: int, noises: tuple[float, float], mood: float
) -> Iterator[tuple[dict[int, float], dict[int, float]]]:
    """Two cells of one run with the same true figure, each measured for as long as its own doubt wants."""
    shape = (cells, RULE.most)
    shared = np.exp(mood * chance.standard_normal(shape))
    sides = [lognormal(chance, shape, noise) * np.sqrt(1 + noise**2) * shared for noise in noises]
    counts = [measured(side, RULE).counts for side in sides]
    for a, b, n_a, n_b in zip(*sides, *counts, strict=True):
        yield dict(enumerate(a[:n_a])), dict(enumerate(b[:n_b]))


def show_ratios(cells: int, seed: int) -> None:
    print("\nratio of two equal cells, each stopped by its own doubt (bias with its standard error; alarm: p <= 5 %)")
    print(f"{'noises, moods of rounds':28}{'paired: bias %':>20}{'covered %':>11}{'alarm %':>9}", end="")
    print(f"{'two runs: bias %':>22}{'covered %':>11}{'alarm %':>9}")
    for noises in ((0.001, 0.001), (0.02, 0.02), (0.05, 0.05), (0.1, 0.1), (0.01, 0.1), (0.05, 0.1), (0.2, 0.2)):
        for mood in (0.0, 0.03):
            chance = np.random.default_rng([seed, int(1e4 * noises[0]), int(1e4 * noises[1]), int(100 * mood)])
            drawn = list(pairs(chance, cells, noises, mood))
            apart = zip((a for a, _ in drawn), (b for _, b in reversed(drawn)), strict=True)
            within = [paired_ratio(a, b) for a, b in drawn]
            across = [unpaired_ratio(list(a.values()), list(b.values()), early=True) for a, b in apart]
            told = f"{100 * noises[0]:g} % and {100 * noises[1]:g} %, {100 * mood:g} %"
            print(f"{told:28}" + "".join(_ratios(found, width) for found, width in ((within, 20), (across, 22))))


def _ratios(found: Sequence[Ratio | None], width: int) -> str:
    ratios = [one for one in found if one]
    logs = np.log([one.ratio for one in ratios])
    bias = f"{100 * logs.mean():+.3f} ± {100 * logs.std() / np.sqrt(len(logs)):.3f}"
    covered, alarms = (
        100 * np.mean(one) for one in zip(*((r.low <= 1 <= r.high, r.p <= 0.05) for r in ratios), strict=True)
    )
    return f"{bias:>{width}}{covered:11.1f}{alarms:9.1f}"


def show_alarms(seed: int) -> None:
    chance = np.random.default_rng([seed, 5])
    said, apart = [], []
    for _ in range(RUNS):
        noises = tuple(chance.choice([0.01, 0.03, 0.06, 0.1], CELLS_A_RUN))
        drawn = [next(pairs(chance, 1, (noise, noise), 0.0)) for noise in noises]
        ratios = [unpaired_ratio(list(a.values()), list(b.values()), early=True) for a, b in drawn]
        said.append(verdicts(ratios, UNTIL))
        apart.append([verdicts([ratio], UNTIL)[0] for ratio in ratios])
    one_by_one, together = ([_alarms(row) for row in rows] for rows in (apart, said))
    same = np.mean([verdict is Verdict.SAME for row in said for verdict in row])
    print(f"\n{RUNS} comparisons of two runs of the same {CELLS_A_RUN} cells (noise 1 to 10 %), stopped by their doubt")
    print(f"runs with any false alarm         {100 * np.mean([n > 0 for n in together]):5.1f} %   (stated: 5 %)")
    print(f"  without correction for many     {100 * np.mean([n > 0 for n in one_by_one]):5.1f} %")
    print(f"cells said to be the same ± 5 %   {100 * same:5.1f} %")
    for rounds in (3, 5, 10):
        rates = 100 * np.mean([_alarms(_fixed(chance, rounds)) > 0 for _ in range(RUNS)])
        print(f"{f'any false alarm with repeat: {rounds}':34}{rates:5.1f} %")


def _fixed(chance: Generator, rounds: int) -> list[Verdict]:
    noises = chance.choice([0.01, 0.03, 0.06, 0.1], CELLS_A_RUN)
    sides = [[list(lognormal(chance, (1, rounds), noise)[0]) for noise in noises] for _ in range(2)]
    return verdicts([unpaired_ratio(a, b) for a, b in zip(*sides, strict=True)], UNTIL)


def _alarms(row: Sequence[Verdict]) -> int:
    return sum(verdict in {Verdict.MORE, Verdict.LESS} for verdict in row)


#: How far whole runs lie apart, whatever their trials say of their own noise.
MOODS = (0.0, 0.01, 0.03, 0.1)
EARLIER = (0, 3, 5, 10, 20)


def a_run(chance: Generator, noises: Table, mood: float, rule: Rule | None) -> list[list[float]]:
    """One run of cells of these noises: half of its mood is the host's, the other half is each cell's own."""
    moods = np.exp(mood * np.sqrt(0.5) * (chance.standard_normal() + chance.standard_normal(len(noises))))
    rounds = rule.most if rule else 5
    values = np.array([lognormal(chance, (1, rounds), noise)[0] for noise in noises]) * moods[:, None]
    counts = measured(values, rule).counts if rule else [rounds] * len(noises)
    return [list(row[:count]) for row, count in zip(values, counts, strict=True)]


def run_alarms(chance: Generator, earlier: int, mood: float, rule: Rule | None, times: float = 1.0) -> list[bool]:
    """Which figures of a run are said to differ from those of another, held against so many earlier ones."""
    noises = np.asarray(chance.choice([0.01, 0.03, 0.06], CELLS_A_RUN), dtype=np.float64)
    a, b, *history = (a_run(chance, noises, mood, rule) for _ in range(2 + earlier))
    ratios = []
    for cell in range(CELLS_A_RUN):
        later = [times * value for value in b[cell]]
        known = ratio_by_history(a[cell], later, [[run[cell] for run in history]])
        ratios.append(known or unpaired_ratio(a[cell], later, early=rule is not None))
    return [verdict in {Verdict.MORE, Verdict.LESS} for verdict in verdicts(ratios, UNTIL)]


def show_runs(seed: int) -> None:
    chance = np.random.default_rng([seed, 7])
    print(f"\n{RUNS} comparisons of two runs of the same {CELLS_A_RUN} cells (noise 1 to 6 %), apart as a whole:")
    print("runs with any false alarm, % (stated: 5); in brackets the cells that are seen where B is 10 % slower, %")
    print(f"{'':34}" + "".join(f"{f'{count} earlier':>15}" for count in EARLIER))
    for rule, how in ((None, "repeat: 5"), (RULE, "until 5 %")):
        for mood in MOODS:
            told = ""
            for earlier in EARLIER:
                alarms = 100 * np.mean([any(run_alarms(chance, earlier, mood, rule)) for _ in range(RUNS)])
                seen = 100 * np.mean([run_alarms(chance, earlier, mood, rule, 0.9) for _ in range(RUNS // 4)])
                told += f"{f'{alarms:.1f} ({seen:.0f})':>15}"
            print(f"{f'{how}, runs {100 * mood:g} % apart':34}{told}", flush=True)


def show_others(seed: int) -> None:
    chance = np.random.default_rng([seed, 6])
    print("\nother alarms where nothing is the matter, and what is found where something is")
    for rounds, cells in ((3, 20), (6, 20), (20, 20)):
        rates = [_drifts(chance, rounds, cells, by, times) for by, times in ((0.0, DRIFT_RUNS), (0.1, RUNS))]
        told = f"drift, {rounds} rounds of {cells} cells"
        print(f"{told:34}{rates[0]:5.1f} %   (stated: 5 %); a drift of 10 % is found in {rates[1]:.0f} %")
    told = "drift, cells stop after 3 to 20"
    print(f"{told:34}{_drifts(chance, 20, 20, 0.0, DRIFT_RUNS, early=True):5.1f} %   (stated: 5 %)")
    for nights in (10, 30, 100):
        rates = [_changes(chance, nights, step) for step in (1.0, 0.9)]
        told = f"change in {nights} nights of 3 % noise"
        print(f"{told:34}{rates[0]:5.1f} %   (stated: 1 %); a step of 10 % half way is found in {rates[1]:.0f} %")
    means = np.array([1.0, 0.99, 0.95, 0.8])
    found = [find_extreme([dict(enumerate(row)) for row in _moody(chance, means, 5)]) for _ in range(RUNS)]
    kept = [one.candidates for one in found if one]
    ruled, left = np.mean([0 not in one for one in kept]), np.mean([len(one) for one in kept])
    print(f"{'best of four is ruled out':34}{100 * ruled:5.1f} %   (stated: at most 5 %); {left:.1f} of them stay in")


def _moody(chance: Generator, means: Table, rounds: int) -> Table:
    mood = np.exp(0.03 * chance.standard_normal(rounds))
    return means[:, None] * mood * lognormal(chance, (len(means), rounds), 0.03)


def _drifts(chance: Generator, rounds: int, cells: int, by: float, times: int, *, early: bool = False) -> float:
    alarms = 0
    for _ in range(times):
        table = _moody(chance, np.ones(cells), rounds) * np.linspace(1, 1 + by, rounds)
        counts = chance.choice([3, 4, 6, rounds], cells) if early else [rounds] * cells
        found = drift(dict(enumerate(row[:count])) for row, count in zip(table, counts, strict=True))
        alarms += found is not None and found.p <= 0.05
    return 100 * alarms / times


def _changes(chance: Generator, nights: int, step: float) -> float:
    level = np.where(np.arange(nights) < nights // 2, 1, step)
    histories = level * lognormal(chance, (RUNS, nights), 0.03)
    return 100 * float(np.mean([bool(read_history(list(history)).changes) for history in histories]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=int, default=20_000, help="a scenario and noise (20000)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    show_coverage(SCENARIOS, RULE, asked.cells, asked.seed)
    show_correlated(asked.cells // 2, asked.seed)
    show_together(max(1, asked.cells // 100), asked.seed)
    show_bounds(asked.cells, asked.seed)
    show_confidences(asked.cells, asked.seed)
    show_ratios(asked.cells // 2, asked.seed)
    show_alarms(asked.seed)
    show_runs(asked.seed)
    show_others(asked.seed)


if __name__ == "__main__":
    main()
