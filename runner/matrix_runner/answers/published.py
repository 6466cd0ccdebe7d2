"""Comparison of published figures with measured ones.

A published ratio is judged like a claim: the measured ratio must lie within 15 % of it. Figures of cells that a row
does not distinguish count as their geometric mean, as in an `effect`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from matrix_runner.answers.cell_figures import Measured, Verdict
from matrix_runner.answers.claims import Case, ClaimScope, NotTested, Term
from matrix_runner.answers.evaluate import CaseResult, Level, check_case
from matrix_runner.answers.verdicts import Judgement, by_run, judge_guidelines
from matrix_runner.base.model import Condition
from matrix_runner.language.guidelines import Guideline
from matrix_runner.language.references import MARGIN, Published, Row, Table, Undecidable, within

_ANY = "0.000000001"


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    table: Table
    row: Row
    #: The published ratio to the base; None for the base itself.
    ratio: float | None
    verdict: Verdict | None
    #: The measured ratio, and the measured figure.
    result: CaseResult | None
    level: CaseResult | None
    #: Why it is not, or may not be, within 15 %, or was not measured.
    why: str = ""
    synthetic: bool = False
    #: Why the source cannot tell its own ratio. The verdict is that of the measurement all the same.
    undecidable: Undecidable | None = None
    #: The ratio with its suspected cause switched on.
    experiment: CaseResult | None = None

    @property
    def near(self) -> bool:
        value = self.result.value if self.result else None
        return bool(self.ratio and value and within(value, self.ratio))

    @property
    def explained(self) -> float | None:
        """Return the share of the distance from the published ratio that goes when the cause is switched on.

        It is 0 if the experiment could as well have no effect.
        """
        without = self.result.value if self.result else None
        caused = self.experiment.value if self.experiment else None
        if self.verdict is Verdict.HOLDS or self.near or not (self.ratio and without and caused):
            return None
        if self.experiment and self.experiment.low <= without <= self.experiment.high:
            return 0.0
        return 1 - abs(log(caused / self.ratio)) / abs(log(without / self.ratio))


def columns_of(published: Published) -> list[str]:
    return list(dict.fromkeys(column for one in published.tables for column in one.figure.columns))


def tally(held: Iterable[ComparedFigure]) -> Counter[Verdict]:
    return Counter(one.verdict for one in held if one.verdict is not None)


def compare_published(
    published: Published, found: Iterable[Measured], *, synthetic: bool = False, share: float = 1.0
) -> list[ComparedFigure]:
    measured = list(found)
    rows = [(table, row) for table in published.tables for row in table.rows]
    runs = by_run(measured)

    def judged(name: str, causes: Iterable[tuple[Condition, Condition]]) -> list[Judgement | None]:
        claims = [_claim(*one, f"{name}{at}", *cause) for at, (one, cause) in enumerate(zip(rows, causes, strict=True))]
        judgements = judge_guidelines(filter(None, claims), measured, synthetic=synthetic, share=share)
        by_claim = {one.guideline.id: one for one in judgements}
        return [by_claim.get(claim.id) if claim else None for claim in claims]

    as_published = judged("r", [({}, {})] * len(rows))
    causes = [table.experiment(row) for table, row in rows]
    experiments = judged("e", causes) if any(of for of, _ in causes) else [None] * len(rows)
    return [
        replace(
            _held(table, row, judgement, _level(table, row, list(runs.values())), synthetic=synthetic),
            undecidable=published.undecidable(table, row),
            experiment=next(iter(experiment.results), None) if experiment and cause[0] else None,
        )
        for (table, row), judgement, experiment, cause in zip(rows, as_published, experiments, causes, strict=True)
    ]


def _claim(table: Table, row: Row, name: str, cause: Condition, of_base: Condition) -> Guideline | None:
    """Return the claim of the published ratio. An unpublished one is measured too, with bounds that always hold."""
    base = table.base_of(row)
    if base is None or row.unmeasured or base.unmeasured:
        return None
    of, to = {**row.where, **cause}, {**base.where, **of_base}
    if of == to:
        return None
    ratio = table.ratio(row, base)
    claim = {
        "metric": table.metric,
        "where": {key: value for key, value in table.where.items() if key not in cause},
        "of": of,
        "to": to,
        "mean": True,
        "at_least": _ANY if ratio is None else f"{ratio / (1 + MARGIN):.12f}",
        **({} if ratio is None else {"at_most": f"{ratio * (1 + MARGIN):.12f}"}),
    }
    return Guideline.model_validate({"id": name, "ratio": claim})


def _held(
    table: Table, row: Row, judgement: Judgement | None, level: CaseResult | None, *, synthetic: bool
) -> ComparedFigure:
    base = table.base_of(row)
    if base is None:
        return ComparedFigure(table, row, None, None, None, level, row.unmeasured, synthetic)
    ratio = table.ratio(row, base)
    if judgement is None:
        # A row without a value is only listed: its ratio was not published.
        verdict = None if ratio is None else Verdict.NOT_TESTED
        return ComparedFigure(table, row, ratio, verdict, None, level, row.unmeasured or base.unmeasured, synthetic)
    verdict = None if ratio is None else judgement.verdict
    why = table.why(row) if verdict in {Verdict.FAILS, Verdict.INCONCLUSIVE} else judgement.why
    return ComparedFigure(table, row, ratio, verdict, next(iter(judgement.results), None), level, why, synthetic)


def _level(table: Table, row: Row, runs: Sequence[Mapping[str, Measured]]) -> CaseResult | None:
    metric = table.figure
    field = ClaimScope.of([one.cell for run in runs for one in run.values() if one.has(metric)])
    try:
        cells = dict.fromkeys(cell.id for cell in field.chosen(table.where, row.where)) if row.where else ()
    except NotTested:
        return None
    terms = tuple(Term(1 / len(cells), (cell,)) for cell in cells)
    result = check_case(Case("", terms, absolute=True), runs, metric, Level(0.95)) if terms else None
    return result if result and result.value is not None else None
