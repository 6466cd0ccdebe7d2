"""The jobs of a `jobs:` map as sections of a job file of fio."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from matrix_runner.layers import Problem
from matrix_runner.work.fio.options import DEFAULT_SIZE
from matrix_runner.work.fio.values import MIXED, Option, option_text
from matrix_runner.work.jobs.file import Section, Sections

if TYPE_CHECKING:
    from matrix_runner.work.fio.workload import FioWorkload


def sections_of(jobs: Mapping[str, FioWorkload], *, in_files: bool) -> Sections:
    copies = sum(job.numjobs for job in jobs.values())
    found = []
    for name, job in jobs.items():
        options = [*_options(job), *(_of_files(job, name, copies) if in_files else _of_devices(job))]
        options += [(key, option_text(value)) for key, value in sorted(job.fio.items())]
        found.append(Section(name, tuple(Option(key, value) for key, value in options)))
    return tuple(found)


def problems_of(job: FioWorkload, *, in_files: bool) -> Iterator[Problem]:
    yield from job.problems()
    if job.profile is not None:
        yield Problem("profile", "a profile is that of a workload with one job; remove it, or remove `jobs`")
    for name, size in (("size", job.size), ("file_size", job.file_size)):
        if in_files and isinstance(size, str):
            yield Problem(name, f"{size} of a file system that jobs share; write a size like 1GiB")


def _options(job: FioWorkload) -> Iterator[tuple[str, str]]:
    # Copies of a job are one figure, and jobs with other names are others.
    yield from (("group_reporting", "1"), ("new_group", "1"))
    yield "ioengine", job.ioengine
    yield "direct", str(int(job.direct))
    yield "rw", f"{job.rw}:{job.skip}" if job.skip else job.rw
    yield from ((key, str(getattr(job, key))) for key in ("bs", "iodepth", "numjobs"))
    if job.rw in MIXED:
        yield "rwmixread", str(job.rwmixread)
    if job.runtime is not None:
        yield from (("time_based", "1"), ("runtime", _milliseconds(job.runtime)))
    if job.ramp:
        yield "ramp_time", _milliseconds(job.ramp)
    if job.steady:
        yield "steadystate", job.steady.option
        yield "steadystate_duration", _milliseconds(job.steady.over)
    if job.sync != "none":
        yield "sync", job.sync
    if job.fsync:
        yield "fsync", str(job.fsync)


def _of_devices(job: FioWorkload) -> Iterator[tuple[str, str]]:
    if job.size is not None:
        yield "size", str(job.size)
    if job.offset != 0:
        yield "offset", str(job.offset)


def _of_files(job: FioWorkload, name: str, copies: int) -> Iterator[tuple[str, str]]:
    yield from (("overwrite", str(int(not job.new))), ("fallocate", "none"))
    if job.shared:
        yield "filename", f"{name}.0.0"
    count = job.files or 1
    if job.file_size is not None:
        size = int(job.file_size) * count
        yield "filesize", str(job.file_size)
    else:
        size = int(job.size) if job.size is not None else DEFAULT_SIZE // copies // 4096 * 4096
    yield "size", str(job.size if job.size is not None else size)
    if count > 1:
        yield "nrfiles", str(count)


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
