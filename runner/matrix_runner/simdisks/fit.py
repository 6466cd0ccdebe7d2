"""The fit: keys of a model are varied, one after another, until its rates and latencies are nearest to those measured.

First guesses follow from single figures: the rate of depth 1, and the highest rate. Bandwidths and zones are those of
sequential jobs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from math import inf
from statistics import fmean

from matrix_runner.base.quantities import parse_rate
from matrix_runner.simdisks.clib import Library
from matrix_runner.simdisks.disk import Physics
from matrix_runner.simdisks.loop import DIRECTIONS, WHOLE, Direction, Figures, Host, Pattern, simulate
from matrix_runner.simdisks.measured import Job, Spot, spots

#: Of a job: seconds of a hard disk, and requests of an SSD. Writes take as long as in fio: the cache is empty at first.
SECONDS, REQUESTS = 60.0, 5000
#: How much the latencies of a job count, beside its rate.
OF_LATENCIES = 0.3
#: Steps of a key, as factors: from coarse to fine.
STEPS, FINE = (1.3, 1.1, 1.04), (1.3, 1.1, 1.03, 1.01, 1.003)
#: Bounds of a key are searched at these distances, as factors.
APART = (1.01, 1.02, 1.04, 1.08, 1.15, 1.3, 1.6, 2.5)
CHANNELS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 128, 256)
QUEUES = (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32)
RANGES = (2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512)
CHOICES = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96)
IN_ORDER = tuple(range(33))
_WHOLE: dict[str, Sequence[int]] = {
    "channels": CHANNELS,
    "queue": QUEUES,
    "ranges": RANGES,
    "choice": CHOICES,
    "in_order": IN_ORDER,
}
SPEEDS = (4200, 5400, 5900, 7200, 10_000, 15_000)
#: Of a list of zones that is made from places: the model has this number, with rates between those measured.
ZONES = 32
#: A key can have all values with which the fit is worse by at most this.
WORSE = 0.005
BANDWIDTHS: dict[Direction, str] = {"read": "bandwidth", "write": "write_bandwidth"}
_TYPICAL, _TYPICAL_BANDWIDTH = {"read": 90e-6, "write": 40e-6}, 550e6
Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Subject:
    """A drive: what is known of it without a fit, and the jobs that measured it."""

    keys: Mapping[str, object]  # keys of its model that are not fitted
    host: Host
    jobs: tuple[Job, ...]
    directions: tuple[Direction, ...] = DIRECTIONS  # directions whose jobs this drive alone explains

    @property
    def is_hdd(self) -> bool:
        return self.keys["kind"] == "hdd"


Evidence = tuple[tuple[Spot, Direction], ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """Keys that are varied together, and the jobs that identify them."""

    names: tuple[str, ...]
    evidence: Evidence
    steps: tuple[float, ...] = STEPS


@dataclass(frozen=True, slots=True)
class Interval:
    """None: no bound was found."""

    low: float | None
    high: float | None


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
                seconds = SECONDS if pattern.reads == 1 else pattern.seconds
                ends = (seconds if pattern.random else SECONDS / 30, 100_000)
            self._known[key] = simulate(self._library, physics, self._host, pattern, *ends)
        return self._known[key]


def keys_of(subject: Subject, values: Values) -> dict[str, object]:
    """Return the keys of a model, as in its file."""
    keys = dict(subject.keys)
    if subject.is_hdd:
        if "rpm" in values:
            keys["rpm"] = int(values["rpm"])
        track, full = (time_text(values[name]) for name in ("track", "full"))
        keys |= {"seek": {"track": track, "full": full}, "queue": int(values["queue"])}
        if values["in_order"]:
            keys["in_order"] = int(values["in_order"])
        if "ranges" in values:
            keys["write_cache"] = {"ranges": int(values["ranges"]), "choice": int(values["choice"])}
        return keys
    names = ("overhead", "write_overhead", "read_latency", "write_latency", "flush")
    keys |= {name: time_text(values[name]) for name in names if name in values}
    keys |= {name: rate_text(values[name]) for name in ("bandwidth", "write_bandwidth") if name in values}
    keys["channels"] = int(values["channels"])
    if values["by_address"]:
        keys["by_address"] = True
    if "cliff" in values:
        after = f"{round(values['cliff'] / 1024)}KiB"
        keys["cliff"] = {"after": after, "bandwidth": rate_text(values["cliff_rate"]), "stops": True}
    return keys


def time_text(seconds: float) -> str:
    return f"{_short(seconds * 1e3)}ms" if seconds >= 1e-3 else f"{_short(seconds * 1e6)}us"


def rate_text(rate: float) -> str:
    return f"{_short(rate / 1e6)}MB/s"


def _short(value: float) -> str:
    return f"{Decimal(f'{value:.3g}'):f}"  # without an exponent


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

    def cost(self, values: Values, evidence: Evidence) -> float:
        try:
            physics = self._physics_of(keys_of(self.subject, values))
        except ValueError:  # beyond the bounds of the keys
            return inf
        apart = [
            spot.distance(self.model(physics, spot.pattern), direction, self.subject.host, OF_LATENCIES)
            for spot, direction in evidence
        ]
        return fmean(apart) if apart else 0.0

    def run(self) -> Values:
        is_hdd = self.subject.is_hdd
        values = self._best_queue(self._guess_hdd()) if is_hdd else self._best_channels(self._guess_ssd())
        for stage in self.stages(values):
            values = self._descend(self._best_cache(values, stage) if "ranges" in stage.names else values, stage)
        return values

    def _best_cache(self, values: Values, stage: Stage) -> Values:
        """Try caches that are far apart: a large one with a small choice may be nearly as good as the opposite.

        A disk without a cache for writes has the ranges of its queue only.
        """
        several = [(float(n), float(c)) for n in (64, 128, 256, 384) for c in (8, 32, 64, 96)]
        few = 2 * values["queue"]
        tried = [{**values, "ranges": n, "choice": c} for n, c in (*several, (few, few), (few, few / 2))]
        return min((values, *tried), key=lambda one: self.cost(one, stage.evidence))

    def stages(self, values: Values) -> Iterator[Stage]:
        stages = self._of_hdd() if self.subject.is_hdd else self._of_ssd()
        for one in stages:
            names = tuple(name for name in one.names if name in values)
            if names and one.evidence:
                yield replace(one, names=names)

    def _of_hdd(self) -> Iterator[Stage]:
        yield Stage((*self._seeks, "in_order", "queue"), self._evidence("read"))
        yield Stage(("ranges", "choice"), self._evidence("write"))

    def _of_ssd(self) -> Iterator[Stage]:
        yield Stage(("read_latency", "by_address", "channels", "overhead"), self._evidence("read"))
        names = ("write_latency", "write_overhead", "cliff", "cliff_rate")
        yield Stage(names if self._caches else (*names, "flush"), self._evidence("write"))
        yield Stage(("by_address", "channels"), self._evidence("read", "write"))
        for side, name in BANDWIDTHS.items():
            several = [one for one in self._sequential if one.pattern.reads == (side == "read")]
            fastest = max(several, key=lambda one: one.rate(side) * one.pattern.block, default=None)
            yield Stage((name,), ((fastest, side),) if fastest else (), FINE)
        if self._caches:
            yield Stage(("flush",), tuple((one, "write") for one in self._safe), FINE)

    @property
    def _caches(self) -> bool:
        return bool(self.subject.keys.get("write_cache", True))

    def _evidence(self, *sides: Direction) -> Evidence:
        return tuple((spot, side) for side in sides if side in self.subject.directions for spot in self._spots[side])

    def intervals(self, values: Values) -> dict[str, Interval]:
        """Return, for each key that was varied, the values with which its jobs are at most `WORSE` farther away."""
        found = dict[str, Interval]()
        for stage in self.stages(values):
            worst = self.cost(values, stage.evidence) + WORSE
            for name in stage.names:
                low, high = (self._bound(values, stage, name, worst, up=up) for up in (False, True))
                found[name] = Interval(low, high)
        if "rpm" in values:
            found["rpm"] = Interval(min(self.speeds), max(self.speeds))
        return found

    def _bound(self, values: Values, stage: Stage, name: str, worst: float, *, up: bool) -> float | None:
        """Return the first value in this direction that fits worse, or the last whole one that does not."""
        last: float = values[name]
        if name == "by_address":  # there is one other value
            other = {**values, name: 1 - last}
            return None if self.cost(other, stage.evidence) <= worst else last
        whole = _WHOLE.get(name)
        if whole:
            further = whole if up else reversed(whole)
            ahead = [float(one) for one in further if (one > last if up else one < last)]
        else:
            ahead = [last * factor if up else last / factor for factor in APART]
        for value in ahead:
            tried = {**values, name: value}
            if tried.get("track", 0.0) > tried.get("full", inf) or self.cost(tried, stage.evidence) > worst:
                return last if whole else value
            last = value
        return None

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
        return min(tried, key=lambda one: self.cost(one, self._evidence(*DIRECTIONS)))

    def _best_queue(self, values: Values) -> Values:
        """Take the seeks from depth 1, then try all queues: the best ones of each fixed order are far apart."""
        alone = tuple((one, DIRECTIONS[0]) for one in self._alone)
        by_speed = dict[float, Values]()
        for one in self._seek_curves(values):
            best = by_speed.setdefault(one.get("rpm", 0.0), one)
            if self.cost(one, alone) < self.cost(best, alone):
                by_speed[one.get("rpm", 0.0)] = one
        stage = Stage(("track",) if len(by_speed) == 1 else self._seeks, alone)
        found = [self._descend(one, stage) for one in by_speed.values()]
        values = min(found, key=lambda one: self.cost(one, alone))
        worst = self.cost(values, alone) + WORSE
        self.speeds = [one["rpm"] for one in found if "rpm" in one and self.cost(one, alone) <= worst]
        tried = [
            {**values, "in_order": float(n), "queue": float(queue)} for n in range(9) for queue in (4, 8, 16, 24, 32)
        ]
        return min(tried, key=lambda one: self.cost(one, self._evidence("read")))

    def _descend(self, values: Values, stage: Stage) -> Values:
        best = self.cost(values, stage.evidence)
        for step in stage.steps:
            improved = True
            while improved:
                improved = False
                for name in stage.names:
                    for changed in _neighbours(name, values[name], step):
                        tried = {**values, name: changed}
                        if tried.get("track", 0.0) > tried.get("full", inf):
                            continue
                        cost = self.cost(tried, stage.evidence)
                        if cost < best * 0.998:
                            values, best, improved = tried, cost, True
        self._notice(f"{stage.names} {best:.4f} {values}")
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
            **self._flush(),
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

    def _flush(self) -> Values:
        """Return the time of a flush, unless safe writes take no longer than others: the disk protects its cache."""
        safe = min((one.pattern.depth / one.rate("write") for one in self._safe), default=0.0)
        plain = self._spots["write"]
        free = plain and safe < 1.5 * plain[0].pattern.depth / plain[0].rate("write")
        return {} if not safe or free or "flush" in self.subject.keys else {"flush": safe - self.subject.host.turn}

    def _bandwidths(self) -> Values:
        """Return the rates of sequential jobs; without any, the highest ones of others, which are a lower bound."""
        found = {}
        for side, name in BANDWIDTHS.items():
            rates = [
                one.rate(side) * one.pattern.block for one in self._sequential if one.pattern.reads == (side == "read")
            ]
            if name not in self.subject.keys and (rates or side == "read"):
                found[name] = max(rates, default=_TYPICAL_BANDWIDTH)
        return found


def zones_of(places: Iterable[tuple[float, float]]) -> dict[str, object]:
    """Return the zones of a disk with these rates, measured at places (shares of the disk); the fastest job counts."""
    known = sorted(dict(sorted(places)).items())
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
    if name == "by_address":
        yield 1 - value
    elif name == "in_order":
        yield from (value - 1, value + 1) if value else (1.0, 4.0)
    elif whole := _WHOLE.get(name):
        at = min(range(len(whole)), key=lambda at: abs(whole[at] - value))
        yield from (float(whole[near]) for near in (at - 1, at + 1, at - 3, at + 3) if 0 <= near < len(whole))
    else:
        yield from (value * step, value / step)
