"""Verdicts on guidelines, from the results of evaluate.py; and the cells to measure again until all are decided.

Their tables and texts: pages/verdicts.py.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from operator import attrgetter

from matrix_runner.answers.axes import grouped
from matrix_runner.answers.cell_figures import Measured, Verdict, measured_cell
from matrix_runner.answers.claims import Case, ClaimCases, ClaimScope, NotTested, cases_of
from matrix_runner.answers.evaluate import CaseResult, Level, check_case, check_mean
from matrix_runner.language.guidelines import Claim, Guideline
from matrix_runner.records.record import CellRow, Trial
from matrix_runner.statistics.stopping import Rule

#: The part of the error rate that a look uses if looks repeat until a verdict (`Level.after`). The distance of looks
#: grows (`looks`), so all of them together err no more than stated. From simulation (`bench.stated`).
SHARE = 0.12


@dataclass(frozen=True, slots=True)
class Judgement:
    guideline: Guideline
    verdict: Verdict
    results: tuple[CaseResult, ...] = ()
    why: str = ""  # why it was not tested
    notes: tuple[str, ...] = ()
    synthetic: bool = False  # the figures are synthetic, so the verdict is about no real disk

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell for one in self.results if one.n for cell in one.case.cells))

    @property
    def failed(self) -> bool:
        return self.verdict is Verdict.FAILS and not self.synthetic

    @property
    def telling(self) -> CaseResult | None:
        fitting = [one for one in self.results if one.value is not None and one.verdict is self.verdict]
        if self.verdict is Verdict.INCONCLUSIVE:
            return max(fitting, key=lambda one: one.enough or inf, default=None)
        return min(fitting, key=_nearness, default=None)

    @property
    def more(self) -> int | None:
        if self.verdict is not Verdict.INCONCLUSIVE:
            return 0
        return None if self.deciding is None else _needed(self.deciding)

    @property
    def blocked(self) -> bool:
        """Return whether more trials cannot decide it, because the host took too much of the time of a case."""
        left = [one for one in self.results if one.verdict is Verdict.INCONCLUSIVE]
        return any(one.blocked for one in left) and all(one.seems or one.blocked for one in left)

    @property
    def deciding(self) -> CaseResult | None:
        """Return the result that would decide it: a possible refutation, else the slowest result, else None."""
        refuting = [one for one in self.results if not one.seems]
        left = [one for one in refuting or self.results if one.verdict is Verdict.INCONCLUSIVE]
        known = [one for one in left if one.enough is not None]
        if refuting:
            return min(known, key=_needed, default=None)
        return max(known, key=_needed) if known and len(known) == len(left) else None


def _needed(result: CaseResult) -> int:
    return max(1, (result.enough or 0) - result.n)


def _nearness(result: CaseResult) -> float:
    """Return the distance to the nearest bound as a factor; below 1 means beyond it."""
    assert result.value is not None  # noqa: S101 - whoever asks has chosen those with one
    bounds = (result.value / (result.case.low or 1e-300), result.case.high / result.value)
    return min(bounds)


def judge_guidelines(
    guidelines: Iterable[Guideline], found: Iterable[Measured], *, synthetic: bool = False, share: float = 1.0
) -> list[Judgement]:
    runs = by_run(found)
    return [_judgement(one, runs, synthetic=synthetic, share=share) for one in guidelines]


def by_run(found: Iterable[Measured]) -> dict[str, dict[str, Measured]]:
    """Return cells by run and id."""
    return {run: dict(cells) for run, cells in grouped((one.run, (one.cell.id, one)) for one in found).items()}


def undecidable_guidelines(guidelines: Sequence[Guideline], found: Iterable[Measured]) -> Iterator[tuple[int, str]]:
    run = {one.cell.id: one for one in found}
    for at, guideline in enumerate(guidelines):
        claim = guideline.claimed
        try:
            _cases_of_runs(claim, {"": _scope_of(claim, run)})
        except NotTested as lacking:
            yield at, _without_figure(claim, [run]) or str(lacking)


def _judgement(
    guideline: Guideline, found: Mapping[str, Mapping[str, Measured]], *, synthetic: bool, share: float
) -> Judgement:
    claim = guideline.claimed
    runs = list(found.values())
    scopes = {name: _scope_of(claim, run) for name, run in found.items()}
    try:
        wanted = _cases_of_runs(claim, scopes)
    except NotTested as lacking:
        why = (_without_figure(claim, runs) if any(one.cells for one in scopes.values()) else "") or str(lacking)
        return Judgement(guideline, Verdict.NOT_TESTED, why=why, synthetic=synthetic)
    alone = Level(guideline.confidence, len(wanted.contexts) or 1, share)
    contexts = [check_case(one, runs, claim.figure, alone) for one in wanted.contexts]
    kept = [one.case for one in contexts if one.value is not None]
    # A mean needs all of its contexts. If some are missing, use the others.
    level = Level(guideline.confidence, 1 if kept else len(wanted.cases), share)
    if kept:
        results = [check_mean(kept, runs, claim.figure, level)]
    else:
        results = [check_case(one, runs, claim.figure, level) for one in wanted.cases]
    verdict = _combined_verdict([one.verdict for one in results])
    why = _without_cells(results, runs, claim) if verdict is Verdict.NOT_TESTED else ""
    notes = (*wanted.notes, *_notes(verdict, results, contexts))
    return Judgement(guideline, verdict, tuple(results), why, notes, synthetic)


def _scope_of(claim: Claim, run: Mapping[str, Measured]) -> ClaimScope:
    return ClaimScope.of([one.cell for one in run.values() if one.has(claim.figure)])


def _cases_of_runs(claim: Claim, scopes: Mapping[str, ClaimScope]) -> ClaimCases:
    found, lacking = dict[str, ClaimCases](), list[NotTested]()
    for run, scope in scopes.items():
        try:
            found[run] = cases_of(claim, scope)
        except NotTested as why:
            lacking.append(why)
    if not found:
        raise _why_not_tested(claim, list(scopes.values()), lacking)
    return ClaimCases(
        _distinct_cases({run: each.cases for run, each in found.items()}),
        _distinct_cases({run: each.contexts for run, each in found.items()}),
        tuple(dict.fromkeys(note for each in found.values() for note in each.notes)),
    )


def _without_figure(claim: Claim, runs: Iterable[Mapping[str, Measured]]) -> str:
    for run in runs:
        with suppress(NotTested):
            cases_of(claim, ClaimScope.of([one.cell for one in run.values()]))
            return f"its cells have no {claim.metric}"
    return ""


def _without_cells(results: Sequence[CaseResult], runs: Sequence[Mapping[str, Measured]], claim: Claim) -> str:
    known = {id_ for run in runs for id_, one in run.items() if one.rounds(claim.figure)}
    names = {id_: one.cell.name for run in runs for id_, one in run.items()}
    wanted = dict.fromkeys(cell for one in results for cell in one.case.cells)
    lacking = [names[cell] for cell in wanted if cell not in known]
    return f"no {claim.metric} of {_few(lacking)}" if lacking else f"its cells have {claim.metric}, but no common round"


def _distinct_cases(by_run: Mapping[str, Sequence[Case]]) -> tuple[Case, ...]:
    """Remove duplicates. If cases of several runs have equal labels, add the run to the label."""
    each = {one.terms: (run, one) for run, cases in by_run.items() for one in cases}
    counts = Counter(one.label for _, one in each.values()) if len(by_run) > 1 else Counter[str]()
    return tuple(
        replace(one, label=", ".join(filter(None, (one.label, f"run {run[:8]}")))) if counts[one.label] > 1 else one
        for run, one in each.values()
    )


def _why_not_tested(claim: Claim, scopes: Sequence[ClaimScope], lacking: Sequence[NotTested]) -> NotTested:
    if not lacking:
        return NotTested("nothing was measured")
    if not any(scope.cells for scope in scopes):
        return NotTested(f"no cell has {claim.metric}")
    if len(scopes) > 1:
        with suppress(NotTested):
            cases_of(claim, ClaimScope.of([cell for scope in scopes for cell in scope.cells]))
            return NotTested("its cells were measured in different runs; `matrix compare` compares these")
    return lacking[0]


def _combined_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    if Verdict.FAILS in verdicts:
        return Verdict.FAILS
    if all(one is Verdict.HOLDS for one in verdicts):
        return Verdict.HOLDS
    return Verdict.NOT_TESTED if all(one is Verdict.NOT_TESTED for one in verdicts) else Verdict.INCONCLUSIVE


def _notes(verdict: Verdict, results: Sequence[CaseResult], contexts: Sequence[CaseResult]) -> Iterator[str]:
    without = [one.case.label or "its cells" for one in (contexts or results) if one.value is None]
    if without and verdict is not Verdict.NOT_TESTED:
        yield f"no figures: {_few(without)}"
    if (parts := max((one.parts for one in results), default=1)) > 1:
        yield f"no run has all cells: combined from {parts} parts, whose half-widths add up"
    # Contexts in which the verdict would differ from the average.
    decided = {Verdict.HOLDS, Verdict.FAILS} - {verdict}
    against = [one for one in contexts if one.verdict in decided]
    if against and (verdict is not Verdict.INCONCLUSIVE or {one.verdict for one in against} == decided):
        texts = [f"{one.case.label or 'one pair'} ({one.value:.2f}\u00d7 {one.verdict})" for one in against]
        yield f"another verdict alone: {_few(texts, 4)}"
    if verdict is not Verdict.NOT_TESTED and any(one.host_limited for one in results):
        yield "uses host-limited trials: the host was too slow or too busy"
    if correlation := max(filter(None, (one.correlation for one in results)), default=0.0):
        yield f"trials are correlated ({correlation:.1f} from one round to the next), so the interval is wider"


def _few(texts: Sequence[str], most: int = 3) -> str:
    return "; ".join(texts[:most]) + (f" and {len(texts) - most:,} more" if len(texts) > most else "")


MOST = 200  # the most trials of a cell, for any budget
UNWATCHED = Rule(1, MOST)  # the stopping rule of cells that guidelines stop, not their own precision


def looks(least: int) -> Iterator[int]:
    rounds = max(least, 2)
    while rounds <= MOST:
        yield rounds
        rounds += max(1, rounds // 2)


class Looking:
    """The trials that a rule for the next rounds looks at."""

    rounds = range(1, MOST + 1)

    def __init__(self, least: int) -> None:
        self.least = least
        self._trials: dict[str, list[Trial]] = {}
        self._looked = 0  # the round before which the last look took place

    @property
    def ranking(self) -> Sequence[str]:
        return ()

    def add(self, trial: Trial) -> None:
        self._trials.setdefault(trial.cell, []).append(trial)

    def _before(self, round_number: int, cell: str) -> list[Trial]:
        earlier = (one for one in self._trials.get(cell, ()) if one.round < round_number)
        return sorted(earlier, key=attrgetter("round"))


class Steering(Looking):
    """Selects cells for more trials. A test after every trial would stop too often by chance, so looks are rare."""

    def __init__(self, guidelines: Sequence[Guideline], cells: Iterable[CellRow], least: int) -> None:
        super().__init__(least)
        self._open = list(guidelines)
        self._cells = {cell.id: cell for cell in cells}
        self._columns = {column for one in guidelines for column in one.claimed.figure.columns}
        self._looks = frozenset(looks(least))
        self._wanted: dict[str, float] = {}

    def wanted(self, round_number: int) -> dict[str, float]:
        """Return the cells to measure in a round, with weights. Its own trials do not count: that is one more look."""
        if not self._looked or (round_number - 1 in self._looks and round_number != self._looked):
            self._looked = round_number
            found = (
                measured_cell("", cell, self._before(round_number, id_), UNWATCHED, self._columns)
                for id_, cell in self._cells.items()
            )
            judged = judge_guidelines(self._open, found, share=SHARE)
            undecided = [one for one in judged if one.verdict is Verdict.INCONCLUSIVE]
            self._open = [one.guideline for one in undecided]
            self._wanted = _weighed(one for one in undecided if not one.blocked)
        return self._wanted

    def reason(self) -> str:
        return "guidelines are not decided yet"


def _weighed(undecided: Iterable[Judgement]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for judgement in undecided:
        weight = 1 / (judgement.more or MOST)
        open_ = [one.case for one in judgement.results if one.verdict is Verdict.INCONCLUSIVE and not one.blocked]
        for cell in (cell for case in open_ for cell in case.cells):
            weights[cell] = max(weight, weights.get(cell, 0.0))
    return weights
