"""Options of fio as text: their names, and the sizes, times, counts and shares that their values stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matrix_runner.base.findings import Place

#: Other names of an option. Only those that this program reads or replaces.
_ALIASES = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "nr_files": "nrfiles",
    "timeout": "runtime",
    "io_limit": "io_size",
    "fill_fs": "fill_device",
    "fileoffset": "offset",
    "iomem": "mem",
    "wait_for_previous": "stonewall",
    "ss": "steadystate",
    "ss_dur": "steadystate_duration",
    "ss_ramp": "steadystate_ramp_time",
}


@dataclass(frozen=True, slots=True)
class Option:
    key: str
    value: str | None
    place: Place | None = field(default=None, compare=False)  # None: `set` of the matrix has it

    @property
    def name(self) -> str:
        return option_name(self.key)

    @property
    def is_true(self) -> bool:
        return self.value is None or self.value.strip() not in {"0", "false"}

    def __str__(self) -> str:
        return self.key if self.value is None else f"{self.key}={self.value}"


def option_text(value: object) -> str:
    """Return a value of YAML as fio reads it."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def option_name(key: str) -> str:
    return _ALIASES.get(key, key)


_POWERS = {unit: 1 << (10 * power) for power, unit in enumerate(("", "k", "m", "g", "t", "p"))}
#: fio ignores the end of a range where it reads one size.
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([kmgtp]?)i?b?(?:-.*)?", re.IGNORECASE | re.ASCII)
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "msec": 1e-3, "us": 1e-6, "usec": 1e-6}
_TIME = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(d|h|m|s|ms|msec|us|usec)?", re.IGNORECASE | re.ASCII)
DEFAULT_BS = 4096
READS = frozenset({"read", "randread"})
TRIMS = frozenset({"trim", "randtrim"})
MIXED = frozenset({"rw", "randrw"})


class UnknownBound(ValueError):
    """A value that only fio knows, such as `$ncpus`."""


def parse_fio_size(text: str) -> int:
    """Parse fio's size. Suffixes are powers of 1024, with `kb_base=1000` an upper bound."""
    text = text.strip()
    if re.fullmatch(r"0x[0-9a-f]{1,16}", text, re.IGNORECASE):
        return int(text, 16)
    found = _SIZE.fullmatch(text)
    if not found:
        raise UnknownBound
    return int(Fraction(found[1]) * _POWERS[found[2].lower()])


def parse_fio_time(text: str, unit: str = "s") -> float:
    found = _TIME.fullmatch(text.strip())
    if not found:
        raise UnknownBound
    return float(found[1]) * _SECONDS[(found[2] or unit).lower()]


def count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise UnknownBound
    return int(text)


def extent(text: str) -> int | Fraction:
    """Parse a size, or a share like 10%."""
    if found := re.fullmatch(r"([0-9]{1,3})%+", text.strip()):
        return Fraction(int(found[1]), 100)
    return parse_fio_size(text)


def block_sizes(options: Mapping[str, Option]) -> list[int]:
    if "bssplit" in options:  # size/percent:size/percent, and commas between directions
        parts = [part.partition("/")[0] for part in re.split(r"[:,]", options["bssplit"].value or "")]
    elif "bsrange" in options:
        parts = re.split(r"[,-]", options["bsrange"].value or "")
    else:
        parts = (options["bs"].value or "" if "bs" in options else str(DEFAULT_BS)).split(",")
    if not any(parts):
        raise UnknownBound
    return [parse_fio_size(part) for part in parts if part]


def write_share(kind: str, options: Mapping[str, Option]) -> float:
    if kind in READS | TRIMS:
        return 0.0
    if kind not in MIXED | {"readwrite"}:
        return 1.0
    shares = []
    if "rwmixwrite" in options:
        shares.append(count(options["rwmixwrite"].value or "") / 100)
    if "rwmixread" in options:
        shares.append(1 - count(options["rwmixread"].value or "") / 100)
    return max(shares, default=0.5)


def least_of(parse: Callable[[str], int]) -> Callable[[str], int]:
    """Parse one value for each direction; 0 is no limit, and others limit the job together."""
    return lambda text: min((one for one in map(parse, filter(None, text.split(","))) if one), default=0)


def file_names(value: str) -> list[str]:
    """Split fio's list of files: a colon separates them, unless a backslash is before it."""
    return [name.replace("\\:", ":") for name in re.split(r"(?<!\\):", value)]


def relative_names(value: str) -> str:
    """Return names below the directory of the layout. The path of another place becomes part of the name."""
    return ":".join(relative_name(name).replace(":", "\\:") for name in file_names(value))


def is_elsewhere(name: str) -> bool:
    return name.startswith("/") or ".." in name.split("/")


def relative_name(name: str) -> str:
    return "_".join(part for part in name.split("/") if part not in {"", ".", ".."}) if is_elsewhere(name) else name
