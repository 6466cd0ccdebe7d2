"""Is a modelled disk what its physics says? Measured by fio at its socket, with no kernel between."""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import orjson

from runner.base.errors import BadInput, HarnessBroken
from runner.base.process import killed, run, spawn
from runner.simdisks.clib import Board, Report, built, library
from runner.simdisks.overload import Strain, between
from runner.simdisks.predict import Job, predicted
from runner.simdisks.server import listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from runner.simdisks.clib import Library
    from runner.simdisks.disk import Disk

#: Within this of what the physics says, a model is true.
CLOSE = 0.03
LARGE, SMALL = 256 * 1024, 4096
DEADLINE = 10.0
#: Before everybody else, on a busy host: the disk is what is checked, not how soon it is asked.
FIRST = ("chrt", "--rr", "1")
#: Where a platter turns, chance averages out over so many times as long (24 s: 1 % of a hundred requests a second) …
PATIENCE = 8
#: … and what is expected, over so many other chances.
CHANCES = 16

#: What a container may have, as it sees that itself.
CONTAINED = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing to be found out."""

    name: str
    job: Job


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of it, in requests a second."""

    probe: Probe
    expected: float
    measured: float
    strain: Strain

    @property
    def off(self) -> float:
        """How far the one is from the other."""
        return self.measured / self.expected - 1

    @property
    def true(self) -> bool:
        """As good as the same."""
        return abs(self.off) <= CLOSE

    @property
    def strained(self) -> bool:
        """Too slow, and the host lost so much time that the rest is as good as the same."""
        return not self.true and 0 < -self.off <= CLOSE + self.strain.share


def probes(disk: Disk) -> Iterator[Probe]:
    """Sequential work in every zone, and random work at the two ends of what a queue can be."""
    zones = disk.physics.zones if disk.physics else ()
    begins = 0.0
    for number, (end, _) in enumerate(zones or ((1.0, 0.0),), start=1):
        where = f" in zone {number}" if len(zones) > 1 else ""
        yield Probe(f"sequential read{where}", Job("read", LARGE, 4, random=False, first=begins, last=end))
        begins = end
    yield Probe("sequential write", Job("write", LARGE, 4, random=False, last=zones[0][0] if zones else 1.0))
    for what in ("read", "write"):
        for depth in (1, 31):
            yield Probe(f"random {what}, depth {depth}", Job(what, SMALL, depth, random=True))


def refuse_small(disk: Disk) -> None:
    """Every probe has room for a request; raises BadInput."""
    for probe in probes(disk):
        job, share = probe.job, probe.job.last - probe.job.first
        enough = math.ceil(2 * job.block / share / 2**20)
        if int(job.first * disk.size) // job.block < int(job.last * disk.size) // job.block:
            continue
        raise BadInput(
            f"{probe.name} cannot be measured: no request of {job.block // 1024} KiB fits there",
            details=f"it is {share:.3%} of {disk.size:,} bytes: {int(share * disk.size):,} bytes",
            resolution=f"--size {enough}MiB is enough; or make that part of the disk larger",
        )


def fio(uri: str, disk: Disk, job: Job, seconds: float) -> list[str]:
    """The same closed loop, driven by fio."""
    start, end = (int(share * disk.size) // job.block * job.block for share in (job.first, job.last))
    return [
        *("fio", "--name=check", "--ioengine=nbd", f"--uri={uri}", "--output-format=json", "--norandommap"),
        *(f"--rw={'rand' if job.random else ''}{job.what}", f"--bs={job.block}", f"--iodepth={job.depth}"),
        *(f"--offset={start}", f"--size={end - start}", "--time_based"),
        # No ramp: what is under way at its end is left out, but not the time that as many take at the end of it all.
        f"--runtime={seconds * 1000:.0f}ms",
    ]


@dataclass(frozen=True, slots=True)
class Alone:
    """A disk with its server, and nobody between it and whoever asks."""

    code: Library
    board: Board
    uri: str
    server: asyncio.subprocess.Process


@asynccontextmanager
async def served(disk: Disk, writes: float = math.inf) -> AsyncIterator[Alone]:
    """A server for a disk with nothing on it, on which so many bytes are going to be written."""
    code = library(await built())
    with (
        tempfile.TemporaryDirectory(prefix="matrix-") as folder,
        blank(disk.size, int(min(writes, disk.size))) as image,
        tempfile.TemporaryFile() as sheet,
    ):
        board = Board(code, sheet.fileno())
        socket = Path(folder) / "disk"
        argv = listening(code.plugin, (disk,), 0, socket, image.fileno(), sheet.fileno())
        server = await spawn(argv, pass_fds=(image.fileno(), sheet.fileno()))
        try:
            await until_there(socket, server)
            yield Alone(code, board, f"nbd+unix:///?socket={socket}", server)
        finally:
            await killed(server)
            board.close()


@contextmanager
def blank(size: int, writes: int) -> Iterator[IO[bytes]]:
    """A file of zeros, on which so much is going to be written.

    In memory where there is plenty: a host that writes it back is late with the disk's answers. So is one that is
    itself virtual and has to get the memory first, so this is done beforehand.
    """
    plenty = spare_memory() > 2 * writes
    with os.fdopen(os.memfd_create("disk"), "w+b") if plenty else tempfile.TemporaryFile() as file:
        if plenty and writes:
            os.posix_fallocate(file.fileno(), 0, writes)
            file.truncate(0)
        file.truncate(size)
        yield file


def spare_memory() -> int:
    """Bytes that nobody would miss."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    spare = next((int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:"), 0)
    allowed = CONTAINED.read_text().strip() if CONTAINED.exists() else ""
    return min(spare, int(allowed)) if allowed.isdigit() else spare


async def until_there(socket: Path, server: asyncio.subprocess.Process) -> None:
    """A server listens."""
    async with asyncio.timeout(DEADLINE):
        while not socket.exists():  # noqa: ASYNC240 - nothing tells when it is there, and looking is quick
            if server.returncode is not None:
                raise HarnessBroken(f"the disk's server ended with status {server.returncode}")
            await asyncio.sleep(0.01)


async def checked(disk: Disk, seconds: float) -> AsyncIterator[Checked]:
    """Every probe, one after the other."""
    if disk.physics is None:
        return
    ahead = FIRST if run([*FIRST, "true"], timeout=DEADLINE).returncode == 0 else ()
    for probe in probes(disk):
        by_chance = probe.job.random and disk.physics.kind == "hdd"
        lasts = seconds * PATIENCE if by_chance else seconds
        async with served(disk, await _writes(disk, probe.job, lasts)) as alone:
            before = [alone.board.report(0)]
            measured = await asyncio.to_thread(_measured, [*ahead, *fio(alone.uri, disk, probe.job, lasts)])
            done: tuple[Report, ...] = between(before, [alone.board.report(0)])
        asked = replace(probe.job, turn=turn_of(done[0], measured) if probe.job.depth == 1 else 0.0)
        rates = [
            predicted(alone.code, disk.physics, disk.size, asked, seconds=lasts, seed=seed).iops
            for seed in range(CHANCES if by_chance else 1)
        ]
        yield Checked(probe, sum(rates) / len(rates), measured, _lost(done[0], measured, probe.job))


async def _writes(disk: Disk, job: Job, seconds: float) -> float:
    """Bytes, on a host that takes no time."""
    if job.what != "write" or disk.physics is None:
        return 0.0
    return predicted(library(await built()), disk.physics, disk.size, job, seconds=seconds).bytes * seconds


def _lost(done: Report, iops: float, job: Job) -> Strain:
    """What the host had of each request's round, from being made to the next one in its place: it took no more."""
    late = done.late / (done.reads + done.writes) * iops / job.depth
    told = job.depth == 1  # the physics were
    return Strain(late=late, starved=0.0 if told else turn_of(done, iops, job.depth) * iops / job.depth)


def turn_of(done: Report, iops: float, depth: int = 1) -> float:
    """How long it took from an answer to the next request, where so many requests at a time were made.

    Sockets and schedulers take a tenth of a millisecond that is not the disk's. What the disk itself takes longer than
    its physics say is not in it.
    """
    return max(0.0, depth / iops - (done.owed + done.late) / (done.reads + done.writes))


def _measured(argv: list[str]) -> float:
    done = run(argv, timeout=None)
    if done.returncode:
        raise HarnessBroken("fio cannot measure the disk", details=(done.stdout + done.stderr)[-2000:])
    job = orjson.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return float(job["read"]["iops"] + job["write"]["iops"])
