"""The published figures of a study, as data: tables of figures, and what each figure is a multiple of."""

from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from matrix_runner.base.axes import Condition, SomeCells, Where
from matrix_runner.base.model import Model, Name
from matrix_runner.language.guidelines import MetricName, listed, repeated
from matrix_runner.work.metrics import Metric, metric_named

TIMES = frozenset({"s", "ms", "min", "h"})  # units of time: less is better


class Row(Model):
    """A published figure, and the cells that correspond to it."""

    where: Where = Field(default_factory=dict)
    value: float | None = Field(None, gt=0, description="as published; absent if it was measured and not published")
    to: SomeCells | None = Field(None, description="its base, if that is not the base of the table")
    remark: str = Field("", description="a remark of the source")
    why: str = Field("", description="why it differs by more than 15 %, if it does")
    unmeasured: str = Field("", description="why no cell corresponds to it")

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if not (self.where or self.unmeasured):
            raise ValueError("write the cells (`where`), or why there are none (`unmeasured`)")
        return self


class Reason(Model):
    """Why some rows differ by more than 15 %."""

    where: SomeCells
    why: str


class Table(Model):
    """A table of the source: common coordinates, rows, and the base of the rows."""

    id: Name
    title: str = ""
    at: str = Field("", description="the place in the source")
    metric: MetricName
    unit: str = Field(description=f"unit of the published figures; {', '.join(sorted(TIMES))} are times")
    where: Where = Field(default_factory=dict)
    base: SomeCells | None = Field(None, description="the base of the rows; all other coordinates are equal")
    rows: Annotated[tuple[Row, ...], BeforeValidator(listed)] = Field(min_length=1)
    whys: Annotated[tuple[Reason, ...], BeforeValidator(listed)] = ()

    @property
    def figure(self) -> Metric:
        return metric_named(self.metric)

    def held_against(self, row: Row) -> Condition | None:
        to = row.to or self.base
        if to is None or (row.to is None and _within(to, row.where)):
            return None
        return {**row.where, **to}

    def base_of(self, row: Row) -> Row | None:
        """Return the row that this one is a multiple of: the most specific row with these coordinates."""
        place = self.held_against(row)
        if place is None:
            return None
        fitting = [one for one in self.rows if one is not row and one.where and _within(one.where, place)]
        fitting = [one for one in fitting if _within(row.to or self.base or {}, one.where)]
        return max(fitting, key=lambda one: len(one.where), default=None)

    def ratio(self, row: Row, base: Row) -> float | None:
        if row.value is None or base.value is None:
            return None
        inverse = self.unit in TIMES and self.figure.unit != "ns"
        return base.value / row.value if inverse else row.value / base.value

    def why(self, row: Row) -> str:
        return row.why or next((one.why for one in self.whys if _within(one.where, row.where)), "")


def _within(part: Condition, whole: Condition) -> bool:
    return all(key in whole and whole[key] == value for key, value in part.items())


def _different(found: tuple[Table, ...]) -> tuple[Table, ...]:
    if twice := repeated([one.id for one in found]):
        raise ValueError(f"several tables are called {', '.join(twice)}")
    return found


class Published(Model):
    """All tables from one source."""

    source: str
    tables: Annotated[tuple[Table, ...], BeforeValidator(listed), AfterValidator(_different)] = Field(min_length=1)
