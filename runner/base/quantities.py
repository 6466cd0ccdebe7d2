"""Sizes, times and percentages: parsed from text with a unit, printed back in one canonical way."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

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


#: No size is larger: neither files nor disks have one that does not fit into 64 bits, nor has the store.
_MOST = 2**63


def _number(digits: str) -> Fraction:
    """What the digits of a quantity come to; of a thousand of them nothing else could make a number."""
    if len(digits.partition(".")[0]) > len(str(_MOST)) or (number := Fraction(digits)) >= _MOST:
        raise ValueError("no number here is that large")
    return number


def _split(text: str) -> tuple[Fraction, str] | None:
    match = _QUANTITY.fullmatch(text)
    return (_number(match[1]), match[2]) if match else None


def _meant_sizes(unit: str) -> list[str]:
    """Units somebody who wrote `64k` may have meant."""
    letter = unit[:1].upper()
    return [known for known in _SIZE_UNITS if known[0].upper() == letter and known != "kB"] if letter else ["KiB"]


#: So large a number may be one of bytes, as fio's own options are.
_SECTOR = 512


def parse_size(value: object) -> int:
    """`64KiB` is 65536; a number without a unit is refused, because nobody knows what it counts."""
    if value in (0, "0") and not isinstance(value, bool):
        return 0
    parts = _split(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    if parts is None:
        raise ValueError("not a size; write a number and a unit, like 64KiB, 1MiB or 2GB")
    number, unit = parts
    if unit not in _SIZE_UNITS:
        # So large a number is one of bytes, as programs tell it.
        if not unit and number >= _SIZE_UNITS["MiB"]:
            raise ValueError(f"no unit; did you mean {value}B?")
        if not unit and number >= _SECTOR:
            told = format_size(int(number))
            raise ValueError(f"no unit; did you mean {told}, which is so many bytes, or {float(number):g}KiB?")
        shown = f"{float(number):g}"
        meant = " or ".join(f"{shown}{known}" for known in _meant_sizes(unit)) or f"{shown}KiB"
        said = "no unit" if not unit else f"no size unit '{unit}' is known"
        raise ValueError(f"{said}; did you mean {meant}?")
    size = number * _SIZE_UNITS[unit]
    if size.denominator != 1:
        raise ValueError("not a whole number of bytes")
    if size >= _MOST:
        raise ValueError("no disk and no file is that large")
    return int(size)


def format_size(size: int) -> str:
    """The largest binary unit that divides it, else a decimal one, else bytes."""
    for unit in ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "KB"):
        if size and size % _SIZE_UNITS[unit] == 0:
            return f"{size // _SIZE_UNITS[unit]}{unit}"
    return f"{size}B" if size else "0"


def in_unit(size: int, unit: str, whole: Callable[[Fraction], int]) -> str:
    """In this very unit, rounded as `whole` does it: so that what stands in one sentence can be compared."""
    return f"{whole(Fraction(size, _SIZE_UNITS[unit]))}{unit}"


def parse_rate(value: object) -> int:
    """`50MiB/s` is so many bytes a second."""
    if not (isinstance(value, str) and value.rstrip().endswith("/s")):
        raise ValueError("not a rate; write it like 50MiB/s")
    return parse_size(value.rstrip().removesuffix("/s"))


def format_rate(rate: int) -> str:
    """As a size, a second."""
    return f"{format_size(rate)}/s"


def parse_percent(value: object) -> float:
    """`5%` is 0.05."""
    parts = _split(value) if isinstance(value, str) else None
    if parts is None or parts[1] != "%":
        raise ValueError("not a percentage; write it like 5%")
    return float(parts[0] / 100)


def parse_time(value: object) -> float:
    """`500ms` is 0.5 (seconds)."""
    if value in (0, "0") and not isinstance(value, bool):
        return 0.0
    parts = _split(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    if parts is None or parts[1] not in _TIME_UNITS:
        raise ValueError("not a time; write a number and a unit, like 500ms, 10s or 2m")
    return float(parts[0] * _TIME_UNITS[parts[1]])


def format_time(seconds: float) -> str:
    """Seconds from one on, else milliseconds; in so many digits that no two times that anybody writes look alike."""
    return f"{seconds:.12g}s" if seconds >= 1 or seconds == 0 else f"{seconds * 1000:.12g}ms"


def parse_extent(value: object) -> int | str:
    """A place or a length on a device: bytes, or a share of it, kept as fio writes it (`25%`)."""
    if isinstance(value, str) and value.strip().endswith("%"):
        share = parse_percent(value)
        if share > 1:
            raise ValueError("more than 100% of the device")
        return f"{share * 100:g}%"
    return parse_size(value)


_MEMORY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*x\s*memory\s*")


def parse_length(value: object) -> int | str:
    """An extent, or a multiple of the machine's memory, kept as text: `4x memory`."""
    match = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    return f"{float(_number(match[1])):g}x memory" if match else parse_extent(value)


def of_memory(length: int | str, memory: int) -> int | str:
    """A multiple of memory in bytes, in whole pages; anything else as it is."""
    if isinstance(length, str) and length.endswith("x memory"):
        return int(Fraction(length.removesuffix("x memory")) * memory) // 4096 * 4096
    return length


def bytes_of(length: int | str, whole: int) -> int:
    """A size as it is, or the share that it is of the whole."""
    return length if isinstance(length, int) else int(whole * float(length.removesuffix("%")) / 100)
