"""What a study published, as data: tables of figures, and which of them are held against which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from runner.base.model import Model, Name
from runner.language.filter import SomeCells, Where
from runner.language.guidelines import MetricName, listed, repeated
from runner.language.metrics import KNOWN, Metric

if TYPE_CHECKING:
    from runner.language.filter import Condition

#: Published in one of these, work that was done faster has the smaller figure.
TIMES = frozenset({"s", "ms", "min", "h"})


class Row(Model):
    """A published figure, and the cells that are its counterpart here."""

    where: Where = Field(default_factory=dict)
    value: Annotated[
        float | None, Field(gt=0, description="as it was published; none: it was measured, and not told")
    ] = None
    to: Annotated[
        SomeCells | None, Field(description="what it is held against, where that is not the table's base")
    ] = None
    remark: Annotated[str, Field(description="what the source itself says of it")] = ""
    why: Annotated[str, Field(description="why it is not within 15 %, if it is not")] = ""
    unmeasured: Annotated[str, Field(description="why nothing here is its counterpart")] = ""

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if not (self.where or self.unmeasured):
            raise ValueError("say which cells this is about (`where`), or why there are none (`unmeasured`)")
        return self


class Reason(Model):
    """Why some rows are not within 15 %, if they are not."""

    where: SomeCells
    why: str


class Table(Model):
    """A table of the source: what its rows have in common, and which of them is the measure of the others."""

    id: Name
    title: str = ""
    at: Annotated[str, Field(description="where in the source")] = ""
    metric: MetricName
    unit: Annotated[
        str, Field(description=f"of the published figures; {', '.join(sorted(TIMES))}: a time for the work")
    ]
    where: Where = Field(default_factory=dict)
    base: Annotated[SomeCells | None, Field(description="what the rows are held against, all else being equal")] = None
    rows: Annotated[tuple[Row, ...], BeforeValidator(listed), Field(min_length=1)]
    whys: Annotated[tuple[Reason, ...], BeforeValidator(listed)] = ()

    @property
    def figure(self) -> Metric:
        """The figure of a trial that its rows are about."""
        return KNOWN[self.metric]

    def held_against(self, row: Row) -> Condition | None:
        """The place of the row that this one is a multiple of; None of a row that is such a measure, or has none."""
        to = row.to or self.base
        if to is None or (row.to is None and _within(to, row.where)):
            return None
        return {**row.where, **to}

    def base_of(self, row: Row) -> Row | None:
        """The row that this one is a multiple of: the one that says most of that place, and nothing else."""
        place = self.held_against(row)
        if place is None:
            return None
        fitting = [one for one in self.rows if one is not row and one.where and _within(one.where, place)]
        fitting = [one for one in fitting if _within(row.to or self.base or {}, one.where)]
        return max(fitting, key=lambda one: len(one.where), default=None)

    def ratio(self, row: Row, base: Row) -> float | None:
        """How many times as much was published; of times for some work, how many times as fast. None: it was not."""
        if row.value is None or base.value is None:
            return None
        inverse = self.unit in TIMES and self.figure.unit != "ns"
        return base.value / row.value if inverse else row.value / base.value

    def why(self, row: Row) -> str:
        """The reason that is given for a row, should it not be within 15 %."""
        return row.why or next((one.why for one in self.whys if _within(one.where, row.where)), "")


def _within(part: Condition, whole: Condition) -> bool:
    return all(key in whole and whole[key] == value for key, value in part.items())


def _different(found: tuple[Table, ...]) -> tuple[Table, ...]:
    if twice := repeated([one.id for one in found]):
        raise ValueError(f"several tables are called {', '.join(twice)}")
    return found


class Published(Model):
    """All that is taken from one source."""

    source: str
    tables: Annotated[tuple[Table, ...], BeforeValidator(listed), AfterValidator(_different), Field(min_length=1)]
