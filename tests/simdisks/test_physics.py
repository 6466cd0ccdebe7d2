"""What the physics says, on simulated time: nothing here waits for anything."""

import asyncio
import ctypes
import math
from dataclasses import fields, replace
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from matrix_runner.language.disks import DiskModel
from matrix_runner.simdisks.check import Probe, ProbeResult, lost_to_host, probes, turnaround
from matrix_runner.simdisks.clib import Board, Library, Report, build_library, load_library
from matrix_runner.simdisks.disk import Disk, Physics
from matrix_runner.simdisks.loop import Pattern
from matrix_runner.simdisks.server import Overload
from matrix_runner.space.includes import models
from matrix_runner.space.load import disk_model
from tests.support.closed_loop import Job, SimulatedDisk, What, declared, predict_rate

GIB, MIB, KIB = 2**30, 2**20, 2**10
SIZE = 2 * GIB


@pytest.fixture(scope="module")
def code() -> Library:
    return load_library(asyncio.run(build_library()))


def named(name: str) -> Physics:
    return disk_model(name).physics(1)


def disk_model_of(**keys: object) -> Physics:
    return TypeAdapter(DiskModel).validate_python(keys).physics(1)


def hdd(**changes: float) -> Physics:
    found = named("st3320620as")
    return Physics("hdd", tuple({**dict(found.numbers), **changes}.items()), found.zones)


@pytest.mark.parametrize("name", ["st3320620as", "st3500641as", "nas-7200"])
def test_every_zone_is_read_at_its_rate(code: Library, name: str) -> None:
    physics, begins = named(name), 0.0
    for end, rate in physics.zones:
        job = Job("read", 256 * KIB, 4, random=False, first=begins, last=end)
        found = predict_rate(code, physics, 8 * SIZE, job, ramp=0.2, seconds=1.0).bytes
        assert found == pytest.approx(rate, rel=0.03)
        begins = end


@pytest.mark.parametrize("size", [GIB, 64 * GIB])
def test_geometry_scales_with_the_disk_and_rates_do_not(code: Library, size: int) -> None:
    at_the_end = Job("read", 256 * KIB, 4, random=False, first=15 / 16)
    assert predict_rate(code, hdd(), size, at_the_end, ramp=0.2, seconds=0.5).bytes == pytest.approx(40e6, rel=0.03)
    anywhere = Job("read", 4 * KIB, 1, random=True)
    here, there = (predict_rate(code, hdd(), one, anywhere, seconds=60).iops for one in (size, SIZE))
    assert here == pytest.approx(there, rel=0.03)


@given(turn=st.floats(0, 5e-3), depth=st.integers(1, 8))
def test_the_turn_around_time_lowers_the_rate(code: Library, turn: float, depth: int) -> None:
    volume = Physics("volume", (("latency", 8e-4), ("iops", 1e6)))
    at_once = Job("read", 4 * KIB, depth, random=True)
    best, found = (
        predict_rate(code, volume, SIZE, job, seconds=2).iops for job in (at_once, replace(at_once, turn=turn))
    )
    assert found == pytest.approx(depth / (depth / best + turn), rel=0.01)


def test_late_answers_of_the_disk_are_not_turn_around_time() -> None:
    """A hundred requests in a second: half of that in the disk's hands, a fifth of it later than it should."""
    report = replace(Report(*[0] * len(fields(Report))), reads=60, writes=40, owed=0.4, late=0.1)
    assert turnaround(report, 100.0) == pytest.approx(0.005)
    assert turnaround(report, 1000.0) == 0.0
    assert turnaround(report, 100.0, 4) == pytest.approx(0.035)


@pytest.mark.parametrize(
    ("measured", "late", "starved", "true", "host_limited"),
    [
        (98.0, 0.0, 0.0, True, False),
        (98.0, 0.2, 0.0, True, False),
        (96.0, 0.0, 0.0, False, False),
        (96.0, 0.005, 0.006, False, True),  # less than makes a trial host-limited, and all that is amiss
        (80.0, 0.06, 0.06, False, False),  # more is amiss than the host had
        (104.0, 0.06, 0.06, False, False),  # no host makes a disk quicker
    ],
)
def test_a_probe_is_host_limited_only_by_lost_time(
    measured: float, late: float, starved: float, true: bool, host_limited: bool
) -> None:
    found = ProbeResult(Probe("x", Pattern(4, 1.0)), 100.0, measured, Overload(late, starved))
    assert (found.is_accurate, found.is_host_limited) == (true, host_limited)


@pytest.mark.parametrize(("pause", "held_up"), [(0.5, True), (1.5, False)])
def test_a_head_that_stopped_has_been_kept_waiting(code: Library, pause: float, held_up: bool) -> None:
    """It reads on for so long; whoever asks for what comes next later than that loses a turn."""
    disk, ahead = SimulatedDisk(code, hdd(), SIZE), dict(hdd().numbers)["read_ahead"]
    disk.submit(0.0, "read", 0, 64 * KIB, 0)
    now = ended(disk, 0.0)[0] + pause * ahead / 78e6
    next_read = min(int(pause * ahead) + 128 * KIB, int(ahead))  # soon below the head, or where it stopped
    disk.submit(now, "read", next_read + 64 * KIB, 64 * KIB, 1)
    assert ended(disk, now)
    assert bool(disk._c.physics_held_up(disk._disk)) is held_up


def test_rewrites_of_cached_data_do_not_wait_for_the_platter(code: Library) -> None:
    """It is no more work for a head that is at work: who asks for it late has kept the disk waiting."""
    disk, told = SimulatedDisk(code, hdd(), SIZE), list[bool]()
    for tag, share in enumerate((0, 4, 8, 8, 6)):
        disk.submit(0.0, "write", SIZE // 10 * share // (64 * KIB) * 64 * KIB, 64 * KIB, tag)
        assert dict(disk.settled(0.0))
        told.append(bool(disk._c.physics_held_up(disk._disk)))
    assert told == [False, True, True, False, True]


@pytest.mark.parametrize("name", ["archive-smr", "nas-7200"])
@pytest.mark.parametrize("depth", [4, 8, 31])
@pytest.mark.parametrize("turn", [0.0, 5e-5, 3e-4])
def test_sequential_reads_are_as_fast_at_each_depth(code: Library, name: str, depth: int, turn: float) -> None:
    """A small part over and over: where its end meets its beginning, none of what goes on is left behind."""
    job = Job("read", 256 * KIB, depth, random=False, first=0.94, turn=turn)
    alone = predict_rate(code, named(name), SIZE, replace(job, depth=1), seconds=4).bytes
    assert predict_rate(code, named(name), SIZE, job, seconds=4).bytes == pytest.approx(alone, rel=0.03)


def test_writes_beside_rewritten_blocks_are_not_starved(code: Library) -> None:
    """The block before it is written again as soon as it is written, by two at a time."""
    disk, middle, tags, ended = SimulatedDisk(code, hdd(write_cache=0), SIZE), SIZE // 2, 2, 0.0
    disk.submit(0.0, "write", middle, 4 * KIB, 0)
    for tag in (1, 2):
        disk.submit(0.0, "write", middle - 4 * KIB, 4 * KIB, tag)
    now = 0.0
    while not ended and now < 5:
        now = max(now + 1e-4, disk.next_decision())
        for tag, end in [*disk.settled(now)]:
            if not tag:
                ended = end
            else:
                tags += 1
                disk.submit(max(now, end), "write", middle - 4 * KIB, 4 * KIB, tags)
    assert 0 < ended < 1.1  # PATIENCE, and whatever is at work then


def test_a_random_read_is_a_seek_and_half_a_turn(code: Library) -> None:
    numbers = dict(hdd().numbers)
    # Of two random places: the mean of the root of their distance is 8/15 (zones of other sizes change little of it).
    seek = numbers["seek_track"] + (numbers["seek_full"] - numbers["seek_track"]) * 8 / 15
    cost = seek + numbers["revolution"] / 2 + 4096 / 60e6 + numbers["overhead"]
    found = predict_rate(code, hdd(), SIZE, Job("read", 4 * KIB, 1, random=True), seconds=120).iops
    assert found == pytest.approx(1 / cost, rel=0.03)


def test_a_queue_lets_the_disk_choose_and_one_command_does_not(code: Library) -> None:
    rates = [
        predict_rate(code, hdd(), SIZE, Job("read", 4 * KIB, depth, random=True), seconds=60).iops
        for depth in (1, 4, 16)
    ]
    assert all(more > 1.2 * less for less, more in pairwise(rates))
    alone = [
        predict_rate(code, hdd(window=1.0), SIZE, Job("read", 4 * KIB, depth, random=True), seconds=60).iops
        for depth in (1, 16)
    ]
    assert alone[1] == pytest.approx(alone[0], rel=0.03)


def test_one_command_in_the_queue_is_no_choice(code: Library) -> None:
    """The disk begins the other one before its answer can bring a third."""
    one, two = (
        predict_rate(code, hdd(), SIZE, Job("read", 4 * KIB, depth, random=True), seconds=120).iops for depth in (1, 2)
    )
    assert two == pytest.approx(one, rel=0.03)


def test_a_disk_is_checked_at_every_depth_of_its_queue() -> None:
    jobs = [probe.pattern for probe in probes(Disk(SIZE, physics=hdd()))]
    assert {job.depth for job in jobs if job.random and job.reads} == {1, 2, 4, 8, 31}


@pytest.mark.parametrize("name", ["st3320620as", "sata-ssd", "cloud-80iops"])
def test_a_check_predicts_what_requests_reach_step_by_step(code: Library, name: str) -> None:
    disk = Disk(SIZE, physics=named(name))
    for probe in probes(disk):
        job = probe.pattern
        one = Job(probe.direction, job.block, job.depth, job.random, job.first, job.last)
        seconds = 60 if job.random and named(name).kind == "hdd" else 1
        stepped = predict_rate(code, named(name), SIZE, one, seconds=seconds).iops
        assert probe.predict(code, disk, seconds) == pytest.approx(stepped, rel=0.03), probe.name


@pytest.mark.parametrize(("depth", "random", "starved"), [(2, True, 0.0), (31, True, 0.9), (4, False, 0.9)])
def test_the_turnaround_is_expected_of_a_short_queue_only(depth: int, random: bool, starved: float) -> None:
    report = replace(Report(*[0] * len(fields(Report))), reads=100, owed=0.1 * depth)
    job = Pattern(depth, 1.0, random=random)
    assert lost_to_host(report, 100.0, job).starved == pytest.approx(starved)


def test_without_a_write_cache_every_write_waits_for_the_platter(code: Library) -> None:
    job = Job("write", 64 * KIB, 1, random=False, last=1 / 16)
    turns = predict_rate(code, hdd(write_cache=0.0), SIZE, job, seconds=5).iops
    assert turns == pytest.approx(120, rel=0.12)  # one a turn: the next comes when its place has just gone by
    assert predict_rate(code, hdd(), SIZE, job, ramp=0.5, seconds=5).bytes == pytest.approx(78e6, rel=0.03)


def ended(disk: SimulatedDisk, now: float) -> dict[int, float]:
    """All that ends, on time that goes on by itself."""
    found = dict(disk.settled(now))
    while (wakes := disk.next_decision()) < math.inf and len(found) < 1000:
        now = max(now, wakes)
        found.update(disk.settled(now))
    return found


def test_a_flush_ends_when_all_that_was_written_is_on_the_platter(code: Library) -> None:
    disk = SimulatedDisk(code, hdd(), SIZE)
    for tag in range(8):
        disk.submit(0.0, "write", tag * 100 * MIB, 4096, tag)
    disk.submit(0.001, "flush", 0, 0, 8)
    found = ended(disk, 0.001)
    assert max(found[tag] for tag in range(8)) < 0.001
    assert found[8] > 8 * 0.001  # eight places far from each other
    disk = SimulatedDisk(code, hdd(), SIZE)
    disk.submit(0.0, "flush", 0, 0, 0)
    assert ended(disk, 0.0)[0] < 0.001


def test_forced_writes_wait_for_the_platter(code: Library) -> None:
    disk = SimulatedDisk(code, hdd(), SIZE)
    disk.submit(0.0, "write", GIB, 4096, 0, fua=True)
    disk.submit(0.0, "write", GIB + MIB, 4096, 1)
    found = ended(disk, 0.0)
    assert found[0] > 0.001 > found[1]


def test_an_order_that_is_fixed_ahead_leaves_no_choice(code: Library) -> None:
    rates = {
        depth: predict_rate(code, hdd(in_order=7.0), SIZE, Job("read", 4 * KIB, depth, random=True), seconds=120).iops
        for depth in (1, 4, 8, 16, 31)
    }
    assert rates[4] == pytest.approx(rates[1], rel=0.03)
    assert rates[8] == pytest.approx(rates[1], rel=0.03)
    assert rates[31] > 1.1 * rates[16] > 1.25 * rates[8]


@pytest.mark.parametrize(("in_order", "place"), [(0.0, 1), (4.0, 5)])
def test_commands_whose_order_is_fixed_are_not_overtaken(code: Library, in_order: float, place: int) -> None:
    """The last command is for the place that the head passes when it comes."""
    disk = SimulatedDisk(code, hdd(in_order=in_order), SIZE)
    for tag in range(5):
        disk.submit(0.0, "read", SIZE // 5 * tag // 4096 * 4096, 4096, tag)
    ((first, now),) = disk.settled(0.0)
    disk.submit(now, "read", SIZE // 5 * first // 4096 * 4096 + 64 * KIB, 4096, 5)
    order = [first, *ended(disk, now)]
    assert order.index(5) == place


def test_a_write_cache_takes_as_many_ranges_as_it_has(code: Library) -> None:
    physics = disk_model_of(kind="hdd", outer="77MB/s", write_cache={"ranges": 200})
    disk = SimulatedDisk(code, physics, SIZE)
    for tag in range(400):
        disk.submit(0.0, "write", SIZE // 400 * tag // 4096 * 4096, 4096, tag)
    assert sum(end < 0.01 for _, end in disk.settled(0.0)) == 200 + 1  # one is on its way to the platter
    job = Job("write", 4 * KIB, 4, random=True)
    rates = [
        predict_rate(
            code, disk_model_of(kind="hdd", outer="77MB/s", write_cache=cache), SIZE, job, ramp=5, seconds=60
        ).iops
        for cache in ({"ranges": 200}, {"ranges": 16}, {"ranges": 200, "choice": 64})
    ]
    assert rates[0] == pytest.approx(rates[1], rel=0.03)  # the choice decides on the rate, the ranges on the burst
    assert rates[2] > 1.15 * rates[0]


def test_a_flush_costs_nothing_with_power_loss_protection_only(code: Library) -> None:
    keys = {"kind": "ssd", "read_latency": "90us", "write_latency": "40us", "channels": 4, "bandwidth": "520MB/s"}
    took = {}
    for flush in (None, "1ms"):
        disk = SimulatedDisk(code, disk_model_of(**keys, flush=flush), SIZE)
        disk.submit(0.0, "write", 0, 4096, 0)
        disk.submit(1.0, "flush", 0, 0, 1)
        disk.submit(2.0, "flush", 0, 0, 2)
        disk.submit(3.0, "write", 0, 4096, 3, fua=True)
        ends = dict(disk.settled(4.0))
        took[flush] = [ends[tag] - tag for tag in (1, 2, 3)]
    assert took[None] == pytest.approx([40e-6, 40e-6, 68e-6], rel=0.3)
    assert took["1ms"] == pytest.approx([1e-3, 40e-6, 1.03e-3], rel=0.05)


def test_without_a_write_cache_each_write_of_an_ssd_takes_the_time_of_a_flush(code: Library) -> None:
    keys = {"kind": "ssd", "read_latency": "90us", "write_latency": "40us", "channels": 4, "bandwidth": "520MB/s"}
    physics = disk_model_of(**keys, flush="2ms", write_cache=False)
    for depth in (1, 2, 8):
        rate = predict_rate(code, physics, SIZE, Job("write", 4 * KIB, depth, random=True), seconds=2).iops
        assert rate == pytest.approx(min(depth, 4) * 500, rel=0.03)
    assert physics.slowest(4096) > 2e-3


def test_channels_by_address_are_not_all_busy(code: Library) -> None:
    keys = {"kind": "ssd", "read_latency": "100us", "write_latency": "40us", "channels": 16, "bandwidth": "5GB/s"}
    free, bound = (
        predict_rate(
            code,
            disk_model_of(**keys, overhead="1us", by_address=by_address),
            SIZE,
            Job("read", 4 * KIB, 8, random=True),
            seconds=1,
        ).iops
        for by_address in (False, True)
    )
    assert free == pytest.approx(8 / 100e-6, rel=0.04)
    assert 0.6 * free < bound < 0.85 * free


def test_a_fast_area_that_stops_is_empty_afterwards(code: Library) -> None:
    cliff = {"after": "400KiB", "bandwidth": "40MB/s", "stops": True}
    keys = {"kind": "ssd", "read_latency": "90us", "write_latency": "10us", "channels": 4, "bandwidth": "520MB/s"}
    physics = disk_model_of(**keys, overhead="1us", cliff=cliff)
    disk, now, took = SimulatedDisk(code, physics, SIZE), 0.0, list[float]()
    for tag in range(1000):
        disk.submit(now, "write", tag * 4096, 4096, tag)
        ((_, end),) = disk.settled(now)
        took.append(end - now)
        now = end
    stops = [number for number, seconds in enumerate(took) if seconds > 5e-3]
    assert 5 <= len(stops) <= 9
    assert {later - earlier for earlier, later in pairwise(stops)} <= set(range(100, 180))
    assert max(took) < physics.slowest(4096)


def test_writes_have_an_overhead_of_their_own(code: Library) -> None:
    keys = {"kind": "ssd", "read_latency": "90us", "write_latency": "40us", "channels": 64, "bandwidth": "5GB/s"}
    physics = disk_model_of(**keys, overhead="10us", write_overhead="20us")
    read, write = (
        predict_rate(code, physics, SIZE, Job(what, 4 * KIB, 31, random=True), seconds=1).iops
        for what in ("read", "write")
    )
    assert [read, write] == pytest.approx([100_000, 50_000], rel=0.03)
    assert physics.rate(4096, random=True, write=True, depth=31) == pytest.approx(write * 4096, rel=0.03)


def test_a_volume_is_as_fast_as_was_paid_for(code: Library) -> None:
    for depth in (1, 8):
        job = Job("read", 16 * KIB, depth, random=True)
        assert predict_rate(code, named("cloud-80iops"), SIZE, job, ramp=1, seconds=10).iops == pytest.approx(
            80, rel=0.01
        )
    large = Job("read", MIB, 4, random=True)  # four requests of 256 KiB each
    assert predict_rate(code, named("cloud-80iops"), SIZE, large, ramp=1, seconds=10).iops == pytest.approx(
        20, rel=0.01
    )


def test_a_burst_lasts_as_long_as_its_credits(code: Library) -> None:
    job = Job("read", 16 * KIB, 16, random=True)
    physics = named("cloud-burst")
    assert predict_rate(code, physics, SIZE, job, seconds=9).iops == pytest.approx(3000, rel=0.01)
    assert predict_rate(code, physics, SIZE, job, ramp=15, seconds=5).iops == pytest.approx(300, rel=0.01)


def test_an_ssd_has_places_that_work_side_by_side(code: Library) -> None:
    physics = named("sata-ssd")
    rates = [
        predict_rate(code, physics, SIZE, Job("read", 4 * KIB, depth, random=True), seconds=1).iops
        for depth in (1, 2, 4, 31)
    ]
    assert rates[0] == pytest.approx(1 / (90e-6 + 4096 / 520e6), rel=0.03)
    assert rates[1] == pytest.approx(2 * rates[0], rel=0.1)
    assert rates[3] == pytest.approx(rates[2], rel=0.15)  # four channels, no more


def test_an_ssd_slows_down_when_its_cache_is_full(code: Library) -> None:
    job = Job("write", MIB, 4, random=False)
    before = predict_rate(code, named("sata-ssd"), 8 * GIB, job, seconds=0.5).bytes
    after = predict_rate(code, named("sata-ssd"), 8 * GIB, job, ramp=5, seconds=2).bytes
    assert before == pytest.approx(480e6, rel=0.05)
    assert after == pytest.approx(180e6, rel=0.05)


commands = st.lists(
    st.tuples(
        st.floats(0, 0.01),  # so much later than the one before
        st.sampled_from(["read", "write", "flush"]),
        st.integers(0, SIZE // 4096 - 65),
        st.sampled_from([512, 4096, 65536, 262144, 20 * MIB]),
        st.booleans(),
    ),
    max_size=60,
)


@given(commands, st.sampled_from(models()))
def test_each_request_ends_once_and_repeatably(asked: list[tuple[float, str, int, int, bool]], name: str) -> None:
    code = load_library(asyncio.run(build_library()))
    runs = []
    for _ in range(2):
        disk, now, found = SimulatedDisk(code, named(name), SIZE), 0.0, dict[int, float]()
        came = {}
        for tag, (later, what, block, length, fua) in enumerate(asked):
            now += later
            came[tag] = now
            disk.submit(now, what, min(block * 4096, SIZE - length), length, tag, fua=fua)  # type: ignore[arg-type]
            for known, at in disk.settled(now):
                assert known not in found
                found[known] = at
        found |= ended(disk, now)
        assert found.keys() == came.keys()
        assert all(found[tag] >= came[tag] for tag in came)
        runs.append(found)
    assert runs[0] == runs[1]


def test_cached_writes_do_not_wait_for_the_platter(code: Library) -> None:
    disk = SimulatedDisk(code, hdd(), SIZE)
    disk.submit(0.0, "read", GIB, 65536, 0)
    disk.submit(0.001, "write", 0, 4096, 1)
    found = ended(disk, 0.001)
    assert found[0] > 0.005
    assert found[1] < 0.0012


def test_a_flush_is_not_starved_by_reads(code: Library) -> None:
    disk, now, tag, ends = SimulatedDisk(code, hdd(), SIZE), 0.0, 2, dict[int, float]()
    disk.submit(0.0, "write", GIB, 4096, 0)
    disk.submit(0.0, "read", 0, 262144, 1)
    disk.submit(0.0001, "flush", 0, 0, 10_000)
    reads = [1]
    while 10_000 not in ends and now < 5:
        ends.update(disk.settled(now))
        if reads[-1] in ends:
            now = max(now, ends[reads[-1]])
            disk.submit(now, "read", tag * 262144, 262144, tag)
            reads.append(tag)
            tag += 1
        else:
            now = max(now, disk.next_decision())
    assert ends[10_000] < 0.3


def test_writes_larger_than_the_cache_go_on_for_ever(code: Library) -> None:
    small = hdd(write_cache=float(MIB))
    job = Job("write", 2 * MIB, 1, random=True)
    assert predict_rate(code, small, SIZE, job, seconds=120).iops > 10


def test_an_ssd_slows_down_at_its_cliff(code: Library) -> None:
    disk, now = SimulatedDisk(code, named("sata-ssd"), 8 * GIB), 0.0
    took = []
    for tag in range(1024):
        disk.submit(now, "write", tag * MIB, MIB, tag)
        (end,) = (at for _, at in disk.settled(now))
        took.append(end - now)
        now = end
    slow = next(number for number, seconds in enumerate(took) if seconds > 0.004)
    assert slow == pytest.approx(512, rel=0.02)


def test_a_link_is_no_faster_than_it_is(code: Library) -> None:
    """A hundred thousand bytes at a time, each wanted at once: the last ends when all have gone by."""
    import tempfile

    with tempfile.TemporaryFile() as sheet:
        board = Board(code, sheet.fileno(), (50e6,))
        start = board.clock() + 1.0
        last = max(declared(code).board_bus_end(board._board, 0, start, 1e5, start) for _ in range(1000))
        board.close()
    assert last - start == pytest.approx(1000 * 1e5 / 50e6, rel=0.01)


def test_a_shingled_disk_takes_random_writes_in_its_stride_until_its_landing_zone_is_full(code: Library) -> None:
    physics = named("archive-smr")
    flat = Physics("hdd", tuple({**dict(physics.numbers), "band": 0.0}.items()), physics.zones)
    write = Job("write", 16 * KIB, 4, random=True)
    usual = predict_rate(code, flat, SIZE, write, ramp=10, seconds=60).iops
    # Five hundred pieces land as fast as they can be written one after another …
    assert predict_rate(code, physics, SIZE, write, seconds=0.1).iops > 5 * usual
    # … and then a band has to be put in order for every few of them.
    assert predict_rate(code, physics, SIZE, write, ramp=60, seconds=200).iops < usual / 3
    in_order = Job("write", 256 * KIB, 4, random=False)
    assert predict_rate(code, physics, SIZE, in_order, ramp=2, seconds=3).bytes == pytest.approx(
        predict_rate(code, flat, SIZE, in_order, ramp=2, seconds=3).bytes, rel=0.03
    )


def shingled(code: Library) -> SimulatedDisk:
    return SimulatedDisk(code, named("archive-smr"), SIZE)


def end_of(disk: SimulatedDisk, now: float, what: What, offset: int = 0, length: int = 0) -> float:
    """When a command ends that nobody else is in the way of."""
    disk.submit(now, what, offset, length, 1)
    while not (known := list(disk.settled(now))):
        now = max(now, disk.next_decision())
    return known[-1][1]


def test_a_flush_waits_for_what_lands_and_not_for_a_band_to_be_put_in_order(code: Library) -> None:
    disk, now = shingled(code), 0.0
    for number in range(20):
        now = end_of(disk, now, "write", (3 + 8 * number) * MIB + 4096, 4096)
        flushed = end_of(disk, now, "flush")
        assert flushed - now < 0.05
        now = flushed


def test_shingled_bands_are_rewritten_when_idle(code: Library) -> None:
    """Whoever comes after half a minute finds it done; whoever comes in the middle of one waits for it."""
    disk = shingled(code)
    now = end_of(disk, end_of(disk, 0.0, "write", 3 * MIB + 4096, 4096), "flush")
    waited = end_of(disk, now + 0.51, "read", GIB, 4096) - now - 0.51
    assert 0.1 < waited < 0.5
    later = end_of(disk, now + 30, "write", GIB + 4096, 4096)
    assert later - now - 30 < 0.01
    now = end_of(disk, later, "flush")
    assert end_of(disk, now + 30, "read", GIB // 2, 4096) - now - 30 < 0.05


@pytest.mark.parametrize("size", [2 * GIB, 1024 * GIB])
def test_every_band_is_put_in_order_by_itself_however_many_there_are(code: Library, size: int) -> None:
    """Each of twenty that are far apart costs its own half second of peace and its two passes; one costs that once."""
    band = dict(named("archive-smr").numbers)["band"]
    assert size / band > 16384 or size == 2 * GIB

    def put_in_order(bands: int) -> int:
        disk = SimulatedDisk(code, named("archive-smr"), size)
        now, steps = 0.0, 0
        for number in range(bands):
            now = end_of(disk, now, "write", size - int((2 * number + 1) * band) + 4096, 4096)
        now = end_of(disk, now, "flush")
        while (wakes := disk.next_decision()) < math.inf:
            assert not list(disk.settled(wakes))
            steps += 1
        return steps

    assert [put_in_order(bands) for bands in (1, 20)] == [1, 20]


def test_sequentially_overwritten_bands_need_no_rewrite(code: Library) -> None:
    disk, now = shingled(code), 0.0
    for number in range(50):
        now = end_of(disk, now, "write", (number * 7 % 64) * MIB + 4096, 4096)
    now = end_of(disk, now, "flush")
    for offset in range(0, 64 * MIB, MIB):
        now = end_of(disk, now, "write", offset, MIB)
    now = end_of(disk, now, "flush")
    assert disk.next_decision() == math.inf


def test_requests_that_come_in_the_wrong_order_cost_no_turn_of_the_platter(code: Library) -> None:
    """Side by side they go through threads of QEMU and of the server: which of two comes first is chance."""
    took = []
    for order in ((0, 1), (1, 0)):
        disk, now = SimulatedDisk(code, hdd(), SIZE), 0.0
        for pair in range(32):
            known: dict[int, float] = {}
            for which in order:
                disk.submit(now, "read", (2 * pair + which) * 256 * KIB, 256 * KIB, which)
                known.update(disk.settled(now))
                now += 20e-6
            now = max({**known, **ended(disk, now)}.values())
        took.append(now)
    assert took[1] == pytest.approx(took[0], abs=2 * 60 / 7200)


@pytest.mark.parametrize("name", models())
@pytest.mark.parametrize("what", ["read", "write"])
@pytest.mark.parametrize("block", [4 * KIB, 1024 * KIB])
def test_shipped_models_keep_their_longest_latency(code: Library, name: str, what: What, block: int) -> None:
    physics = disk_model(name).physics(1)
    # An SSD answers so often that eight seconds empty its cache; credits of a volume last longer.
    ramp, seconds = (7, 1) if physics.kind == "ssd" else (5, 60)
    job = Job(what, block, 1, random=True, turn=0.0)
    found = predict_rate(code, physics, SIZE, job, ramp=ramp, seconds=seconds)
    assert 1 / found.iops <= physics.slowest(block)


def test_a_disk_is_awake_for_its_answer_unless_another_is_due_just_then(code: Library) -> None:
    early, last = code.c.board_early, ctypes.c_double(0.0)
    early.restype, early.argtypes = ctypes.c_double, [ctypes.POINTER(ctypes.c_double), ctypes.c_double, ctypes.c_double]

    def awake(arrived: float, due: float) -> bool:
        return bool(early(ctypes.byref(last), arrived, due) > 0)

    assert awake(1.0, 1.010)  # the only one
    assert not awake(1.001, 1.01001)
    assert awake(1.002, 1.011)  # somewhat later
    assert awake(1.01101, 1.01102)  # the last one is answered: whoever asks is alone again


def test_positions_ahead_are_reached_by_the_quicker_way(code: Library) -> None:
    """The next track passes in a turn of 8.3 ms; beyond it, a seek and less than a turn are quicker."""
    turn = 60 / 7200
    track = 77 * MIB * turn  # the bytes of a track in the first zone
    ahead = dict(hdd().numbers)["read_ahead"]
    for tracks in (0.5, 1.5, 3.5, 5.5):
        disk = SimulatedDisk(code, hdd(), SIZE)
        disk.submit(0.0, "read", 0, 4 * KIB, 0)
        now = ended(disk, 0.0)[0]
        offset = int(tracks * track) // 512 * 512
        assert offset + 4 * KIB < ahead
        disk.submit(now, "read", offset, 4 * KIB, 1)
        took = ended(disk, now)[1] - now
        assert took < 2.5 * turn
        if tracks < 1:
            assert took == pytest.approx(tracks * turn, rel=0.05)


def _rate_of_parts(code: Library, piece: int, depth: int) -> float:
    """Read three of four pieces in order, as a RAID 5 of four disks does; return bytes per second."""
    disk = SimulatedDisk(code, named("nas-7200"), SIZE)
    places = (at * piece for at in count() if at % 4 != 3)
    ends: list[tuple[float, int]] = []
    now, tags = 0.0, count()
    for _ in range(depth):
        disk.submit(now, "read", next(places), piece, next(tags))
    for _ in range(pieces := 256 * MIB // piece):
        ends += [(end, tag) for tag, end in disk.settled(now)]
        while not ends or disk.next_decision() < min(ends)[0]:
            now = max(now, disk.next_decision())
            ends += [(end, tag) for tag, end in disk.settled(now)]
        ends.remove(soonest := min(ends))
        now = max(now, soonest[0])
        disk.submit(now, "read", next(places), piece, next(tags))
    return pieces * piece / now


@pytest.mark.parametrize("piece", [64 * KIB, 128 * KIB, 256 * KIB, 1 * MIB])
@pytest.mark.parametrize("depth", [6, 16, 32])
def test_many_requests_on_the_way_are_read_in_passing(code: Library, piece: int, depth: int) -> None:
    """The nearest of many by angle may be tracks ahead: to go there costs the others a revolution each."""
    assert _rate_of_parts(code, piece, depth) > 0.97 * _rate_of_parts(code, 1 * MIB, 1)
