"""Curves of a rate over a device or over time, averaged over all trials.

Positions of points are per cent of the width and the height; a template draws them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from runner.reports.charts import Tick, step
from runner.reports.number_format import figure
from runner.results.fio_output import parse_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.reports.run_data import RunData
    from runner.results.fio_output import Piece

#: Points of a curve; a pass over a device has as many.
PLACES = 100
#: Title and unit of the axis, by the name of its column.
_ALONG = {"offset": ("over the device", "bytes"), "seconds": ("over time", "s")}


@dataclass(frozen=True, slots=True)
class Curve:
    """A line for each direction, with the ticks of both axes."""

    title: str
    lines: tuple[tuple[str, str], ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def curves(recorded: RunData) -> Iterator[Curve]:
    """Yield the curves of the cells with a profile, in the order of the cells."""
    for one in recorded.summaries:
        pieces = [piece for table in recorded.courses.get(one.cell.id, ()) for piece in parse_pieces(table)]
        if made := _curve(one.cell.name, pieces, "write" if "read_bw" not in one.figures else "read"):
            yield made


def _curve(name: str, pieces: Sequence[Piece], usual: str) -> Curve | None:
    """`usual`: the direction of a table that does not name it."""
    end = max((one.at + one.length for one in pieces), default=0.0)
    rates = {side: _rates(several, end) for side, several in _by_side(pieces, usual).items()}
    top = max((rate for along in rates.values() for rate in along.values()), default=0.0)
    if not end or not top:
        return None
    what, unit = _ALONG[pieces[0].along]
    return Curve(
        f"{name}: bandwidth {what}",
        tuple((side, _points(along, top)) for side, along in rates.items()),
        tuple(_marks(end, unit)),
        tuple(_marks(top, "bytes/s")),
    )


def _by_side(pieces: Iterable[Piece], usual: str) -> Mapping[str, list[Piece]]:
    found: dict[str, list[Piece]] = {}
    for one in pieces:
        found.setdefault(one.side or usual, []).append(one)
    return {side: several for side, several in found.items() if any(one.moved for one in several)}


def _rates(pieces: Iterable[Piece], end: float) -> dict[int, float]:
    """Return the rate at each place: all bytes moved there by the time for them."""
    moved, took = dict[int, float](), dict[int, float]()
    for one in pieces:
        place = min(PLACES - 1, int(one.at / end * PLACES))
        moved[place] = moved.get(place, 0.0) + one.moved
        took[place] = took.get(place, 0.0) + one.seconds
    return {place: moved[place] / took[place] for place in sorted(moved) if took[place]}


def _points(along: Mapping[int, float], top: float) -> str:
    return " ".join(
        f"{(place + 0.5) * 100 / PLACES:g},{round(100 - 100 * rate / top, 2):g}" for place, rate in along.items()
    )


def _marks(end: float, unit: str) -> Iterator[Tick]:
    apart = step(end)
    values = takewhile(lambda value: value <= end * 1.001, (number * apart for number in range(PLACES)))
    return (Tick(round(100 * value / end, 2), figure(value, unit) if value else "0") for value in values)
