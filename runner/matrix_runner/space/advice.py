"""Texts of matrices for users: the usual stacks for the work of one machine, and a job file on one disk and on RAID."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from matrix_runner.base.findings import Place
from matrix_runner.base.quantities import format_size, parse_size
from matrix_runner.work.fio.bounds import JobBound
from matrix_runner.work.jobs.file import JobReader, devices_named
from matrix_runner.work.jobs.workload import bounds_of

_MOST_DISKS = 26
_SMALL = "8GiB"  # of a simulated disk, whose rates do not depend on its size
_FILE_PER_DISK = 48 << 20  # of simulated disks: three times the cache of such a small one
_LEAST_FILE, _LARGEST_FILE = 256 << 20, 8 << 30  # on physical disks


@dataclass(frozen=True, slots=True)
class Purpose:
    about: str
    keys: str  # of its workload
    streams: bool = False  # large requests in sequence: slow to simulate, and precise after a short time


#: By name, what people use a machine for.
PURPOSES = {
    "photos": Purpose(
        "photos and films: large files are copied, and read back", "rw: [read, write], bs: 1MiB, iodepth: 16", True
    ),
    "vms": Purpose(
        "disks of virtual machines: small random requests, most of them reads",
        "rw: randrw, rwmixread: 70, bs: 8KiB, iodepth: 16",
    ),
    "office": Purpose(
        "documents and home folders of several people", "rw: randrw, rwmixread: 70, bs: 16KiB, iodepth: 8"
    ),
    "database": Purpose(
        "transactions: random pages, and each eighth write waits for the disk",
        "rw: randrw, rwmixread: 70, bs: 8KiB, iodepth: 8, fio: {fdatasync: 8}",
    ),
    "log": Purpose("a log: each small write waits for the disk", "rw: write, bs: 4KiB, fio: {fdatasync: 1}"),
    "backups": Purpose("one large copy at a time, written in sequence", "rw: write, bs: 1MiB, iodepth: 16", True),
    "cameras": Purpose("four cameras record at a time", "rw: write, bs: 256KiB, iodepth: 2, numjobs: 4", True),
    "films": Purpose("four films are watched at a time", "rw: read, bs: 1MiB, iodepth: 2, numjobs: 4", True),
    "web": Purpose("pages and mails: many small files, hardly ever written", "rw: randread, bs: 16KiB, iodepth: 8"),
}

#: The arrays to choose from, by level, with the smallest number of disks.
_ARRAYS = {
    "1": (2, "level: 1"),
    "5": (3, "level: 5, chunk: [64KiB, 512KiB]"),
    "6": (4, "level: 6, chunk: [64KiB, 512KiB]"),
    "10": (3, "level: 10, layout: f2, chunk: [64KiB, 512KiB]"),
}
_MOST_MIRRORS = 3  # disks of RAID 1, all with the same data

_OF_PURPOSE = """\
# yaml-language-server: $schema={schema}
# Which array under which file system, for {purposes}? Written by `matrix advise`; change what differs from your plans.
name: {name}
{disks}
layouts:    # a list is an axis; every combination is a stack
{layouts}
workloads:
{workloads}
for: {{{weights}}}    # how much each counts in the answer for all together
repeat: 2    # trials of each cell before stacks leave the race
"""


@dataclass(frozen=True, slots=True)
class DiskWish:
    count: int
    size: str

    @classmethod
    def parsed(cls, text: str) -> "DiskWish":
        found = re.fullmatch(r"([0-9]{1,3})\s*[x×*]\s*(\S+)", text)
        if not found:
            raise ValueError(f"{text!r} is not a number of disks and their size; write it like 6x4TB")
        count = int(found[1])
        if not 2 <= count <= _MOST_DISKS:
            raise ValueError(f"advice is on 2 to {_MOST_DISKS} disks, not on {count}")
        if found[2].isdecimal():
            raise ValueError(f"the size of the disks has no unit; did you mean {text}TB?")
        parse_size(found[2])
        return cls(count, found[2])


def parse_purposes(text: str) -> dict[str, float]:
    """Return the weights of the work, as in `photos:2,vms`."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, colon, weight = part.strip().partition(":")
        if name not in PURPOSES:
            raise ValueError(f"there is no work {name!r}; known are {', '.join(PURPOSES)}")
        try:
            found[name] = float(weight) if colon else 1.0
        except ValueError:
            raise ValueError(f"the weight {weight!r} of {name} is not a number") from None
        if not 0 < found[name] < inf:
            raise ValueError(f"the weight {weight!r} of {name} must be larger than 0, and a number")
    return found


def matrix_for(
    name: str, schema: str, disks: DiskWish, model: str | None, weights: Mapping[str, float], fs: Sequence[str]
) -> str:
    """Return the matrix. `model`: of simulated disks; None for disks of a host, which have their true size."""
    size, file, times = f"size: {disks.size}", _file_on(parse_size(disks.size)), ("ramp: 2s, runtime: 10s",) * 2
    if model:
        file, times = disks.count * _FILE_PER_DISK, ("ramp: 300ms, runtime: 1500ms", "ramp: 100ms, runtime: 300ms")
        small = min(_SMALL, disks.size, key=parse_size)  # `stands_for` also makes the cache small
        size = f"size: {small}, stands_for: {disks.size}, bus: sata, model: {model}"
    return _OF_PURPOSE.format(
        schema=schema,
        name=json.dumps(name),
        purposes=", ".join(weights),
        disks=f"disks: {{count: {disks.count}, {size}}}",
        layouts="\n".join(_layouts(disks.count, fs)),
        workloads="\n".join(
            f"  {one}: {{{(work := PURPOSES[one]).keys}, size: {format_size(file)}, {times[work.streams]}}}"
            f"    # {work.about}"
            for one in weights
        ),
        weights=", ".join(f"{one}: {weight:g}" for one, weight in weights.items()),
    )


def _file_on(disk: int) -> int:
    """Return a size of files that the cache of a physical disk does not hold, if the disk has room."""
    return min(_LARGEST_FILE, max(_LEAST_FILE, disk // 64 >> 20 << 20))


def _layouts(count: int, fs: Sequence[str]) -> Iterator[str]:
    for level, (least, keys) in _ARRAYS.items():
        if least <= count and (level != "1" or count <= _MOST_MIRRORS):
            far = "-far" * (level == "10")
            yield f"  raid{level}{far}: [md: {{{keys}}}, fs: {{type: [{', '.join(fs)}]}}]"


_DISK, _LARGEST = 512 << 20, 16 << 40
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_FITTING = "256m"  # half of the smallest disk: the size of jobs that are larger than a disk
_OF_JOB = """\
# yaml-language-server: $schema={schema}
# A job file of fio on {where} and on RAID {level}. A list is an axis; every combination is a cell.
name: {name}
disks: {{count: {count}, size: {size}, bus: sata, model: {model}}}    # without `model:`, disks are as fast as the host
layouts:
  raw: {raw}
  raid{level}: [md: {{level: {level}, chunk: 64KiB}}{fs}]    # {count} disks; an axis: chunk: [64KiB, 512KiB]
workloads:
  {workload}:
    job: {path}    # it runs as it is, except that the layouts replace its files and devices
{values}
repeat: 3    # trials of a cell, in seeded random order; more trials make the intervals narrower
"""


def matrix_of_job(name: str, path: str, schema: str, text_of: Callable[[str], str], *, in_files: bool = False) -> str:
    """Return the matrix, valid or not: a job file may have options that no matrix takes."""
    file = JobReader(text_of, os.environ).read(path, Place(path, 1, 1))
    jobs, _ = bounds_of(file.sections)
    devices = len({name for names in devices_named(file.sections) for name in names})
    names = [section.name for section in file.sections if not section.is_global]
    trims = any("trim" in job.kind for job in jobs)
    fs = ", fs: {type: ext4}" * in_files
    return _OF_JOB.format(
        schema=schema,
        name=json.dumps(name),
        size=format_size(size := _size_of_disks(jobs, in_files=in_files)),
        fs=fs,
        count=max(4, devices),
        where=f"{devices} disks" if devices > 1 else "a single disk",
        raw=f"[disks: {{count: {devices}}}]    # each device of the file"
        if devices > 1
        else f"[disk{fs}]    # one disk",
        model="ageing-ssd" if trims else "nas-7200",
        level=10 if trims else 5,  # RAID 5 does not pass trims on
        workload=json.dumps(name),
        path=json.dumps(path, ensure_ascii=False),
        values="\n".join(_values(dict(zip(names, jobs, strict=True)), size)),
    )


def _size_of_disks(jobs: Sequence[JobBound], *, in_files: bool) -> int:
    """Return a size of disks on which all jobs fit that are not large. Copies of a job have their own files."""
    size, needed = _DISK, max((job.offset for job in jobs if isinstance(job.offset, int)), default=0) + _DISK // 2
    if in_files:
        needed += 2 * sum(job.numjobs * job.size for job in jobs if isinstance(job.size, int))
    while size < min(needed, _LARGEST):
        size *= 2
    return size


def _values(jobs: Mapping[str, JobBound], disk: int) -> Iterator[str]:
    too_large = {name: job for name, job in jobs.items() if job.end(disk) > disk}
    about = "options of the job file, for all its jobs or for one (`job.option`); a list is an axis"
    yield f"    {'' if too_large else '# '}set:    # {about}"
    for name, job in too_large.items():
        why = f"instead of {format_size(job.end(disk))}: a disk has {format_size(disk)}"
        yield f"      {_key(name, 'size')}: {_FITTING}    # {why}"
    for name in list(jobs)[:1]:
        yield f"    {'  # ' if too_large else '#   '}{_key(name, 'iodepth')}: [1, 32]"


def _key(job: str, option: str) -> str:
    key = f"{job}.{option}"
    return key if _PLAIN.fullmatch(key) else json.dumps(key, ensure_ascii=False)
