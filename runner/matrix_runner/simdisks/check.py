"""The check of a disk model: fio measures the simulated disk at its socket, and the same C code predicts the result."""

import asyncio
import heapq
import math
import os
import random
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import IO

import orjson

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.process import kill, run, spawn
from matrix_runner.simdisks.clib import Board, Library, Report, SimulatedDisk, What, build_library, load_library
from matrix_runner.simdisks.disk import Disk, Physics
from matrix_runner.simdisks.server import Overload, counters_between, socket_command, wait_for_socket


@dataclass(frozen=True, slots=True)
class Job:
    """A closed loop, as in fio: when one request ends, the next begins."""

    what: What
    block: int
    depth: int
    random: bool
    first: float = 0.0
    last: float = 1.0
    #: Seconds from an answer to the next request, which the host takes. Without any, a disk would choose among as many
    #: commands as the queue has; a real one chooses its next command before the answer brings another request.
    turn: float = 1e-6


@dataclass(frozen=True, slots=True)
class Rate:
    iops: float
    bytes: float


def predict_rate(
    library: Library, physics: Physics, size: int, job: Job, *, ramp: float = 0.0, seconds: float, seed: int = 1
) -> Rate:
    """Return the rate on a fresh disk. Requests in flight at the end are waited for and count, as in fio."""
    disk, chance, tag = SimulatedDisk(library, physics, size), random.Random(seed), 0  # noqa: S311 - no secret
    low, high = (int(share * size) // job.block for share in (job.first, job.last))
    begun: list[tuple[float, int]] = []
    asked = deque[float]()
    now, ended, counted, end = 0.0, 0, 0, ramp + seconds

    def submit() -> None:
        nonlocal tag
        number = chance.randrange(low, high) if job.random else low + tag % (high - low)
        disk.submit(now, job.what, number * job.block, job.block, tag)
        tag += 1
        settle()

    def settle() -> None:
        for known, at in disk.settled(now):
            heapq.heappush(begun, (at, known))

    for _ in range(job.depth):
        submit()
    while ended < tag or asked:
        wakes = disk.next_decision()
        answer = begun[0][0] if begun else inf
        if asked and asked[0] <= min(answer, wakes):
            now = max(now, asked.popleft())
            submit()
        elif answer <= wakes:
            now = max(now, heapq.heappop(begun)[0])
            ended += 1
            counted += now >= ramp
            if now < end:
                asked.append(now + job.turn)
        else:
            now = max(now, wakes)
            settle()
    lasted = max(now, end) - ramp
    return Rate(counted / lasted, counted * job.block / lasted)


TOLERANCE = 0.03
DEPTHS = (1, 2, 4, 8, 31)
#: Up to this depth, predictions include the turnaround that was measured: the host's share of each request is large.
SHALLOW = 8
LARGE, SMALL = 256 * 1024, 4096
DEADLINE = 10.0
#: Real-time priority, so that other load on the host does not delay requests.
REALTIME = ("chrt", "--rr", "1")
#: How many times longer random work on a hdd is measured: 24 s average out to 1 % at a hundred requests per second.
HDD_TIME_FACTOR = 8
#: Its expectation is the mean of this number of predictions, each with its own seed.
PREDICTIONS = 16

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class Probe:
    name: str
    job: Job


@dataclass(frozen=True, slots=True)
class ProbeResult:
    probe: Probe  # with the turnaround of the prediction
    expected: float
    measured: float
    overload: Overload

    @property
    def deviation(self) -> float:
        return self.measured / self.expected - 1

    @property
    def is_accurate(self) -> bool:
        return abs(self.deviation) <= TOLERANCE

    @property
    def is_host_limited(self) -> bool:
        return not self.is_accurate and 0 < -self.deviation <= TOLERANCE + self.overload.share


def probes(disk: Disk) -> Iterator[Probe]:
    zones = disk.physics.zones if disk.physics else ()
    begins = 0.0
    for number, (end, _) in enumerate(zones or ((1.0, 0.0),), start=1):
        where = f" in zone {number}" if len(zones) > 1 else ""
        yield Probe(f"sequential read{where}", Job("read", LARGE, 4, random=False, first=begins, last=end))
        begins = end
    yield Probe("sequential write", Job("write", LARGE, 4, random=False, last=zones[0][0] if zones else 1.0))
    for what in ("read", "write"):
        for depth in DEPTHS:
            yield Probe(f"random {what}, depth {depth}", Job(what, SMALL, depth, random=True))


def refuse_small(disk: Disk) -> None:
    for probe in probes(disk):
        job, share = probe.job, probe.job.last - probe.job.first
        enough = math.ceil(2 * job.block / share / 2**20)
        if int(job.first * disk.size) // job.block < int(job.last * disk.size) // job.block:
            continue
        raise BadInput(
            f"{probe.name} cannot be measured: a request of {job.block // 1024} KiB does not fit there",
            details=f"it has only {int(share * disk.size):,} of {disk.size:,} bytes",
            resolution=f"--size {enough}MiB is enough; or make that part of the disk larger",
        )


def fio_command(uri: str, disk: Disk, job: Job, seconds: float) -> list[str]:
    start, end = (int(share * disk.size) // job.block * job.block for share in (job.first, job.last))
    return [
        *("fio", "--name=check", "--ioengine=nbd", f"--uri={uri}", "--output-format=json", "--norandommap"),
        *(f"--rw={'rand' if job.random else ''}{job.what}", f"--bs={job.block}", f"--iodepth={job.depth}"),
        *(f"--offset={start}", f"--size={end - start}", "--time_based"),
        # No ramp: fio would leave out requests in flight at its end, but count the time of those at the end of all.
        f"--runtime={seconds * 1000:.0f}ms",
    ]


@dataclass(frozen=True, slots=True)
class ServedDisk:
    code: Library
    board: Board
    uri: str
    server: asyncio.subprocess.Process


@asynccontextmanager
async def serve_disk(disk: Disk, writes: float = math.inf) -> AsyncIterator[ServedDisk]:
    code = load_library(await build_library())
    with (
        tempfile.TemporaryDirectory(prefix="matrix-") as folder,
        blank_image(disk.size, int(min(writes, disk.size))) as image,
        tempfile.TemporaryFile() as sheet,
    ):
        board = Board(code, sheet.fileno(), slow=disk.slow)
        socket = Path(folder) / "disk"
        argv = socket_command(code.plugin, (disk,), 0, socket, image.fileno(), sheet.fileno())
        server = await spawn(argv, pass_fds=(image.fileno(), sheet.fileno()))
        try:
            await wait_for_socket(socket, server, DEADLINE)
            yield ServedDisk(code, board, f"nbd+unix:///?socket={socket}", server)
        finally:
            await kill(server)
            board.close()


@contextmanager
def blank_image(size: int, writes: int) -> Iterator[IO[bytes]]:
    """Open a file of zeros that is `size` bytes long.

    It is in memory if there is plenty, as writeback by the host would delay the disk's answers. The memory is
    allocated beforehand, as a virtual host may have to get it first.
    """
    plenty = spare_memory() > 2 * writes
    with os.fdopen(os.memfd_create("disk"), "w+b") if plenty else tempfile.TemporaryFile() as file:
        if plenty and writes:
            os.posix_fallocate(file.fileno(), 0, writes)
            file.truncate(0)
        file.truncate(size)
        yield file


def spare_memory() -> int:
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    spare = next((int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:"), 0)
    allowed = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.exists() else ""
    return min(spare, int(allowed)) if allowed.isdigit() else spare


async def run_probes(disk: Disk, seconds: float) -> AsyncIterator[ProbeResult]:
    if disk.physics is None:
        return
    ahead = REALTIME if run([*REALTIME, "true"], timeout=DEADLINE).returncode == 0 else ()
    for probe in probes(disk):
        by_chance = probe.job.random and disk.physics.kind == "hdd"
        lasts = seconds * HDD_TIME_FACTOR if by_chance else seconds
        writes = 0.0
        if probe.job.what == "write":  # at most, if the host takes no time
            code = load_library(await build_library())
            writes = predict_rate(code, disk.physics, disk.size, probe.job, seconds=lasts).bytes * lasts
        async with serve_disk(disk, writes) as alone:
            before = [alone.board.report(0)]
            measured = await asyncio.to_thread(_measure, [*ahead, *fio_command(alone.uri, disk, probe.job, lasts)])
            done: tuple[Report, ...] = counters_between(before, [alone.board.report(0)])
        asked = replace(probe.job, turn=max(probe.job.turn, _expected_turn(done[0], measured, probe.job)))
        rates = [
            predict_rate(alone.code, disk.physics, disk.size, asked, seconds=lasts, seed=seed).iops
            for seed in range(PREDICTIONS if by_chance else 1)
        ]
        yield ProbeResult(
            replace(probe, job=asked), sum(rates) / len(rates), measured, lost_to_host(done[0], measured, probe.job)
        )


def lost_to_host(done: Report, iops: float, job: Job) -> Overload:
    """Return what the host took of each request's round trip, up to the start of the next one."""
    late = done.late / (done.reads + done.writes) * iops / job.depth
    starved = turnaround(done, iops, job.depth) - _expected_turn(done, iops, job)
    return Overload(late=late, starved=starved * iops / job.depth)


def _expected_turn(done: Report, iops: float, job: Job) -> float:
    return turnaround(done, iops, job.depth) if job.random and job.depth <= SHALLOW else 0.0


def turnaround(done: Report, iops: float, depth: int = 1) -> float:
    """Return the seconds from an answer to the next request, at this queue depth.

    Sockets and schedulers take about 0.1 ms, which is not the disk's. It does not include answers that were late.
    """
    return max(0.0, depth / iops - (done.owed + done.late) / (done.reads + done.writes))


def _measure(argv: list[str]) -> float:
    done = run(argv, timeout=None)
    if done.returncode:
        raise HarnessBroken("fio cannot measure the disk", details=(done.stdout + done.stderr)[-2000:])
    job = orjson.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return float(job["read"]["iops"] + job["write"]["iops"])
