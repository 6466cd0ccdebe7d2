"""The fit: keys of a model are varied, one after another, until its rates and latencies are nearest to those measured.

Only jobs with `fitted` count (depths 1, 8, 32 and 128). The first guesses follow from single figures: the rate of
depth 1, and the highest rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from bench.drives.figures import DIRECTIONS, PERCENTILES, Direction, Figures, Job, jobs
from bench.drives.simulate import REQUESTS, SECONDS, Work, simulate
from matrix_runner.base.quantities import parse_rate
from matrix_runner.language.disks import AnyModel, DiskModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bench.drives.sets import Drive
    from matrix_runner.simdisks.clib import Library
    from matrix_runner.simdisks.disk import Physics

#: How much the latencies of a job count, beside its rate.
OF_LATENCIES = 0.3
#: Steps of a key, as factors: from coarse to fine.
STEPS = (1.3, 1.1, 1.04)
CHANNELS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 128, 256)
QUEUES = (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32)
RANGES = (32, 64, 96, 128, 192, 256, 384, 512)
CHOICES = (4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96)
Values = dict[str, float]
_ADAPTER: TypeAdapter[AnyModel] = TypeAdapter(DiskModel)


def demerit(modelled: Figures, measured: Figures) -> float:
    """Return how far two distributions of latencies are apart, as a share of the mean that was measured.

    This is the demerit figure of Ruemmler and Wilkes (1994): the root mean square of the horizontal distance between
    both curves. Both end at the 99th percentile.
    """
    apart = [(one - other) ** 2 for one, other in zip(modelled.percentiles, measured.percentiles, strict=True)]
    return math.sqrt(_over_percentiles(apart)) / _over_percentiles(measured.percentiles)


def _over_percentiles(values: Sequence[float]) -> float:
    area = sum(
        (values[at] + values[at + 1]) / 2 * (PERCENTILES[at + 1] - PERCENTILES[at]) for at in range(len(values) - 1)
    )
    return area / (PERCENTILES[-1] - PERCENTILES[0])


@dataclass(frozen=True, slots=True)
class Spot:
    """All jobs of a drive that ask for the same: they differ by chance, and by how processes share the requests."""

    depth: int
    reads: float
    jobs: tuple[Job, ...]

    def rate(self, direction: Direction) -> float:
        return median(job.figures[direction].iops for job in self.jobs)


def spots(found: Iterable[Job]) -> list[Spot]:
    grouped: dict[tuple[float, int], list[Job]] = {}
    for job in found:
        if not job.stopped:
            grouped.setdefault((job.reads, job.depth), []).append(job)
    return [Spot(depth, reads, tuple(same)) for (reads, depth), same in sorted(grouped.items())]


def turn(drive: Drive) -> float:
    """Return the seconds from an answer to the next submission: what the rate of one request at a time leaves over."""
    alone = [
        figures
        for source in drive.own
        for job in jobs(source)
        if job.depth == 1 and not job.stopped
        for figures in job.figures.values()
    ]
    return max(1e-6, min(1 / one.iops - one.mean for one in alone))


class Modelled:
    """What a drive does with the values of some keys; results are kept."""

    def __init__(self, library: Library, drive: Drive) -> None:
        self._library, self._drive, self.turn = library, drive, turn(drive)
        self._known: dict[tuple[object, ...], dict[Direction, Figures]] = {}

    def __call__(self, physics: Physics, spot: Spot) -> dict[Direction, Figures]:
        unused = {"read": "write_", "write": "read_"}
        direction = DIRECTIONS[0] if spot.reads == 1 else DIRECTIONS[1] if spot.reads == 0 else ""
        numbers = tuple(one for one in physics.numbers if not (direction and one[0].startswith(unused[direction])))
        key = (numbers, physics.zones, spot.depth, spot.reads)
        if key not in self._known:
            drive = self._drive
            ends = (SECONDS, 100_000) if drive.is_hdd else (1e9, max(REQUESTS, 30 * spot.depth))
            work = Work(
                drive.size,
                float(drive.span or drive.size),
                spot.depth,
                spot.reads,
                drive.queue,
                self.turn,
                drive.disks,
                *ends,
            )
            self._known[key] = simulate(self._library, physics, work)
        return self._known[key]


def physics_of(keys: dict[str, object]) -> Physics:
    return _ADAPTER.validate_python(keys).physics(1)


def keys_of(drive: Drive, values: Values) -> dict[str, object]:
    """Return the keys of a model, as in its file."""
    keys = dict(drive.keys)
    if drive.is_hdd:
        track, full = (_time(values[name]) for name in ("track", "full"))
        keys |= {"seek": {"track": track, "full": full}, "queue": int(values["queue"])}
        if values["in_order"]:
            keys["in_order"] = int(values["in_order"])
        if "ranges" in values:
            keys["write_cache"] = {"ranges": int(values["ranges"]), "choice": int(values["choice"])}
        return keys
    names = ("overhead", "write_overhead", "read_latency", "write_latency", "flush")
    keys |= {name: _time(values[name]) for name in names if name in values}
    keys["channels"] = int(values["channels"])
    if values["by_address"]:
        keys["by_address"] = True
    if "cliff" in values:
        after, rate = f"{round(values['cliff'] / 1024)}KiB", f"{values['cliff_rate'] / 1e6:.3g}MB/s"
        keys["cliff"] = {"after": after, "bandwidth": rate, "stops": True}
    return keys


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g}us"


class Fit:
    def __init__(self, library: Library, drive: Drive, notice: Callable[[str], None]) -> None:
        self.drive, self._notice = drive, notice
        self._modelled = Modelled(library, drive)
        found = [job for source in drive.own for job in jobs(source) if job.fitted]
        self._spots = {side: [one for one in spots(found) if one.reads == (side == "read")] for side in DIRECTIONS}

    def cost(self, values: Values, directions: Sequence[str]) -> float:
        physics = physics_of(keys_of(self.drive, values))
        costs = [
            self._distance(self._modelled(physics, spot)[direction], spot, direction)
            for direction in DIRECTIONS
            if direction in directions and direction in self.drive.directions
            for spot in self._spots[direction]
        ]
        return fmean(costs)

    def _distance(self, modelled: Figures, spot: Spot, direction: Direction) -> float:
        apart = abs(math.log(modelled.iops / spot.rate(direction)))
        shapes = [
            min(1.0, demerit(modelled, job.figures[direction])) for job in spot.jobs if job.in_drive(self.drive.queue)
        ]
        return apart + OF_LATENCIES * (median(shapes) if shapes else 0.0)

    def run(self) -> Values:
        values = self._best_queue(self._guess_hdd()) if self.drive.is_hdd else self._best_channels(self._guess_ssd())
        for names, directions in self._stages(values):
            if not set(directions) & set(self.drive.directions):
                continue
            values = self._descend(values, names, directions)
        return values

    def _seek_curves(self, values: Values) -> Iterator[Values]:
        """Yield seeks with the mean that was measured: half a revolution, and 8/15 from `track` to `full`."""
        if self.drive.span is not None:
            yield values
            return
        alone = self._spots["read"][0].jobs[0].figures["read"]
        mean = alone.mean - 30 / float(str(self.drive.keys["rpm"]))
        for share in range(1, 20):
            track = mean * share / 20
            yield {**values, "track": track, "full": track + (mean - track) * 15 / 8}

    @property
    def _seeks(self) -> tuple[str, ...]:
        return (
            ("track", "full") if self.drive.span is None else ("track",)
        )  # a small part says nothing about a full seek

    def _best_channels(self, values: Values) -> Values:
        tried = [
            {**values, "by_address": float(by_address), "channels": float(channels)}
            for by_address in (0, 1)
            for channels in (1, 2, 4, 6, 8, 12, 16, 24, 32, 64, 128)
        ]
        return min(tried, key=lambda one: self.cost(one, DIRECTIONS))

    def _best_queue(self, values: Values) -> Values:
        """Take the seeks from depth 1, then try all queues: the best ones of each fixed order are far apart."""
        every, self._spots["read"] = self._spots["read"], self._spots["read"][:1]
        values = self._descend(
            min(self._seek_curves(values), key=lambda one: self.cost(one, ("read",))), ("track",), ("read",)
        )
        self._spots["read"] = every
        tried = [{**values, "in_order": float(n), "queue": float(queue)} for n in range(9) for queue in (8, 16, 24, 32)]
        return min(tried, key=lambda one: self.cost(one, ("read",)))

    def _stages(self, values: Values) -> Sequence[tuple[tuple[str, ...], tuple[str, ...]]]:
        if self.drive.is_hdd:
            return [((*self._seeks, "in_order", "queue"), ("read",)), (("ranges", "choice"), ("write",))]
        writes = ("write_latency", "write_overhead", "flush", "cliff", "cliff_rate")
        return [
            (("read_latency", "by_address", "channels", "overhead"), ("read",)),
            (tuple(name for name in writes if name in values), ("write",)),
            (("by_address", "channels"), ("read", "write")),
        ]

    def _descend(self, values: Values, names: Sequence[str], directions: Sequence[str]) -> Values:
        best = self.cost(values, directions)
        for step in STEPS:
            improved = True
            while improved:
                improved = False
                for name in names:
                    for changed in _neighbours(name, values[name], step):
                        tried = {**values, name: changed}
                        cost = self.cost(tried, directions)
                        if cost < best * 0.998:
                            values, best, improved = tried, cost, True
        self._notice(f"{self.drive.name} {directions} {best:.4f} {values}")
        return values

    def _guess_hdd(self) -> Values:
        numbers = {"track": 2e-3, "full": 16e-3, "in_order": 0.0, "queue": 16.0}
        return {**numbers, "ranges": 128.0, "choice": 32.0} if "write" in self.drive.directions else numbers

    def _guess_ssd(self) -> Values:
        rates = {side: {spot.depth: spot.rate(side) for spot in self._spots[side]} for side in DIRECTIONS}
        # One at a time, a request takes the latency of its channel and the transfer from the flash.
        passing = self._modelled.turn + 4096 / 550e6
        alone = {side: max(1e-6, 1 / rates[side][1] - passing) for side in DIRECTIONS}
        sent = 4096 / parse_rate(self.drive.keys["interface"])
        top = {side: max(1e-6, 1 / max(rates[side].values()) - sent) for side in DIRECTIONS}
        values = {
            "overhead": top["read"],
            "write_overhead": top["write"],
            "read_latency": alone["read"],
            "write_latency": alone["write"],
            "channels": 16.0,
            "by_address": 0.0,
        }
        shallow = [spot.jobs[0].figures["write"].percentiles for spot in self._spots["write"] if spot.depth <= 8]
        if not self.drive.keys.get("write_cache", True):
            return {**values, "flush": alone["write"], "write_latency": 20e-6, "write_overhead": values["overhead"]}
        if any(one[-1] > 10 * one[6] for one in shallow):  # most writes are fast, and few wait
            values |= {"write_latency": shallow[0][6] / 2, "write_overhead": 8e-6}
            values |= {"cliff": 100 * 4096.0, "cliff_rate": 4096 * min(rates["write"].values())}
        return values


def _neighbours(name: str, value: float, step: float) -> Iterator[float]:
    whole = {"channels": CHANNELS, "queue": QUEUES, "ranges": RANGES, "choice": CHOICES}.get(name)
    if name == "by_address":
        yield 1 - value
    elif name == "in_order":
        yield from (value - 1, value + 1) if value else (1.0, 4.0)
    elif whole:
        at = min(range(len(whole)), key=lambda at: abs(whole[at] - value))
        yield from (float(whole[near]) for near in (at - 1, at + 1, at - 3, at + 3) if 0 <= near < len(whole))
    else:
        yield from (value * step, value / step)
