"""What results are compared with: the published figures of a study, baselines and accepted changes of nights."""

import re
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)

from matrix_runner.base.model import Condition, Model, Name, SomeCells, Where
from matrix_runner.language.guidelines import MetricName, listed, repeated
from matrix_runner.work.metrics import Metric, metric_named

TIMES = frozenset({"s", "ms", "min", "h"})  # units of time: less is better


#: A measured ratio within this factor of the published one meets it; so does one of two tables of a source the other.
MARGIN = 0.15
Rule = Literal["repeat", "doubted", "no measurement", "input"]
#: Keys of a row, and the rule by which its ratios cannot be decided.
_RULES: dict[str, Rule] = {"doubted": "doubted", "assumed": "no measurement", "input": "input"}


class Undecidable(NamedTuple):
    """Why a measurement can neither meet nor miss a published ratio."""

    rule: Rule
    reason: str


class Row(Model):
    """A published figure, and the cells that correspond to it."""

    where: Where = Field(default_factory=dict)
    value: float | None = Field(None, gt=0, description="as published; absent if it was measured and not published")
    to: SomeCells | None = Field(None, description="its base, if that is not the base of the table")
    remark: str = Field("", description="a remark of the source")
    why: str = Field("", description="why it differs by more than 15 %, if it does")
    unmeasured: str = Field("", description="why no cell corresponds to it")
    doubted: str = Field("", description="the source's own doubt about this figure")
    assumed: str = Field("", description="why it is no measurement: a limit, an expectation or what was paid for")
    input: str = Field("", description="the disk model here is made from this figure")

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if not (self.where or self.unmeasured):
            raise ValueError("write the cells (`where`), or why there are none (`unmeasured`)")
        return self


class Reason(Model):
    """Why some rows differ by more than 15 %."""

    where: SomeCells
    why: str
    experiment: Where = Field(
        default_factory=dict,
        description="coordinates that switch this cause on, for these rows and their base; the page compares both",
    )
    base: Where = Field(default_factory=dict, description="coordinates that switch it on for the base, if they differ")


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
    repeats: Name | None = Field(
        None,
        description="the table with the same tests, measured once more by the source",
    )

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

    def ratio_of(self, row: Row) -> float | None:
        base = self.base_of(row)
        return None if base is None else self.ratio(row, base)

    def why(self, row: Row) -> str:
        return row.why or (reason.why if (reason := self._reason(row)) else "")

    def experiment(self, row: Row) -> tuple[Condition, Condition]:
        """Return the coordinates that switch the suspected cause of a difference on, for the row and for its base."""
        reason = None if row.why else self._reason(row)
        return (reason.experiment, reason.base or reason.experiment) if reason else ({}, {})

    def _reason(self, row: Row) -> Reason | None:
        return next((one for one in self.whys if _within(one.where, row.where)), None)


def within(value: float, ratio: float) -> bool:
    return 1 / (1 + MARGIN) <= value / ratio <= 1 + MARGIN


def _within(part: Condition, whole: Condition) -> bool:
    return all(key in whole and whole[key] == value for key, value in part.items())


def _different(found: tuple[Table, ...]) -> tuple[Table, ...]:
    if twice := repeated([one.id for one in found]):
        raise ValueError(f"several tables are called {', '.join(twice)}")
    for one in found:
        if one.repeats is not None and one.repeats not in {other.id for other in found} - {one.id}:
            raise ValueError(f"table {one.id} repeats {one.repeats}, and there is no other table of this name")
    return found


class Published(Model):
    """All tables from one source."""

    source: str
    tables: Annotated[tuple[Table, ...], BeforeValidator(listed), AfterValidator(_different)] = Field(min_length=1)

    def undecidable(self, table: Table, row: Row) -> Undecidable | None:
        """Return why the source cannot tell the ratio of a row: by its own repeat, or by the row or its base."""
        ratio, base = table.ratio_of(row), table.base_of(row)
        if ratio is None or base is None:
            return None
        for other in (one for one in self.tables if one.repeats == table.id or table.repeats == one.id):
            again = next(
                (other.ratio_of(one) for one in other.rows if (one.where, one.to) == (row.where, row.to)), None
            )
            if again is not None and not within(again, ratio):
                return Undecidable("repeat", f"table {other.id} has {again:.2f} times for the same test")
        texts = ((rule, getattr(one, key)) for key, rule in _RULES.items() for one in (row, base))
        return next((Undecidable(rule, text) for rule, text in texts if text), None)


_CHANGE = re.compile(r"\s*([+-])\s*(\d+(?:\.\d+)?)\s*%\s*", re.ASCII)


def parse_change(value: object) -> float:
    """Parse `-8%` as the factor 0.92."""
    match = _CHANGE.fullmatch(value) if isinstance(value, str) else None
    factor = 1 + float(match[1] + match[2]) / 100 if match else 0.0
    if match is None or factor == 1:
        raise ValueError("not a change; write it with its sign, like -8% for slower or +12% for faster")
    if factor <= 0:
        raise ValueError("not a change of speed: -100% and less leave no speed")
    return factor


def format_change(factor: float) -> str:
    return f"{100 * (factor - 1):+.3g}%"


def _parse_day(value: Any) -> date:
    if type(value) is date:
        return value
    try:
        return date.fromisoformat(value) if isinstance(value, str) else date.fromisoformat("")
    except ValueError:
        raise ValueError("not a day; write it like 2026-03-31") from None


_Change = Annotated[
    float,
    BeforeValidator(parse_change),
    PlainSerializer(format_change),
    WithJsonSchema({"type": "string", "pattern": f"^{_CHANGE.pattern}$", "examples": ["-8%"]}),
]
_Day = Annotated[date, BeforeValidator(_parse_day), WithJsonSchema({"type": "string", "format": "date"})]
_Pattern = Annotated[str, Field(min_length=1)]
_ANY: Any = Field("*", description="a name or a pattern; any if not given")


class _Entry(Model):
    matrix: _Pattern = _ANY
    host: _Pattern = _ANY


class Baseline(_Entry):
    """The runs that nights of a matrix on some hosts are compared with."""

    run: _Pattern = Field(description="the name of a run folder, its id, or a pattern of such names")
    reason: str = ""


class KnownChange(_Entry):
    """An accepted change of the speed of some cells."""

    cells: Where = Field(default_factory=dict, description="the cells by their coordinates; all if not given")
    metric: MetricName | None = Field(None, description="the figure, e.g. `read.iops`; all if not given")
    change: _Change = Field(description="how much faster (+) or slower (-), relative to the level before")
    since: _Day = Field(description="the first night with the change")
    until: _Day | None = Field(None, description="the last night for which it is accepted; no limit if not given")
    reason: str = Field(min_length=1)
    link: str = ""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.until is not None and self.until < self.since:
            raise ValueError(f"`until` ({self.until}) is before `since` ({self.since})")
        return self

    def is_accepted_on(self, day: date) -> bool:
        return self.since <= day and (self.until is None or day <= self.until)


Baselines = Annotated[tuple[Baseline, ...], BeforeValidator(listed)]
KnownChanges = Annotated[tuple[KnownChange, ...], BeforeValidator(listed)]
BASELINES: TypeAdapter[tuple[Baseline, ...]] = TypeAdapter(Baselines, config=ConfigDict(defer_build=True))
KNOWN_CHANGES: TypeAdapter[tuple[KnownChange, ...]] = TypeAdapter(KnownChanges, config=ConfigDict(defer_build=True))


class Accepted(Model):
    """Both files, so that messages know their keys."""

    baselines: Baselines = ()
    known_changes: KnownChanges = ()
