"""Comparison of published figures with measured ones.

A published ratio is judged like a claim: the measured ratio must lie within 15 % of it. Figures of cells that a row
does not distinguish count as their geometric mean, as in an `effect`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from matrix_runner.answers.cell_figures import Measured, Verdict
from matrix_runner.answers.claims import Case, ClaimScope, NotTested, Term
from matrix_runner.answers.evaluate import CaseResult, Level, check_case
from matrix_runner.answers.verdicts import Judgement, by_run, judge_guidelines
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

    @property
    def near(self) -> bool:
        value = self.result.value if self.result else None
        return bool(self.ratio and value and within(value, self.ratio))


def columns_of(published: Published) -> list[str]:
    return list(dict.fromkeys(column for one in published.tables for column in one.figure.columns))


def tally(held: Iterable[ComparedFigure]) -> Counter[Verdict]:
    return Counter(one.verdict for one in held if one.verdict is not None)


def compare_published(
    published: Published, found: Iterable[Measured], *, synthetic: bool = False, share: float = 1.0
) -> list[ComparedFigure]:
    measured = list(found)
    rows = [(table, row) for table in published.tables for row in table.rows]
    claims = [_claim(table, row, f"r{at}") for at, (table, row) in enumerate(rows)]
    judgements = judge_guidelines(filter(None, claims), measured, synthetic=synthetic, share=share)
    by_claim = {one.guideline.id: one for one in judgements}
    runs = by_run(measured)
    found_rows = (
        _held(table, row, by_claim.get(f"r{at}"), _level(table, row, list(runs.values())), synthetic=synthetic)
        for at, (table, row) in enumerate(rows)
    )
    return [replace(one, undecidable=published.undecidable(one.table, one.row)) for one in found_rows]


def _claim(table: Table, row: Row, name: str) -> Guideline | None:
    """Return the claim of the published ratio. An unpublished one is measured too, with bounds that always hold."""
    base = table.base_of(row)
    if base is None or row.unmeasured or base.unmeasured:
        return None
    ratio = table.ratio(row, base)
    claim = {
        "metric": table.metric,
        "where": table.where,
        "of": row.where,
        "to": base.where,
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
