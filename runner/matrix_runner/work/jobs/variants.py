"""Workloads of several jobs as written: a job file with the values of `set`, or a map `jobs`; and their variants."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, create_model

from matrix_runner.base.findings import Flaw, Path, place_of
from matrix_runner.base.model import (
    ChangeSchema,
    Choice,
    Coords,
    Model,
    Variant,
    as_tuple,
    axes_of,
    axis_type,
    choices,
    constructed,
    scalar_or_list,
    texts,
)
from matrix_runner.layers import Problem
from matrix_runner.work.fio.bounds import MIXED, Option, file_names, is_elsewhere, option_text
from matrix_runner.work.fio.keys import DEFAULT_SIZE, OpenValue, WorkloadKeys
from matrix_runner.work.fio.workload import FioWorkload
from matrix_runner.work.jobs.file import (
    JobFile,
    Section,
    Sections,
    devices_named,
    is_global,
    is_ours,
    misnamed,
    split_key,
    why_refused,
    with_values,
)
from matrix_runner.work.jobs.workload import JobWorkload, bounds_of
from matrix_runner.work.workload import Workload, Written


def _read(value: object) -> object:
    files = as_tuple(value)
    if not all(isinstance(one, JobFile) for one in files):
        raise ValueError("write the path of a job file of fio, relative to this file, like jobs/db.fio")
    return files


def _no_global(name: str) -> str:
    if is_global(name):
        raise ValueError("fio takes a name that begins with `global` for common options")
    return name


_Files = Annotated[
    tuple[Any, ...],
    BeforeValidator(_read),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    ChangeSchema(scalar_or_list),
]
_Values = Annotated[tuple[OpenValue, ...], BeforeValidator(as_tuple), ChangeSchema(scalar_or_list)]
#: An option, or `section.option`. A section may have any characters.
_Key = Annotated[str, Field(pattern=r"^([^\n\r]+\.)?[A-Za-z][A-Za-z0-9_-]*$", max_length=300)]

#: Without a dot, which separates it from its figures.
_JobName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_+-]*$", max_length=80), AfterValidator(_no_global)]

if TYPE_CHECKING:
    OneJob = Model
else:
    OneJob = create_model(
        "JobOfSeveral",
        __base__=axes_of(WorkloadKeys),
        __doc__="One of several jobs that run at the same time.",
        rw=(
            axis_type(WorkloadKeys.model_fields["rw"]) | None,
            Field(None, description="fio's `rw`, if it is not beside `jobs`"),
        ),
    )


class SeveralJobs(Model):
    job: _Files | None = Field(None, description="a job file of fio, relative to the matrix; its targets are replaced")
    set: dict[_Key, _Values] | None = Field(
        None,
        description="options of the job file: `option` for all its jobs, or `section.option` for one; lists are axes",
    )
    jobs: Annotated[dict[_JobName, OneJob], Field(min_length=1, max_length=100)] | None = Field(
        None,
        description="jobs that run at the same time, each a workload by its name; keys beside it are for all of them",
    )


_SET, _JOBS = "set.", "jobs."


def has_jobs(axes: Mapping[str, Any]) -> bool:
    return "job" in axes or any(name.startswith((_JOBS, _SET)) for name in axes)


def variants(written: Written) -> Iterator[Variant[Workload]]:
    return _JobVariants(written).all()


class _JobVariants:
    def __init__(self, written: Written) -> None:
        self._written, self._axes, self._findings = written, written.axes, written.findings
        self._base, self._in_files = written.path, written.in_files

    def all(self) -> Iterator[Variant[Workload]]:
        if misplaced := self._misplaced():
            self._findings.flaw((*self._base, *steps(misplaced)), _why_misplaced(misplaced, self._axes))
            return
        for choice in choices(self._axes):
            coords: Coords = (("workload", self._written.name), *_coords(choice.values))
            flaws = len(self._findings.impossible)
            read = self._of_file if "job" in choice.values else self._of_map
            sections = read(choice, coords)
            if len(self._findings.impossible) > flaws:
                continue
            bounds, wrong = bounds_of(sections)
            work = JobWorkload.of(sections, bounds, in_files=self._in_files) if bounds else None
            if work and not wrong:
                wrong = [one.message for one in (*work.problems(), *work.slow_problems(self._written.slow))]
            for message in wrong:
                self._findings.flaw_of(coords, self._place(choice), message)
            if work and len(self._findings.impossible) == flaws:
                yield self._written.variant(work, coords)

    def _misplaced(self) -> str:
        for axis in self._axes:
            known = axis == "job" or axis.startswith(_SET) if "job" in self._axes else not axis.startswith(_SET)
            if not known or axis in {"preset", "phase"}:
                return axis
        return ""

    def _place(self, choice: Choice) -> Path:
        return place_of(self._base, choice, "job") if "job" in choice.values else (*self._base, "jobs")

    def _of_file(self, choice: Choice, coords: Coords) -> Sections:
        file: JobFile = choice.values["job"]
        values = {
            axis.removeprefix(_SET): option_text(one) for axis, one in choice.values.items() if axis.startswith(_SET)
        }
        names = {section.name for section in file.sections if not section.is_global}
        for key, value in values.items():
            if why := _why_no_value(key, value, names):
                self._findings.flaw_of(coords, self._path(choice, _SET + key), why)
        sections = with_values(file.sections, values)
        for section in sections:  # not only what is in effect at the end: fio acts on some values while it reads them
            for option in section.options:
                if why := why_refused(option, in_files=self._in_files):
                    self._refuse(choice, coords, section.name, option, why)
        for section, why in misnamed(sections, in_files=self._in_files):
            self._findings.flaw_of(coords, self._place(choice), f"[{section.name[:60]}]: {why}")
        self._note_targets(str(file), sections)
        return sections

    def _refuse(self, choice: Choice, coords: Coords, job: str, option: Option, why: str) -> None:
        if option.place is None:
            own = f"{_SET}{job}.{option.key}"
            key = own if own in choice.places else _SET + option.key
            flaw = Flaw(self._path(choice, key), why)
        else:
            flaw = Flaw(self._place(choice), why, place=option.place)
        self._findings.impossible.append((coords, flaw))

    def _path(self, choice: Choice, axis: str) -> Path:
        place = choice.places[axis]
        path: Path = (*self._base, *steps(axis))
        return path if place is None else (*path, place)

    def _note_targets(self, file: str, sections: Sections) -> None:
        """Note what has no effect, in the file or below `set:`."""
        options = [option for section in sections for option in section.options]
        named = [str(one) for one in options if one.name == "directory" or (one.name == "filename" and _is_other(one))]
        devices = list(dict.fromkeys(name for names in devices_named(sections) for name in names))
        if len(devices) > 1 and not self._in_files:
            which = f"the first {len(devices)} devices on top of the layout, in this order, replace"
            shown = ", ".join(devices[:8]) + (" …" if len(devices) > 8 else "")
            self._note([shown], which + " {options} of " + f"{file}; on a layout with fewer, each job uses all of them")
            named = [one for one in named if not one.startswith("filename")]
        self._note(named, "the top of the layout replaces {options} of " + file)
        ours = [one.key for one in options if is_ours(one.name) and one.name != "directory"]
        self._note(ours, "matrix replaces or leaves out {options} of " + file)

    def _note(self, options: list[str], text: str) -> None:
        if options:
            self._written.note(text.replace("{options}", ", ".join(dict.fromkeys(options[:3]))))

    def _of_map(self, choice: Choice, coords: Coords) -> Sections:
        common = {axis: value for axis, value in choice.values.items() if not axis.startswith(_JOBS)}
        own: dict[str, dict[str, Any]] = {}
        for axis, value in choice.values.items():
            if axis.startswith(_JOBS):
                job, _, key = axis.removeprefix(_JOBS).partition(".")
                own.setdefault(job, {})[key] = value
        jobs: dict[str, FioWorkload] = {}
        for job, values in own.items():
            path: Path = (*self._base, "jobs", job)
            given = {**common, **values}
            if "rw" not in given:
                self._findings.flaw_of(coords, path, "required key 'rw' is missing; for example rw: randread")
                continue
            work = constructed(FioWorkload, FioWorkload.effective(given, in_files=self._in_files))
            work = work.settled().on(self._written.memory)
            problems = list(problems_of(work, in_files=self._in_files))
            if not problems:
                jobs[job] = work
            for problem in problems:
                at = path if problem.field.partition(".")[0] in values else self._base
                self._findings.flaw_of(coords, (*at, *problem.field.split(".")), problem.message)
        return sections_of(jobs, in_files=self._in_files)


def _is_other(option: Option) -> bool:
    return any(map(is_elsewhere, file_names(option.value or "")))


def _why_misplaced(axis: str, axes: Mapping[str, Any]) -> str:
    key = axis.partition(".")[0]
    if "job" in axes:
        return f"'{key}' has no effect on a job file; write fio's option below `set:`"
    if axis.startswith(_SET):
        return "'set' has no effect: it sets options of a job file (`job:`); write them below `fio:`"
    return f"'{key}' and `jobs` both say what runs; keep one of them"


def _why_no_value(key: str, value: str, names: set[str]) -> str:
    section = split_key(key)[0]
    if section and section not in names:
        known = ", ".join(sorted(names)[:8])
        return f"the job file has no job '{section}'; its jobs are {known}"
    if any(sign in value for sign in (";", "#", "${")):
        return f"'{value[:60]}': fio takes ; and # for a comment and fills in ${{…}}; write the value"
    return ""


def steps(axis: str) -> Path:
    """Return the keys of an axis. An option of a job file may have dots itself."""
    if axis.startswith(_SET):
        return ("set", axis.removeprefix(_SET))
    return tuple(axis.split("."))


def _coords(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "job" in values:
        yield from ((f"workload.{axis}", _shown(value)) for axis, value in values.items())
        return
    parts: dict[str, dict[str, Any]] = {}
    for axis, value in values.items():
        _, inside, rest = axis.rpartition(_JOBS)
        job, _, key = rest.partition(".") if inside else ("", "", axis)
        parts.setdefault(f"{_JOBS}{job}." if job else "", {})[key] = value
    for prefix, own in parts.items():
        shown = texts(constructed(FioWorkload, own), own)
        yield from ((f"workload.{prefix}{key}", text) for key, text in shown.items())


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
