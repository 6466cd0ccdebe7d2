"""The page *Models against real drives*, and a chart for each drive."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.drives.figures import DEEPEST, is_fitted, jobs
from docs.pictures.svg import Picture, Scale
from matrix_runner.simdisks.fit import Modelled
from matrix_runner.simdisks.loop import DIRECTIONS, Direction, Figures, Host
from matrix_runner.simdisks.measured import IN_DRIVE, STOP, Spot, demerit, spots, turn
from matrix_runner.space.load import disk_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bench.drives.sets import Drive, Source
    from matrix_runner.simdisks.clib import Library

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/models-against-real-drives.md"
PICTURES = ROOT / "docs/pictures/drives"
RATE_MEDIAN, RATE_WORST, DEMERIT = 0.10, 0.25, 0.15
_COLOURS = {"read": "blue", "write": "orange"}
_HEAD = """\
# Models against real drives

How far is a simulated disk from a drive that somebody measured? This page compares models with published results of fio.
`python -m bench.drives page` makes it from the figures in `bench/drives/figures.csv`; each figure has the commit and the path of its source.

| | |
| --- | --- |
| jobs | random reads and writes of 4 KiB, 1 to {deepest} requests in flight, by 1 to 64 processes |
| fitted | jobs in one direction at depths 1, 8, 32 and 128 (`python -m bench.drives fit`) |
| held out | depths 2, 4, 16, 64 and 256. The fit did not see them. We chose this split after a first one (1, 4, 16, 64 and 256 fitted), with which 5 of 13 models met the goal |
| model | the physics of the disk server, on simulated time. Requests come as from fio, through the deadline scheduler of Linux |
| residual | the rate of the model, compared with that of one job |
| demerit | the distance of two distributions of latencies: the root mean square of the horizontal distance of their curves up to the 99th percentile, in per cent of the mean (Ruemmler and Wilkes, *An introduction to disk drive modeling*, 1994). Up to depth {in_drive} (2 at USB); deeper requests wait in the kernel |
| goal | held-out rates within {rate_median:.0%} (median) and {rate_worst:.0%} (worst), demerit up to {demerit:.0%} (median) |

## All drives

"""  # noqa: E501 - rows of a table
_AFTER = """
*The source itself*: how far jobs that ask for the same differ from their median, at most. A model cannot be nearer than this.

The models are fitted to small random requests. Their sequential rates are from data sheets, or typical. The wear and the
content of a drive at the time of its measurement are a part of its figures.

The 13 models are of seven products, some of them on several hosts, and of three drives that the source does not name exactly (two of Crucial, one disk of the
RAID 5). The data has no further product: what is left are sets of disks behind RAID controllers, more hosts, and mixed work.
"""  # noqa: E501 - lines of a page


@dataclass(frozen=True)
class Residual:
    direction: Direction
    depth: int
    held_out: bool
    #: One for each job.
    rates: tuple[float, ...]
    demerits: tuple[float, ...]
    #: How far jobs of the source differ from their median, at most.
    own: float


def host_of(drive: Drive) -> Host:
    return Host(drive.size, turn(jobs(drive, drive.own)), drive.queue, drive.disks)


class Compared:
    """One drive beside its model."""

    def __init__(self, library: Library, drive: Drive) -> None:
        self.drive = drive
        self._modelled, self._physics = Modelled(library, host_of(drive)), disk_model(drive.name).physics(1)

    def model(self, spot: Spot) -> Mapping[Direction, Figures]:
        return self._modelled(self._physics, spot.pattern)

    def spots(self, sources: Iterable[Source]) -> Iterator[tuple[Spot, Direction]]:
        for spot in spots(jobs(self.drive, sources)):
            for direction in DIRECTIONS:
                if direction in self.drive.directions and spot.pattern.reads == (direction == "read"):
                    yield spot, direction

    @cached_property
    def residuals(self) -> list[Residual]:
        return [self._residual(spot, direction) for spot, direction in self.spots(self.drive.own)]

    def _residual(self, spot: Spot, direction: Direction) -> Residual:
        model, middle = self.model(spot)[direction], spot.rate(direction)
        measured = [(job, job.figures[direction]) for job in spot.jobs]
        return Residual(
            direction,
            spot.pattern.depth,
            held_out=not is_fitted(spot.pattern),
            rates=tuple(model.iops / one.iops - 1 for _, one in measured),
            demerits=tuple(demerit(model, one) for job, one in measured if job.in_drive(self.drive.queue)),
            own=max(abs(one.iops / middle - 1) for _, one in measured),
        )

    @property
    def held_out(self) -> list[Residual]:
        return [one for one in self.residuals if one.held_out]

    @property
    def rates(self) -> list[float]:
        return [abs(rate) for one in self.held_out for rate in one.rates]

    @property
    def demerits(self) -> list[float]:
        return [value for one in self.held_out for value in one.demerits]

    @property
    def own(self) -> float:
        return max(one.own for one in self.held_out)

    @property
    def stopped(self) -> int:
        return sum(job.stopped for job in jobs(self.drive, self.drive.own))

    @property
    def meets_goal(self) -> bool:
        near = median(self.rates) <= RATE_MEDIAN and max(self.rates) <= RATE_WORST
        return near and median(self.demerits) <= DEMERIT


def page(compared: Sequence[Compared]) -> str:
    head = _HEAD.format(
        deepest=DEEPEST, in_drive=IN_DRIVE, rate_median=RATE_MEDIAN, rate_worst=RATE_WORST, demerit=DEMERIT
    ).replace("%", " %")
    columns = ("model", "rate: median", "rate: worst", "demerit: median", "demerit: worst", "the source itself", "goal")
    rows = [_row(one) for one in compared]
    met = sum(one.meets_goal for one in compared)
    every = f"\n{met} of {len(compared)} models meet the goal.\n"
    return head + _table(columns, rows) + every + _AFTER + "".join(_section(one) for one in compared)


def _row(one: Compared) -> tuple[str, ...]:
    figures = (median(one.rates), max(one.rates), median(one.demerits), max(one.demerits), one.own)
    link = f"[`{one.drive.name}`](#{one.drive.name})"
    unsteady = "the source differs by more" if one.own > RATE_WORST else "missed"
    return (link, *(_share(value) for value in figures), "met" if one.meets_goal else unsteady)


def _section(one: Compared) -> str:
    drive = one.drive
    sources = "; ".join(f"`{own.repository}`, commit `{own.commit}`, `{own.folder}`" for own in drive.own)
    others = "".join(_elsewhere(one, other) for other in drive.others)
    stops = f" {one.stopped} jobs are left out: the drive did not answer for {STOP:.0f} s or longer."
    about = f"{drive.title[0].upper()}{drive.title[1:]}. Source: {sources}.{stops if one.stopped else ''}"
    columns = ("jobs", "depth", "", "residual of each job", "demerit, median")
    return "".join(
        (
            f"\n## {drive.name}\n\n{about}\n",
            f"\n![Rates of {drive.name} by depth: measured and modelled](../pictures/drives/{drive.name}.svg)\n\n",
            _table(columns, [_residual_row(residual) for residual in one.residuals]),
            f"\nThe same model, compared with other measurements:\n\n{_table(_ELSEWHERE, [])}{others}"
            if others
            else "",
        )
    )


_ELSEWHERE = ("measured", "reads: residuals", "writes: residuals")


def _elsewhere(one: Compared, source: Source) -> str:
    cells = [f"`{source.host}`"]
    for direction in DIRECTIONS:
        found = [
            one.model(spot)[direction].iops / spot.rate(direction) - 1
            for spot, of in one.spots((source,))
            if of == direction
        ]
        cells.append(f"{_signed(min(found))} to {_signed(max(found))}" if found else "")
    return f"| {' | '.join(cells)} |\n"


def _residual_row(one: Residual) -> tuple[str, ...]:
    rates = ", ".join(_signed(rate).removesuffix(" %") for rate in one.rates)
    shape = _share(median(one.demerits)) if one.demerits else ""
    return f"{one.direction}s", str(one.depth), "held out" if one.held_out else "fitted", f"{rates} %", shape


def _share(value: float) -> str:
    return f"{value * 100:.0f} %" if value >= 0.1 else f"{value * 100:.1f} %"


def _signed(value: float) -> str:
    return f"{value * 100:+.1f} %".replace("-", "−")  # noqa: RUF001 - a minus, not a hyphen


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *rows))


def chart(one: Compared) -> Picture:
    drive = one.drive
    words = "Dots are measured, lines are modelled. Hollow dots are held out; small dots are other hosts or specimens."
    picture = Picture(f"Random requests per second of {drive.name}, by depth", words, 300)
    points = [*one.spots(drive.own)]
    rates = [job.figures[side].iops for spot, side in points for job in spot.jobs]
    low, high = (math.log10(bound) for bound in (min(rates) / 1.4, max(rates) * 1.4))
    across, up = Scale(0, math.log2(DEEPEST), 80, 670), Scale(low, high, 250, 44)
    _axes(picture, across, up)
    for place, direction in enumerate(drive.directions):
        picture.text((80 + 70 * place, 26), f"{direction}s", "strong", anchor="start", colour=_COLOURS[direction])

    def at(depth: int, iops: float) -> tuple[float, float]:
        return across(math.log2(depth)), up(max(low, min(high, math.log10(iops))))

    for spot, side in one.spots(drive.others):
        picture.dot(at(spot.pattern.depth, spot.rate(side)), colour="grey" if side == "read" else "purple", radius=1.5)
    for direction in DIRECTIONS:
        mine = [spot for spot, side in points if side == direction]
        if mine:
            line = (at(spot.pattern.depth, one.model(spot)[direction].iops) for spot in mine)
            picture.line(*line, colour=_COLOURS[direction])
        for job in (job for spot in mine for job in spot.jobs):
            measured = at(job.pattern.depth, job.figures[direction].iops)
            picture.dot(measured, colour=_COLOURS[direction], radius=3.5, hollow=not is_fitted(job.pattern))
    return picture


def _axes(picture: Picture, across: Scale, up: Scale) -> None:
    powers = range(math.floor(up.low), math.ceil(up.high) + 1)
    for tick in (factor * 10**power for power in powers for factor in (1, 2, 5)):
        if up.low <= math.log10(tick) <= up.high:
            height = up(math.log10(tick))
            picture.line((80, height), (670, height), colour="rule", width=1)
            picture.text((72, height + 5), f"{tick:,}", "small", anchor="end", colour="faint")
    for step in range(int(across.high) + 1):
        picture.text((across(step), 270), str(2**step), "small", colour="faint")
    picture.text((375, 291), "requests in flight", "small", colour="faint")


def write(compared: Sequence[Compared]) -> None:
    PICTURES.mkdir(exist_ok=True)
    for one in compared:
        (PICTURES / f"{one.drive.name}.svg").write_text(str(chart(one)))
    PAGE.write_text(page(compared))
