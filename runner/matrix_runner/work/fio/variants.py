"""The variants of plain workloads of fio, and presets: the I/O of dd, IOzone and bonnie++ as fio workloads.

A preset has default values for the fields that a workload leaves open. Its job sends the same requests to the disks as
the program; `tests/scripts/test_presets_by_trace.py` compares both. All of these programs send one request after the
other, through the page cache, without a hint to the kernel about the next ones (fio gives one unless `fadvise_hint` is
0, and the kernel then reads ahead twice as far, or not at all).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import Field

from matrix_runner.base.findings import drop_idle, place_of
from matrix_runner.base.model import Choice, Coords, Model, Variant, choices, constructed, texts
from matrix_runner.layers import Problem
from matrix_runner.work.fio.workload import FioWorkload
from matrix_runner.work.workload import Workload, Written

Values = dict[str, Any]  # values by field name, as `written` returns them
MIB = 1 << 20
_LIKE_A_PROGRAM: Values = {"ioengine": "psync", "direct": False, "fio.fadvise_hint": 0}
_FLUSHED: Values = {"fio.end_fsync": 1}  # the time to write out the page cache at the end counts
_ONE_AT_A_TIME = ("psync", "sync")


@dataclass(frozen=True, slots=True)
class Phase:
    #: The values that define the step, the default first. Other values would make it another program.
    only: Mapping[str, tuple[Any, ...]]
    usual: Values  # defaults
    on_devices: Values = field(default_factory=dict)  # more defaults on a device
    #: Number of requests of all jobs together, if it ends neither by size nor by time; 0: one pass over the region.
    requests: int = 0
    not_on_devices: str = ""  # why it cannot run on a device; empty if it can
    #: Fields without effect in this step although they have one in the same work without the preset, and why.
    idle: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preset:
    program: str
    phases: Mapping[str, Phase]
    meant: tuple[str, ...]


_AGAIN = {"new": "phase=rewrite uses existing files"}  # `new` never applies: the files exist


def _dd(rw: str, more: Values, *, on_devices: Values) -> Preset:
    only = {"rw": (rw,), "ioengine": _ONE_AT_A_TIME, "numjobs": (1,), "skip": (0,)}
    return Preset("dd", {"": Phase(only, {**_LIKE_A_PROGRAM, "bs": MIB, **more}, on_devices)}, ("",))


def _iozone(rw: str, more: Values, idle: Mapping[str, str] | None = None) -> Phase:
    only = {"rw": (rw,), "ioengine": _ONE_AT_A_TIME, "skip": (0,)}
    return Phase(only, {**_LIKE_A_PROGRAM, "bs": 4096, **more}, idle=idle or {})


def _bonnie(rw: str, more: Values) -> Phase:
    only = {"rw": (rw,), "ioengine": _ONE_AT_A_TIME, "numjobs": (1,), "skip": (0,)}
    return Phase(only, {**_LIKE_A_PROGRAM, "bs": 8192, "size": "2x memory", **more})


#: Read every block and write it back in place. fio's own mixture tosses a coin for every request, and ends when half of
#: the file is read and half of it is written. Through mmap each block is read before it is written: the whole file, by
#: one job, in order. On a device fio would first clear the mapped region (MADV_REMOVE).
_REWRITTEN = Phase(
    {"rw": ("write",), "ioengine": ("mmap",), "direct": (False,), "numjobs": (1,), "skip": (0,)},
    {"fio.fadvise_hint": 0, "bs": 8192, "size": "2x memory", **_FLUSHED},
    not_on_devices="fio can rewrite like bonnie++ only in files",
    idle=_AGAIN,
)
_SEEKS, _SEEKERS = 8192, 5
_READ_SHARE = 91  # bonnie++ writes every tenth block back: one in eleven requests


#: Several processes read random blocks of one file.
_SOUGHT = Phase(
    {"rw": ("randrw",), "ioengine": _ONE_AT_A_TIME, "rwmixread": (_READ_SHARE,), "shared": (True,)},
    {**_LIKE_A_PROGRAM, "bs": 8192, "size": "2x memory", "numjobs": _SEEKERS, "fio.norandommap": 1},
    requests=_SEEKS * 11 // 10,
)

PRESETS: dict[str, Preset] = {
    "dd-read": _dd("read", {}, on_devices={}),
    # zero_buffers: dd reads /dev/zero. Closing a device waits until all data is on it; a file may still be in the page
    # cache when dd ends, so only devices are flushed.
    "dd-write": _dd("write", {"fio.zero_buffers": 1}, on_devices=_FLUSHED),
    "iozone": Preset(
        "IOzone",
        {
            "write": _iozone("write", _FLUSHED),
            "rewrite": _iozone("write", _FLUSHED, _AGAIN),
            "read": _iozone("read", {}),
            # pre_read fills the page cache, as the read before does in IOzone.
            "reread": _iozone("read", {"fio.pre_read": 1}),
            "randread": _iozone("randread", {}),
            "randwrite": _iozone("randwrite", _FLUSHED),
        },
        ("write", "read", "randread", "randwrite"),  # -i 0 -i 1 -i 2 -+n
    ),
    "bonnie": Preset(
        "bonnie++",
        {"write": _bonnie("write", _FLUSHED), "rewrite": _REWRITTEN, "read": _bonnie("read", {}), "seeks": _SOUGHT},
        ("write", "rewrite", "read", "seeks"),
    ),
}
#: Why a field cannot have another value: `PROGRAM ...`.
_WHYS = {
    "numjobs": "is one process",
    "ioengine": "makes one system call after the other",
    "skip": "skips no blocks",
    "direct": "rewrites through the page cache; fio has no other way",
    "rwmixread": "writes back every tenth block that it has read",
    "shared": "seeks in one file",
}


def values_of(preset: str, phase: str, given: Values, *, in_files: bool) -> Values:
    part = PRESETS[preset].phases[phase]
    usual = {**{name: values[0] for name, values in part.only.items()}, **part.usual}
    if not in_files:
        usual |= part.on_devices
    if part.requests and "runtime" not in given:
        usual["fio.number_ios"] = -(-part.requests // {**usual, **given}["numjobs"])
    return {**usual, **given}


def problems_of(preset: str, phase: str, given: Values) -> Iterator[Problem]:
    for name, allowed in PRESETS[preset].phases[phase].only.items():
        if name in given and given[name] not in allowed:
            yield Problem(name, _lie(preset, name, given[name]))


def _lie(preset: str, name: str, value: Any) -> str:
    program = PRESETS[preset].program
    shown = str(value).lower() if isinstance(value, bool) else value
    if name != "rw":
        return f"'{shown}': {program} {_WHYS[name]}; remove `{name}`, or remove `preset`"
    what = "not what" if len(PRESETS[preset].meant) == 1 else "not all that"
    return f"'{shown}' is {what} {preset} does; {_instead(preset, value)}"


def _instead(preset: str, rw: str) -> str:
    known = PRESETS[preset]
    for phase, part in known.phases.items():
        if phase and rw in part.only["rw"]:
            return f"did you mean `phase: {phase}`?"
    for other, one in PRESETS.items():
        if one.program == known.program and other != preset and rw in one.phases[one.meant[0]].only["rw"]:
            return f"did you mean `preset: {other}`?"
    return "remove `rw`, or remove `preset`"


def no_phase(preset: str, phase: str) -> str:
    phases = [name for name in PRESETS[preset].phases if name]
    if not phases:
        return f"'{phase}': {preset} has no phases; remove `phase`"
    return "" if phase in phases else f"'{phase}' is not a phase of {preset}; its phases are {', '.join(phases)}"


class Program(Model):
    """The program that fills in the fields of a workload."""

    preset: (
        Literal["dd-read", "dd-write", "iozone", "bonnie", "snia-iops", "snia-throughput", "snia-latency", "snia-wsat"]
        | None
    ) = Field(
        None,
        description="a program to imitate: its I/O gives the keys that you leave out. Or a test of SNIA's "
        "Performance Test Specification",
    )
    phase: Literal["write", "rewrite", "read", "reread", "randread", "randwrite", "seeks"] | None = Field(
        None,
        description="one phase of the program; all phases of `iozone -i 0 -i 1 -i 2 -+n` or `bonnie++ -f` if not given",
    )


#: Seen with fio 3.33 on a loop device. psync does not do this.
_CLEARED = "before mmap writes to a device, fio overwrites the whole region of the job with zeros, in every trial"


def variants(written: Written) -> Iterator[Variant[Workload]]:
    for declared in declared_in(written.axes):
        if declared.amiss:
            place = place_of(written.path, declared.choice, "phase")
            written.findings.flaw_of(declared.coords(written.name), place, declared.amiss)
        elif written.in_files or not declared.not_on_devices:
            yield from _variant(written, declared)


def _variant(written: Written, declared: "Declared") -> Iterator[Variant[Workload]]:
    values, _ = declared.meant(in_files=written.in_files)
    idle = FioWorkload.foreign(values, in_files=written.in_files)
    values = {key: value for key, value in values.items() if key not in idle}
    workload = constructed(FioWorkload, values)
    if not declared.preset:  # a program has no default runtime: it ends when its work is done
        workload = workload.settled()
    fields = texts(workload, [key for key in values if key in declared.shown])
    coords = (*declared.coords(written.name), *((f"workload.{field}", text) for field, text in fields.items()))
    problems = [*declared.problems()] or [*workload.problems(), *workload.slow_problems(written.slow)]
    written.report(problems, coords, declared.choice)
    if not problems:
        if not written.in_files and workload.ioengine == "mmap" and workload.rw not in {"read", "randread"}:
            written.note(_CLEARED)
        yield written.variant(workload.on(written.memory), coords, declared.several)


@dataclass(frozen=True, slots=True)
class Declared:
    choice: Choice
    several: tuple[str, ...]  # axes with several values
    preset: str = ""
    phase: str = ""
    amiss: str = ""  # why this choice does not exist; empty if it does

    @property
    def not_on_devices(self) -> str:
        return PRESETS[self.preset].phases[self.phase].not_on_devices if self.preset and not self.amiss else ""

    @property
    def shown(self) -> frozenset[str]:
        return frozenset({*self.choice.values, *(("rw", "bs", "size") if self.preset else ())})

    @property
    def _values(self) -> dict[str, Any]:
        return {name: value for name, value in self.choice.values.items() if name not in {"preset", "phase"}}

    def meant(self, *, in_files: bool) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the values with an effect, including those of the preset; and why the others have no effect."""
        if not self.preset:
            return drop_idle(FioWorkload, self.choice)
        filled = values_of(self.preset, self.phase, self._values, in_files=in_files)
        values, idle = drop_idle(FioWorkload, replace(self.choice, values=filled))
        idle |= PRESETS[self.preset].phases[self.phase].idle
        return {name: value for name, value in values.items() if name not in idle}, idle

    def problems(self) -> Iterator[Problem]:
        if self.preset:
            yield from problems_of(self.preset, self.phase, self._values)

    def coords(self, name: str) -> Coords:
        program = (("workload.preset", self.preset), ("workload.phase", self.phase))
        return (("workload", name), *((axis, text) for axis, text in program if text))


def declared_in(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[Declared]:
    """Yield every choice of a workload. A preset without `phase` gives one for each of its phases."""
    presets = axes.get("preset", ())
    for place, preset in enumerate(presets):
        meant = {"preset": (preset,), "phase": axes.get("phase", PRESETS[preset].meant)}
        for one in _choices({**meant, **{name: values for name, values in axes.items() if name not in meant}}):
            several = (*(("workload.preset",) if len(presets) > 1 else ()), *one.several)
            choice = replace(one.choice, places={**one.choice.places, "preset": place if len(presets) > 1 else None})
            phase = str(choice.values["phase"])
            yield Declared(choice, several, preset, phase, no_phase(preset, phase) if "phase" in axes else "")
    if not presets:
        alone = "'phase' has no effect: it selects a phase of a `preset`" if "phase" in axes else ""
        yield from (replace(one, amiss=alone) for one in _choices(axes))


def _choices(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[Declared]:
    several = tuple(f"workload.{axis}" for axis, values in axes.items() if len(values) > 1)
    return (Declared(choice, several) for choice in choices(axes))
