"""The most that a job file does (size, time, largest request, share of writes), and the workload of all its jobs."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

from matrix_runner.base.quantities import format_size
from matrix_runner.layers import Problem
from matrix_runner.work.fio.bounds import SYNCHRONOUS, TRIMS, JobBound, Values, bound_of, file_names
from matrix_runner.work.fio.keys import FileSet
from matrix_runner.work.jobs.file import Sections, effective, is_global, on_target, reported_names, targets_of
from matrix_runner.work.metrics import FLUSH, sides_of_kind
from matrix_runner.work.slow import section
from matrix_runner.work.workload import NO_MODEL_OF_TRIMS, Load, Result, Workload

_MOST_JOBS = 4096


def bounds_of(sections: Sections) -> tuple[tuple[JobBound, ...], list[str]]:
    """Return the bounds of all jobs, and what is wrong or unknown about them."""
    wrong: list[str] = []
    found = tuple(_bound(Values(name, options), wrong) for name, options in effective(sections))
    names = [one.name for one in found]
    for at, one in enumerate(found):
        if one.wait_for and one.wait_for not in names[:at]:
            wrong.append(f"[{one.name}] waits for '{one.wait_for}', which is no job before it")
    if sum(one.numjobs for one in found) > _MOST_JOBS:
        wrong.append(f"these are {sum(one.numjobs for one in found):,} jobs; fio runs at most {_MOST_JOBS:,}")
    return found, wrong


def _bound(values: Values, wrong: list[str]) -> JobBound:
    job, found = values.job, bound_of(values)
    wrong += [f"[{job}]: {why}, for example with set: {{{job}.{name}: …}}" for name, why in values.unknown]
    return found


def _ends(jobs: Sequence[JobBound], seconds: Callable[[JobBound], float]) -> dict[str, float]:
    """Return when each job ends, by its name: those behind `stonewall` and `wait_for` begin later."""
    barrier = 0.0
    ends: dict[str, float] = {}
    for job in jobs:
        barrier = max(ends.values(), default=0.0) if job.stonewall else barrier
        end = max(barrier, ends.get(job.wait_for, 0.0)) + seconds(job)
        ends[job.name] = max(end, ends.get(job.name, 0.0))
    return ends


def chained(jobs: Sequence[JobBound], seconds: Callable[[JobBound], float]) -> float:
    """Return when the last job ends."""
    return max(_ends(jobs, lambda job: job.delay + seconds(job)).values())


def _side_by_side(jobs: Sequence[JobBound]) -> int:
    """Return the most requests under way at a time."""
    most = now = 0
    for job in jobs:
        now = (0 if job.stonewall else now) + job.numjobs * job.depth
        most = max(most, now)
    return most


class JobWorkload(Workload):
    """All jobs of a job file together."""

    kind: ClassVar[str] = "jobs"
    job_template: ClassVar[str] = "job-file.fio"

    sections: tuple[tuple[str, tuple[str, ...]], ...] = ()
    targets: tuple[tuple[int, ...], ...] = ()  # the devices of each section, if the file names several
    in_files: bool = False
    jobs: Any = ()  # the bounds of each job
    reported: Any = ()  # the names of jobs and groups in fio's JSON

    @property
    def phases(self) -> Mapping[str, int]:
        return {name: round(end) for name, end in _ends(self.jobs, lambda _: 1.0).items()}

    @property
    def job_names(self) -> tuple[str, ...]:
        return self.reported if len(self.reported) > 1 else ()

    @property
    def directions(self) -> Mapping[str, Collection[str]]:
        sides: dict[str, set[str]] = {}
        for job in self.jobs:
            found = sides_of_kind(job.kind), ("read",) * job.verifies, (FLUSH,) * job.syncs
            sides.setdefault(job.name, set()).update(*found)
        every = set().union(*sides.values())
        # The figures of a group of jobs have the name of its first one.
        is_grouped = set(self.job_names) != set(sides)
        return {"": every, **{name: every if is_grouped else sides[name] for name in self.job_names}}

    @classmethod
    def of(cls, sections: Sections, jobs: tuple[JobBound, ...], *, in_files: bool) -> Self:
        lines = on_target(sections, in_files=in_files)
        random = any(job.kind.startswith("rand") for job in jobs)
        share = max(job.write_share for job in jobs)
        only = "write" if share == 1 and all(job.write_share == 1 for job in jobs) else "rw"
        kind = only if share else "trim" if all(job.kind in TRIMS for job in jobs) else "read"
        engines = {job.engine for job in jobs}
        timed = all(job.runtime is not None for job in jobs)
        whole = chained(jobs, lambda job: job.ramp + (job.runtime or 0.0))
        without_ramp = chained(jobs, lambda job: job.runtime or 0.0)
        values: dict[str, Any] = {
            "rw": f"rand{kind}" if random else kind,
            "bs": max(job.bs[1] for job in jobs),
            "iodepth": _side_by_side(jobs),
            "runtime": without_ramp if timed else None,
            "ramp": whole - without_ramp,
            "ioengine": "mmap" if "mmap" in engines else min(engines) if engines <= SYNCHRONOUS else "libaio",
            "direct": all(job.direct for job in jobs),
            "new": in_files,
        }
        own: dict[str, Any] = {"in_files": in_files, "jobs": jobs, "reported": reported_names(sections)}
        own["targets"] = () if in_files else targets_of(sections)
        return cast("Self", cls.model_construct(**values, sections=lines, **own))

    def content(self) -> Any:
        return (self.sections, self.targets) if self.targets else self.sections

    def on_tops(self, count: int) -> tuple[tuple[int, ...], ...]:
        """Return which of the devices on top each section adds; empty if each job has all of them."""
        if count <= max((number for own in self.targets for number in own), default=count):
            return ()
        found, common = [], False
        for (name, _), own in zip(self.sections, self.targets, strict=True):
            common |= is_global(name) and bool(own)
            found.append(own or (() if common or is_global(name) else tuple(range(count))))
        return tuple(found)

    def _tops_of_jobs(self, count: int) -> tuple[frozenset[int], ...]:
        found, common = [], frozenset[int]()
        for (name, _), own in zip(self.sections, self.on_tops(count), strict=False):
            if is_global(name):  # fio adds its targets to those of each job
                common |= set(own)
            else:
                found.append(common | set(own))
        return tuple(found) or (frozenset(range(count)),) * len(self.jobs)

    def problems(self) -> Iterator[Problem]:
        if self.in_files:
            sized = {name for job in self.jobs if _has_size(job) for name in file_names(job.file_names) if name}
            for job in self.jobs:
                if not _has_size(job) and not (job.file_names and sized.issuperset(file_names(job.file_names))):
                    remedy = f"write set: {{{job.name}.size: 1g}}"
                    yield Problem("job", f"[{job.name}] has no size, which files in a file system need; {remedy}")

    def read_fio(self, output: str, phases: Mapping[str, int] | None = None) -> Result:
        """Keep all reads, which may be those of a verification or of other jobs."""
        return super().read_fio(output, phases or self.phases)

    @property
    def job_sections(self) -> int:
        return len(self.sections)

    def slowed(self, slow: int) -> Self:
        if slow == 1:
            return self
        return self.model_copy(update={"sections": tuple(section(*one, slow) for one in self._with_bases())})

    def slow_problems(self, slow: int) -> Iterator[Problem]:
        for name, lines, thousand in self._with_bases():
            try:
                section(name, lines, thousand, slow)
            except ValueError as why:
                yield Problem("job", f"`slow: {slow}` cannot be applied to [{name}]: {why}")

    def _with_bases(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        """Yield the name and lines of each section, and whether `k` is 1000 there."""
        shared = False
        for name, lines in self.sections:
            options = (line.partition("=") for line in lines)
            bases = [value.strip() for option, _, value in options if option == "kb_base"]
            thousand = bases[-1] == "1000" if bases else shared
            if is_global(name):
                shared = thousand
            yield name, lines, thousand

    @property
    def sizes(self) -> tuple[int, int]:
        return min(job.bs[0] for job in self.jobs), self.bs

    @property
    def write_share(self) -> float:
        return max(float(job.write_share) for job in self.jobs)

    @property
    def trims(self) -> bool:
        return any("trim" in job.kind for job in self.jobs)

    def trim_problem(self, why: str) -> Problem:
        return Problem("job", why or NO_MODEL_OF_TRIMS)

    @property
    def pauses(self) -> bool:
        return any(job.pace or job.think for job in self.jobs)

    @property
    def under_way(self) -> int:
        return self.iodepth

    @property
    def is_timed(self) -> bool:
        return any(job.runtime is not None for job in self.jobs)

    def load(self, span: int) -> Load:
        moved = sum(job.moved(span) for job in self.jobs)
        written = float(sum(job.written(span) for job in self.jobs))
        requests = float(sum(job.moved(span) / job.bs[0] for job in self.jobs))
        return Load(
            moved, written, moved, requests, chained(self.jobs, lambda job: float(job.ramp + job.seconds(span)))
        )

    def span(self, capacity: int, devices: int = 1) -> int:  # noqa: ARG002 - each job has a region of its own
        return capacity

    @property
    def lays_out(self) -> bool:
        return True  # fio does, before the first job

    def fileset(self, capacity: int) -> FileSet:
        """Return all files as one. A name that several jobs use counts once."""
        named: dict[str, int] = {}
        total = 0
        for job in self.jobs:
            if not _has_size(job):
                continue
            size = job.laid_out(capacity)
            if job.file_names:
                named[job.file_names] = max(size, named.get(job.file_names, 0))
            else:
                total += size
        return FileSet(1, 1, total + sum(named.values()))

    def misfit(self, capacity: int, devices: int | None, sector: int) -> Problem | None:
        found = self._files_misfit(capacity) if devices is None else self._device_misfit(capacity, devices)
        return found or self._unaligned(sector)

    def _files_misfit(self, capacity: int) -> Problem | None:
        if self.trims:
            return Problem("job", "fio cannot trim files; use a layout without a file system")
        if any(job.fills for job in self.jobs) or (total := self.fileset(capacity).total) <= capacity:
            return None
        remedy = "write a smaller `size`, or for a job file for example `set: {size: …}`"
        files = f"its files would take {format_size(total)}"
        return Problem("job", f"{files}; at least {format_size(capacity // 2**20 * 2**20)} are free; {remedy}")

    def _device_misfit(self, capacity: int, devices: int) -> Problem | None:
        tops = self._tops_of_jobs(devices)
        rooms = [capacity * len(own) // devices for own in tops]
        for job, room in zip(self.jobs, rooms, strict=True):
            if (end := job.end(room)) > room:
                there = format_size(room // 2**20 * 2**20)
                return Problem("job", f"[{job.name}] needs {format_size(end)}, and there are at most {there}")
        for at, job in enumerate(self.jobs):
            if job.verifies and (other := self._rival(at, tops, rooms[at])):
                why = f"[{job.name}] verifies data that [{other}] overwrites at the same time"
                return Problem("job", f"{why}; that makes the figures meaningless; write `offset` and `size` for each")
        return None

    def _rival(self, at: int, tops: Sequence[frozenset[int]], capacity: int) -> str:
        """Return a job that changes data of the same region at the same time; it may be another copy of this job."""
        job, phases = self.jobs[at], self.phases
        if job.changes and job.numjobs > 1 and not job.apart:
            return str(job.name)
        for other, its in zip(self.jobs, tops, strict=True):
            beside = other.name != job.name and phases[other.name] == phases[job.name] and its & tops[at]
            if beside and other.changes and other.meets(job, capacity):
                return str(other.name)
        return ""

    def _unaligned(self, sector: int) -> Problem | None:
        for job in self.jobs:
            if job.direct and (job.bs[0] % sector or job.bs[1] % sector):
                rule = f"direct I/O needs whole sectors of {format_size(sector)}"
                return Problem("job", f"[{job.name}]: {rule}, and {format_size(job.bs[0])} is not")
        return None

    @property
    def first(self) -> int:
        """Return the position of the first job among all sections."""
        return next(at for at, (name, _) in enumerate(self.sections) if not is_global(name))


def _has_size(job: JobBound) -> bool:
    return job.size is not None or job.file_size is not None or job.fills
