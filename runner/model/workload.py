"""What fio does to the top of a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from runner.model.base import Model
from runner.model.layers import Problem
from runner.model.units import Extent, Size, Time, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_RUNTIME = 10.0
#: Engines that have one request under way, whatever `iodepth` says.
SYNCHRONOUS = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"})
MIXED = frozenset({"rw", "randrw"})

#: fio options that `matrix` writes itself, and what to use instead.
OWNED = {
    "filename": "the top of the layout is what fio works on",
    "directory": "the top of the layout is what fio works on",
    "readwrite": "write `rw:`",
    "blocksize": "write `bs:`",
    "ramp_time": "write `ramp:`",
    "time_based": "a workload with `runtime:` is time based",
    "randseed": "`seed:` at the top of the matrix decides it, another one for every trial",
    "output": "results are collected by matrix",
    "output-format": "results are collected by matrix",
    "group_reporting": "results are collected by matrix",
    "write_bw_log": "results are collected by matrix",
    "allow_file_create": "fio must never make a file where a device should be",
    "exec_prerun": "commands do not belong in a workload",
    "exec_postrun": "commands do not belong in a workload",
}


def _open_value(value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("a fio option has one value: a text, a number, true or false")  # noqa: TRY004 - pydantic's way
    if isinstance(value, str) and any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise ValueError("control characters and line breaks cannot be written into a fio job")
    return value


def _aliases(value: object) -> object:
    return {"readwrite": "rw"}.get(value, value) if isinstance(value, str) else value


OpenValue = Annotated[bool | int | float | str, BeforeValidator(_open_value)]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/+-]+$")]


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
    size: Annotated[Extent | None, Field(description="how much of the device is used; all of it if not given")] = None
    offset: Annotated[Extent, Field(description="where that part begins")] = 0
    runtime: Annotated[
        Annotated[Time, Field(ge=0.001)] | None,
        Field(description="10s if neither this nor `size` is given; without it, `size` is gone over once"),
    ] = None
    ramp: Annotated[Time, Field(description="time at the start that does not count")] = 0.0
    ioengine: Word = "libaio"
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

    def settled(self) -> Workload:
        """With the run time filled in where it was left open (None stays where `size` decides)."""
        open_ended = self.runtime is None and self.size is None
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
        for option in self.fio:
            if option in OWNED:
                yield Problem("fio", f"`{option}` is not for the fio: map: {OWNED[option]}")
            elif option in type(self).model_fields:
                yield Problem(
                    "fio", f"`{option}` is a key of the workload itself: write `{option}:` there, outside of `fio:`"
                )

    def too_large(self, capacity: int) -> str:
        """Why it cannot fit on a device of at most `capacity` bytes; empty if it can."""
        size = self.size if isinstance(self.size, int) else self.bs
        offset = self.offset if isinstance(self.offset, int) else 0
        if size + offset <= capacity:
            return ""
        return f"{format_size(size + offset)} are needed, and there are at most {format_size(capacity)}"
