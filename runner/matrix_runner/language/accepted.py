"""baselines.yaml and known-changes.yaml as written: what nights are compared with, and which changes are accepted."""

import re
from datetime import date
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PlainSerializer, TypeAdapter, WithJsonSchema, model_validator

from matrix_runner.base.axes import Where
from matrix_runner.base.model import Model
from matrix_runner.language.guidelines import listed

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
BASELINES: TypeAdapter[tuple[Baseline, ...]] = TypeAdapter(Baselines)
KNOWN_CHANGES: TypeAdapter[tuple[KnownChange, ...]] = TypeAdapter(KnownChanges)


class Accepted(Model):
    """Both files, so that messages know their keys."""

    baselines: Baselines = ()
    known_changes: KnownChanges = ()
