"""Sizes, times and percentages: parsed from text with a unit, formatted in one way, and as fields of strict models."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

_SIZE_UNITS = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_TIME_UNITS = {
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z%µ]*)\s*")


#: The limit of sizes: files, disks and the store use signed 64-bit numbers.
_MOST = 2**63


def _parse_number(digits: str) -> Fraction:
    """Parse digits, and refuse thousands of them before they are converted."""
    if len(digits.partition(".")[0]) > len(str(_MOST)) or (number := Fraction(digits)) >= _MOST:
        raise ValueError("no number here is that large")
    return number


def _parse(text: str) -> tuple[Fraction, str] | None:
    match = _QUANTITY.fullmatch(text)
    return (_parse_number(match[1]), match[2]) if match else None


def _likely_units(unit: str) -> list[str]:
    letter = unit[:1].upper()
    return [known for known in _SIZE_UNITS if known[0].upper() == letter and known != "kB"] if letter else ["KiB"]


#: From here on a number without a unit may be bytes, as in fio's own options.
_SECTOR = 512


def parse_size(value: object) -> int:
    """Parse `64KiB` as 65536. Refuse a number without a unit, as its unit is ambiguous."""
    if value in (0, "0") and not isinstance(value, bool):
        return 0
    parts = _parse(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    if parts is None:
        raise ValueError("not a size; write a number and a unit, like 64KiB, 1MiB or 2GB")
    number, unit = parts
    if unit not in _SIZE_UNITS:
        # So large a number is most likely bytes, as printed by programs.
        if not unit and number >= _SIZE_UNITS["MiB"]:
            raise ValueError(f"no unit; did you mean {value}B?")
        if not unit and number >= _SECTOR:
            told = format_size(int(number))
            raise ValueError(f"no unit; did you mean {told}, which is the same in bytes, or {float(number):g}KiB?")
        shown = f"{float(number):g}"
        meant = " or ".join(f"{shown}{known}" for known in _likely_units(unit)) or f"{shown}KiB"
        said = "no unit" if not unit else f"no size unit '{unit}' is known"
        raise ValueError(f"{said}; did you mean {meant}?")
    size = number * _SIZE_UNITS[unit]
    if size.denominator != 1:
        raise ValueError("not a whole number of bytes")
    if size >= _MOST:
        raise ValueError("the size is too large; the limit is 8 EiB")
    return int(size)


def format_size(size: int) -> str:
    """Use the largest binary unit that divides it, else a decimal one, else bytes."""
    for unit in ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "KB"):
        if size and size % _SIZE_UNITS[unit] == 0:
            return f"{size // _SIZE_UNITS[unit]}{unit}"
    return f"{size}B" if size else "0"


def format_in_unit(size: int, unit: str, whole: Callable[[Fraction], int]) -> str:
    """Use this unit, rounded by `whole`, so that sizes in one sentence can be compared."""
    return f"{whole(Fraction(size, _SIZE_UNITS[unit]))}{unit}"


def parse_rate(value: object) -> int:
    """Parse `50MiB/s` as bytes per second."""
    if not (isinstance(value, str) and value.rstrip().endswith("/s")):
        raise ValueError("not a rate; write it like 50MiB/s")
    return parse_size(value.rstrip().removesuffix("/s"))


def format_rate(rate: int) -> str:
    return f"{format_size(rate)}/s"


def parse_percent(value: object) -> float:
    """Parse `5%` as 0.05."""
    parts = _parse(value) if isinstance(value, str) else None
    if parts is None or parts[1] != "%":
        raise ValueError("not a percentage; write it like 5%")
    return float(parts[0] / 100)


def parse_time(value: object) -> float:
    """Parse `500ms` as 0.5 seconds."""
    if value in (0, "0") and not isinstance(value, bool):
        return 0.0
    parts = _parse(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    if parts is None or parts[1] not in _TIME_UNITS:
        raise ValueError("not a time; write a number and a unit, like 500ms, 10s or 2m")
    return float(parts[0] * _TIME_UNITS[parts[1]])


def format_time(seconds: float) -> str:
    """Use seconds from 1 s on, else milliseconds, with enough digits to keep any two times different."""
    return f"{seconds:.12g}s" if seconds >= 1 or seconds == 0 else f"{seconds * 1000:.12g}ms"


def parse_extent(value: object) -> int | str:
    """Parse an offset or length on a device: bytes, or a share as fio writes it (`25%`)."""
    if isinstance(value, str) and value.strip().endswith("%"):
        share = parse_percent(value)
        if share > 1:
            raise ValueError("more than 100% of the device")
        return f"{share * 100:g}%"
    return parse_size(value)


_MEMORY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*x\s*memory\s*")


def parse_length(value: object) -> int | str:
    """Parse an extent, or a multiple of the machine's memory, kept as text: `4x memory`."""
    match = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    return f"{float(_parse_number(match[1])):g}x memory" if match else parse_extent(value)


def resolve_memory(length: int | str, memory: int) -> int | str:
    """Return a multiple of memory in bytes, in whole pages; return anything else unchanged."""
    if isinstance(length, str) and length.endswith("x memory"):
        return int(Fraction(length.removesuffix("x memory")) * memory) // 4096 * 4096
    return length


def resolve_share(length: int | str, whole: int) -> int:
    """Return the size, or the share of the whole, in bytes."""
    return length if isinstance(length, int) else int(whole * float(length.removesuffix("%")) / 100)


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

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


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
