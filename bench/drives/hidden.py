"""Hidden drives: random models are measured on simulated time, calibrated as a disk is, and predicted."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from matrix_runner.language.disks import physics_of
from matrix_runner.simdisks.calibration import Calibration, calibrate, jobs_for
from matrix_runner.simdisks.loop import Host, simulate
from matrix_runner.simdisks.measured import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.simdisks.clib import Library

NUMBER, GB = 60, 10**9
#: Of each job on an SSD, to save time.
REQUESTS = 20_000
MEDIAN, WORST = 0.05, 0.15


@dataclass(frozen=True, slots=True)
class Hidden:
    keys: dict[str, object]
    size: int
    found: Calibration

    @property
    def off(self) -> list[float]:
        return [abs(one.off) for one in self.found.held_out]


def _hdd(chance: random.Random) -> dict[str, object]:
    outer = chance.uniform(80, 280)
    keys: dict[str, object] = {
        "kind": "hdd",
        "rpm": chance.choice((5400, 7200, 7200, 10_000)),
        "outer": f"{outer:.1f}MB/s",
        "inner": f"{outer * chance.uniform(0.4, 0.75):.1f}MB/s",
        "zones": chance.randint(8, 30),
        "seek": {"track": f"{chance.uniform(0.6, 3):.2f}ms", "full": f"{chance.uniform(11, 25):.2f}ms"},
        "cache": f"{chance.choice((8, 16, 64, 256))}MiB",
        "queue": chance.choice((1, 4, 8, 16, 24, 32)),
        "in_order": chance.choice((0, 0, 0, 2, 5, 8)),
        "overhead": "20us",
    }
    if chance.random() < 0.7:
        keys["write_cache"] = {"ranges": chance.randint(32, 500), "choice": chance.randint(4, 96)}
    return keys


def _ssd(chance: random.Random) -> dict[str, object]:
    bandwidth = chance.uniform(250, 3500)
    keys: dict[str, object] = {
        "kind": "ssd",
        "read_latency": f"{chance.uniform(40, 150):.1f}us",
        "write_latency": f"{chance.uniform(10, 60):.1f}us",
        "overhead": f"{chance.uniform(1.5, 15):.2f}us",
        "write_overhead": f"{chance.uniform(1.5, 20):.2f}us",
        "channels": chance.choice((1, 2, 4, 7, 8, 12, 16, 24, 32, 64)),
        "by_address": chance.random() < 0.5,
        "bandwidth": f"{bandwidth:.0f}MB/s",
        "write_bandwidth": f"{bandwidth * chance.uniform(0.3, 1):.0f}MB/s",
    }
    if chance.random() < 0.5:
        keys["flush"] = f"{chance.uniform(0.4, 5):.2f}ms"
    return keys


def measure(library: Library, keys: dict[str, object], size: int, seed: int) -> Iterator[Job]:
    host = Host(size, turn=15e-6)
    for name, pattern in jobs_for(str(keys["kind"]), writes=True).items():
        ends = (pattern.seconds, 200_000) if keys["kind"] == "hdd" else (1e9, REQUESTS)
        found = simulate(library, physics_of(keys), host, pattern, *ends, seed=seed)
        yield Job(name, pattern, found.get("read"), found.get("write"))


def hidden(library: Library, seed: int = 1, number: int = NUMBER) -> Iterator[Hidden]:
    chance = random.Random(seed)  # noqa: S311 - no secret
    for at in range(number):
        is_hdd = at % 2
        size = (chance.randint(1, 16) * 1000 if is_hdd else chance.choice((256, 512, 2000))) * GB
        keys = _hdd(chance) if is_hdd else _ssd(chance)
        jobs = list(measure(library, keys, size, seed + at + 1))
        yield Hidden(keys, size, calibrate(library, jobs, size, physics_of, {}))


def show(library: Library, seed: int) -> None:
    print(f"seed {seed}")
    print(f"{'drive':<11}{'median':>8}{'worst':>8}  worst job")
    found = list[Hidden]()
    for number, one in enumerate(hidden(library, seed), 1):
        found.append(one)
        worst = max(one.found.held_out, key=lambda residual: abs(residual.off))
        name, middle = f"{one.keys['kind']} {number}", f"{median(one.off):.1%}"
        print(f"{name:<11}{middle:>8}{max(one.off):>8.1%}  {worst.pattern.title}: {worst.off:+.1%}", flush=True)
        if max(one.off) > WORST:
            calibrated = {name: value for name, value in one.found.keys.items() if name != "zones"}
            print(f"  hidden:     {one.keys}\n  calibrated: {calibrated}")
    every = [off for one in found for off in one.off]
    within = [holds for one in found for holds in _within(one)]
    far = sum(max(one.off) > WORST for one in found)
    print(f"\nall {len(every):,} held-out rates: median {median(every):.1%}, worst {max(every):.1%}")
    print(f"goal: {MEDIAN:.0%} and {WORST:.0%}; {far} of {len(found)} drives have a rate that is farther off")
    print(f"intervals that contain the hidden value: {fmean(within):.0%} of {len(within)}")


def _within(one: Hidden) -> Iterator[bool]:
    """Yield for each estimate whether its interval contains the hidden value."""
    hidden, usual = physics_of(one.keys), {"write_overhead": "overhead"}
    numbers = dict(hidden.numbers)
    true = {
        "rpm": 60 / numbers.get("revolution", 1),
        "track": numbers.get("seek_track", 0.0),
        "full": numbers.get("seek_full", 0.0),
        "queue": numbers.get("window", 0.0),
        "bandwidth": numbers.get("read_rate", 0.0),
        "write_bandwidth": numbers.get("write_rate", 0.0),
        "ranges": numbers.get("write_extents", 0.0),
        "choice": numbers.get("write_window", numbers.get("window", 0.0)),
    }
    for estimate in one.found.estimates:
        name, bounds = estimate.key.value, estimate.interval
        value = true.get(name, numbers.get(name, numbers.get(usual.get(name, ""), 0.0)))
        yield (bounds.low or 0.0) <= value * 1.000001 and value <= (bounds.high or math.inf) * 1.000001
