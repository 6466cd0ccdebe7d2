"""Published fio results of named drives: what is kept of each, and where it was published.

`figures.csv` has facts only: rates, means and percentiles. `extract` reads them from git repositories with the raw
results of fio, at the commits of `sets.py`.
"""

from __future__ import annotations

import csv
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import orjson

from bench.drives.sets import DRIVES
from matrix_runner.simdisks.loop import DIRECTIONS, PERCENTILES, Figures, Pattern
from matrix_runner.simdisks.measured import Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.drives.sets import Drive, Source

TABLE = Path(__file__).parent / "figures.csv"
#: More requests in flight than this mostly wait in the kernel.
DEEPEST = 256
#: One request, where a queue begins to gain, a full queue, and more than that.
FITTED = (1, 8, 32, 128)


@dataclass(frozen=True, slots=True)
class Published(Job):
    commit: str

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


def is_fitted(pattern: Pattern) -> bool:
    """Return whether models are fitted to such jobs. The others are held out."""
    return pattern.depth in FITTED and pattern.reads in (0.0, 1.0)


@cache
def table() -> tuple[Published, ...]:
    with TABLE.open(newline="") as file:
        return tuple(_of_row(row) for row in csv.DictReader(file))


def jobs(drive: Drive, sources: Iterable[Source]) -> list[Published]:
    places = [(source.commit, source.folder) for source in sources]
    found = [job for place in places for job in table() if (job.commit, job.folder) == place]
    part = (drive.span or drive.size) / drive.size
    return [replace(job, pattern=replace(job.pattern, last=part)) for job in found]


def extract(mirrors: Path) -> None:
    """Write the table from bare clones: MIRRORS/OWNER+NAME/repo."""
    rows = [_row(job) for drive in DRIVES for source in drive.sources for job in _published(mirrors, source)]
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _published(mirrors: Path, source: Source) -> Iterator[Published]:
    git = ("git", "--git-dir", str(mirrors / source.repository.replace("/", "+") / "repo"))
    listed = subprocess.run(
        [*git, "ls-tree", "--name-only", source.commit, f"{source.folder}/"], capture_output=True, text=True, check=True
    )
    for path in sorted(listed.stdout.split()):
        if path.endswith(".json"):
            shown = subprocess.run([*git, "show", f"{source.commit}:{path}"], capture_output=True, check=True)
            job = _job(source, path, orjson.loads(shown.stdout)["jobs"])
            if job.pattern.depth <= DEEPEST:
                yield job


def _job(source: Source, path: str, parts: list[dict[str, Any]]) -> Published:
    options = parts[0]["job options"]
    read, write = (_figures([part[side] for part in parts]) for side in DIRECTIONS)
    mixed = float(options.get("rwmixread", 50)) / 100 if options["rw"] == "randrw" else float(read is not None)
    depth = int(options["iodepth"]) * int(options["numjobs"])
    return Published(path, Pattern(depth, mixed), read, write, source.commit)


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


def _row(job: Published) -> dict[str, str]:
    row = {"commit": job.commit, "path": job.path, "depth": str(job.pattern.depth), "reads": f"{job.pattern.reads:g}"}
    for side in DIRECTIONS:
        found: Figures | None = getattr(job, side)
        values: Sequence[float] = (found.longest, found.submission, *found.percentiles) if found else ()
        row[f"{side}_iops"] = f"{found.iops:.5g}" if found else ""
        row[f"{side}_mean_us"] = f"{found.mean * 1e6:.5g}" if found else ""
        row[f"{side}_us"] = " ".join(f"{float(f'{value * 1e6:.3g}'):g}" for value in values)
    return row


def _of_row(row: dict[str, str]) -> Published:
    def figures(side: str) -> Figures | None:
        if not row[f"{side}_iops"]:
            return None
        mean = float(row[f"{side}_mean_us"]) / 1e6
        longest, submission, *percentiles = (float(value) / 1e6 for value in row[f"{side}_us"].split())
        return Figures(float(row[f"{side}_iops"]), mean, longest, submission, tuple(percentiles))

    depth, reads = int(row["depth"]), float(row["reads"])
    return Published(row["path"], Pattern(depth, reads), figures("read"), figures("write"), row["commit"])
