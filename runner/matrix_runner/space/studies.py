"""The published figures of a study, checked against the matrix beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from matrix_runner.base.findings import Flaw
from matrix_runner.base.findings import Path as Keys
from matrix_runner.language.messages import from_pydantic
from matrix_runner.language.published import Published, Row, Table
from matrix_runner.language.yaml_source import read
from matrix_runner.space.guideline_references import intersect_rules
from matrix_runner.space.load import BadMatrix, placed, readable, text_of
from matrix_runner.space.rules import amiss, rule_of
from matrix_runner.space.select import Selection, select, values_of

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.base.axes import Condition
    from matrix_runner.space.space import Space

#: File names in the folder of a study, and in the folder of a run of it.
MATRIX, PUBLISHED = "matrix.yaml", "published.yaml"


@dataclass(frozen=True, slots=True)
class Study:
    text: str
    published: Published


def study_beside(matrix: Path, space: Space) -> Study | None:
    path = matrix.with_name(PUBLISHED)
    if matrix.name != MATRIX or not path.is_file():
        return None
    return parse_published(str(path), text_of(path), space)


def parse_published(name: str, text: str, space: Space) -> Study:
    source = readable(name, text, read)
    try:
        found = Published.model_validate(source.data)
    except ValidationError as error:
        raise BadMatrix(source, placed(source, from_pydantic(error, source, Published))) from None
    checks = _Checks(values_of(space), select(space))
    flaws = [flaw for at, table in enumerate(found.tables) for flaw in checks.of_table(table, ("tables", at))]
    if flaws:
        raise BadMatrix(source, placed(source, flaws))
    return Study(text, found)


@dataclass(frozen=True, slots=True)
class _Checks:
    values: Mapping[str, set[str]]
    selection: Selection

    def of_table(self, table: Table, place: Keys) -> Iterator[Flaw]:
        common = list(self._misnamed(table.where, (*place, "where")))
        yield from common
        yield from self._misnamed(table.base or {}, (*place, "base"))
        for at, row in enumerate(table.rows):
            yield from self._of_row(table, row, (*place, "rows", at), common=not common)
        for at, reason in enumerate(table.whys):
            if not any(reason.where.items() <= row.where.items() for row in table.rows):
                yield Flaw((*place, "whys", at, "where"), "no row of this table has all of these values")

    def _of_row(self, table: Table, row: Row, place: Keys, *, common: bool) -> Iterator[Flaw]:
        if any(one is not row and one.where == row.where and one.to == row.to for one in table.rows if row.where):
            yield Flaw(place, "another row of this table has the same `where` and `to`")
        if (against := table.held_against(row)) is not None and table.base_of(row) is None:
            base = ", ".join(f"{key}: {value}" for key, value in against.items())
            yield Flaw(place, f"the base of this row is missing in the table: {{{base}}}")
        if row.unmeasured:
            return
        wrong = [*self._misnamed(row.where, (*place, "where")), *self._misnamed(row.to or {}, (*place, "to"))]
        yield from wrong
        if common and not wrong:
            rule = intersect_rules(rule_of(table.where, self.values), rule_of(row.where, self.values))
            only = (*self.selection.only, (rule,)) if rule else ()
            if rule is None or not replace(self.selection, only=only).count():
                yield Flaw((*place, "where"), "no cell matches all of these values")

    def _misnamed(self, condition: Condition, place: Keys) -> Iterator[Flaw]:
        for error in amiss(condition, self.values):
            yield Flaw((*place, error.key), error.message, error.of_key)
