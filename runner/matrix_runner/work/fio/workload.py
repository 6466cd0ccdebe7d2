"""A fio workload on the top of a layout. Over 400 lines: one model has all keys, and the limits of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, floor
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from matrix_runner.base.model import Extent, Length, Model, Size, Time
from matrix_runner.base.quantities import format_in_unit, format_size, resolve_memory, resolve_share
from matrix_runner.layers import Layer, Problem
from matrix_runner.work import slow as slow_motion
from matrix_runner.work.fio import rules as fio_rules
from matrix_runner.work.fio.bounds import JobBound, Values, bound_of
from matrix_runner.work.fio.options import DEFAULT_SIZE, SYNCHRONOUS, FileSet, OpenValue, Steady, refused
from matrix_runner.work.fio.output import figures_of, find_json, jobs_of, missed_steady_states
from matrix_runner.work.fio.values import MIXED, TRIMS, Option, option_name, option_text
from matrix_runner.work.metrics import FLUSH, sides_of_kind
from matrix_runner.work.result import Result

if TYPE_CHECKING:
    from matrix_runner.layers.geometry import Below

DEFAULT_RUNTIME = 10.0
#: fio's engines that work on devices and on files.
Engine = Literal["libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2", "splice", "mmap"]
_NO_DATA = "does no I/O, so its figures would not depend on `rw` and `bs`"
_ELSEWHERE = "does not use disks or files"
#: fio's other engines, and why a workload cannot use them.
NOT_ENGINES = {
    **dict.fromkeys(("filecreate", "filestat", "filedelete", "dircreate", "dirstat", "dirdelete"), _NO_DATA),
    **dict.fromkeys(("null", "cpp_null", "cpuio", "exec", "falloc", "ftruncate", "e4defrag"), _NO_DATA),
    **dict.fromkeys(("net", "netsplice", "rdma", "nbd", "http", "libhdfs", "rados", "rbd", "gfapi"), _ELSEWHERE),
    **dict.fromkeys(("gfapi_async", "libiscsi", "libnfs", "nfs", "mtd", "xnvme", "libblkio"), _ELSEWHERE),
    **dict.fromkeys(("dev-dax", "libpmem", "libpmem2", "pmemblk", "librpma_apm_client"), _ELSEWHERE),
    **dict.fromkeys(("librpma_apm_server", "librpma_gpspm_client", "librpma_gpspm_server"), _ELSEWHERE),
    **dict.fromkeys(("windowsaio", "solarisaio", "guasi", "binject"), "does not run on today's Linux"),
    **dict.fromkeys(("dfs", "ime_psync", "ime_psyncv", "ime_aio"), _ELSEWHERE),
    **dict.fromkeys(("libcufile", "libhipfile"), "moves data to a graphics processor"),
    **dict.fromkeys(("spdk", "spdk_bdev"), "bypasses the kernel, and with it all layers"),
    "libzbc": "bypasses all layers and needs zoned disks",
    "page_fault": "measures page faults of memory, without files and disks",
    "sg": "bypasses all layers and needs SCSI disks",
    "io_uring_cmd": "bypasses all layers and needs NVMe disks",
    "external": "runs unknown code",
}


def _aliases(value: object) -> object:
    if isinstance(value, str) and ":" in value:
        # fio's suffix: bytes to skip in sequential work, number of requests per offset in random work.
        kind, _, skipped = value.partition(":")
        if kind.startswith("rand"):
            raise ValueError(f"random work has a new offset for each request; write {kind}")
        match = re.fullmatch(r"([0-9]+)([kmg]?)(i?b)?", skipped.strip().lower())  # fio writes `64k` for 64KiB
        size = int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2]] if match else 2**16
        raise ValueError(f"write rw: {kind}, skip: {format_size(size)}")
    return {"readwrite": "rw"}.get(value, value) if isinstance(value, str) else value


def _engine(value: object) -> object:
    name = value.partition(":")[0] if isinstance(value, str) else ""
    if name in NOT_ENGINES:
        raise ValueError(f"this engine {NOT_ENGINES[name]}; use one of {', '.join(get_args(Engine))}")
    return value


NO_MODEL_OF_TRIMS = (
    "models of disks know no trims without `ageing:`, so the figures would be meaningless; remove `model:`"
)
POINTS = 100  # number of places of a profile over positions, evenly spaced
MOST_LOGGED = 1_000_000  # a profile logs every request, in fio's memory
#: Seconds over which a profile over time averages, and the value for work of less than ten times as long.
COURSE, SHORT_COURSE = 1.0, 0.1


class Workload(Model):
    """A fio workload on the top of a stack."""

    kind: ClassVar[str] = "fio"
    #: The template of its job, and options of fio beside those of the keys.
    job_template: ClassVar[str] = "job.fio"
    job_options: ClassVar[Mapping[str, str]] = {}
    #: Where the keys of fio are in a workload of the matrix.
    fio_keys: ClassVar[tuple[str, ...]] = ()

    rw: Annotated[
        Literal["read", "write", "randread", "randwrite", "rw", "randrw", "trim", "randtrim"],
        BeforeValidator(_aliases),
        WithJsonSchema(
            {"enum": ["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw", "trim", "randtrim"]}
        ),
    ]
    bs: Annotated[Size, Field(ge=512)] = 4096
    iodepth: int = Field(1, ge=1, le=65536)
    numjobs: int = Field(1, ge=1, le=1024)
    rwmixread: int = Field(50, ge=0, le=100)
    size: Length | None = Field(
        None,
        description="on a device: the region to use, all if not given. In a file system: all files of one job "
        "together; if not given, 1GiB, or half of the file system if that is smaller. `4x memory`: a multiple of the "
        "memory of the rig",
    )
    files: int | None = Field(
        None, ge=1, le=100_000, description="in a file system: number of files of each job; 1 if not given"
    )
    file_size: Length | None = Field(None, description="in a file system: size of each file")
    shared: bool = Field(False, description="in a file system: all jobs share one file")
    new: bool = Field(
        False, description="in a file system: the workload creates its files; if false, they exist before"
    )
    offset: Extent = Field(0, description="where the region begins")
    skip: Size = Field(0, description="sequential work: bytes to skip after each request (fio's rw=read:64k)")
    runtime: Annotated[Time, Field(ge=0.001)] | None = Field(
        None,
        description="time of the measurement. If not given: one pass over `size` or `file_size`, or 10s without them. "
        "`io_size`, `loops` and `verify` below `fio:` also end a workload",
    )
    ramp: Time = Field(0.0, description="time at the start that does not count")
    ioengine: Annotated[Engine, BeforeValidator(_engine), WithJsonSchema({"enum": [*get_args(Engine)]})] = Field(
        "libaio", description="how fio sends its requests to the kernel"
    )
    direct: bool = True
    sync: Literal["none", "sync", "dsync"] = Field(
        "none", description="every write waits until it is on the medium: O_SYNC or O_DSYNC"
    )
    fsync: int = Field(0, ge=0, le=2**31 - 1, description="number of writes before each fsync; 0: never")
    profile: Literal["position", "time"] | None = Field(
        None,
        description="also record how the rate changes: over the positions of the device, in one pass, or over time",
    )
    each: Size | None = Field(
        None,
        gt=0,
        description=f"profile over positions: bytes to use at each of {POINTS} places; everything if not given",
    )
    steady: Steady | None = Field(
        None, description="end when the rate is steady, at the latest after `runtime` or `size`"
    )
    fio: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], OpenValue] = Field(
        default_factory=dict, description="any other fio option, by its name in fio"
    )

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        idle: dict[str, str] = {}
        if values["rw"] not in MIXED:
            idle["rwmixread"] = f"rw={values['rw']} does not mix reads and writes"
        if str(values["rw"]).startswith("rand"):
            idle["skip"] = f"rw={values['rw']} does not go in order"
        if values.get("profile") != "position":
            idle["each"] = "it applies to a profile over positions only"
        if values.get("numjobs") == 1:
            idle["shared"] = "one job has no files to share"
        if (why := _needs_files(values)) is not None:
            idle["new"] = why
        if values.get("ioengine") in SYNCHRONOUS:
            idle["iodepth"] = f"ioengine={values['ioengine']} sends one request at a time"
        if values["rw"] in TRIMS:
            idle["iodepth"] = "each job of fio sends one trim at a time"
        return idle

    @staticmethod
    def idle_on_devices(values: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG004 - same signature as idle_on_files
        return dict.fromkeys(("files", "file_size", "shared", "new"), "there are no files on a raw device")

    @staticmethod
    def idle_on_files(values: Mapping[str, Any]) -> dict[str, str]:
        idle = {"offset": "the file system decides where its files are"}
        if values.get("files") is not None and values.get("file_size") is not None:
            idle["size"] = "`files` and `file_size` give the size in a file system"
        return idle

    def on(self, memory: int) -> Workload:
        sizes = {"size": self.size, "file_size": self.file_size}
        known = {name: resolve_memory(size, memory) for name, size in sizes.items() if size is not None}
        return self.model_copy(update=known) if known else self

    def settled(self) -> Workload:
        """Fill in the default runtime. It stays None if a size ends the workload."""
        ends = (self.runtime, self.size, self.file_size)
        passes = self.profile == "position" or any(option_name(option) in fio_rules.PASSES for option in self.fio)
        open_ended = ends == (None, None, None) and not passes
        return self.model_copy(update={"runtime": DEFAULT_RUNTIME}) if open_ended else self

    @property
    def write_share(self) -> float:
        return self.bound.write_share

    @cached_property
    def bound(self) -> JobBound:
        """The bounds of its jobs on a region of any size, with all that `fio:` changes."""
        return _bound(self._options())[0]

    def __copy__(self) -> Self:
        copied = super().__copy__()
        copied.__dict__.pop("bound", None)  # model_copy may change what it follows from
        return copied

    def _options(self) -> tuple[tuple[str, str], ...]:
        own = {"rw": self.rw, "bs": str(self.bs), "iodepth": str(self.iodepth), "numjobs": str(self.numjobs)}
        own |= {"ioengine": self.ioengine, "direct": str(int(self.direct)), "fsync": str(self.fsync)}
        if "rwmixwrite" not in self.fio:
            own["rwmixread"] = str(self.rwmixread)
        if self.runtime is not None:
            own["runtime"] = f"{round(self.runtime * 1000)}ms"
        return (*own.items(), *((option_name(name), option_text(value)) for name, value in self.fio.items()))

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the smallest and the largest request."""
        return self.bound.bs

    @property
    def pauses(self) -> bool:
        """Return whether a limit of the rate or a think time lets disks wait on purpose."""
        return bool(self.bound.pace or self.bound.think)

    @property
    def _field_of_sizes(self) -> str:
        found = (option for option in self.fio if option_name(option) in {"bssplit", "bsrange"})
        return next((f"fio.{option}" for option in found), "bs")

    @property
    def trims(self) -> bool:
        return self.rw in TRIMS or "trim_percentage" in self.fio

    @property
    def verifies(self) -> bool:
        return self.bound.verifies

    def trim_problem(self, why: str) -> Problem:
        """Return why its trims are impossible; `why`: the reason of a layer, empty if a model of a disk knows none."""
        return Problem("rw" if self.rw in TRIMS else "fio.trim_percentage", why or NO_MODEL_OF_TRIMS)

    def problems(self) -> Iterator[Problem]:
        if (problem := self.unaligned(512)) is not None:
            yield problem
        if self.direct and self.ioengine == "mmap":
            yield Problem("ioengine", "mmap always uses the page cache; add `direct: false`")
        if self.profile == "position":
            yield from self._profile_problems()
        if self.steady:
            yield from self.steady.problems(self.runtime, self.profile, self.fio)
        if self.profile and self.rw in TRIMS:
            yield Problem("profile", "a profile has reads and writes only; remove it")
        yield from self._option_problems()
        yield from fio_rules.problems(self)
        offset = _share(self.offset) if isinstance(self.offset, str) else 0
        if offset == 1:
            yield Problem("offset", f"no space is left after {self.offset} of a device")
        elif offset and isinstance(self.size, str) and self.size.endswith("%") and offset + _share(self.size) > 1:
            left = f"{float(1 - offset) * 100:g}%"
            yield Problem("size", f"{self.size} after an offset of {self.offset}: only {left} are left")

    def _option_problems(self) -> Iterator[Problem]:
        yield from (Problem(f"fio.{name}", why) for name, why in _bound(self._options())[1] if name in self.fio)
        for option, value in self.fio.items():
            if (why := misplaced(option, value)) is not None:
                yield Problem(f"fio.{option}", why)
            elif self.each is not None and option.startswith("zone"):
                yield Problem(f"fio.{option}", f"`{option}` and `each:` both set places; write one of them")

    def _profile_problems(self) -> Iterator[Problem]:
        if self.rw not in {"read", "write"}:
            yield Problem("profile", f"a profile over positions needs sequential work; rw={self.rw} is not")
        if self.numjobs > 1:
            yield Problem("numjobs", "a profile over positions needs one job")
        if self.runtime is not None or self.ramp:
            field = "runtime" if self.runtime is not None else "ramp"
            yield Problem(field, "a profile over positions ends after one pass over the device")
        if self.each is not None and (self.each % self.bs or self.each < 2 * self.bs):
            yield Problem("each", f"must be a multiple of bs ({format_size(self.bs)}), at least twice")

    def span(self, capacity: int, devices: int = 1) -> int:
        """Return the bytes of the region that one job covers; `capacity` is that of all devices together."""
        if self.size is not None:
            return resolve_share(self.size, capacity)
        return capacity - devices * resolve_share(self.offset, capacity // devices)  # the offset is that of each device

    def touched(self, span: int) -> int:
        if self.each is not None:
            return self.each * max(1, span // self.window(span))
        largest = self.sizes[1]
        return span * largest // (largest + self.skip)

    def timed(self, span: int) -> float:
        """Return the seconds that do not depend on the speed of the disks."""
        return self.ramp + self.bound.delay + self.bound.seconds(self.touched(span))

    def seconds(self, span: int, member: Callable[[], float]) -> float:  # noqa: ARG002
        """Return the same seconds on a stack; `member`: bytes per second at which a member of its array is written."""
        return self.timed(span)

    def time_limit(self, span: int) -> float:
        """Return the same seconds, for work of an unknown length at most."""
        return self.timed(span)

    @property
    def restarts(self) -> float:
        """Return the seconds of later starts of fio and its jobs, on a host that is slow and busy."""
        return 0.0

    @property
    def is_timed(self) -> bool:
        """Return whether time ends one of its jobs, so that a faster disk moves more bytes."""
        return self.runtime is not None

    def moved(self, span: int) -> int:
        """Return the bytes of all jobs; 0 if time ends them. `span`: the region of one job."""
        return self.bound.moved(self.touched(span))

    def written(self, span: int) -> float:
        """Return the bytes that all jobs write; 0 if time ends them."""
        return self.bound.written(self.touched(span))

    def recorded_bytes(self, span: int, counted: int, runtime: float, in_rounds: int | None) -> float:  # noqa: ARG002
        """Return the bytes that a trial wrote.

        fio counted some of them in `runtime`, without the ramp; those of a test of SNIA are `in_rounds`.
        """
        return counted * (1 + self.ramp / runtime if runtime else 1.0)

    def passed(self, span: int) -> int:
        """Return the bytes that heads pass over, with those that are skipped."""
        once = self.touched(span)
        return self.moved(span) * span // once if once else 0

    def requests(self, span: int) -> float:
        return self.passed(span) / self.sizes[0]

    @property
    def under_way(self) -> int:
        """Return the most requests at a time."""
        return self.numjobs * (1 if self.rw in TRIMS else self.bound.depth)

    @property
    def phases(self) -> Mapping[str, int]:
        """Return which jobs run one after another: the phase of each by its name. Without entries, there is one."""
        return {}

    @property
    def in_flight(self) -> int | None:
        """Return the requests under way at a time; None if it is unknown."""
        return self.iodepth * self.numjobs if self.direct else None

    @property
    def needs_array(self) -> bool:
        """Return whether its size is that of an array of the stack."""
        return False

    def onto(self, layers: Iterable[tuple[Layer, Below]]) -> Workload:  # noqa: ARG002
        """Return the work on a stack, whose layers come with what is below each."""
        return self

    def why_impossible(self, layers: tuple[Layer, ...], *, has_faults: bool) -> Problem | None:  # noqa: ARG002
        return None

    @property
    def has_fio_job(self) -> bool:
        return True

    def for_fio(self) -> Workload:
        """Return the workload that fio runs."""
        return self

    @property
    def job_sections(self) -> int:
        """Return the number of sections, if fio has to check its job by itself; 0 if it may be with others."""
        return 0

    def script_values(self, span: int, slow: int) -> Mapping[str, object] | None:  # noqa: ARG002
        """Return what templates get under the name of its kind; None if its scripts are those of any fio job."""
        return None

    def script_files(self, span: int, slow: int) -> Mapping[str, str]:  # noqa: ARG002
        """Return the files beside the scripts."""
        return {}

    @property
    def has_whole_runtime(self) -> bool:
        """Return whether the run time in its figures is that of the whole measurement."""
        return not self.verifies

    @property
    def report_file(self) -> str:
        """Return the file of a trial that keeps the report of its script; empty: none."""
        return ""

    def script_failed(self, status: int, report: str) -> bool:  # noqa: ARG002
        """Return whether the script itself failed, rather than fio."""
        return False

    def read_output(self, output: str, report: str, slow: int) -> Result:  # noqa: ARG002
        """Return the result of a trial from the output of its script and its report. Raise FioFailed or NotReported."""
        read = self.read_fio(output)
        return replace(read, figures=read.figures and read.figures.in_real_units(slow))

    def read_fio(self, output: str) -> Result:
        """Return what fio measured in slow motion, without the reads of a verification."""
        jobs = jobs_of(find_json(output), output)
        figures, verified = figures_of(jobs, output, self.phases), ""
        if self.verifies and figures.write and figures.read:  # they come after the writes or between them
            verified = f"{format_size(figures.read.bytes)} read back, without difference"
            figures = replace(figures, read=None)
        return Result(figures, missed_steady_states(jobs), verified)

    def slowed(self, slow: int) -> Workload:
        """Return the workload in slow motion of the disks. Raise ValueError if fio cannot express it."""
        if slow == 1:
            return self
        return self.model_copy(
            update={
                "runtime": None if self.runtime is None else self.runtime * slow,
                "ramp": self.ramp * slow,
                "steady": self.steady and slow_motion.steady(self.steady, slow),
                "fio": {name: self._slowed(name, value, slow) for name, value in self.fio.items()},
            }
        )

    def slow_problems(self, slow: int) -> Iterator[Problem]:
        for name, value in self.fio.items():
            try:
                self._slowed(name, value, slow)
            except ValueError as why:
                yield Problem(f"fio.{name}", f"`slow: {slow}` cannot be applied to `{name}`: {why}")

    def _slowed(self, name: str, value: OpenValue, slow: int) -> OpenValue:
        return slow_motion.option(name, value, slow, thousand=str(self.fio.get("kb_base")) == "1000")

    @property
    def uses_files(self) -> bool:
        """Return whether it needs files in a file system."""
        return True

    @property
    def job_names(self) -> tuple[str, ...]:
        """Return the jobs that have their own figures; empty if there is only one."""
        return ()

    @property
    def directions(self) -> Mapping[str, Collection[str]]:
        """Return the directions that each job may have, and at the empty name those of all jobs."""
        return {"": (*sides_of_kind(self.rw), *(FLUSH,) * self.bound.syncs)}

    @property
    def lays_out(self) -> bool:
        return not self.new

    def content(self) -> Any:
        """Return what the id of a cell is made of. Defaults are left out, so that new fields change no id."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def window(self, span: int) -> int:
        return max(-(-span // (POINTS * self.bs)) * self.bs, self.each or 0)

    @property
    def course(self) -> float:
        return SHORT_COURSE if self.runtime is not None and self.runtime < 10 * COURSE else COURSE

    def _problem_over(self, span: int) -> Problem | None:
        count = self.touched(span) // self.bs
        if self.each is not None and self.each > span:
            return Problem("each", f"more than the whole region of {format_size(span)}")
        if (problem := fio_rules.misfit(self, self.touched(span))) is not None:
            return problem
        if self.profile == "position" and count > MOST_LOGGED:
            excess = f"{count:,} requests of {format_size(self.bs)} exceed the limit of the log, {MOST_LOGGED:,}"
            return Problem("profile", f"{excess}: write a larger `bs`, or a limit for each place with `each`")
        largest = self.sizes[1]
        if not self.skip or 2 * largest + self.skip <= span:
            return None
        step = f"{format_size(self.skip)} after requests of {format_size(largest)}"
        return Problem("skip", f"{step} lead beyond the region of {format_size(span)}")

    def fileset(self, capacity: int) -> FileSet:
        """Return the files in a file system. A share is a share of the whole, for all jobs together."""
        sets = 1 if self.shared else self.numjobs
        share = capacity // sets
        if self.size is None:
            size = _in_pages("50%", min(2 * DEFAULT_SIZE // sets, share))
        else:
            size = _in_pages(self.size, share)
        if self.file_size is None:
            count = self.files or 1
            return FileSet(sets, count, size // count)
        each = _in_pages(self.file_size, share)
        return FileSet(sets, self.files or (1 if self.size is None else -(-size // max(each, 1))), each)

    def files_misfit(self, capacity: int) -> Problem | None:
        files = self.fileset(capacity)
        if self.trims:
            return Problem("rw", "fio cannot trim files; use a layout without a file system")
        if self.profile == "position" and files.count > 1:
            return Problem("profile", f"a profile over positions needs one file, and there are {files.count}")
        if self.shared and files.count > 1:
            return Problem("shared", f"jobs share one file, and there are {files.count}")
        field = "file_size" if self.file_size is not None else "files" if self.size is None and self.files else "size"
        if files.each < self.sizes[1]:
            request = f"one request of {format_size(self.sizes[1])}"
            return Problem(field, f"files of {format_size(files.each)} are less than {request}")
        if files.total <= capacity:
            return self._problem_over(files.each)
        count, each = files.jobs * files.count, format_size(files.each)
        # A size that was written in MB is shown in MB.
        unit = "MiB" if each.endswith("iB") or each[-2:-1].isdigit() else "MB"
        needed, free = format_in_unit(files.total, unit, ceil), format_in_unit(capacity, unit, floor)
        many = f"{count} files of {each}" if count > 1 else "it"
        return Problem(field, f"{many} would take {needed}; at least {free} are free")

    def unaligned(self, sector: int) -> Problem | None:
        if not self.direct:
            return None
        of_requests = [(self._field_of_sizes, size) for size in self.sizes]
        for field, extent in (*of_requests, ("skip", self.skip), ("offset", self.offset)):
            if isinstance(extent, int) and extent % sector:
                rule = f"direct I/O needs whole sectors of {format_size(sector)}"
                return Problem(field, f"{rule}, and {format_size(extent)} is not")
        return None

    def misfit(self, capacity: int, devices: int) -> Problem | None:
        room = capacity // devices
        for field, extent in (("size", self.size), ("offset", self.offset)):
            if isinstance(extent, str) and _share(extent) * 100 % 1:
                what = f"fio rounds {extent} of a device down to whole percent"
                return Problem(field, f"{what}; write a whole percentage or a size")
        if self.profile == "position" and devices > 1:
            return Problem("profile", "a profile over positions needs one device; `pick` chooses one of several")
        if (problem := fio_rules.device_misfit(self)) is not None:
            return problem
        largest = self.sizes[1]
        if self.size is not None and resolve_share(self.size, capacity) < largest:
            return Problem("size", f"{_shown(self.size)} are less than one request of {format_size(largest)}")
        each = "" if devices == 1 else f" on each of {devices} devices"
        offset = resolve_share(self.offset, room)
        size = largest if self.size is None else resolve_share(self.size, capacity) // devices
        if offset + size <= room:
            return self._problem_over(room - offset if self.size is None else size)
        field = "offset" if self.size is None else "size"
        needed = self.size if isinstance(self.size, str) else format_size(size)
        if not offset:
            return Problem(field, f"{needed} are needed{each}, and there are at most {format_size(room)}{each}")
        end, there = format_in_unit(offset + size, "MiB", ceil), format_in_unit(room, "MiB", floor)
        what = f"{needed} after an offset of {_shown(self.offset)} end at {end}"
        return Problem(field, f"{what}, and there are at most {there}{each}")


@lru_cache(maxsize=4096)
def _bound(options: tuple[tuple[str, str], ...]) -> tuple[JobBound, tuple[tuple[str, str], ...]]:
    """Return the bounds of one job, and the options whose value is unknown, with the reason."""
    values = Values("", {name: Option(name, value) for name, value in options})
    return bound_of(values), tuple(values.unknown)


def _needs_files(values: Mapping[str, Any]) -> str | None:
    if values["rw"] != "write":
        return f"rw={values['rw']} needs existing files"
    if values.get("ioengine") == "mmap":
        return "ioengine=mmap needs existing files"
    if values.get("shared") and values.get("numjobs") != 1:
        return "jobs that share one file would overwrite each other's data"
    return None


def _share(percent: str) -> Fraction:
    # Exact: 33.3% and 66.7% are the whole.
    return Fraction(percent.removesuffix("%")) / 100


def _shown(extent: int | str) -> str:
    return extent if isinstance(extent, str) else format_size(extent)


def _in_pages(length: int | str, share: int) -> int:
    size = resolve_share(length, share)
    return size if isinstance(length, int) else size // 4096 * 4096


def misplaced(option: str, value: object) -> str | None:
    why = refused(option, value)
    if option in Workload.model_fields and why is None:
        return f"`{option}` is a key of the workload; write `{option}:` outside of `fio:`"
    return why
