"""The keys of a workload of fio."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from matrix_runner.base.model import Extent, Length, Model, Size, Time
from matrix_runner.base.quantities import format_size
from matrix_runner.work.fio.bounds import MIXED, TRIMS, JobBound, Option, Values, bound_of, option_name, option_text
from matrix_runner.work.fio.options import SYNCHRONOUS, OpenValue, Steady

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
    def verifies(self) -> bool:
        return self.bound.verifies

    @property
    def unknown(self) -> Iterable[tuple[str, str]]:
        """Return the options whose value is unknown, with the reason."""
        return ((name, why) for name, why in _bound(self._options())[1] if name in self.fio)


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
