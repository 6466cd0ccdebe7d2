"""The check of a disk model: fio measures the simulated disk at its socket, and the same C code predicts the result."""

import asyncio
import math
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import orjson

from matrix_runner.base.children import kill, spawn
from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.process import run
from matrix_runner.simdisks.clib import Board, Library, Report, build_library, load_library
from matrix_runner.simdisks.disk import Disk
from matrix_runner.simdisks.loop import Direction, Host, Pattern, simulate
from matrix_runner.simdisks.server import Overload, counters_between, socket_command, wait_for_socket

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
_MOST = 2_000_000  # requests of a prediction

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class Probe:
    name: str
    pattern: Pattern
    #: Seconds from an answer to the next request, which the host takes. Without any, a disk would choose among as many
    #: commands as the queue has; a real one chooses its next command before the answer brings another request.
    turn: float = 1e-6

    @property
    def direction(self) -> Direction:
        return "read" if self.pattern.reads else "write"

    def predict(self, library: Library, disk: Disk, seconds: float, seed: int = 1) -> float:
        """Return the requests a second on a fresh disk, which gets each of them at once."""
        if disk.physics is None:
            raise ValueError("a disk without a model has no rate")
        host = Host(disk.size, self.turn, queue=self.pattern.depth)
        return simulate(library, disk.physics, host, self.pattern, seconds, _MOST, seed)[self.direction].iops


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
        yield Probe(f"sequential read{where}", Pattern(4, 1.0, LARGE, random=False, first=begins, last=end))
        begins = end
    yield Probe("sequential write", Pattern(4, 0.0, LARGE, random=False, last=zones[0][0] if zones else 1.0))
    for what, reads in (("read", 1.0), ("write", 0.0)):
        for depth in DEPTHS:
            yield Probe(f"random {what}, depth {depth}", Pattern(depth, reads, SMALL))


def refuse_small(disk: Disk) -> None:
    for probe in probes(disk):
        job, share = probe.pattern, probe.pattern.last - probe.pattern.first
        enough = math.ceil(2 * job.block / share / 2**20)
        if int(job.first * disk.size) // job.block < int(job.last * disk.size) // job.block:
            continue
        raise BadInput(
            f"{probe.name} cannot be measured: a request of {job.block // 1024} KiB does not fit there",
            details=f"it has only {int(share * disk.size):,} of {disk.size:,} bytes",
            resolution=f"--size {enough}MiB is enough; or make that part of the disk larger",
        )


def fio_command(uri: str, disk: Disk, probe: Probe, seconds: float) -> list[str]:
    job = probe.pattern
    start, end = (int(share * disk.size) // job.block * job.block for share in (job.first, job.last))
    return [
        *("fio", "--name=check", "--ioengine=nbd", f"--uri={uri}", "--output-format=json", "--norandommap"),
        *(f"--rw={'rand' if job.random else ''}{probe.direction}", f"--bs={job.block}", f"--iodepth={job.depth}"),
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
        by_chance = probe.pattern.random and disk.physics.kind == "hdd"
        lasts = seconds * HDD_TIME_FACTOR if by_chance else seconds
        writes = 0.0
        if probe.direction == "write":  # at most, if the host takes no time
            code = load_library(await build_library())
            writes = probe.predict(code, disk, lasts) * probe.pattern.block * lasts
        async with serve_disk(disk, writes) as alone:
            before = [alone.board.report(0)]
            measured = await asyncio.to_thread(_measure, [*ahead, *fio_command(alone.uri, disk, probe, lasts)])
            done: tuple[Report, ...] = counters_between(before, [alone.board.report(0)])
        turned = replace(probe, turn=max(probe.turn, _expected_turn(done[0], measured, probe.pattern)))
        rates = [turned.predict(alone.code, disk, lasts, seed) for seed in range(PREDICTIONS if by_chance else 1)]
        yield ProbeResult(turned, sum(rates) / len(rates), measured, lost_to_host(done[0], measured, probe.pattern))


def lost_to_host(done: Report, iops: float, job: Pattern) -> Overload:
    """Return what the host took of each request's round trip, up to the start of the next one."""
    late = done.late / (done.reads + done.writes) * iops / job.depth
    starved = turnaround(done, iops, job.depth) - _expected_turn(done, iops, job)
    return Overload(late=late, starved=starved * iops / job.depth)


def _expected_turn(done: Report, iops: float, job: Pattern) -> float:
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
