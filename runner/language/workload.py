"""What fio does to the top of a layout."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from runner.base.model import Model
from runner.base.quantities import format_in_unit, format_size, resolve_memory, resolve_share
from runner.base.units import Extent, Length, Size, Time
from runner.language.files import DEFAULT_SIZE, FileSet
from runner.language.fio_options import OpenValue, refused
from runner.language.steady import Steady
from runner.layers import Problem

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


def _aliases(value: object) -> object:
    if isinstance(value, str) and ":" in value:
        # fio's suffix: for sequential work how much is skipped, for random work how many requests share an offset.
        kind, _, skipped = value.partition(":")
        if kind.startswith("rand"):
            raise ValueError(f"every request of random work has an offset of its own; write {kind}")
        raise ValueError(f"write rw: {kind}, skip: {_in_words(skipped)}")
    return {"readwrite": "rw"}.get(value, value) if isinstance(value, str) else value


def _in_words(skipped: str) -> str:
    """fio's `64k` as it is written here."""
    match = re.fullmatch(r"(\d+)([kmg]?)(i?b)?", skipped.strip().lower())
    return format_size(int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2]]) if match else "64KiB"


def _engine(value: object) -> object:
    name = value.partition(":")[0] if isinstance(value, str) else ""
    if name in NOT_ENGINES:
        raise ValueError(f"this engine of fio's {NOT_ENGINES[name]}; there are {', '.join(get_args(Engine))}")
    return value


#: At so many places, evenly apart, a profile over positions tells a rate.
POINTS = 100
#: fio logs every request of it, in memory.
MOST_LOGGED = 1_000_000
#: The seconds over which a profile over time averages, and those of work that lasts less than ten times as long.
COURSE, SHORT_COURSE = 1.0, 0.1


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
    shared: Annotated[bool, Field(description="in a file system: all jobs work on one file, none on its own")] = False
    new: Annotated[
        bool, Field(description="in a file system: the files are made by what is written; else they are there before")
    ] = False
    offset: Annotated[Extent, Field(description="where that part begins")] = 0
    skip: Annotated[
        Size, Field(description="sequential work: so much is left out behind every request (fio's rw=read:64k)")
    ] = 0
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
    fsync: Annotated[int, Field(ge=0, le=2**31 - 1, description="an fsync after so many writes; 0: never")] = 0
    profile: Annotated[
        Literal["position", "time"] | None,
        Field(description="also keep the course of the rate: over the device, which is gone over once, or over time"),
    ] = None
    each: Annotated[
        Size | None,
        Field(
            gt=0, description=f"of a profile over positions: at {POINTS} places so much each; everything if not given"
        ),
    ] = None
    steady: Annotated[
        Steady | None, Field(description="work ends once its rate is steady, `runtime` or `size` are the limit")
    ] = None
    fio: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], OpenValue] = Field(
        default_factory=dict, description="any other fio option, by fio's own name"
    )

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """Fields that mean nothing for these values, and why."""
        idle: dict[str, str] = {}
        if values["rw"] not in MIXED:
            idle["rwmixread"] = f"rw={values['rw']} does not mix reads and writes"
        if str(values["rw"]).startswith("rand"):
            idle["skip"] = f"rw={values['rw']} goes from one place to another anyway"
        if values.get("profile") != "position":
            idle["each"] = "only a profile over positions has places"
        if values.get("numjobs") == 1:
            idle["shared"] = "there is one job"
        if (why := _needs_files(values)) is not None:
            idle["new"] = why
        if values.get("ioengine") in SYNCHRONOUS:
            idle["iodepth"] = f"ioengine={values['ioengine']} has one request under way"
        return idle

    @staticmethod
    def idle_on_devices(values: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG004 - answers as its sibling does
        """Fields that mean nothing on a raw device, and why."""
        return dict.fromkeys(("files", "file_size", "shared", "new"), "there are no files on a raw device")

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
        told = {name: resolve_memory(size, memory) for name, size in sizes.items() if size is not None}
        return self.model_copy(update=told) if told else self

    def settled(self) -> Workload:
        """With the run time filled in where it was left open (None stays where a size decides)."""
        ends = (self.runtime, self.size, self.file_size)
        open_ended = ends == (None, None, None) and self.profile != "position"
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
        if self.direct and self.skip % 512:
            yield Problem("skip", "direct I/O goes in whole sectors of 512 bytes")
        if self.direct and self.ioengine == "mmap":
            yield Problem("ioengine", "mmap always goes through memory; write `direct: false` with it")
        if self.profile == "position":
            yield from self._profile_problems()
        if self.steady:
            yield from self.steady.problems(self.runtime, self.profile, self.fio)
        yield from self._option_problems()
        if isinstance(self.offset, str):
            yield from self._share_problems(_share(self.offset))

    def _option_problems(self) -> Iterator[Problem]:
        """What is not for the map of fio's own options."""
        for option, value in self.fio.items():
            if self.runtime is None and option.startswith(("rate", "thinktime")):
                yield Problem(
                    f"fio.{option}", f"nobody can tell when it ends with `{option}` and no `runtime:`; give both"
                )
            if (why := misplaced(option, value)) is not None:
                yield Problem(f"fio.{option}", why)
            elif self.each is not None and option.startswith("zone"):
                yield Problem(f"fio.{option}", f"`{option}` and `each:` both say where places are; write one of them")

    def _profile_problems(self) -> Iterator[Problem]:
        """What has no place after the other."""
        if self.rw not in {"read", "write"}:
            yield Problem("profile", f"a profile over positions is read or written in order, which rw={self.rw} is not")
        if self.numjobs > 1:
            yield Problem("numjobs", "a profile over positions is of one job: several are at several places")
        if self.runtime is not None or self.ramp:
            field = "runtime" if self.runtime is not None else "ramp"
            yield Problem(field, "a profile over positions ends when it has gone over all of them")
        if self.each is not None and (self.each % self.bs or self.each < 2 * self.bs):
            yield Problem("each", f"not several times bs, {format_size(self.bs)}")

    def _share_problems(self, offset: Fraction) -> Iterator[Problem]:
        """Shares that cannot be on a device of any size."""
        left = f"{float(1 - offset) * 100:g}%"
        if offset == 1:
            yield Problem("offset", f"nothing of a device is left behind {self.offset} of it")
        elif isinstance(self.size, str) and self.size.endswith("%") and offset + _share(self.size) > 1:
            yield Problem(
                "size", f"{self.size} behind an offset of {self.offset}, where {left} are left; at most {left}"
            )

    def span(self, capacity: int, devices: int = 1) -> int:
        """Bytes of raw devices that one job goes over; `capacity` is what they have together."""
        if self.size is None:
            return capacity - devices * resolve_share(self.offset, capacity // devices)  # on each of them
        return resolve_share(self.size, capacity)

    def touched(self, span: int) -> int:
        """Bytes that are read or written when so many are gone over once."""
        if self.each is not None:
            return self.each * max(1, span // self.window(span))
        once = span * self.bs // (self.bs + self.skip)
        most = self.fio.get("number_ios")
        return min(once, most * self.bs) if isinstance(most, int) else once

    def _log_problem(self, span: int) -> Problem | None:
        """More requests than can be logged."""
        count = self.touched(span) // self.bs
        if self.each is not None and self.each > span:
            return Problem("each", f"more than the {format_size(span)} that are gone over")
        if self.profile != "position" or count <= MOST_LOGGED:
            return None
        told = f"{count:,} requests of {format_size(self.bs)} are more than can be logged, {MOST_LOGGED:,}"
        return Problem("profile", f"{told}: write a larger `bs`, or with `each` how much is enough at each place")

    def window(self, span: int) -> int:
        """How far the places of a profile are from each other."""
        return max(-(-span // (POINTS * self.bs)) * self.bs, self.each or 0)

    @property
    def course(self) -> float:
        """Seconds over which a profile over time averages."""
        return SHORT_COURSE if self.runtime is not None and self.runtime < 10 * COURSE else COURSE

    def _problem_over(self, span: int) -> Problem | None:
        """What cannot be with so many bytes to go over: too much to log, or holes as large as all of it."""
        if (logged := self._log_problem(span)) is not None:
            return logged
        if not self.skip or 2 * self.bs + self.skip <= span:
            return None
        step = f"{format_size(self.skip)} behind requests of {format_size(self.bs)}"
        return Problem("skip", f"{step} lead beyond the {format_size(span)} that are gone over")

    def fileset(self, capacity: int) -> FileSet:
        """The files it works on in a file system. A share is one of the whole, for all jobs together."""
        sets = 1 if self.shared else self.numjobs
        share = capacity // sets
        size = _told("50%", min(2 * DEFAULT_SIZE // sets, share))
        if self.size is not None:
            size = _told(self.size, share)
        if self.file_size is None:
            count = self.files or 1
            return FileSet(sets, count, size // count)
        each = _told(self.file_size, share)
        told = 1 if self.size is None else -(-size // each)
        return FileSet(sets, self.files or told, each)

    def files_misfit(self, capacity: int) -> Problem | None:
        """Why its files cannot be in a file system of at least `capacity` bytes; None if they can."""
        files = self.fileset(capacity)
        if self.profile == "position" and files.count > 1:
            return Problem("profile", f"its positions are those of one file, and there are {files.count}")
        if self.shared and files.count > 1:
            return Problem("shared", f"jobs share one file, and there are {files.count}")
        field = "file_size" if self.file_size is not None else "files" if self.size is None and self.files else "size"
        if files.each < self.bs:
            return Problem(field, f"files of {format_size(files.each)} do not hold one block of {format_size(self.bs)}")
        if files.total <= capacity:
            return self._problem_over(files.each)
        count, each = files.jobs * files.count, format_size(files.each)
        # What somebody wrote in MB is not told in MiB.
        unit = "MiB" if each.endswith("iB") or each[-2:-1].isdigit() else "MB"
        needed, free = format_in_unit(files.total, unit, ceil), format_in_unit(capacity, unit, floor)
        many = f"{count} files of {each}" if count > 1 else "it"
        return Problem(field, f"{many} would take {needed}; only {free} are sure to be free")

    def unaligned(self, sector: int) -> Problem | None:
        """What a device of such sectors refuses where nothing lies between it and fio; None if it takes all."""
        if not self.direct:
            return None
        for field, extent in (("bs", self.bs), ("skip", self.skip), ("offset", self.offset)):
            if isinstance(extent, int) and extent % sector:
                told = f"direct I/O goes in whole sectors, which are {format_size(sector)} there"
                return Problem(field, f"{told}, and {format_size(extent)} is not")
        return None

    def misfit(self, capacity: int, devices: int) -> Problem | None:
        """Why it cannot be on devices of at most `capacity` bytes together; None if it can."""
        room = capacity // devices
        for field, extent in (("size", self.size), ("offset", self.offset)):
            if isinstance(extent, str) and _share(extent) * 100 % 1:
                return Problem(field, f"fio cuts {extent} of a device to whole per cents; write one, or a size")
        if self.profile == "position" and devices > 1:
            return Problem(
                "profile", "its positions are those of one device, and there are several: `pick` chooses one"
            )
        if self.size is not None and resolve_share(self.size, capacity) < self.bs:
            return Problem("size", f"{_shown(self.size)} does not hold one block of {format_size(self.bs)}")
        each = "" if devices == 1 else f" on each of {devices} devices"
        offset = resolve_share(self.offset, room)
        size = self.bs if self.size is None else resolve_share(self.size, capacity) // devices
        if offset + size <= room:
            return self._problem_over(room - offset if self.size is None else size)
        field = "offset" if self.size is None else "size"
        needed = self.size if isinstance(self.size, str) else format_size(size)
        if not offset:
            return Problem(field, f"{needed} are needed{each}, and there are at most {format_size(room)}{each}")
        end, there = format_in_unit(offset + size, "MiB", ceil), format_in_unit(room, "MiB", floor)
        told = f"{needed} behind an offset of {_shown(self.offset)} end at {end}"
        return Problem(field, f"{told}, and there are at most {there}{each}")


def _needs_files(values: Mapping[str, Any]) -> str | None:
    """Why work with these values cannot make its files; None if it can."""
    if values["rw"] != "write":
        return f"rw={values['rw']} needs files that are there"
    if values.get("ioengine") == "mmap":
        return "ioengine=mmap maps files that are there"
    if values.get("shared") and values.get("numjobs") != 1:
        return "jobs that share one file write over each other's"
    return None


def _share(percent: str) -> Fraction:
    """An exact one: what is written as 33.3% and 66.7% is the whole."""
    return Fraction(percent.removesuffix("%")) / 100


def _shown(extent: int | str) -> str:
    return extent if isinstance(extent, str) else format_size(extent)


def _told(length: int | str, share: int) -> int:
    """Bytes as they are; of a share whole pages."""
    size = resolve_share(length, share)
    return size if isinstance(length, int) else size // 4096 * 4096


def misplaced(option: str, value: object) -> str | None:
    """Why an option is not for the `fio:` map of any workload; None if it is."""
    if option in Workload.model_fields and refused(option, value) is None:
        return f"`{option}` is a key of the workload itself: write `{option}:` there, outside of `fio:`"
    return refused(option, value)
