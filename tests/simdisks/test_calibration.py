"""A calibration finds a model that predicts jobs that it did not see, and says what it cannot know."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.language.disks import physics_of
from matrix_runner.simdisks.calibration import calibrate, hold_out, jobs_for, kind_of
from matrix_runner.simdisks.clib import Library, build_library, load_library
from matrix_runner.simdisks.fit import zones_of
from matrix_runner.simdisks.loop import Figures, Host, Pattern, simulate
from matrix_runner.simdisks.measured import Job, spots

if TYPE_CHECKING:
    from collections.abc import Mapping

TB = 10**12
SSD = {
    "kind": "ssd",
    "read_latency": "80us",
    "write_latency": "25us",
    "overhead": "6us",
    "channels": 8,
    "bandwidth": "520MB/s",
    "write_bandwidth": "400MB/s",
    "flush": "2ms",
}
HDD = {
    "kind": "hdd",
    "rpm": 7200,
    "outer": "200MB/s",
    "inner": "90MB/s",
    "seek": {"track": "1.5ms", "full": "18ms"},
    "queue": 24,
    "in_order": 5,
}


@pytest.fixture(scope="module")
def code() -> Library:
    return load_library(asyncio.run(build_library()))


def measured(code: Library, keys: Mapping[str, object], *, writes: bool) -> list[Job]:
    host, jobs = Host(TB, 15e-6), jobs_for(str(keys["kind"]), writes=writes)
    most = 200_000 if keys["kind"] == "hdd" else 5000
    found = {name: simulate(code, physics_of(keys), host, one, one.seconds, most, seed=7) for name, one in jobs.items()}
    return [Job(name, one, found[name].get("read"), found[name].get("write")) for name, one in jobs.items()]


def test_an_ssd_is_predicted(code: Library) -> None:
    found = calibrate(code, measured(code, SSD, writes=True), TB, physics_of, {})
    assert found.keys["kind"] == "ssd"
    assert max(abs(one.off) for one in found.held_out) < 0.1
    values = {one.key.name: one for one in found.estimates}
    assert values["flush"].value == pytest.approx(2e-3, rel=0.02)
    assert values["bandwidth"].value == pytest.approx(520e6, rel=0.01)
    assert (values["read_latency"].interval.low or 0) < 80e-6 < (values["read_latency"].interval.high or 1)
    assert {one.name for one in found.unknown} == {"cliff.after", "cliff.bandwidth"}
    assert physics_of(found.keys).kind == "ssd"


def test_reads_of_a_hard_disk_do_not_identify_its_writes(code: Library) -> None:
    found = calibrate(code, measured(code, HDD, writes=False), TB, physics_of, {})
    values = {one.key.name: one.value for one in found.estimates}
    assert (found.keys["kind"], values["rpm"], values["in_order"]) == ("hdd", 7200, 5)
    assert values["seek.full"] == pytest.approx(18e-3, rel=0.08)
    assert max(abs(one.off) for one in found.held_out) < 0.1
    assert {one.name for one in found.unknown} == {"write_cache.ranges", "write_cache.choice"}


def test_a_write_cache_is_found_far_from_the_first_guess(code: Library) -> None:
    """From the first guess alone, the fit ends at 512 ranges and a choice of 40, and mixed work is 20 % off."""
    disk = {**HDD, "seek": {"track": "1.71ms", "full": "22.59ms"}, "queue": 16, "in_order": 0}
    disk |= {"outer": "198MB/s", "inner": "146MB/s", "cache": "8MiB", "write_cache": {"ranges": 137, "choice": 77}}
    known = {name: disk[name] for name in ("rpm", "outer", "inner")}
    jobs = [job for job in measured(code, disk, writes=True) if job.pattern.random]
    found = calibrate(code, jobs, TB, physics_of, known)
    values = {one.key.name: one.value for one in found.estimates}
    assert values["write_cache.choice"] > 50
    assert values["write_cache.ranges"] < 250


def test_a_disk_that_holds_only_the_writes_of_its_queue_is_found(code: Library) -> None:
    """Among larger caches, the fit ends at 384 ranges, and mixed work is 25 % off."""
    disk = {**HDD, "rpm": 5400, "seek": {"track": "0.67ms", "full": "17.28ms"}, "queue": 8, "in_order": 2}
    known = {name: disk[name] for name in ("rpm", "outer", "inner")}
    jobs = [job for job in measured(code, disk, writes=True) if job.pattern.random]
    found = calibrate(code, jobs, TB, physics_of, known)
    values = {one.key.name: one.value for one in found.estimates}
    assert values["write_cache.ranges"] <= 64
    assert max(abs(one.off) for one in found.held_out) < 0.1


def test_given_keys_are_not_fitted(code: Library) -> None:
    jobs = [job for job in measured(code, HDD, writes=False) if job.pattern.random]
    found = calibrate(code, jobs, TB, physics_of, {"rpm": 7200})
    assert found.keys["rpm"] == 7200
    assert "rpm" not in {one.key.name for one in found.estimates} | {one.name for one in found.unknown}
    assert "zones" in {one.name for one in found.unknown}


def test_some_depths_and_places_are_held_out() -> None:
    def job(pattern: Pattern) -> Job:
        return Job("", pattern, None, None)

    depths = [job(Pattern(depth, 1.0)) for depth in (1, 2, 4, 8, 16, 32)]
    mixed, large, safe = job(Pattern(1, 0.7)), job(Pattern(1, 1.0, 65536)), job(Pattern(1, 0.0, safe=True))
    fitted, held = hold_out([*depths, mixed, large, safe])
    assert [one.pattern.depth for one in held] == [2, 16, 1, 1]
    assert {mixed, large} <= {*held}
    assert safe in fitted


def test_zones_lie_between_the_places_that_were_measured() -> None:
    zones = zones_of([(0.0, 200e6), (0.5, 150e6), (1.0, 100e6)])["zones"]
    assert isinstance(zones, list)
    assert (zones[0]["rate"], zones[-1]) == ("198MB/s", {"to": "100.000%", "rate": "102MB/s"})
    assert len(zones_of([(0.0, 200e6), (1.0, 200e6)])["zones"]) == 1  # type: ignore[arg-type]
    assert zones_of([(0.0, 150e6)]) == {"outer": "150MB/s", "inner": "75MB/s"}
    assert zones_of([(0.05, 150e6), (0.05, 100e6)]) == zones_of([(0.0, 150e6)])  # two depths at one place


def test_figures_beyond_the_bounds_of_all_models_are_refused(code: Library) -> None:
    slow = Job("", Pattern(1, 1.0, seconds=15.0), Figures(0.2, 5.0, 9.0, 0.0, ()), None)
    with pytest.raises(BadInput, match="no model fits these jobs"):
        calibrate(code, [slow], TB, physics_of, {})


def test_a_job_that_ends_before_the_first_request_of_a_model_is_far_from_it() -> None:
    (spot,) = spots([Job("", Pattern(1, 1.0), Figures(100.0, 0.01, 0.02, 0.0, ()), None)])
    assert spot.distance({}, "read", Host(TB), 0.3) == inf


def test_a_disk_without_random_jobs_is_refused() -> None:
    figures = Figures(100.0, 0.01, 0.02, 0.0, ())
    assert kind_of([Job("", Pattern(1, 1.0), figures, None)]) == "hdd"
    with pytest.raises(BadInput, match="no job has random reads or writes"):
        kind_of([Job("", Pattern(1, 1.0), Figures(0.02, 50.0, 60.0, 0.0, ()), None)])  # the disk stopped
    with pytest.raises(BadInput, match="no job has random reads or writes"):
        kind_of([Job("", Pattern(1, 1.0, random=False), figures, None)])
