"""Rules for the rounds beyond the minimum: a race of stacks, and a search for the version at which a figure changed."""

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from math import exp, log
from statistics import fmean
from types import MappingProxyType
from typing import NamedTuple

from matrix_runner.answers.axes import finite_number
from matrix_runner.answers.cell_figures import Measured, match_along, measured_cell
from matrix_runner.answers.decision import combine, powers_of
from matrix_runner.answers.ranking import columns_of, headline, stack_name, stacks_by_workload
from matrix_runner.answers.verdicts import MOST, UNWATCHED, Looking
from matrix_runner.base.errors import BadInput
from matrix_runner.base.findings import few
from matrix_runner.decide.bisect import Ahead, Rule, Standing, State, expected_rounds
from matrix_runner.records.record import CellRow, Trial
from matrix_runner.statistics.arrays import np
from matrix_runner.statistics.race import stand
from matrix_runner.statistics.ratios import PRACTICAL
from matrix_runner.statistics.simulated_race import simulate
from matrix_runner.statistics.stopping import Rule as Repeats
from matrix_runner.work.metrics import Metric

TIMES = 100  # simulated races
_MOST_BEHIND = 0.5  # stacks of a simulated race are up to so far behind


class RaceForecast(NamedTuple):
    trials: int  # the mean
    most: int  # 95 % of races need at most these
    unraced: int  # every cell for as many rounds


def forecast(
    sizes: Sequence[int],
    powers: Sequence[float],
    least: int,
    noise: float,
    confidence: float,
    practical: float = PRACTICAL,
) -> RaceForecast:
    """Simulate races of so many stacks at each workload, whose rates are drawn at random and scatter by a share.

    With `powers`, all workloads together race, too.
    """
    totals, unraced = np.zeros(TIMES), np.zeros(TIMES)
    for time in range(TIMES):
        chance = np.random.default_rng(time)
        logs = np.full((len(sizes), max(sizes), MOST), np.nan)
        for work, size in enumerate(sizes):
            truth = np.log(1 - chance.uniform(0, _MOST_BEHIND, size))
            logs[work, :size] = truth[:, None] + noise * chance.standard_normal((size, MOST))
        ended, totals[time] = simulate(logs, least, confidence, practical, powers)
        alone = [one.rounds for one in ended[: len(sizes)]]
        rounds = [max(one, ended[-1].rounds) if power else one for one, power in zip_longest(alone, powers)]
        unraced[time] = np.dot(rounds, sizes)
    return RaceForecast(round(totals.mean()), round(float(np.quantile(totals, 0.95))), round(unraced.mean()))


@dataclass
class _Heat:
    """The race of the stacks at one workload, or at all workloads together."""

    name: str
    columns: list[list[CellRow]]  # for each workload, the cells of the stacks in one order
    running: dict[str, float] = field(default_factory=dict)  # cells to measure, with weights
    out: set[str] = field(default_factory=set)
    over: bool = False  # decided, or no more rounds could decide it
    order: str = ""  # its stacks so far, the best first


class Race(Looking):
    def __init__(
        self,
        cells: Iterable[CellRow],
        least: int,
        confidence: float,
        weights: Mapping[str, float] = MappingProxyType({}),
        practical: float = PRACTICAL,
    ) -> None:
        super().__init__(least)
        self.practical = practical
        found = (Measured("", cell) for cell in cells)
        heats = ([one.cell for one in several.values()] for several in stacks_by_workload(found))
        self._heats = [_Heat(several[0].work, [several]) for several in heats if len(several) > 1]
        self._confidence, self._weights = confidence, weights
        self._left: list[str] = []  # what left the race before the last round
        self._heats += self._together()

    def _together(self) -> list[_Heat]:
        """Return the race at all weighed workloads, of the stacks that have all of them."""
        columns = [{stack_name(cell): cell for cell in one.columns[0]} for one in self._heats]
        columns = [one for one in columns if next(iter(one.values())).axes["workload"] in self._weights]
        names = [name for name in columns[0] if all(name in one for one in columns)] if len(columns) > 1 else []
        return [_Heat("all together", [[one[name] for name in names] for one in columns])] if len(names) > 1 else []

    @property
    def is_empty(self) -> bool:
        return not self._heats

    @property
    def _columns(self) -> list[list[CellRow]]:
        """Return the cells of the stacks at each workload."""
        return [heat.columns[0] for heat in self._heats if len(heat.columns) == 1]

    @property
    def sizes(self) -> list[int]:
        """Return the number of stacks at each workload."""
        return [len(column) for column in self._columns]

    @property
    def powers(self) -> list[float]:
        """Return the part of each workload in the race of all together; empty without one."""
        names = [str(column[0].axes["workload"]) for column in self._columns]
        weights = {name: self._weights.get(name, 0.0) for name in names}
        return powers_of([(name, True) for name in names], weights) if len(self._heats) > len(names) else []

    def wanted(self, round_number: int) -> dict[str, float]:
        """Return the cells to measure in a round, the nearest to the best with the largest weight."""
        self._look(round_number)
        found: dict[str, float] = {}
        for cell, weight in (item for heat in self._heats for item in heat.running.items()):
            found[cell] = max(weight, found.get(cell, 0.0))
        return found

    @property
    def ranking(self) -> Sequence[str]:
        """Return the order of each race so far, with what is out."""
        return [f"{one.name}: {one.order}" for one in self._heats if one.order]

    def reason(self) -> str:
        """Return why another round follows, with the stacks that left the race before it."""
        return "; ".join(["the race is not decided yet", *self._left])

    def _look(self, round_number: int) -> None:
        if round_number <= self._looked:
            return
        self._looked, self._left = round_number, []
        for heat in (one for one in self._heats if not one.over):
            if gone := self._update(heat, round_number):
                running = len(heat.columns[0]) - len(heat.out)
                self._left.append(f"out for {heat.name}: {few(gone)}, {running} left")

    def _update(self, heat: _Heat, round_number: int) -> list[str]:
        rounds, works = [], []
        for column in heat.columns:
            found = [
                measured_cell("", cell, self._before(round_number, cell.id), UNWATCHED, columns_of(cell))
                for cell in column
            ]
            metric = headline(found)
            works.append((column[0].axes["workload"], metric.more_is_better))
            rounds.append([one.rounds(metric) for one in found])
        powers = powers_of(works, self._weights if len(works) > 1 else dict.fromkeys((works[0][0],), 1.0))
        samples = [combine(several, powers) for several in zip(*rounds, strict=True)]
        standings = stand(samples, self._confidence)
        if standings is None:
            heat.over, heat.running = True, {}
            return []
        stacks = [tuple(one) for one in zip(*heat.columns, strict=True)]
        running = {stacks[place][0].id for place in standings.candidates}
        there = (cells[0] for cells, sample in zip(stacks, samples, strict=True) if sample)
        gone = [cell for cell in there if cell.id not in running | heat.out]
        heat.out |= {cell.id for cell in gone}
        heat.over = standings.is_decided(self.practical) or standings.is_hopeless(self.practical, MOST)
        weights = {at: 1 / one.ratio if (one := standings.ahead(at)) else 1.0 for at in standings.candidates}
        ordered = sorted(weights, key=lambda at: (at != standings.at, -weights[at]))
        names = [f"{stack_name(stacks[at][0])}{f' {weights[at]:.3f}×' if weights[at] < 1 else ''}" for at in ordered]
        out = f"; {len(heat.out)} out" if heat.out else ""  # a line named them when they left
        heat.order = f"{'over, ' * heat.over}{few(names, 2)}{out}"
        heat.running = {} if heat.over else {cell.id: one for at, one in weights.items() for cell in stacks[at]}
        return [stack_name(cell) for cell in gone]


#: An anchor without a figure in so many trials ends the search.
_TRIES = 2
_ANY = Repeats(1, 1)
#: By simulation (5 standard deviations of one figure): the boots until good and bad differ, and those of a search for
#: each factor of four in the number of versions.
_ANCHOR_BOOTS, _SEARCH_BOOTS = 4, 3.5
#: The name of the figure without a metric.
USUAL = "bandwidth"


def _free(_: str) -> float:
    return 0.0


@dataclass(frozen=True)
class Bisection:
    """What is searched. The figure of a version is the geometric mean over its cells."""

    along: str
    names: tuple[str, ...]  # of the versions, from good to bad
    cells: tuple[tuple[CellRow, ...], ...]  # of each version, in the order of the same conditions
    metric: Metric | None  # None: bandwidth, or the rate of a rebuild
    rule: Rule
    titles: Mapping[str, str] = field(default_factory=dict)  # of versions that are commits
    likely: frozenset[int] = frozenset()  # versions to try first
    about: Mapping[str, str] = field(default_factory=dict)  # where the versions come from
    cost: Callable[[str], float] = _free  # the seconds that a version takes before its first trial
    #: The version that runs, on a machine that changes it by a reboot; None: the machine starts each version itself.
    running: int | None = None
    skip: frozenset[int] = frozenset()  # versions that the user leaves out

    @property
    def last(self) -> int:
        return len(self.names) - 1

    @property
    def figure(self) -> str:
        return self.metric.name if self.metric else USUAL

    def as_written(self) -> dict[str, str]:
        """Return what identifies the search: a run with the same continues it."""
        rule = self.rule
        about = {"along": self.along, "good": self.names[0], "bad": self.names[-1], "metric": self.figure}
        shares = {"confidence": f"{rule.confidence:g}", "smallest": f"{exp(rule.smallest) - 1:.6g}"}
        return {**about, **self.about, **shares}

    def value(self, cell: CellRow, trial: Trial) -> float | None:
        """Return the logarithm of the figure of a trial; None: it has none, or does not count."""
        if not self.metric:
            found = trial.counted.deciding_rate if trial.counted else 0.0
        else:
            rounds = measured_cell("", cell, [trial], _ANY, self.metric.columns).rounds(self.metric)
            found = next(iter(rounds.values()), 0.0)
        return log(found) if found > 0 else None


def versions_along(cells: Sequence[CellRow], axis: str, good: str, bad: str) -> dict[str, list[CellRow]]:
    """Return the cells of the versions from good to bad, in the same conditions each."""
    values = dict.fromkeys(cell.axes[axis] for cell in cells if axis in cell.axes)
    for option, word in (("--good", good), ("--bad", bad)):
        if word not in values:
            raise BadInput(
                f"{option} {word}: no selected cell has this value of {axis}",
                resolution=f"its values are {few(values, 20)}",
            )
    if good == bad:
        raise BadInput(f"--good and --bad are both {good}", resolution="name two values of the axis")
    ordered = _ordered(axis, list(values))
    first, last = ordered.index(good), ordered.index(bad)
    between = ordered[first : last + 1] if first < last else ordered[last : first + 1][::-1]
    groups = {value: [cell for cell in cells if cell.axes.get(axis) == value] for value in between}
    rows = [row for row in match_along(groups, axis) if len(row) == len(between)]
    if not rows:
        raise BadInput(
            f"--along {axis}: no cell has all {len(between)} values from {good} to {bad} in the same conditions",
            resolution="`matrix plan --cells` lists the cells; widen --only, `only:` or `exclude:`",
        )
    return {value: [row[value] for row in rows] for value in between}


def _ordered(axis: str, values: Sequence[str]) -> list[str]:
    """Return the values in their order: numbers by size, kernels as the matrix lists them."""
    if axis == "kernel":
        return list(values)
    numbers = {value: number for value in values if (number := finite_number(value)) is not None}
    if words := [value for value in values if value not in numbers and value != "default"]:
        raise BadInput(
            f"--along {axis}: this axis has no order: {words[0]!r} is not a number",
            resolution="search along an axis of numbers, sizes or times, or along the kernels of `machine:`",
        )
    return sorted(numbers, key=numbers.__getitem__)


class BisectSteering:
    """Chooses the cells of each round. The state of the search comes from the recorded trials alone."""

    least, ranking = 0, ()

    def __init__(self, bisection: Bisection) -> None:
        self.bisection = bisection
        self._version = {cell.id: version for version, cells in enumerate(bisection.cells) for cell in cells}
        self._cells = {cell.id: cell for cells in bisection.cells for cell in cells}
        self._trials: list[Trial] = []
        self._versions: dict[int, frozenset[int]] = {}  # of each round

    @property
    def rounds(self) -> range:
        return range(1, self.bisection.rule.most_rounds + 1)

    def add(self, trial: Trial) -> None:
        if trial.cell in self._version:
            self._trials.append(trial)
            self.__dict__.pop("standing", None)

    def wanted(self, round_number: int) -> dict[str, float]:
        """Return the cells of a round. They stay the same during the round, and after a kill in it.

        A version that does not run waits for its boot, and the next round waits for it.
        """
        versions, running = self._versions_of(round_number), self.bisection.running
        if running is not None and self._left(round_number):
            is_open = round_number > 1 and bool(self._left(round_number - 1))
            versions = versions & {running} if not is_open else frozenset()
        return {cell.id: 1.0 for one in versions for cell in self.bisection.cells[one]}

    def _versions_of(self, round_number: int) -> frozenset[int]:
        if round_number not in self._versions:
            begun = {trial.cell for trial in self._trials if trial.round == round_number}
            before = self._standing([trial for trial in self._trials if trial.round < round_number])
            versions = {self._version[cell] for cell in begun}
            if not any(trial.round > round_number for trial in self._trials) and not before.state.is_over:
                versions |= {0, self.bisection.last, *before.candidates()}
            self._versions[round_number] = frozenset(versions)
        return self._versions[round_number]

    def _left(self, round_number: int) -> list[int]:
        """Return the versions of a round that lack trials, in the order of their boots.

        It ends with good or bad, with which the next round begins: that saves a boot. As the two alternate, a drift
        favours neither of them, nor a candidate between them.
        """
        done = {trial.cell for trial in self._trials if trial.round == round_number}
        left = sorted(
            version
            for version in self._versions_of(round_number)
            if not done.issuperset(cell.id for cell in self.bisection.cells[version])
        )
        random.Random(round_number).shuffle(left)  # noqa: S311 - order, not secrecy
        return sorted(left, key={0, self.bisection.last}.__contains__)

    @property
    def open_round(self) -> int:
        last = max((trial.round for trial in self._trials), default=1)
        return last if self._left(last) else last + 1

    @property
    def boot_next(self) -> str:
        """Return the version to boot for the next trial; empty: none, or it runs."""
        running = self.bisection.running
        if running is None or self.standing.state.is_over:
            return ""
        left = self._left(self.open_round)
        return "" if running in left else self.bisection.names[left[0]]

    @property
    def boots_left(self) -> str:
        """Return about how many boots are left, if the change is large beside the noise."""
        standing = self.standing
        if standing.state is State.SEARCHING:
            count = round(max(1.0, expected_rounds(standing)) * (1 + len(standing.candidates())))
        else:
            count = max(1, _ANCHOR_BOOTS - len(standing.pairs)) + round(_SEARCH_BOOTS * log(self.bisection.last, 4))
        return f"about {count} boot{'s' * (count > 1)}"

    def reason(self) -> str:
        """Return why another round follows."""
        standing = self.standing
        if standing.state is State.ANCHORS:
            return f"comparing {self.bisection.names[0]} with {self.bisection.names[-1]}"
        left = ""
        if self.bisection.running is not None:
            left = f", {self.boots_left} left"
        elif seconds := self.seconds_left:
            left = f", about {max(1, round(seconds / 60)):,} min left"
        return f"the odds are {describe_odds(self.bisection, standing)}{left}"

    @cached_property
    def standing(self) -> Standing:
        return self._standing(self._trials)

    @property
    def trials(self) -> int:
        return len(self._trials)

    def explain_skipped(self, version: int) -> str:
        reasons = (one.reason for one in reversed(self._trials) if self._version[one.cell] == version)
        return f"{self.bisection.names[version]} has no figures: {next(filter(None, reasons), 'its trials failed')}"

    @property
    def seconds_left(self) -> float:
        if self.standing.state is not State.SEARCHING:
            return 0.0
        each = fmean(trial.seconds for trial in self._trials)
        candidates = self.standing.candidates()
        builds = sum(self.bisection.cost(self.bisection.names[at]) for at in candidates)
        return expected_rounds(self.standing) * (each * (2 + len(candidates)) * self._conditions + builds)

    @property
    def _conditions(self) -> int:
        return len(self.bisection.cells[0])

    def _standing(self, trials: Collection[Trial]) -> Standing:
        found: dict[int, dict[int, dict[str, float]]] = {}
        failures: dict[int, int] = {}
        for trial in trials:
            version = self._version[trial.cell]
            value = self.bisection.value(self._cells[trial.cell], trial)
            if value is None:
                failures[version] = failures.get(version, 0) + 1
            else:
                found.setdefault(trial.block, {}).setdefault(version, {})[trial.cell] = value
        ends = {0, self.bisection.last}
        skipped = {version for version, count in failures.items() if version not in ends or count >= _TRIES}
        rounds = [self._means(found[block], skipped) for block in sorted(found)]
        seconds = fmean(trial.seconds for trial in trials) if trials else 0.0

        def cost(version: int) -> float:
            return self.bisection.cost(self.bisection.names[version]) / max(seconds * self._conditions, 1e-3)

        about, ahead = self.bisection, Ahead(cost, self.bisection.likely)
        return Standing(about.last, rounds, frozenset(skipped), about.rule, ahead)

    def _means(self, found: Mapping[int, Mapping[str, float]], skipped: Collection[int]) -> dict[int, float]:
        return {
            version: fmean(values.values())
            for version, values in found.items()
            if len(values) == self._conditions and version not in skipped
        }


def describe_odds(bisection: Bisection, standing: Standing) -> str:
    best = [int(at) for at in np.argsort(-standing.odds, kind="stable")[:3]]
    return ", ".join(f"{bisection.names[at + 1]} {percent_of(standing.odds[at])}" for at in best)


def percent_of(share: float) -> str:
    return f"{share:.0%}".replace("%", " %") if 0.005 <= share < 0.995 else ("<1 %" if share < 0.5 else ">99 %")
