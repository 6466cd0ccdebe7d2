"""Comparison of two sides, cell by cell, with uncertainty and verdict. The statistical test: statistics/ratios.py."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import exp, expm1, inf, log, log1p, sqrt
from statistics import fmean
from typing import NamedTuple, TypeAlias

from matrix_runner.answers.axes import grouped
from matrix_runner.answers.pairs import Pair, Pairs, Side, differences, pairs_of
from matrix_runner.answers.selectors import accepted_factor, changes_of, describe_synthetic
from matrix_runner.answers.stored_samples import (
    LATENCIES,
    Samples,
    is_percentile,
    mean_over_runs,
    more_is_faster,
    rates_of,
)
from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.base.findings import few
from matrix_runner.base.text import of_planned
from matrix_runner.language.references import KnownChange
from matrix_runner.records.record import WORST, Outcome
from matrix_runner.statistics.mixing import Sides, mixture_shares
from matrix_runner.statistics.ratios import (
    Ratio,
    Verdict,
    paired_ratio,
    predicted_ratio,
    ratio_by_history,
    rounds_to_detect,
    t_factor,
    unpaired_ratio,
    verdicts,
)
from matrix_runner.work.metrics import is_paced


class Speed(StrEnum):
    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNKNOWN = "cannot tell"


class Suspect(StrEnum):
    """What made a figure slower, by trials on the kernel of the accepted level in turns with those of the night."""

    KERNEL = "kernel"
    HOST = "host"
    BOTH = "both"
    UNKNOWN = "cannot tell"


class Line(NamedTuple):
    pair: Pair
    metric: str
    means: tuple[float | None, float | None]
    ratio: Ratio | None
    sides: Sides | None  # the values behind the ratio; None if earlier runs show their spread
    speed: Speed = Speed.UNKNOWN
    #: The accepted changes of B. If A is from before them, its figures are multiplied by them.
    known: Sequence[KnownChange] = ()
    #: Of a figure that was slower and was measured again: what these later trials alone show.
    again: Speed | None = None
    #: The kernel of the accepted level, if they were measured on it, too, and what that shows.
    old_kernel: str = ""
    suspect: Suspect | None = None

    @property
    def log_speed(self) -> float:
        """Return the logarithm of how many times as fast B is."""
        ratio = self.ratio.ratio if self.ratio else 1.0
        return (log(ratio) if more_is_faster(self.metric) else -log(ratio)) if 0 < ratio < inf else 0.0

    @property
    def gone(self) -> list[KnownChange]:
        """Return the accepted changes of which B has lost more than half."""
        undone = {Speed.FASTER: lambda one: one.change < 1, Speed.SLOWER: lambda one: one.change > 1}
        fitting = filter(undone[self.speed], self.known) if self.speed in undone else ()
        return [one for one in fitting if abs(self.log_speed) > abs(log(one.change)) / 2]

    @property
    def name(self) -> str:
        return self.pair.name

    @property
    def cells(self) -> tuple[str, str]:
        return self.pair.left[0].cell.id, self.pair.right[0].cell.id

    @property
    def stopped(self) -> tuple[str, str]:
        return _stopped(self.pair.left), _stopped(self.pair.right)

    @property
    def host_limited(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """For each side, the number of trials behind the figure, and how many are host-limited."""
        return _host_limited(self.pair.left, self.metric), _host_limited(self.pair.right, self.metric)

    @property
    def doubtful(self) -> bool:
        return any(host_limited for _, host_limited in self.host_limited)


#: The values of a metric by round, for each of several runs.
_Runs: TypeAlias = Sequence[Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class Missing:
    name: str
    side: str
    why: str


@dataclass(frozen=True)
class Comparison:
    a: Side
    b: Side
    within: float
    confidence: float
    lines: Sequence[Line]
    missing: Sequence[Missing]
    notes: tuple[str, ...]
    #: Cells with such trials in B, the worst first; for errors, only those with figures in A.
    bad: Mapping[Outcome, Sequence[str]] = field(default_factory=dict)

    @property
    def slower(self) -> int:
        return sum(line.speed is Speed.SLOWER for line in self.lines)

    @property
    def exit(self) -> Exit:
        if self.bad:
            return next(iter(self.bad)).kind.exit
        return Exit.CLAIM_FAILED if self.slower else Exit.ALL_MEASURED

    @property
    def decided(self) -> bool:
        return not self.missing and all(line.speed is not Speed.UNKNOWN for line in self.lines)


@dataclass(frozen=True, slots=True)
class Terms:
    """The kind of two sides, their figures, what counts as a difference, and what is known beside them."""

    kind: str = "run"
    metrics: Sequence[str] = ()
    within: float = 0.05
    confidence: float = 0.95
    known: Sequence[KnownChange] = ()
    history: Sequence[Side] = ()  # groups of earlier runs with the environment of one of them
    recorded: Mapping[str, int] = field(default_factory=dict)  # the trials so far of unfinished runs
    has_states: bool = True  # all trials of a side may by chance meet one of two distant states


def compare_sides(a: Side, b: Side, terms: Terms) -> Comparison:
    _refuse_mixture(a, b)
    a, b, shared = _apart(a, b)
    matched = pairs_of(terms.kind, a, b, differences(a, b, with_seed=True))
    figures = list(_figures(matched.found, terms))
    incomplete = [pair for pair in matched.found if not all(one.is_complete for one in (*pair.left, *pair.right))]
    missing = _missing(incomplete, matched.alone)
    bad = {one: names for one in WORST if (names := [pair.name for pair in incomplete if _is_bad(pair, one)])}
    if not figures and not bad:
        raise _nothing_in_common(a, b, matched, missing)
    lines = _lines_of(figures, terms)
    notes = [*_precision_notes(a, b, matched, [line.ratio for line in lines])]
    alone = verdicts([one.ratio for one in figures], terms.within)
    by_states = sum(_speed(one, line.metric) is not line.speed for one, line in zip(alone, lines, strict=True))
    late = [again for pair in matched.found if terms.kind == "run" and (again := _measured_again(pair))]
    lines = _confirmed(lines, _lines_of(list(_figures(late, terms)), terms))
    if by_states:
        which = f"{by_states:,} figure{'s' * (by_states > 1)} would differ"
        notes.append(
            f"{which}, but trials of other cells have two states as far apart, and few trials may all meet one"
        )
    if any(map(is_percentile, terms.metrics)):
        notes.append("percentiles: of all requests of a side together; B / A and its doubt rest on each trial's own")
    notes += [*matched.notes, *shared, *_unfinished(a, b, terms.recorded)]
    for one, names in bad.items():
        what = one.about.against or f"has {one} trials{' where A has figures' * one.is_error}"
        notes.append(f"B {what}: {few(names, 3)}; `matrix results --outcome {one}` shows the reasons")
    return Comparison(a, b, terms.within, terms.confidence, lines, missing, tuple(notes), bad)


def _measured_again(pair: Pair) -> Pair | None:
    """Return the pair with only the later trials of a night that measured its cell again; None: it did not."""
    night = pair.right[0]
    is_single = len(pair.right) == 1 and night.run.id not in {one.run.id for one in pair.left}
    return replace(pair, right=[night.again]) if is_single and night.again else None


def _lines_of(figures: Sequence[Line], terms: Terms) -> list[Line]:
    """Return the figures with their verdicts, which depend on all of them."""
    ratios = [one.ratio for one in figures]
    if terms.has_states:
        ratios = _with_mixtures(figures, ratios, 1 - terms.confidence)
    return [
        one._replace(ratio=ratio, speed=_speed(verdict, one.metric))
        for one, ratio, verdict in zip(figures, ratios, verdicts(ratios, terms.within), strict=True)
    ]


def _confirmed(lines: Sequence[Line], later: Sequence[Line]) -> list[Line]:
    """Return what the later trials alone show, if they can tell: the earlier ones were chosen because they are slow."""
    found = {(line.cells, line.metric): line._replace(again=line.speed) for line in later}
    again = [(line, found.get((line.cells, line.metric), line)) for line in lines]
    return [one._replace(again=other.again) if other.speed is Speed.UNKNOWN else other for one, other in again]


def _is_bad(pair: Pair, outcome: Outcome) -> bool:
    return any(one.counts.get(outcome) for one in pair.right) and (outcome.is_failure or _measured(pair.left))


def _figures(pairs: Iterable[Pair], terms: Terms) -> Iterator[Line]:
    earlier = [grouped((one.cell.id, one) for one in group.found) for group in terms.history]
    changes = terms.known
    for pair in pairs:
        last = pair.right[-1]
        for metric in terms.metrics or _usual_figures((*pair.left, *pair.right)):
            known = changes_of(changes, last.run, last.cell.axes, metric)
            left = [_as_accepted(one, metric, last, changes) for one in pair.left]
            right = [one.rounds(metric) for one in pair.right]
            if any(left) and any(right):
                means = mean_over_runs(pair.left, metric, left), mean_over_runs(pair.right, metric, right)
                history = [[one.rounds(metric) for one in group.get(pair.left[0].cell.id, ())] for group in earlier]
                ratio, sides = _ratio(pair, (left, right), terms.confidence, history)
                yield Line(pair, metric, means, ratio, sides, known=known)


def _as_accepted(one: Samples, metric: str, last: Samples, changes: Sequence[KnownChange]) -> Mapping[int, float]:
    """Return the values with the accepted changes of the last run in place of their own."""
    rounds = one.rounds(metric)
    if not changes:
        return rounds
    now, before = (accepted_factor(changes, run, one.cell.axes, metric) for run in (last.run, one.run))
    speed = now / before
    factor = speed if more_is_faster(metric) else 1 / speed
    return {at: value * factor for at, value in rounds.items()} if factor != 1 else rounds


def _with_mixtures(figures: Sequence[Line], ratios: Sequence[Ratio | None], least: float) -> list[Ratio | None]:
    shares = mixture_shares([one.sides for one in figures], [one.p if one else 1.0 for one in ratios], least)
    return [
        one._replace(p=max(one.p, share)) if one and share else one for one, share in zip(ratios, shares, strict=True)
    ]


def _usual_figures(several: Sequence[Samples]) -> Sequence[str]:
    """Return the rates, or of paced work the latencies, because its rate is what was asked for."""
    rates = rates_of(several)
    if not all(is_paced(one.cell.axes) for one in several):
        return rates
    times = {f"{rate.partition('_')[0]}_lat_mean" for rate in rates}
    return [name for name in LATENCIES if name in times and all(name in one.metrics for one in several)] or rates


def _speed(verdict: Verdict, metric: str) -> Speed:
    if verdict is Verdict.UNKNOWN:
        return Speed.UNKNOWN
    if verdict is Verdict.SAME:
        return Speed.SAME
    return Speed.FASTER if (verdict is Verdict.MORE) == more_is_faster(metric) else Speed.SLOWER


def _stopped(several: Sequence[Samples]) -> str:
    if len(several) == 1:
        return several[0].stopped.value
    return ", ".join(sorted({one.stopped.value for one in several}))


def _host_limited(several: Sequence[Samples], metric: str) -> tuple[int, int]:
    return sum(len(one.counted(metric)) for one in several), sum(one.host_limited_of(metric) for one in several)


def _nothing_in_common(a: Side, b: Side, matched: Pairs, missing: Sequence[Missing]) -> BadInput:
    details, resolution = ("", "") if matched.found else matched.why
    lines = [f"{one.name}: {one.why} in {one.side}" for one in missing] if matched.found else []
    more = f"\nand {len(lines) - 5:,} more" if len(lines) > 5 else ""
    cells = "; ".join(
        f"{side.name}: {few((several[0].cell.name for several in alone), 3) or 'none'}"
        for side, alone in zip((a, b), matched.alone, strict=True)
    )
    return BadInput(
        f"{a.name} and {b.name} have no common cell with figures on both sides",
        details=details or "\n".join(lines[:5]) + more or cells,
        resolution=resolution or "compare runs of one matrix; `matrix results A B` shows what there is",
    )


def _refuse_mixture(a: Side, b: Side) -> None:
    synthetic = {side.name: frozenset(run.synthetic for run in side.runs) for side in (a, b)}
    if len(frozenset().union(*synthetic.values())) > 1:
        words = {frozenset({True}): "synthetic", frozenset({False}): "measured"}
        raise BadInput(
            "synthetic figures cannot be compared with measured ones",
            details="; ".join(f"{name}: {words.get(kinds, 'partly synthetic')}" for name, kinds in synthetic.items()),
            resolution="name runs of one kind; `matrix results` shows the machine of each run",
        )


def _apart(a: Side, b: Side) -> tuple[Side, Side, tuple[str, ...]]:
    """Remove runs with the same trials from both sides, unless a side has no others: they have no difference."""
    names = [{run.id for run in side.runs} for side in (a, b)]
    if len(names[0] | names[1]) == 1:
        return a, b, ()
    both = names[0] & names[1]
    trials = [
        {(one.run.id, *key) for one in side.found if one.run.id in both for key in one.identities} for side in (a, b)
    ]
    shared = {run for run, *_ in trials[0] & trials[1]}
    if not shared:
        return a, b, ()
    if names[0] == names[1] == shared:
        raise BadInput(
            f"{a.name} and {b.name} are the same {len(shared)} runs",
            resolution="name other runs on one of the sides; `matrix results` lists them",
        )
    kept = [
        side if ids <= shared else Side(side.name, [one for one in side.found if one.run.id not in shared])
        for side, ids in zip((a, b), names, strict=True)
    ]
    run_names = sorted({run.name for side in (a, b) for run in side.runs if run.id in shared})
    where = "B alone" if kept[1] is b else "A alone" if kept[0] is a else "neither"
    return kept[0], kept[1], (f"on both sides, so counted for {where}: {few(run_names, 3)}",)


def _precision_notes(a: Side, b: Side, matched: Pairs, ratios: Sequence[Ratio | None]) -> Iterator[str]:
    runs = {run.id: run for run in (*a.runs, *b.runs)}
    yield from describe_synthetic(runs.values())
    fewest, most = sorted(_most_runs_of_a_cell(matched))
    if fewest == most == 1 and len(runs) > 1 and ratios:
        yield from _single_run_notes([ratio.foreseen for ratio in ratios if ratio])
    if fewest == 1 < most:
        rule = "it differs if it is farther off than another run of the other side would be"
        yield f"one run against several: {rule}{'; two runs give a poor estimate of that' * (most == 2)}"
    if fewest > 1:
        yield "several runs a side: each run counts as one value, because trials of one run are more alike"


def _most_runs_of_a_cell(matched: Pairs) -> list[int]:
    left = [*(pair.left for pair in matched.found), *matched.alone[0]]
    right = [*(pair.right for pair in matched.found), *matched.alone[1]]
    return [max((_count_runs(several) for several in side), default=0) for side in (left, right)]


def _count_runs(several: Sequence[Samples]) -> int:
    return len({one.run.id for one in several}) if len(several) > 1 else 1


def _single_run_notes(earlier: Sequence[int]) -> Iterator[str]:
    known = [count for count in earlier if count]
    caveat = "one run on each side: what differs between whole runs, such as other load on the host, is in the ratio"
    if not known:
        yield caveat
        return
    count = str(max(known)) if min(known) == max(known) else f"{min(known)} to {max(known)}"
    yield f"one run on each side: {count} earlier runs in the same environment show the difference between whole runs"
    if len(known) < len(earlier):
        yield f"of {len(earlier) - len(known):,} of {len(earlier):,} figures there are too few earlier runs: {caveat}"


def _ratio(
    pair: Pair, sides: tuple[_Runs, _Runs], confidence: float, history: Sequence[_Runs]
) -> tuple[Ratio | None, Sides | None]:
    """Return the ratio. Each of several runs is one value: trials of one run are more alike than runs."""
    a, b = pair.left, pair.right
    if len(a) == len(b) == 1 and a[0].run.id == b[0].run.id:
        (one,), (other,) = sides
        if a[0].cell.id != b[0].cell.id or one.keys() & other.keys():  # not two parts of one cell
            ratio, shared = paired_ratio(one, other, confidence), sorted(one.keys() & other.keys())
            return ratio, ratio and Sides([one[at] for at in shared], [other[at] for at in shared], paired=True)
    left, right = map(_values_by_run, sides)
    if len(left) > 1 and len(right) > 1:
        means = [fmean(values) for values in left], [fmean(values) for values in right]
        ratio = unpaired_ratio(*means, confidence)
        return ratio, ratio and Sides(*means, paired=False)
    if len(left) > 1 or len(right) > 1:
        return predicted_ratio(left, right, confidence), None
    if history and (known := ratio_by_history(left[0], right[0], [*map(_values_by_run, history)], confidence)):
        return known, None
    ratio = unpaired_ratio(left[0], right[0], confidence, early=any(one.run.is_adaptive for one in (*a, *b)))
    return ratio, ratio and Sides(left[0], right[0], paired=False)


def _values_by_run(rounds: _Runs) -> list[list[float]]:
    return [list(values.values()) for values in rounds if values]


def _missing(pairs: Iterable[Pair], alone: tuple[Sequence[Sequence[Samples]], ...]) -> list[Missing]:
    there = [(pair, _measured(pair.left), _measured(pair.right)) for pair in pairs]
    found = []
    for lacking, at in (("B", 0), ("A", 1)):
        for pair, left, right in there:
            if (left and not right) if at == 0 else (right and not left):
                other = pair.right if at == 0 else pair.left
                found.append(Missing(pair.name, lacking, _why_missing(other)))
        found += [Missing(several[0].cell.name, lacking, "not there") for several in alone[at] if _measured(several)]
    return found


def _why_missing(several: Sequence[Samples]) -> str:
    if not any(one.rows for one in several):
        return "a run compared with itself splits its rounds, and this cell has too few: none"
    reasons = "; ".join(dict.fromkeys(reason for one in several for reason in one.reasons))
    return f"{several[0].outcome}: {reasons}" if reasons else "no trial reached its steady state"


def _measured(several: Sequence[Samples]) -> bool:
    return any(one.is_measured for one in several)


def _unfinished(a: Side, b: Side, recorded: Mapping[str, int]) -> Iterator[str]:
    for name, side in (("A", a), ("B", b)):
        for run in side.runs:
            if not run.finished:
                which = f" of {run.name}" if len(side.runs) > 1 else ""
                yield f"{name} is not finished: {of_planned(recorded.get(run.id, 0), run.planned)} trials{which}"


def effort_to_tell(done: Comparison, line: Line) -> tuple[int, str] | None:
    """Return how many trials or runs on each side would decide a figure at its scatter; None: too many, or unknown."""
    found = line.ratio
    if found is None or not 0 < found.low < found.high < inf:
        return None
    what = "runs" if found.foreseen or max(map(_count_runs, (line.pair.left, line.pair.right))) > 1 else "trials"
    n_a, n_b = (1, 1) if found.foreseen else (found.n_a, found.n_b)
    freedom = found.foreseen - 1 if found.foreseen else n_a - 1 if found.paired else n_a + n_b - 2
    scatter = log(found.high / found.low) / 2 / t_factor(freedom, found.confidence) / sqrt(1 / n_a + 1 / n_b)
    apart, equal = abs(log(found.ratio)), log1p(done.within)
    doubt = (1 - done.confidence) / (len(done.lines) if apart > equal else 1)  # equality is not corrected
    rounds = rounds_to_detect(expm1(apart if apart > equal else equal - apart), scatter, 1 - doubt)
    return (max(rounds, min(n_a, n_b) + 1), what) if rounds else None


_SHARE = 0.95  # the share of figures within the noise floor


def noise_floor(ratios: Iterable[Ratio | None]) -> float | None:
    """Return the relative difference of two whole runs that 95 % of the figures stay below; half a run has more."""
    whole_run = ((one.ratio, sqrt((2 / (one.n_a + one.n_b)) / (1 / one.n_a + 1 / one.n_b))) for one in ratios if one)
    apart = sorted(abs(log(ratio)) * correction for ratio, correction in whole_run)
    if not apart:
        return None
    return exp(apart[min(len(apart) - 1, int(_SHARE * len(apart)))]) - 1
