"""The fit: keys of a model are varied, one after another, until its rates and latencies are nearest to those measured.

First guesses follow from single figures: the rate of depth 1, and the highest rate. Bandwidths and zones are those of
sequential jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING

from matrix_runner.base.quantities import parse_rate
from matrix_runner.simdisks.loop import DIRECTIONS, Direction, Figures, Host, Pattern, simulate
from matrix_runner.simdisks.measured import Job, Spot, spots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from matrix_runner.simdisks.clib import Library
    from matrix_runner.simdisks.disk import Physics

#: Of a job: seconds of a hard disk, and requests of an SSD.
SECONDS, REQUESTS = 60.0, 5000
#: How much the latencies of a job count, beside its rate.
OF_LATENCIES = 0.3
#: Steps of a key, as factors: from coarse to fine.
STEPS = (1.3, 1.1, 1.04)
CHANNELS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 128, 256)
QUEUES = (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32)
RANGES = (32, 64, 96, 128, 192, 256, 384, 512)
CHOICES = (4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96)
SPEEDS = (4200, 5400, 5900, 7200, 10_000, 15_000)
#: Of a list of zones that is made from places: the model has this number, with rates between those measured.
ZONES = 32
#: A key can have all values with which the fit is worse by at most this.
WORSE = 0.005
#: A part of the disk that stands for all of it.
WHOLE = 0.9
_TYPICAL, _TYPICAL_BANDWIDTH = {"read": 90e-6, "write": 40e-6}, 550e6
Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Subject:
    """A drive: what is known of it without a fit, and the jobs that measured it."""

    #: Keys of its model that are not fitted.
    keys: Mapping[str, object]
    host: Host
    jobs: tuple[Job, ...]
    #: Directions whose jobs this drive alone explains.
    directions: tuple[Direction, ...] = DIRECTIONS

    @property
    def is_hdd(self) -> bool:
        return self.keys["kind"] == "hdd"


class Modelled:
    """What a drive does with the values of some keys; results are kept."""

    def __init__(self, library: Library, host: Host) -> None:
        self._library, self._host = library, host
        self._known: dict[tuple[object, ...], Mapping[Direction, Figures]] = {}

    def __call__(self, physics: Physics, pattern: Pattern) -> Mapping[Direction, Figures]:
        unused = {1.0: "write_", 0.0: "read_"}.get(pattern.reads, "-")
        numbers = tuple(one for one in physics.numbers if not one[0].startswith(unused))
        key = (numbers, physics.zones, pattern)
        if key not in self._known:
            ends = (1e9, max(REQUESTS, 30 * pattern.depth))
            if physics.kind == "hdd":
                ends = (SECONDS, 100_000) if pattern.random else (SECONDS / 30, 100_000)
            self._known[key] = simulate(self._library, physics, self._host, pattern, *ends)
        return self._known[key]


def keys_of(subject: Subject, values: Values) -> dict[str, object]:
    """Return the keys of a model, as in its file."""
    keys = dict(subject.keys)
    if subject.is_hdd:
        if "rpm" in values:
            keys["rpm"] = int(values["rpm"])
        track, full = (_time(values[name]) for name in ("track", "full"))
        keys |= {"seek": {"track": track, "full": full}, "queue": int(values["queue"])}
        if values["in_order"]:
            keys["in_order"] = int(values["in_order"])
        if "ranges" in values:
            keys["write_cache"] = {"ranges": int(values["ranges"]), "choice": int(values["choice"])}
        return keys
    names = ("overhead", "write_overhead", "read_latency", "write_latency", "flush")
    keys |= {name: _time(values[name]) for name in names if name in values}
    keys |= {name: rate_text(values[name]) for name in ("bandwidth", "write_bandwidth") if name in values}
    keys["channels"] = int(values["channels"])
    if values["by_address"]:
        keys["by_address"] = True
    if "cliff" in values:
        after = f"{round(values['cliff'] / 1024)}KiB"
        keys["cliff"] = {"after": after, "bandwidth": rate_text(values["cliff_rate"]), "stops": True}
    return keys


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g}us"


def rate_text(rate: float) -> str:
    return f"{rate / 1e6:.3g}MB/s"


class Fit:
    def __init__(
        self,
        library: Library,
        subject: Subject,
        physics_of: Callable[[Mapping[str, object]], Physics],
        notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.subject, self._physics_of, self._notice = subject, physics_of, notice
        self.model = Modelled(library, subject.host)
        several = spots(subject.jobs)
        small = min((one.pattern.block for one in several if one.pattern.random), default=0)
        plain = [one for one in several if one.pattern.random and one.pattern.block == small and not one.pattern.safe]
        self._spots = {side: [one for one in plain if one.pattern.reads == (side == "read")] for side in DIRECTIONS}
        self._safe = [one for one in several if one.pattern.safe]
        self._sequential = [one for one in several if not (one.pattern.random or one.pattern.safe)]

    def cost(self, values: Values, directions: Sequence[str]) -> float:
        physics = self._physics_of(keys_of(self.subject, values))
        costs = [
            spot.distance(self.model(physics, spot.pattern), direction, self.subject.host, OF_LATENCIES)
            for direction in DIRECTIONS
            if direction in directions and direction in self.subject.directions
            for spot in self._spots[direction]
        ]
        return fmean(costs) if costs else 0.0

    def run(self) -> Values:
        is_hdd = self.subject.is_hdd
        values = self._best_queue(self._guess_hdd()) if is_hdd else self._best_channels(self._guess_ssd())
        for names, directions in self.stages(values):
            values = self._descend(values, names, directions)
        return values

    def stages(self, values: Values) -> Iterator[tuple[tuple[str, ...], tuple[Direction, ...]]]:
        """Yield the keys that are varied together, and the directions of the jobs that identify them."""
        for names, directions in self._stages():
            if any(side in self.subject.directions and self._spots[side] for side in directions):
                yield tuple(name for name in names if name in values), directions

    def _stages(self) -> Sequence[tuple[tuple[str, ...], tuple[Direction, ...]]]:
        if self.subject.is_hdd:
            return [((*self._seeks, "in_order", "queue"), ("read",)), (("ranges", "choice"), ("write",))]
        writes = ("write_latency", "write_overhead", "flush", "cliff", "cliff_rate")
        return [
            (("read_latency", "by_address", "channels", "overhead"), ("read",)),
            (writes, ("write",)),
            (("by_address", "channels"), ("read", "write")),
        ]

    @property
    def _alone(self) -> list[Spot]:
        reads = self._spots["read"]
        return [one for one in reads if one.pattern.depth == reads[0].pattern.depth]

    @property
    def _whole(self) -> Figures | None:
        """Return random reads of the whole disk: a small part says nothing about a full seek."""
        return next((one.jobs[0].read for one in self._alone if one.pattern.last - one.pattern.first > WHOLE), None)

    @property
    def _seeks(self) -> tuple[str, ...]:
        return ("track", "full") if self._whole else ("track",)

    def _seek_curves(self, values: Values) -> Iterator[Values]:
        """Yield seeks with the mean that was measured: half a revolution, and 8/15 from `track` to `full`."""
        for speed in [None] if "rpm" in self.subject.keys else SPEEDS:
            turning = values if speed is None else {**values, "rpm": float(speed)}
            if self._whole is None:
                yield turning
                continue
            mean = self._whole.mean - 30 / (speed or float(str(self.subject.keys["rpm"])))
            for share in range(1, 20) if mean > 0 else ():
                track = mean * share / 20
                yield {**turning, "track": track, "full": track + (mean - track) * 15 / 8}

    def _best_channels(self, values: Values) -> Values:
        tried = [
            {**values, "by_address": float(by_address), "channels": float(channels)}
            for by_address in (0, 1)
            for channels in (1, 2, 4, 6, 8, 12, 16, 24, 32, 64, 128)
        ]
        return min(tried, key=lambda one: self.cost(one, DIRECTIONS))

    def _best_queue(self, values: Values) -> Values:
        """Take the seeks from depth 1, then try all queues: the best ones of each fixed order are far apart."""
        every, self._spots["read"] = self._spots["read"], self._alone
        by_speed = dict[float, Values]()
        for one in self._seek_curves(values):
            best = by_speed.setdefault(one.get("rpm", 0.0), one)
            if self.cost(one, ("read",)) < self.cost(best, ("read",)):
                by_speed[one.get("rpm", 0.0)] = one
        found = [
            self._descend(one, ("track",) if len(by_speed) == 1 else self._seeks, ("read",))
            for one in by_speed.values()
        ]
        values = min(found, key=lambda one: self.cost(one, ("read",)))
        worst = self.cost(values, ("read",)) + WORSE
        self.speeds = [one["rpm"] for one in found if "rpm" in one and self.cost(one, ("read",)) <= worst]
        self._spots["read"] = every
        tried = [{**values, "in_order": float(n), "queue": float(queue)} for n in range(9) for queue in (8, 16, 24, 32)]
        return min(tried, key=lambda one: self.cost(one, ("read",)))

    def _descend(self, values: Values, names: Sequence[str], directions: Sequence[str]) -> Values:
        best = self.cost(values, directions)
        for step in STEPS:
            improved = True
            while improved:
                improved = False
                for name in names:
                    for changed in _neighbours(name, values[name], step):
                        tried = {**values, name: changed}
                        if tried.get("track", 0.0) > tried.get("full", inf):
                            continue
                        cost = self.cost(tried, directions)
                        if cost < best * 0.998:
                            values, best, improved = tried, cost, True
        self._notice(f"{directions} {best:.4f} {values}")
        return values

    def _guess_hdd(self) -> Values:
        numbers = {"track": 2e-3, "full": 16e-3, "in_order": 0.0, "queue": 16.0}
        writes = self._spots["write"] and "write" in self.subject.directions
        return {**numbers, "ranges": 128.0, "choice": 32.0} if writes else numbers

    def _guess_ssd(self) -> Values:
        known, found = self.subject.keys, {side: several for side, several in self._spots.items() if several}
        block = max((several[0].pattern.block for several in found.values()), default=0)
        # One at a time, a request takes the latency of its channel and the transfer from the flash.
        passing = self.subject.host.turn + block / 550e6
        alone = {
            side: max(1e-6, several[0].pattern.depth / several[0].rate(side) - passing)
            for side, several in found.items()
        }
        sent = block / parse_rate(known["interface"]) if "interface" in known else 0.0
        top = {side: max(1e-6, 1 / max(one.rate(side) for one in several) - sent) for side, several in found.items()}
        values = {
            "overhead": top.get("read", 20e-6),
            "read_latency": alone.get("read", _TYPICAL["read"]),
            "write_latency": alone.get("write", _TYPICAL["write"]),
            "channels": 16.0,
            "by_address": 0.0,
            **({"write_overhead": top["write"]} if "write" in top else {}),
            **self._bandwidths(),
        }
        if "write" not in found:
            return values
        rates = [one.rate("write") for one in found["write"]]
        shallow = [one.jobs[0].figures["write"].percentiles for one in found["write"] if one.pattern.depth <= 8]
        shallow = [one for one in shallow if one]
        if not known.get("write_cache", True):
            return {**values, "flush": alone["write"], "write_latency": 20e-6, "write_overhead": values["overhead"]}
        if any(one[-1] > 10 * one[6] for one in shallow):  # most writes are fast, and few wait
            values |= {"write_latency": shallow[0][6] / 2, "write_overhead": 8e-6}
            values |= {"cliff": 100.0 * block, "cliff_rate": block * min(rates)}
        return values

    def _bandwidths(self) -> Values:
        """Return the rates of sequential jobs; without any, the highest ones of others, which are a lower bound."""
        found = {}
        names: dict[Direction, str] = {"read": "bandwidth", "write": "write_bandwidth"}
        for side, name in names.items():
            rates = [
                one.rate(side) * one.pattern.block for one in self._sequential if one.pattern.reads == (side == "read")
            ]
            if name not in self.subject.keys and (rates or side == "read"):
                found[name] = max(rates, default=_TYPICAL_BANDWIDTH)
        return found


def zones_of(places: Iterable[tuple[float, float]]) -> dict[str, object]:
    """Return the zones of a disk with these rates, measured at places (shares of the disk)."""
    known = sorted(places)
    if len(known) == 1:
        return {"outer": rate_text(known[0][1]), "inner": rate_text(known[0][1] / 2)}
    zones: list[dict[str, str]] = []
    for number in range(ZONES):
        centre = (number + 0.5) / ZONES
        (left, low), (right, high) = next((pair for pair in pairwise(known) if centre <= pair[1][0]), known[-2:])
        share = min(1.0, max(0.0, (centre - left) / (right - left)))
        zone = {"to": f"{(number + 1) / ZONES:.3%}", "rate": rate_text(low + share * (high - low))}
        zones[-1:] = [zone] if zones and zones[-1]["rate"] == zone["rate"] else [*zones[-1:], zone]
    return {"zones": zones}


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
