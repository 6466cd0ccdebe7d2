"""The variants of plain workloads of fio, also those that imitate a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from matrix_runner.base.axes import constructed
from matrix_runner.base.findings import drop_idle, place_of
from matrix_runner.base.variants import Choice, Coords, Variant, choices, texts
from matrix_runner.work.fio.presets import PRESETS, no_phase, problems_of, values_of
from matrix_runner.work.fio.workload import FioWorkload

if TYPE_CHECKING:
    from matrix_runner.layers import Problem
    from matrix_runner.work.workload import Workload, Written

#: Seen with fio 3.33 on a loop device. psync does not do this.
_CLEARED = "before mmap writes to a device, fio overwrites the whole region of the job with zeros, in every trial"


def variants(written: Written, *, in_files: bool) -> Iterator[Variant[Workload]]:
    for declared in declared_in(written.axes):
        if declared.amiss:
            place = place_of(written.path, declared.choice, "phase")
            written.findings.flaw_of(declared.coords(written.name), place, declared.amiss)
        elif in_files or not declared.not_on_devices:
            yield from _variant(written, declared, in_files=in_files)


def _variant(written: Written, declared: Declared, *, in_files: bool) -> Iterator[Variant[Workload]]:
    values, _ = declared.meant(in_files=in_files)
    idle = FioWorkload.foreign(values, in_files=in_files)
    values = {key: value for key, value in values.items() if key not in idle}
    workload = constructed(FioWorkload, values)
    if not declared.preset:  # a program has no default runtime: it ends when its work is done
        workload = workload.settled()
    fields = texts(workload, [key for key in values if key in declared.shown])
    coords = (*declared.coords(written.name), *((f"workload.{field}", text) for field, text in fields.items()))
    problems = [*declared.problems()] or [*workload.problems(), *workload.slow_problems(written.slow)]
    written.report(problems, coords, declared.choice)
    if not problems:
        if not in_files and workload.ioengine == "mmap" and workload.rw not in {"read", "randread"}:
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
