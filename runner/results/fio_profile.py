"""Profiles of a rate over a device or over time, as `profile.sh` prints them."""

from __future__ import annotations

import csv
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_READ, _WRITE = 0, 1
_POSITIONS = ("offset", "bytes", "seconds", "bw")


def table_by_position(told: str) -> str:
    """Return a CSV table of a full pass: offset and rate. Each place ends where the next begins."""
    rows, before = [], 0
    for offset, moved, _, last in sorted(_numbers(told, 4)):
        rows.append(_row(offset, moved, last - before))
        before = last
    return _csv(_POSITIONS, rows)


def table_by_sample(told: str, bs: int) -> str:
    """Return the same table for samples: the rate from the first to the last completion at each place."""
    rows = [_row(offset, moved - bs, last - first) for offset, moved, first, last in sorted(_numbers(told, 4))]
    return _csv(_POSITIONS, rows)


def _row(offset: int, moved: int, milliseconds: int) -> tuple[int, int, str, str]:
    seconds = milliseconds / 1000
    return offset, moved, f"{seconds:.3f}", f"{moved / seconds:.0f}" if seconds > 0 else ""


def table_by_time(told: str, stretch: float) -> str:
    """Return a CSV table of rates at the end of each stretch, in seconds from the start of the workload."""
    rates = {(number, direction): rate * 1024 for number, direction, rate in _numbers(told, 3)}
    numbers = sorted({number for number, _ in rates})
    rows = [
        (f"{number * stretch:g}", rates.get((number, _READ), 0), rates.get((number, _WRITE), 0)) for number in numbers
    ]
    return _csv(("seconds", "read_bw", "write_bw"), rows)


@dataclass(frozen=True, slots=True)
class Piece:
    """The data moved at one place of a device, or in one stretch of time."""

    #: The column of the position: `offset` or `seconds`.
    along: str
    at: float
    length: float
    #: The direction; empty if the table has only one.
    side: str
    moved: float
    seconds: float


def parse_pieces(table: str) -> Iterator[Piece]:
    """Parse a table. Skip rows that users have edited into something else."""
    for row in csv.DictReader(StringIO(table)):
        with suppress(KeyError, TypeError, ValueError):
            yield from _over_a_device(row) if "offset" in row else _in_time(row)


def _over_a_device(row: Mapping[str, str]) -> list[Piece]:
    moved = float(row["bytes"])
    return [Piece("offset", float(row["offset"]), moved, "", moved, float(row["seconds"]))]


def _in_time(row: Mapping[str, str]) -> list[Piece]:
    at = float(row["seconds"])
    return [Piece("seconds", at, 0.0, side, float(row[f"{side}_bw"]), 1.0) for side in ("read", "write")]


def mark_synthetic(table: str) -> str:
    """Mark every row of a table as synthetic."""
    head, *rows = table.splitlines()
    return "".join(f"{line}\n" for line in (f"{head},synthetic", *(f"{row},true" for row in rows)))


def _numbers(told: str, count: int) -> Iterator[tuple[int, ...]]:
    """Return the lines with exactly `count` whole numbers."""
    for line in told.splitlines():
        words = line.split("\t")
        if len(words) == count and all(word.isdecimal() for word in words):
            yield tuple(int(word) for word in words)


def _csv(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows((head, *rows))
    return text.getvalue()
