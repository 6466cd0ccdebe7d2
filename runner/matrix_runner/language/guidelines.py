"""Guidelines as written: a claim about cells, in one of a few shapes, which trials can confirm or refute."""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from matrix_runner.base.model import ChangeSchema, Model, Name, Percent, Scalar, SomeCells, Where, conditions, model_in
from matrix_runner.base.quantities import parse_percent, parse_rate, parse_time
from matrix_runner.work.metrics import FOUND, KNOWN, OF_JOBS, PER_REQUEST, Metric, metric_named

_FACTOR = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:x|per\s+\S+)?\s*", re.ASCII)
_COUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(IOPS|per request)?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Amount:
    value: float
    unit: str


def parse_factor(value: object) -> float:
    """Parse `1.3x`, `0.9 per stripe` or `1.3`."""
    match = _FACTOR.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if match is None or isinstance(value, bool) or not float(match[1]):
        raise ValueError("not a factor; write it like 1.3x, or for scaling like 0.9 per stripe")
    return float(match[1])


def parse_amount(value: object) -> Amount:
    """Parse `200MB/s`, `240 IOPS`, `12ms` or `95%`."""
    if isinstance(value, str) and value.rstrip().endswith("/s"):
        return Amount(float(parse_rate(value)), "bytes/s")
    if isinstance(value, str) and value.rstrip().endswith("%"):
        return Amount(float(parse_percent(value)), "share")
    match = _COUNT.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if match and not isinstance(value, bool):
        return Amount(float(match[1]), PER_REQUEST if match[2] == PER_REQUEST else "1/s")
    try:
        return Amount(parse_time(value) * 1e9, "ns")
    except ValueError:
        raise ValueError("neither a rate (200MB/s, 240 IOPS), a time (12ms), a share (95%) nor 2 per request") from None


def _metric(name: str) -> str:
    try:
        return metric_named(name).name
    except KeyError:
        raise ValueError(f"there is no such metric; {_meant(name)}") from None


def _meant(name: str) -> str:
    from matrix_runner.language.suggestions import did_you_mean

    before, _, last = name.rpartition(".")
    of_column = ".".join(filter(None, (before, last.replace("_", ".", 1))))
    for spelling in (of_column, f"{before}.lat_{last}"):
        with suppress(KeyError):
            return f"did you mean {metric_named(spelling).name}?"
    job = before.rpartition(".")[0]
    return did_you_mean(name, [f"{job}.{one}" for one in OF_JOBS] if job else KNOWN)


def _claimed(name: str) -> str:
    return name if name in FOUND else _metric(name)


def listed(value: Any) -> Any:
    """Freeze a list. Pydantic reports anything else."""
    return tuple(value) if isinstance(value, list) else value


def _shape(follows: tuple[float, ...]) -> tuple[float, ...]:
    if len(follows) < 2:
        raise ValueError("a shape has a number for each value of the axis, and at least two")
    return follows


_OF_JOB = {"type": "string", "pattern": rf"^.+\.({'|'.join(map(re.escape, OF_JOBS))})$"}
MetricName = Annotated[str, AfterValidator(_metric), WithJsonSchema({"anyOf": [{"enum": list(KNOWN)}, _OF_JOB]})]
_ClaimedMetric = Annotated[
    str, AfterValidator(_claimed), WithJsonSchema({"anyOf": [{"enum": [*KNOWN, *FOUND]}, _OF_JOB]})
]
_factor_schema = WithJsonSchema(
    {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": f"^{_FACTOR.pattern}$"}]}
)
Factor = Annotated[float, BeforeValidator(parse_factor), _factor_schema]
AmountText = Annotated[
    Amount,
    BeforeValidator(parse_amount),
    WithJsonSchema(
        {"anyOf": [{"type": "number"}, {"type": "string", "examples": ["200MB/s", "240 IOPS", "12ms", "95%"]}]}
    ),
]
Margin = Annotated[Percent, Field(gt=0, lt=1)]
Tolerance = Annotated[Percent, Field(ge=0, lt=1)]


class Claim(Model):
    """Keys of every claim: a metric, and the cells to look at."""

    metric: _ClaimedMetric
    where: Where = Field(default_factory=dict)

    @property
    def figure(self) -> Metric:
        return FOUND.get(self.metric) or metric_named(self.metric)

    @model_validator(mode="after")
    def _differ(self) -> Self:
        sides = [getattr(self, side) for side in ("of", "to") if hasattr(self, side)]
        if len(sides) == 2 and sides[0] == sides[1]:
            raise ValueError("both sides select the same cells; change one of them")
        return self


class _Bounded(Claim):
    """A factor between bounds."""

    at_least: Factor | None = None
    at_most: Factor | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        _check_bounds(self.at_least, self.at_most)
        return self


def _check_bounds(least: float | None, most: float | None) -> None:
    if least is None and most is None:
        raise ValueError("the claim is missing; add `at_least` or `at_most`")
    if least is not None and most is not None and least > most:
        raise ValueError(f"`at_least` ({least:g}) is more than `at_most` ({most:g})")


class RatioOf(_Bounded):
    """`of` divided by `to`: for each pair of cells that differ in nothing else, or the mean of all pairs."""

    of: SomeCells
    to: SomeCells
    within: Margin | None = Field(None, description="in place of bounds: the ratio is 1, within this margin")
    mean: bool = Field(False, description="whether only the mean of all pairs counts, not each of them")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.within is None:
            _check_bounds(self.at_least, self.at_most)
        elif self.at_least is not None or self.at_most is not None:
            raise ValueError("`within` is a claim of its own; leave it or `at_least` and `at_most` out")
        return self

    @property
    def limits(self) -> tuple[float, float]:
        if self.within is not None:
            return 1 / (1 + self.within), 1 + self.within
        return self.at_least or 0.0, self.at_most or inf


class Best(Claim):
    """The best value along an axis: no other is better by more than the tolerance."""

    along: str
    value: Scalar = Field(alias="is")
    tolerance: Tolerance = 0.0


class Monotone(Claim):
    """The metric rises (or falls) from each value of an axis to the next, within a tolerance."""

    along: str
    direction: Literal["rises", "falls"]
    tolerance: Tolerance = 0.0


class Scaling(_Bounded):
    """The metric grows with an axis of numbers. `0.9 per stripe`: n stripes give at least n times 0.9 of one stripe."""

    along: str


def _above_nothing(most: Amount | None) -> Amount | None:
    if most is not None and not most.value:
        raise ValueError(
            "a measurement cannot show a value of at most 0; write the largest acceptable value, like 0.1% or 0.1ms"
        )
    return most


_EXAMPLES = {
    "bytes/s": "bytes a second, like 200MB/s",
    "1/s": "requests a second, like 240 IOPS",
    "ns": "a time, like 12ms",
    "share": "a share, like 95%",
    PER_REQUEST: "a number, like 2 per request",
}


class Bound(Claim):
    """The metric itself lies between bounds."""

    at_least: AmountText | None = None
    at_most: Annotated[AmountText | None, AfterValidator(_above_nothing)] = None

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        _check_bounds(*(one.value if one else None for one in (self.at_least, self.at_most)))
        if self.at_most is None and self.at_least is not None and not self.at_least.value:
            raise ValueError("every value is at least 0; write a larger bound")
        for one in (self.at_least, self.at_most):
            if one is not None and one.unit != self._unit:
                raise ValueError(f"the unit does not fit {self.metric}; write {_EXAMPLES[self._unit]}")
        return self

    @property
    def _unit(self) -> str:
        return "ns" if self.figure.unit == "s" else self.figure.unit

    @property
    def limits(self) -> tuple[float, float]:
        """Return the bounds in the unit of the metric."""
        per = 1e9 if self.figure.unit == "s" else 1.0
        least = self.at_least.value / per if self.at_least else 0.0
        return least, self.at_most.value / per if self.at_most else inf


class SumOf(Claim):
    """The whole is the sum of its parts, within a margin: three volumes of 80 IOPS give one of 240."""

    whole: SomeCells
    parts: Annotated[tuple[Where, ...], BeforeValidator(conditions)] = Field(min_length=1)
    times: int = Field(1, ge=1, description="how often each part counts")
    within: Margin


class Profile(Claim):
    """The figures along an axis have a given shape, within a margin."""

    along: str
    follows: Annotated[tuple[Factor, ...], BeforeValidator(listed), AfterValidator(_shape)] = Field(
        description="the shape: a number for each value of the axis, in any unit"
    )
    within: Margin


#: Former names of `ratio`, which work until version 1.0, and what to write.
FORMER_SHAPES = {
    "compare": "`compare` is now called `ratio`",
    "effect": "`effect` is now called `ratio`, with `mean: true`, and its `over` is called `to`",
}
_Former = Annotated[RatioOf | None, Field(json_schema_extra={"deprecated": True})]


class Guideline(Model):
    """A tuning guideline: its source, and a claim that can be measured."""

    id: Name
    claim: str = Field("", description="in words")
    source: str = Field("", description="who recommends it")
    confidence: Annotated[Percent, Field(gt=0.5, lt=1)] = 0.95
    ratio: RatioOf | None = None
    best: Best | None = None
    monotone: Monotone | None = None
    scaling: Scaling | None = None
    bound: Bound | None = None
    sum: SumOf | None = None
    profile: Profile | None = None
    compare: _Former = None
    effect: _Former = None

    @model_validator(mode="before")
    @classmethod
    def _modern(cls, written: Any) -> Any:
        claim = written.get("effect") if isinstance(written, dict) else None
        if not isinstance(claim, dict):
            return written
        return {**written, "effect": {"mean": True, **{"to" if key == "over" else key: claim[key] for key in claim}}}

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self._shapes) != 1:
            found = f"{' and '.join(self._shapes)} are several claims" if self._shapes else "the claim is missing"
            raise ValueError(f"{found}; a guideline has one of {', '.join(SHAPES)}")
        return self

    @property
    def _shapes(self) -> list[str]:
        return [name for name in (*SHAPES, *FORMER_SHAPES) if getattr(self, name) is not None]

    @property
    def shape(self) -> str:
        return self._shapes[0]

    @property
    def claimed(self) -> Claim:
        found: Claim = getattr(self, self.shape)
        return found


SHAPES: dict[str, type[Claim]] = {
    name: shape
    for name, field in Guideline.model_fields.items()
    if name not in FORMER_SHAPES and (shape := model_in(field.annotation)) and issubclass(shape, Claim)
}


def _different(found: tuple[Guideline, ...]) -> tuple[Guideline, ...]:
    twice = repeated([one.id for one in found])
    if twice:
        raise ValueError(f"several guidelines are called {', '.join(twice)}")
    return found


def repeated(names: Sequence[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


_FILE = {"type": "string", "description": "a file of guidelines, or one of them: FILE.yaml#id"}
Guidelines = Annotated[
    tuple[Guideline, ...],
    BeforeValidator(listed),
    AfterValidator(_different),
    ChangeSchema(lambda schema: {**schema, "items": {"anyOf": [schema["items"], _FILE]}}),
]
