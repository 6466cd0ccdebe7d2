"""What fio does to the top of a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from runner.model.base import Model
from runner.model.fileset import DEFAULT_SIZE, FileSet
from runner.model.layers import Problem
from runner.model.units import Extent, Length, Size, Time, bytes_of, format_size, of_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_RUNTIME = 10.0
#: fio's engines that read and write what they are given, on devices as in files.
Engine = Literal[
    "libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2", "splice", "mmap"
]  # fmt: skip
#: Of these, the ones that have one request under way, whatever `iodepth` says.
SYNCHRONOUS = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "splice", "mmap"})
_NO_DATA = "reads and writes nothing, so its figures would say nothing of `rw` and `bs`"
_ELSEWHERE = "works on something else than disks and files"
#: What else fio has, and why it is not for a workload.
NOT_ENGINES = {
    **dict.fromkeys(("filecreate", "filestat", "filedelete", "dircreate", "dirstat", "dirdelete"), _NO_DATA),
    **dict.fromkeys(("null", "cpuio", "exec", "falloc", "ftruncate", "e4defrag"), _NO_DATA),
    **dict.fromkeys(("net", "netsplice", "rdma", "nbd", "http", "libhdfs", "rados", "rbd", "gfapi"), _ELSEWHERE),
    **dict.fromkeys(("gfapi_async", "libiscsi", "libnfs", "nfs", "mtd", "xnvme", "libblkio"), _ELSEWHERE),
    **dict.fromkeys(("dev-dax", "libpmem", "libpmem2", "pmemblk", "librpma_apm_client"), _ELSEWHERE),
    **dict.fromkeys(("librpma_apm_server", "librpma_gpspm_client", "librpma_gpspm_server"), _ELSEWHERE),
    **dict.fromkeys(("windowsaio", "solarisaio", "guasi", "binject"), "is not for Linux as it is today"),
    "sg": "goes past every layer, to SCSI disks alone",
    "io_uring_cmd": "goes past every layer, to NVMe disks alone",
    "external": "is not among those that can be trusted to read and write what they are told",
}
MIXED = frozenset({"rw", "randrw"})

_COLLECTED = "results are collected by matrix"
#: fio options that `matrix` writes itself, and what to use instead.
OWNED = {
    "filename": "the top of the layout is what fio works on",
    "directory": "the top of the layout is what fio works on",
    "nrfiles": "write `files:`",
    "filesize": "write `file_size:`",
    "filename_format": "files of cells of one shape are used again under their own names",
    "create_only": "files are laid out before anything is measured",
    "overwrite": "files are laid out before anything is measured, so writes always overwrite",
    "unlink": "files are laid out before anything is measured, and taken away when another cell needs others",
    "readwrite": "write `rw:`",
    "rwmixwrite": "write `rwmixread:`",
    "blocksize": "write `bs:`",
    **dict.fromkeys(("bsrange", "blocksize_range", "bssplit"), "`bs:` is the size of all requests; a list is an axis"),
    "buffered": "write `direct: false`",
    "ramp_time": "write `ramp:`",
    "time_based": "a workload with `runtime:` is time based",
    **dict.fromkeys(("timeout", "io_size", "io_limit", "loops"), "`runtime:` or `size:` says when a workload ends"),
    "ioscheduler": "write `scheduler:` below `tune:`, so that it is read back",
    "randseed": "`seed:` at the top of the matrix decides it, another one for every trial",
    "output": _COLLECTED,
    "group_reporting": _COLLECTED,
    **dict.fromkeys(("write_bw_log", "write_iops_log", "write_lat_log", "write_hist_log"), _COLLECTED),
    "allow_file_create": "fio must never make a file where a device should be",
    **dict.fromkeys(("unlink", "unlink_each_loop"), "fio must never remove what it works on"),
    "exec_prerun": "commands do not belong in a workload",
    "exec_postrun": "commands do not belong in a workload",
}


def _open_value(value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("a fio option has one value: a text, a number, true or false")  # noqa: TRY004 - pydantic's way
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError("no number of fio's is that large")
    if isinstance(value, str) and any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise ValueError("control characters and line breaks cannot be written into a fio job")
    return value


def _aliases(value: object) -> object:
    return {"readwrite": "rw"}.get(value, value) if isinstance(value, str) else value


def _engine(value: object) -> object:
    name = value.partition(":")[0] if isinstance(value, str) else ""
    if name in NOT_ENGINES:
        raise ValueError(f"this engine of fio's {NOT_ENGINES[name]}; there are {', '.join(get_args(Engine))}")
    return value


OpenValue = Annotated[bool | int | float | str, BeforeValidator(_open_value)]


class Workload(Model):
    """One fio workload, fully resolved."""

    rw: Annotated[
        Literal["read", "write", "randread", "randwrite", "rw", "randrw"],
        BeforeValidator(_aliases),
        WithJsonSchema({"enum": ["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"]}),
    ]
    bs: Annotated[Size, Field(ge=512)] = 4096
    iodepth: Annotated[int, Field(ge=1, le=65536)] = 1
    numjobs: Annotated[int, Field(ge=1, le=1024)] = 1
    rwmixread: Annotated[int, Field(ge=0, le=100)] = 50
    size: Annotated[
        Length | None,
        Field(
            description="how much of the device is used, all of it if not given; in a file system how large the files "
            "of one job are together, 1GiB or half of it if not given; a multiple of the machine's memory: 4x memory"
        ),
    ] = None
    files: Annotated[
        int | None, Field(ge=1, le=100_000, description="in a file system: how many files each job works on; 1")
    ] = None
    file_size: Annotated[Length | None, Field(description="in a file system: how large each file is")] = None
    offset: Annotated[Extent, Field(description="where that part begins")] = 0
    runtime: Annotated[
        Annotated[Time, Field(ge=0.001)] | None,
        Field(description="10s if neither this nor `size` is given; without it, `size` is gone over once"),
    ] = None
    ramp: Annotated[Time, Field(description="time at the start that does not count")] = 0.0
    ioengine: Annotated[
        Engine,
        BeforeValidator(_engine),
        WithJsonSchema({"enum": [*get_args(Engine)]}),
        Field(description="how fio hands its requests to the kernel, on devices as in files"),
    ] = "libaio"
    direct: bool = True
    sync: Annotated[Literal["none", "sync", "dsync"], Field(description="O_SYNC or O_DSYNC on every write")] = "none"
    fsync: Annotated[int, Field(ge=0, description="an fsync after so many writes; 0: never")] = 0
    fio: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], OpenValue] = Field(
        default_factory=dict, description="any other fio option, by fio's own name"
    )

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """Fields that mean nothing for these values, and why."""
        idle: dict[str, str] = {}
        if values["rw"] not in MIXED:
            idle["rwmixread"] = f"rw={values['rw']} does not mix reads and writes"
        if values.get("ioengine") in SYNCHRONOUS:
            idle["iodepth"] = f"ioengine={values['ioengine']} has one request under way"
        return idle

    @staticmethod
    def idle_on_devices(values: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG004 - answers as its sibling does
        """Fields that mean nothing on a raw device, and why."""
        return dict.fromkeys(("files", "file_size"), "there are no files on a raw device")

    @staticmethod
    def idle_on_files(values: Mapping[str, Any]) -> dict[str, str]:
        """Fields that mean nothing in a file system, and why."""
        idle = {"offset": "where a file lies is for the file system to say"}
        if values.get("files") is not None and values.get("file_size") is not None:
            idle["size"] = "`files` and `file_size` say it in a file system"
        return idle

    def on(self, memory: int) -> Workload:
        """With sizes in bytes where they were multiples of the machine's memory."""
        sizes = {"size": self.size, "file_size": self.file_size}
        told = {name: of_memory(size, memory) for name, size in sizes.items() if size is not None}
        return self.model_copy(update=told) if told else self

    def settled(self) -> Workload:
        """With the run time filled in where it was left open (None stays where a size decides)."""
        open_ended = self.runtime is None and self.size is None and self.file_size is None
        return self.model_copy(update={"runtime": DEFAULT_RUNTIME}) if open_ended else self

    @property
    def write_share(self) -> float:
        """The part of its bytes that are written."""
        if self.rw in MIXED:
            return 1 - self.rwmixread / 100
        return 1.0 if "write" in self.rw else 0.0

    def problems(self) -> Iterator[Problem]:
        """What fio or the kernel would refuse, whatever the layout."""
        if self.direct and self.bs % 512:
            yield Problem("bs", "direct I/O goes in whole sectors of 512 bytes")
        if self.direct and self.ioengine == "mmap":
            yield Problem("ioengine", "mmap always goes through memory; write `direct: false` with it")
        for option in self.fio:
            if self.runtime is None and option.startswith(("rate", "thinktime")):
                yield Problem("fio", f"nobody can tell when it ends with `{option}` and no `runtime:`; give both")
            if option in OWNED:
                yield Problem("fio", f"`{option}` is not for the fio: map: {OWNED[option]}")
            elif option in type(self).model_fields:
                yield Problem(
                    "fio", f"`{option}` is a key of the workload itself: write `{option}:` there, outside of `fio:`"
                )

    def span(self, capacity: int) -> int:
        """Bytes of a raw device that one job goes over."""
        return capacity if self.size is None else bytes_of(self.size, capacity)

    def fileset(self, capacity: int) -> FileSet:
        """The files it works on in a file system. A share is one of the whole, for all jobs together."""
        share = capacity // self.numjobs
        size = _told("50%", min(2 * DEFAULT_SIZE // self.numjobs, share))
        if self.size is not None:
            size = _told(self.size, share)
        if self.file_size is None:
            count = self.files or 1
            return FileSet(self.numjobs, count, size // count)
        each = _told(self.file_size, share)
        told = 1 if self.size is None else -(-size // each)
        return FileSet(self.numjobs, self.files or told, each)

    def files_too_large(self, capacity: int) -> str:
        """Why its files cannot be in a file system of at least `capacity` bytes; empty if they can."""
        files = self.fileset(capacity)
        if files.each < self.bs:
            return f"files of {format_size(files.each)} do not hold one block of {format_size(self.bs)}"
        if files.total <= capacity:
            return ""
        many = (
            f"{files.jobs * files.count} files of {format_size(files.each)}" if files.jobs * files.count > 1 else "it"
        )
        needed, free = (format_size(size >> 20 << 20) for size in (files.total + 2**20 - 1, capacity))
        return f"{many} would take {needed}; only {free} are sure to be free"

    def too_large(self, capacity: int) -> str:
        """Why it cannot fit on a device of at most `capacity` bytes; empty if it can."""
        size = self.size if isinstance(self.size, int) else self.bs
        offset = self.offset if isinstance(self.offset, int) else 0
        if size + offset <= capacity:
            return ""
        return f"{format_size(size + offset)} are needed, and there are at most {format_size(capacity)}"


def _told(length: int | str, share: int) -> int:
    """Bytes as they are; of a share whole pages."""
    size = bytes_of(length, share)
    return size if isinstance(length, int) else size // 4096 * 4096
