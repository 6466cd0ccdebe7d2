"""The text of a matrix of one job file: the job on one disk and on RAID."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from matrix_runner.base.findings import Place
from matrix_runner.base.quantities import format_size
from matrix_runner.work.fio.bounds import JobBound
from matrix_runner.work.jobs.file import JobReader, devices_named
from matrix_runner.work.jobs.workload import bounds_of

_DISK, _LARGEST = 512 << 20, 16 << 40
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_FITTING = "256m"  # half of the smallest disk: the size of jobs that are larger than a disk
_TEXT = """\
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
    return _TEXT.format(
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
