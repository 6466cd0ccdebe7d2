"""Published fio results of named drives: what is kept of each, and where it was published.

`figures.csv` has facts only: rates, means and percentiles. `extract` reads them from git repositories with the raw
results of fio, at the commits of `sets.py`.
"""

from __future__ import annotations

import csv
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import orjson

from bench.drives.sets import DRIVES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.drives.sets import Source

TABLE = Path(__file__).parent / "figures.csv"
PERCENTILES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99)
#: More requests in flight than this mostly wait in the kernel.
DEEPEST = 256
#: One request, where a queue begins to gain, a full queue, and more than that.
FITTED = (1, 8, 32, 128)
#: Commands that a SATA drive takes at a time.
IN_DRIVE = 32
#: Seconds. A drive that does not answer for longer has stopped: its controller resets the link.
STOP = 15.0
Direction = Literal["read", "write"]
DIRECTIONS: tuple[Direction, ...] = ("read", "write")


@dataclass(frozen=True, slots=True)
class Figures:
    """What one direction of a job reached. Times are seconds."""

    iops: float
    #: From a request's submission to its answer, as the percentiles.
    mean: float
    longest: float
    #: What the submission itself took: a process waits there if the queue of the kernel is full.
    submission: float
    percentiles: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Job:
    commit: str
    path: str
    #: Requests in flight: those of a process, times the number of processes.
    depth: int
    #: The share of reads; 1 and 0 for jobs in one direction.
    reads: float
    read: Figures | None
    write: Figures | None

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def figures(self) -> dict[Direction, Figures]:
        both = ((direction, getattr(self, direction)) for direction in DIRECTIONS)
        return {direction: found for direction, found in both if found}

    def in_drive(self, queue: int) -> bool:
        """Return whether its requests wait in a drive with this queue: else its latencies are those of the kernel."""
        deepest = max(2, min(IN_DRIVE, queue + 1))
        return self.depth <= deepest and all(one.submission < one.mean / 10 for one in self.figures.values())

    @property
    def stopped(self) -> bool:
        return any(one.longest > STOP for one in self.figures.values())

    @property
    def fitted(self) -> bool:
        """Return whether models are fitted to it. The others are held out."""
        return self.depth in FITTED and self.reads in (0.0, 1.0)


@cache
def table() -> tuple[Job, ...]:
    with TABLE.open(newline="") as file:
        return tuple(_of_row(row) for row in csv.DictReader(file))


def jobs(source: Source) -> list[Job]:
    return [job for job in table() if job.folder == source.folder and job.commit == source.commit]


def extract(mirrors: Path) -> None:
    """Write the table from bare clones: MIRRORS/OWNER+NAME/repo."""
    rows = [_row(job) for drive in DRIVES for source in drive.sources for job in _published(mirrors, source)]
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _published(mirrors: Path, source: Source) -> Iterator[Job]:
    git = ("git", "--git-dir", str(mirrors / source.repository.replace("/", "+") / "repo"))
    listed = subprocess.run(
        [*git, "ls-tree", "--name-only", source.commit, f"{source.folder}/"], capture_output=True, text=True, check=True
    )
    for path in sorted(listed.stdout.split()):
        if path.endswith(".json"):
            shown = subprocess.run([*git, "show", f"{source.commit}:{path}"], capture_output=True, check=True)
            job = _job(source, path, orjson.loads(shown.stdout)["jobs"])
            if job.depth <= DEEPEST:
                yield job


def _job(source: Source, path: str, parts: list[dict[str, Any]]) -> Job:
    options = parts[0]["job options"]
    read, write = (_figures([part[side] for part in parts]) for side in DIRECTIONS)
    mixed = float(options.get("rwmixread", 50)) / 100 if options["rw"] == "randrw" else float(read is not None)
    return Job(source.commit, path, int(options["iodepth"]) * int(options["numjobs"]), mixed, read, write)


def _figures(sides: list[dict[str, Any]]) -> Figures | None:
    """Return the figures of all processes together: the sum of their rates, and the mean of what they waited."""
    sides = [side for side in sides if side["iops"] > 0]
    if not sides:
        return None
    waits = [side["clat_ns"] for side in sides]
    return Figures(
        sum(side["iops"] for side in sides),
        fmean(wait["mean"] for wait in waits) / 1e9,
        max(wait["max"] for wait in waits) / 1e9,
        fmean(side["slat_ns"]["mean"] for side in sides) / 1e9,
        tuple(fmean(wait["percentile"][f"{at:.6f}"] for wait in waits) / 1e9 for at in PERCENTILES),
    )


def _row(job: Job) -> dict[str, str]:
    row = {"commit": job.commit, "path": job.path, "depth": str(job.depth), "reads": f"{job.reads:g}"}
    for side in DIRECTIONS:
        found: Figures | None = getattr(job, side)
        values: Sequence[float] = (found.longest, found.submission, *found.percentiles) if found else ()
        row[f"{side}_iops"] = f"{found.iops:.5g}" if found else ""
        row[f"{side}_mean_us"] = f"{found.mean * 1e6:.5g}" if found else ""
        row[f"{side}_us"] = " ".join(f"{float(f'{value * 1e6:.3g}'):g}" for value in values)
    return row


def _of_row(row: dict[str, str]) -> Job:
    def figures(side: str) -> Figures | None:
        if not row[f"{side}_iops"]:
            return None
        mean = float(row[f"{side}_mean_us"]) / 1e6
        longest, submission, *percentiles = (float(value) / 1e6 for value in row[f"{side}_us"].split())
        return Figures(float(row[f"{side}_iops"]), mean, longest, submission, tuple(percentiles))

    depth, reads = int(row["depth"]), float(row["reads"])
    return Job(row["commit"], row["path"], depth, reads, figures("read"), figures("write"))
