"""What dd, IOzone and bonnie++ do, as workloads of fio: a table of values for whatever a workload leaves open.

At the disks a job from here does what the program does; `tests/scripts/test_presets_by_trace.py` holds both beside each
other. Common to all of them: one request after the other, through memory, without telling the kernel what will be read
(fio tells it, unless `fadvise_hint` is 0, and the kernel then reads ahead twice as far, or not at all).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, create_model
from pydantic_core import PydanticCustomError

from runner.base.model import Model
from runner.language.axes import as_written, axes_of
from runner.language.workload import Workload
from runner.layers import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: By the names that `written` gives to fields.
Values = dict[str, Any]
MIB = 1 << 20
_LIKE_A_PROGRAM: Values = {"ioengine": "psync", "direct": False, "fio.fadvise_hint": 0}
#: What is still in memory at the end is written out while the clock runs.
_FLUSHED: Values = {"fio.end_fsync": 1}
_ONE_AT_A_TIME = ("psync", "sync")


@dataclass(frozen=True, slots=True)
class Phase:
    """One thing that a program does."""

    #: What it is, the usual value first: any other would make the name a lie.
    only: Mapping[str, tuple[Any, ...]]
    #: What is so unless somebody writes something else.
    usual: Values
    #: What more is usual on a device.
    on_devices: Values = field(default_factory=dict)
    #: So many requests of all jobs together, where neither size nor time ends it; 0: it goes over everything once.
    requests: int = 0
    #: Why it cannot be on a device; empty if it can.
    not_on_devices: str = ""
    #: What means nothing for it, though it would for the same work under another name, and why.
    idle: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preset:
    """A program: its phases by name, and those that are meant if nobody names any."""

    program: str
    phases: Mapping[str, Phase]
    meant: tuple[str, ...]


#: Whatever is written beside it, it is no first time.
_AGAIN = {"new": "phase=rewrite goes over files that are there"}


def _dd(rw: str, more: Values, *, on_devices: Values) -> Preset:
    only = {"rw": (rw,), "ioengine": _ONE_AT_A_TIME, "numjobs": (1,), "skip": (0,)}
    return Preset("dd", {"": Phase(only, {**_LIKE_A_PROGRAM, "bs": MIB, **more}, on_devices)}, ("",))


def _iozone(rw: str, more: Values, idle: Mapping[str, str] | None = None) -> Phase:
    only = {"rw": (rw,), "ioengine": _ONE_AT_A_TIME, "skip": (0,)}
    return Phase(only, {**_LIKE_A_PROGRAM, "bs": 4096, **more}, idle=idle or {})


def _bonnie(rw: str, more: Values) -> Phase:
    only = {"rw": (rw,), "ioengine": _ONE_AT_A_TIME, "numjobs": (1,), "skip": (0,)}
    return Phase(only, {**_LIKE_A_PROGRAM, "bs": 8192, "size": "2x memory", **more})


def _rewritten() -> Phase:
    """Every block is read, and written back where it was.

    fio's own mixture tosses a coin for every request, and is through when half of the file is read and half of it is
    written. Through a map of the file each block is read before it is written: all of it, by one job, in order. Of a
    device fio would first clear (MADV_REMOVE) whatever it maps for writing.
    """
    only = {"rw": ("write",), "ioengine": ("mmap",), "direct": (False,), "numjobs": (1,), "skip": (0,)}
    usual = {"fio.fadvise_hint": 0, "bs": 8192, "size": "2x memory", **_FLUSHED}
    return Phase(only, usual, not_on_devices="fio can rewrite only files so, as bonnie++ does", idle=_AGAIN)


_SEEKS, _SEEKERS = 8192, 5
#: Every tenth block that was sought is written back: one in eleven requests.
_READ_SHARE = 91


def _sought() -> Phase:
    """So many processes look for blocks of one file, wherever they are."""
    only = {"rw": ("randrw",), "ioengine": _ONE_AT_A_TIME, "rwmixread": (_READ_SHARE,), "shared": (True,)}
    usual = {**_LIKE_A_PROGRAM, "bs": 8192, "size": "2x memory", "numjobs": _SEEKERS, "fio.norandommap": 1}
    return Phase(only, usual, requests=_SEEKS * 11 // 10)


PRESETS: dict[str, Preset] = {
    "dd-read": _dd("read", {}, on_devices={}),
    # It writes what /dev/zero reads as. The last to close a device waits until everything is on it; of a file most may
    # still be in memory when dd ends.
    "dd-write": _dd("write", {"fio.zero_buffers": 1}, on_devices=_FLUSHED),
    "iozone": Preset(
        "IOzone",
        {
            "write": _iozone("write", _FLUSHED),
            "rewrite": _iozone("write", _FLUSHED, _AGAIN),
            "read": _iozone("read", {}),
            # As much of what was just read is in memory as there is room for.
            "reread": _iozone("read", {"fio.pre_read": 1}),
            "randread": _iozone("randread", {}),
            "randwrite": _iozone("randwrite", _FLUSHED),
        },
        ("write", "read", "randread", "randwrite"),  # -i 0 -i 1 -i 2 -+n
    ),
    "bonnie": Preset(
        "bonnie++",
        {
            "write": _bonnie("write", _FLUSHED),
            "rewrite": _rewritten(),
            "read": _bonnie("read", {}),
            "seeks": _sought(),
        },
        ("write", "rewrite", "read", "seeks"),
    ),
}
#: Why a program does nothing else.
_WHYS = {
    "numjobs": "is one process",
    "ioengine": "makes one system call after the other",
    "skip": "leaves nothing out",
    "direct": "rewrites in memory here, as fio has no other way to do it",
    "rwmixread": "writes every tenth block back that it sought",
    "shared": "seeks in one file",
}


def values_of(preset: str, phase: str, told: Values, *, in_files: bool) -> Values:
    """What was told of a workload, and what its preset says of the rest."""
    part = PRESETS[preset].phases[phase]
    usual = {**{name: values[0] for name, values in part.only.items()}, **part.usual}
    if not in_files:
        usual |= part.on_devices
    if part.requests and "runtime" not in told:
        usual["fio.number_ios"] = -(-part.requests // {**usual, **told}["numjobs"])
    return {**usual, **told}


def problems_of(preset: str, phase: str, told: Values) -> Iterator[Problem]:
    """What was told that this program does not do."""
    for name, allowed in PRESETS[preset].phases[phase].only.items():
        if name in told and told[name] not in allowed:
            yield Problem(name, _lie(preset, name, told[name]))


def _lie(preset: str, name: str, value: Any) -> str:
    program = PRESETS[preset].program
    shown = str(value).lower() if isinstance(value, bool) else value
    if name != "rw":
        return f"'{shown}': {program} {_WHYS[name]}; leave `{name}` out, or write a workload without `preset`"
    what = "not what" if len(PRESETS[preset].meant) == 1 else "not all that"
    return f"'{shown}' is {what} {preset} does; {_instead(preset, value)}"


def _instead(preset: str, rw: str) -> str:
    """What somebody meant who wrote this `rw` beside a preset."""
    known = PRESETS[preset]
    for phase, part in known.phases.items():
        if phase and rw in part.only["rw"]:
            return f"did you mean `phase: {phase}`?"
    for other, one in PRESETS.items():
        if one.program == known.program and other != preset and rw in one.phases[one.meant[0]].only["rw"]:
            return f"did you mean `preset: {other}`?"
    return "leave `rw` out, or write a workload without `preset`"


def no_phase(preset: str, phase: str) -> str:
    """Why a program has no such phase; empty if it has."""
    phases = [name for name in PRESETS[preset].phases if name]
    if not phases:
        return f"'{phase}': {preset} does one thing; leave `phase` out"
    return "" if phase in phases else f"'{phase}' is none of {preset}'s phases: {', '.join(phases)}"


class Program(Model):
    """What a workload may say in the place of its fields."""

    preset: Annotated[
        Literal["dd-read", "dd-write", "iozone", "bonnie"] | None,
        Field(description="the I/O of a program: what is left open is as it does it"),
    ] = None
    phase: Annotated[
        Literal["write", "rewrite", "read", "reread", "randread", "randwrite", "seeks"] | None,
        Field(description="what of it; if not given, all that iozone -i 0 -i 1 -i 2 -+n or bonnie++ -f does"),
    ] = None


def _needed(value: Any, info: ValidationInfo) -> Any:
    """Without a preset nobody else says it. (A preset that is none is told of, and missed here.)"""
    if value is None and info.data.get("preset", "") is None:
        raise PydanticCustomError("missing", "Field required")
    return value


if TYPE_CHECKING:
    WorkloadAxes = Model
else:
    WorkloadAxes = create_model(
        "WorkloadAxes",
        # The last of them has its fields first: what `rw` has to be is known when it is looked at.
        __base__=(axes_of(Workload), axes_of(Program)),
        __doc__=Workload.__doc__,
        rw=(
            Annotated[as_written(Workload.model_fields["rw"]) | None, AfterValidator(_needed)],
            Field(default=None, validate_default=True),
        ),
    )
    WorkloadAxes.model_config = ConfigDict(
        **WorkloadAxes.model_config, json_schema_extra={"anyOf": [{"required": ["rw"]}, {"required": ["preset"]}]}
    )
