"""The course of a rate, over a device or over time, as `profile.sh` tells it."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_READ, _WRITE = 0, 1
_POSITIONS = ("offset", "bytes", "seconds", "bw")


def over_positions(told: str) -> str:
    """As a table: where, and how fast it was there, if everything was gone over: a place ends where the next begins."""
    rows, before = [], 0
    for offset, moved, _, last in sorted(_numbers(told, 4)):
        rows.append(_row(offset, moved, last - before))
        before = last
    return _csv(_POSITIONS, rows)


def at_places(told: str, bs: int) -> str:
    """The same, if much was left out between places: how fast it was from the first answer at one to the last."""
    rows = [_row(offset, moved - bs, last - first) for offset, moved, first, last in sorted(_numbers(told, 4))]
    return _csv(_POSITIONS, rows)


def _row(offset: int, moved: int, milliseconds: int) -> tuple[int, int, str, str]:
    seconds = milliseconds / 1000
    return offset, moved, f"{seconds:.3f}", f"{moved / seconds:.0f}" if seconds > 0 else ""


def over_time(told: str, stretch: float) -> str:
    """As a table: when, counted from the start of the work to the end of a stretch, and how fast it was then."""
    rates = {(number, direction): rate * 1024 for number, direction, rate in _numbers(told, 3)}
    numbers = sorted({number for number, _ in rates})
    rows = [
        (f"{number * stretch:g}", rates.get((number, _READ), 0), rates.get((number, _WRITE), 0)) for number in numbers
    ]
    return _csv(("seconds", "read_bw", "write_bw"), rows)


def made_up(table: str) -> str:
    """A table that says in every row that nothing of it was measured."""
    head, *rows = table.splitlines()
    return "".join(f"{line}\n" for line in (f"{head},made_up", *(f"{row},true" for row in rows)))


def _numbers(told: str, count: int) -> Iterator[tuple[int, ...]]:
    """The lines that hold so many whole numbers."""
    for line in told.splitlines():
        words = line.split("\t")
        if len(words) == count and all(word.isdecimal() for word in words):
            yield tuple(int(word) for word in words)


def _csv(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows((head, *rows))
    return text.getvalue()
