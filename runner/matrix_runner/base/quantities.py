"""Sizes, times and percentages: parsed from text with a unit, formatted in one way, and as fields of strict models."""

import re
from collections.abc import Callable
from fractions import Fraction

_BINARY_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE_UNITS = _BINARY_UNITS | {"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_TIME_UNITS = {
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z%µ]*)\s*", re.ASCII)


#: The limit of sizes: files, disks and the store use signed 64-bit numbers.
_MOST = 2**63


def _parse_number(digits: str) -> Fraction:
    """Parse digits, and refuse thousands of them before they are converted."""
    if len(digits.partition(".")[0]) > len(str(_MOST)) or (number := Fraction(digits)) >= _MOST:
        raise ValueError("too large a number")
    return number


def _parse(value: object) -> tuple[Fraction, str] | None:
    """Return number and unit of a text, or of a bare number."""
    match = (
        None if isinstance(value, bool) or not isinstance(value, str | int | float) else _QUANTITY.fullmatch(str(value))
    )
    return (_parse_number(match[1]), match[2]) if match else None


#: From here on a number without a unit may be bytes, as in fio's own options.
_SECTOR = 512


class NotATime(ValueError):
    pass


class NoUnit(ValueError):
    pass


def parse_size(value: object) -> int:
    """Parse `64KiB` as 65536. Refuse a number without a unit, as its unit is ambiguous."""
    if value in (0, "0") and not isinstance(value, bool):
        return 0
    parts = _parse(value)
    if parts is None:
        raise ValueError("not a size; write a number and a unit, like 64KiB, 1MiB or 2GB")
    number, unit = parts
    if unit not in _SIZE_UNITS:
        # So large a number is most likely bytes, as printed by programs.
        if not unit and number >= _SIZE_UNITS["MiB"]:
            raise NoUnit(f"no unit; did you mean {value}B?")
        shown = f"{float(number):g}"
        if not unit and number >= _SECTOR:
            same = format_size(int(number))
            raise NoUnit(f"no unit; did you mean {same}, which is the same in bytes, or {shown}KiB?")
        likely = [known for known in _SIZE_UNITS if unit and known[0].upper() == unit[0].upper() and known != "kB"]
        meant = " or ".join(f"{shown}{known}" for known in likely or ["KiB"])
        if not unit:
            raise NoUnit(f"no unit; did you mean {meant}?")
        raise ValueError(f"no size unit '{unit}' is known; did you mean {meant}?")
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
    parts = _parse(value)
    if parts is None or parts[1] not in _TIME_UNITS:
        raise NotATime("not a time; write a number and a unit, like 500ms, 10s or 2m")
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


_MEMORY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*x\s*memory\s*", re.ASCII)


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
