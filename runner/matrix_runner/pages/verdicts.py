"""Verdicts on guidelines, and the results of searches (`find:`), as tables and texts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf

from matrix_runner.answers.axes import is_tunable
from matrix_runner.answers.cell_figures import Verdict
from matrix_runner.answers.evaluate import CaseResult
from matrix_runner.answers.knee import Found, Knee
from matrix_runner.answers.verdicts import Judgement
from matrix_runner.base.quantities import format_size
from matrix_runner.pages.charts import interval
from matrix_runner.pages.table import BOOLS, Grid, Value, estimate_values
from matrix_runner.pages.terminal_text import figure, times, times_between, times_within

_COLUMNS = (
    *("guideline", "verdict", "synthetic", "shape", "metric", "unit", "claim", "source", "case", "case_verdict"),
    *("value", "low", "high", "wanted_low", "wanted_high", "confidence", "rounds", "rounds_enough", "cells", "notes"),
)
_ORDER = (Verdict.FAILS, Verdict.INCONCLUSIVE, Verdict.NOT_TESTED, Verdict.HOLDS)


def verdict_rows(judgements: Sequence[Judgement]) -> Grid:
    return Grid(_COLUMNS, [row for one in judgements for row in _rows(one)])


def verdict_table(judgements: Sequence[Judgement], *, claims: bool = True) -> Grid:
    """Return a row for each guideline.

    `claims`: notes have the claims of guidelines that do not hold, and what would decide them; else a column has that.
    """
    ordered = sort_by_verdict(judgements)
    efforts = ["" if claims else remaining_effort(one) for one in ordered]
    rows: list[tuple[Value, ...]] = [
        (one.guideline.id, verdict_text(one), *_measured(one), _rests_on(one), *([effort] if any(efforts) else []))
        for one, effort in zip(ordered, efforts, strict=True)
    ]
    columns: tuple[str, ...] = ("guideline", "verdict", "measured", "interval", "wanted", "rests on")
    columns += ("to decide it",) if any(efforts) else ()
    return Grid(columns, rows, tuple(_notes(ordered, claims=claims)), frozenset(("measured", "interval")))


def sort_by_verdict(judgements: Iterable[Judgement]) -> list[Judgement]:
    return sorted(judgements, key=lambda one: _ORDER.index(one.verdict))


def case_table(judgement: Judgement) -> Grid:
    mark = "synthetic: " * judgement.synthetic
    rows: list[tuple[Value, ...]] = [
        (one.case.label, f"{mark}{one.verdict}", *_figures(judgement, one), str(one.n) if one.n else "")
        for one in judgement.results
    ]
    columns = ("case", "verdict", "measured", "interval", "wanted", "trials")
    return Grid(columns, rows, (), frozenset(("measured", "interval", "trials")))


def verdict_text(judgement: Judgement) -> str:
    return f"{'synthetic: ' * judgement.synthetic}{judgement.verdict}"


def explain_verdict(judgement: Judgement) -> str:
    if judgement.verdict is Verdict.NOT_TESTED:
        return judgement.why
    value, interval, wanted = _measured(judgement)
    where = f", {shown}" if (shown := _shown_case(judgement)) else ""
    parts = [
        f"{judgement.guideline.claimed.metric} {value} ({interval}){where}, wanted {wanted}" if value else "no figures"
    ]
    parts += [_rests_on(judgement), remaining_effort(judgement), *judgement.notes]
    return "; ".join(filter(None, parts))


_TOO_FEW = "more trials (with so few, their number is unknown)"


def remaining_effort(judgement: Judgement) -> str:
    if judgement.verdict is not Verdict.INCONCLUSIVE:
        return judgement.why
    if judgement.blocked:
        return "a faster host, or `slow:` (this host took too much of the time of its trials)"
    if (deciding := judgement.deciding) is None or judgement.more is None:
        if any(one.value is None for one in judgement.results):
            return "missing figures"
        least = min((one.n for one in judgement.results), default=0)
        return _TOO_FEW if least < 2 else "more trials hardly help, because the value is close to the limit"
    fewer = ""
    if deciding.host_limited:
        fewer = ", fewer with `slow:`" if judgement.more > 1 else ", or none with `slow:`"
    return f"about {judgement.more:,} more {_unit(deciding, judgement.more)} of each cell{fewer}"


def _shown_case(judgement: Judgement) -> str:
    telling = judgement.telling
    if telling is None or not telling.case.label:
        return ""
    return f"{'case ' * (len(judgement.results) > 1)}shown: {telling.case.label}"


def _measured(judgement: Judgement) -> tuple[str, str, str]:
    result = judgement.telling
    return ("", "", "") if result is None else _figures(judgement, result)


def _figures(judgement: Judgement, result: CaseResult) -> tuple[str, str, str]:
    unit = judgement.guideline.claimed.figure.unit if result.case.absolute else ""
    interval = "" if result.value is None else _between(result.low, result.high, unit)
    low, high = result.case.low, result.case.high
    if high == inf:
        wanted = f"at least {_in(low, unit)}"
    else:
        wanted = _between(low, high, unit) if low else f"at most {_in(high, unit)}"
    return _in(result.value, unit), interval, wanted


def _between(low: float, high: float, unit: str) -> str:
    if high == inf:
        return "unbounded" if not low else f"from {_in(low, unit)}"
    return f"{_in(low, unit)} to {_in(high, unit)}" if unit else times_between(low, high)


def _in(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return figure(value, unit) if unit else times(value)


def _rests_on(judgement: Judgement) -> str:
    measured = [one for one in judgement.results if one.n]
    if not measured:
        return ""
    telling = judgement.telling or measured[0]
    # Do not mix counts of runs and of trials.
    counts = [one.n for one in measured if _unit(one, 1) == _unit(telling, 1)]
    span = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    several = f", {len(judgement.results)} cases" if len(judgement.results) > 1 else ""
    cells = f"{len(judgement.cells)} cell{'s' if len(judgement.cells) > 1 else ''}"
    host_limited = " (!)" if any(one.host_limited for one in judgement.results) else ""
    return f"{span} {_unit(telling, max(counts))} of {cells}{several}{host_limited}"


def _unit(result: CaseResult, count: int) -> str:
    one = "run" if result.runs > 1 else "trial"
    return one if count == 1 else f"{one}s"


def _notes(judgements: Sequence[Judgement], *, claims: bool) -> list[str]:
    counts = Counter(one.verdict for one in judgements)
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    synthetic = any(one.synthetic for one in judgements)
    uncounted = "figures are synthetic, so these verdicts do not count"
    notes = [f"guidelines: {counted}{f'; {uncounted}' * synthetic}"]
    if len(judgements) == 1 and not claims:  # the row of the table has its verdict
        notes = [uncounted] if synthetic else []
    for one in judgements:
        effort = remaining_effort(one) if claims else ""
        if effort and one.verdict is Verdict.INCONCLUSIVE:
            effort = f"to decide it: {effort}"
        more = list(filter(None, (one.guideline.claim if claims else "", _shown_case(one), effort, *one.notes)))
        if more and (one.verdict is not Verdict.HOLDS or one.notes):
            notes.append(f"{one.guideline.id}: {'; '.join(more)}")
    return notes


def _rows(judgement: Judgement) -> list[tuple[Value, ...]]:
    guideline = judgement.guideline
    metric = guideline.claimed.figure
    head = (*(guideline.id, str(judgement.verdict), judgement.synthetic, guideline.shape, metric.name),)
    notes = "; ".join(filter(None, (judgement.why, *judgement.notes)))
    if not judgement.results:
        return [(*head, None, guideline.claim, guideline.source, *[None] * 7, guideline.confidence, *[None] * 3, notes)]
    return [
        (
            *head,
            metric.unit if one.case.absolute else "ratio",
            *(guideline.claim, guideline.source, one.case.label, str(one.verdict)),
            *(one.value, *_finite(one.low, one.high), *_finite(one.case.low, one.case.high)),
            *(guideline.confidence, one.n, one.enough, " ".join(one.case.cells), notes),
        )
        for one in judgement.results
    ]


def _finite(low: float, high: float) -> tuple[float | None, float | None]:
    return low or None, None if high == inf else high


MOST_LINES = 20


def knee_lines(knees: Sequence[Knee], *, over: bool, synthetic: bool) -> Iterator[str]:
    mark = " (synthetic)" * synthetic
    for kind, title in ((False, f"Most work within a latency{mark}:"), (True, f"Best value of an axis{mark}:")):
        lines = [_knee_line(knee, over=over) for knee in knees[:MOST_LINES] if knee.search.find.is_for_best == kind]
        yield from (title, *lines) if lines else ()
    if len(knees) > MOST_LINES:
        yield f"  {len(knees) - MOST_LINES:,} more searches are in found.csv."


def _knee_line(knee: Knee, *, over: bool) -> str:
    value, known, where = _texts(knee, over=over)
    limit = f" while {knee.search.find.limit}" if knee.search.find.limit else ""
    return f"  {knee.search.name}: {value}{f' ({known})' if known else ''}{limit}; {where}"


def knee_table(knees: Sequence[Knee], *, over: bool) -> Grid:
    columns = ("search", "most work", "interval", "while", "where", "trials")
    rows: list[tuple[Value, ...]] = []
    for knee in knees:
        value, known, where = _texts(knee, over=over)
        rows.append((knee.search.name, value, known, knee.search.find.limit or "", where, str(knee.trials)))
    return Grid(columns, rows, (), frozenset(("most work", "interval", "trials")))


def knee_values(knee: Knee) -> dict[str, Value]:
    find = knee.search.find
    names = ("work", "work_low", "work_high", "work_rel")
    work: dict[str, Value] = dict(zip(names, estimate_values(knee.work), strict=True))
    about: dict[str, Value] = {"search": knee.search.name, "axis": find.axis, "while": find.limit or ""}
    around: dict[str, Value] = {"within": knee.within, "beyond": knee.beyond, "trials": knee.trials}
    costs: dict[str, Value] = {"keeps_default": BOOLS[knee.keeps_default], "memory": knee.memory}
    return {**about, "metric": find.max, "unit": find.metric.unit, "found": str(knee.found), **work, **around, **costs}


def _texts(knee: Knee, *, over: bool) -> tuple[str, str, str]:
    axis = (knee.search.find.over or "").removeprefix("tune.")
    unit = knee.search.find.metric.unit
    if knee.work is None:
        return "not found", "", "too few trials with figures" if over else "the search is not finished"
    value, known = figure(knee.work.mean, unit), interval(knee.work, unit)
    match knee.found:
        case Found.ABOVE:
            return f"> {value}", known, f"even {axis} {knee.within}, the largest value, is within the limit"
        case Found.BELOW:
            return "none", "", f"even {axis} {knee.beyond}, the smallest value, is beyond the limit, with {value}"
        case Found.BETWEEN:
            where = f"between {axis} {knee.within} and {knee.beyond}"
        case _:
            where = f"{axis} {knee.within} {'; '.join(filter(None, _about_best(knee)))}"
    return value, known, where + (f" (!) {knee.host_limited} trials host-limited" if knee.host_limited else "")


def _about_best(knee: Knee) -> Iterator[str]:
    sure = "is" if knee.found is Found.BEST else "may be (this is not decided)"
    smallest = f"smallest within {knee.practical * 100:g} % of the best ({knee.beyond})"
    yield f"{sure} the {'best' if knee.within == knee.beyond else smallest}"
    yield f"it takes {format_size(knee.memory)} of memory" if knee.memory else ""
    ahead, axis = knee.ahead, knee.search.find.axis
    if knee.keeps_default:
        yield "the default is as good: keep it"
    elif ahead and ahead.low > 1:
        yield f"the best is {times_within(ahead.ratio, ahead.low, ahead.high)} as fast as the default"
    elif ahead:
        yield "whether the default is as good is not decided"
    elif is_tunable(axis):
        yield f"add `default` to the values of {axis} to compare it"
