"""The keys of a workload of fio, and the options of fio that it may not have.

fio itself refuses unknown options: session/selected_matrix.py.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from matrix_runner.base.model import Extent, Length, Model, Percent, Size, Time
from matrix_runner.base.quantities import format_size, format_time
from matrix_runner.layers import Problem
from matrix_runner.work.fio import bounds

_COLLECTED = "matrix collects the results"
_FILES = "fio must not read or write files beside the top of the layout"
_DANGER, _SENSELESS = "; this endangers other data", "; this would make the figures meaningless"
_REFUSED = [line.split("\t") for line in Path(__file__).with_name("refused.tsv").read_text("utf-8").splitlines()]


def _refused(*kinds: str) -> dict[str, str]:
    return {name: why for kind, names, why in _REFUSED if kind in kinds for name in names.split()}


#: fio options that a workload cannot have, and why or what to use instead.
OWNED = _refused("option", "danger")

#: Options that are refused for the data or the host, not because a key does the same.
_DANGEROUS = frozenset(_refused("danger"))


def reason(option: str) -> str:
    """Return why a workload cannot have an option, with the kind of the reason."""
    why = OWNED[option]
    return why + (_DANGER if option in _DANGEROUS else _SENSELESS if why == _COLLECTED else "")


#: fio cuts longer lines of a job and reads the rest as the next line, so a long value could add an option.
_LONGEST = 1000


def _open_value(value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("a fio option has one value: a text, a number, true or false")  # noqa: TRY004 - pydantic's way
    if isinstance(value, str) and any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise ValueError("control characters and line breaks cannot be written into a fio job")
    if isinstance(value, str) and len(value) > _LONGEST:
        raise ValueError(f"too long for one line of a fio job; use at most {_LONGEST} characters")
    if isinstance(value, str) and "$" in value:
        # `$VAR` in braces: the environment. $pagesize, $mb_memory, $ncpus: the host, and then `bc` computes the value.
        raise ValueError("fio replaces `$` and a name by a value of its environment or host; write the value itself")
    return value


OpenValue = Annotated[bool | int | float | str, BeforeValidator(_open_value)]


def refused(option: str, value: object) -> str | None:
    if option in {"mem", "iomem"} and ":" in str(value):
        # fio would truncate the file to the size of its buffers and overwrite it with their content.
        return f"`{option}` cannot name a file: fio must not keep its buffers in files{_DANGER}"
    if option in {"buffer_pattern", "verify_pattern"} and "'" in str(value):
        # fio would write the content of that file, which may be a secret, to the disks.
        return f"`{option}` cannot name a file, as a text in single quotes does: {_FILES}{_DANGER}"
    why = reason(option) if option in OWNED else None
    if option.startswith("log_"):
        why = f"{_COLLECTED}, logs with `profile:`"  # the profile is read from these logs
    return f"`{option}` is not allowed in the fio: map: {why}" if why else None


DEFAULT_SIZE = 2**30  # the default for all jobs together; half of the file system if that is less


@dataclass(frozen=True, slots=True)
class FileSet:
    """The number and size of the files of each job."""

    jobs: int
    count: int
    each: int

    @property
    def span(self) -> int:
        return self.count * self.each

    @property
    def total(self) -> int:
        return self.jobs * self.span

    @property
    def name(self) -> str:
        return f"{self.jobs}x{self.count}x{self.each}"


_OPTIONS = ("steadystate", "ss", "steadystate_duration", "ss_dur")  # fio's own options for this


class Steady(Model):
    """The workload ends when its rate is steady.

    Trials that never become steady are marked `unsettled`, and do not count.
    """

    within: Annotated[Percent, Field(gt=0, description="limit of slope or deviation, relative to the mean")]
    of: Literal["iops", "bw"] = Field("iops", description="the rate that has to be steady")
    over: Annotated[Time, Field(ge=2, description="how long it has to be steady, after `ramp`")] = 10.0
    slope: bool = Field(
        True, description="test the slope over that time; false: test the largest deviation from the mean"
    )

    @property
    def option(self) -> str:
        return f"{self.of}{'_slope' if self.slope else ''}:{self.within * 100:g}%"

    def problems(self, runtime: float | None, profile: str | None, options: Collection[str]) -> Iterator[Problem]:
        if runtime is not None and self.over >= runtime:
            excess = f"{format_time(self.over)} do not fit into a runtime of {format_time(runtime)}"
            yield Problem("steady.over", f"{excess}; write a longer `runtime`, which is the limit")
        if profile == "position":
            yield Problem("steady", "a profile over positions ends after one pass over the device")
        if twice := [option for option in _OPTIONS if option in options]:
            yield Problem("fio", f"`{twice[0]}` and `steady:` set the same; write one of them")


#: fio's engines for a workload. The last one sends commands to NVMe disks, past the kernel's block layer.
Engine = Literal[
    "libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2", "splice", "mmap", "io_uring_cmd"
]
*FILE_ENGINES, COMMANDS = get_args(Engine)
#: fio's other engines, and why a workload cannot use them.
NOT_ENGINES = _refused("engine")


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
    if name in NOT_ENGINES and name != COMMANDS:
        raise ValueError(f"this engine {NOT_ENGINES[name]}; use one of {', '.join(get_args(Engine))}")
    return value


POINTS = 100  # number of places of a profile over positions, evenly spaced


class WorkloadKeys(Model):
    """A fio workload on the top of a stack."""

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
        "libaio", description="how fio sends its requests to the kernel; io_uring_cmd: as commands to NVMe disks"
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
        if values["rw"] not in bounds.MIXED:
            idle["rwmixread"] = f"rw={values['rw']} does not mix reads and writes"
        if str(values["rw"]).startswith("rand"):
            idle["skip"] = f"rw={values['rw']} does not go in order"
        if values.get("profile") != "position":
            idle["each"] = "it applies to a profile over positions only"
        if values.get("numjobs") == 1:
            idle["shared"] = "one job has no files to share"
        if (why := _needs_files(values)) is not None:
            idle["new"] = why
        if values.get("ioengine") in bounds.SYNCHRONOUS:
            idle["iodepth"] = f"ioengine={values['ioengine']} sends one request at a time"
        if values["rw"] in bounds.TRIMS:
            idle["iodepth"] = "each job of fio sends one trim at a time"
        return idle

    @staticmethod
    def foreign(values: Mapping[str, Any], *, in_files: bool) -> dict[str, str]:
        """Return the keys without effect on devices, or in files, and why."""
        if not in_files:
            return dict.fromkeys(("files", "file_size", "shared", "new"), "there are no files on a raw device")
        idle = {"offset": "the file system decides where its files are"}
        if values.get("files") is not None and values.get("file_size") is not None:
            idle["size"] = "`files` and `file_size` give the size in a file system"
        return idle

    @classmethod
    def effective(cls, values: Mapping[str, Any], *, in_files: bool) -> dict[str, Any]:
        """Return the values that have an effect, on devices or in files."""
        defaults = {name: info.default for name, info in cls.model_fields.items()}
        idle = {**cls.idle({**defaults, **values}), **cls.foreign(values, in_files=in_files)}
        return {key: one for key, one in values.items() if key not in idle}

    @cached_property
    def bound(self) -> bounds.JobBound:
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
        return (
            *own.items(),
            *((bounds.option_name(name), bounds.option_text(value)) for name, value in self.fio.items()),
        )

    @property
    def verifies(self) -> bool:
        return self.bound.verifies

    @property
    def unknown(self) -> Iterable[tuple[str, str]]:
        """Return the options whose value is unknown, with the reason."""
        return ((name, why) for name, why in _bound(self._options())[1] if name in self.fio)


@lru_cache(maxsize=4096)
def _bound(options: tuple[tuple[str, str], ...]) -> tuple[bounds.JobBound, tuple[tuple[str, str], ...]]:
    """Return the bounds of one job, and the options whose value is unknown, with the reason."""
    values = bounds.Values("", {name: bounds.Option(name, value) for name, value in options})
    return bounds.bound_of(values), tuple(values.unknown)


def _needs_files(values: Mapping[str, Any]) -> str | None:
    if values["rw"] != "write":
        return f"rw={values['rw']} needs existing files"
    if values.get("ioengine") == "mmap":
        return "ioengine=mmap needs existing files"
    if values.get("shared") and values.get("numjobs") != 1:
        return "jobs that share one file would overwrite each other's data"
    return None
