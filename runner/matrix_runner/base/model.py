"""The strict, frozen base of declared models, and field types for sizes, times and percentages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from matrix_runner.base.quantities import (
    format_size,
    format_time,
    parse_extent,
    parse_length,
    parse_percent,
    parse_size,
    parse_time,
)

NAME = r"^[A-Za-z][A-Za-z0-9_.+-]*$"
#: A name in a matrix; it becomes a part of file and folder names.
Name = Annotated[str, Field(pattern=NAME, max_length=80)]


@dataclass(frozen=True, slots=True)
class ChangeSchema:
    """Change the JSON schema of a field, if users may write it in more ways than the model shows."""

    change: Callable[[Any], Any]

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        return self.change(handler(core))


class Model(BaseModel):
    """Immutable after parsing; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)


def _schema(pattern: str, example: str) -> dict[str, Any]:
    return {"anyOf": [{"type": "string", "pattern": pattern, "examples": [example]}, {"const": 0}]}


_SIZE_PATTERN = r"^\s*\d+(\.\d+)?\s*(B|[KMGT]iB|[kKMGT]B)\s*$"
_TIME_PATTERN = r"^\s*\d+(\.\d+)?\s*(us|ms|s|m|h)\s*$"
_MEMORY_PATTERN = r"^\s*\d+(\.\d+)?\s*x\s*memory\s*$"
_PERCENT_PATTERN = r"^\s*\d+(\.\d+)?\s*%\s*$"


def size_schema() -> dict[str, Any]:
    return _schema(_SIZE_PATTERN, "64KiB")


Size = Annotated[int, BeforeValidator(parse_size), PlainSerializer(format_size), WithJsonSchema(size_schema())]
Time = Annotated[
    float, BeforeValidator(parse_time), PlainSerializer(format_time), WithJsonSchema(_schema(_TIME_PATTERN, "10s"))
]
Percent = Annotated[
    float, BeforeValidator(parse_percent), WithJsonSchema({"type": "string", "pattern": _PERCENT_PATTERN})
]
Extent = Annotated[
    int | str,
    BeforeValidator(parse_extent),
    PlainSerializer(lambda extent: extent if isinstance(extent, str) else format_size(extent)),
    WithJsonSchema(_schema(f"({_SIZE_PATTERN})|({_PERCENT_PATTERN})", "25%")),
]
Length = Annotated[
    int | str,
    BeforeValidator(parse_length),
    PlainSerializer(lambda length: length if isinstance(length, str) else format_size(length)),
    WithJsonSchema(_schema(f"({_SIZE_PATTERN})|({_PERCENT_PATTERN})|({_MEMORY_PATTERN})", "4x memory")),
]
