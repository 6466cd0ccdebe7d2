"""The variants of workloads: on raw devices, and in file systems, where other keys mean something."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.language.axes import constructed, written
from runner.language.presets import PRESETS, no_phase, problems_of, values_of
from runner.language.workload import Workload
from runner.language.yaml_source import Flaw
from runner.space.layouts import Findings, place_of, report_idle, top_of, without_idle
from runner.space.notes import Note
from runner.space.variants import Choice, Coords, Variant, choices, collapsed, digest, label_of, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from runner.language.matrix import Matrix
    from runner.layers import Problem
    from runner.space.layouts import Stack

    Stacks = tuple[Variant[Stack], ...]


def in_files(stack: Stack, matrix: Matrix) -> bool:
    """Whether work on a stack is work on files."""
    return any(shape.files for shape in top_of(stack, matrix))


#: Seen with fio 3.33 on a loop device; psync leaves what it does not write as it is.
_CLEARED = "before mmap writes on a device, fio writes zeros over all that the job may reach, in every trial"


class Workloads:
    """The workloads of each stack, computed once for raw devices and once for file systems."""

    def __init__(self, matrix: Matrix, stacks: Stacks, findings: Findings) -> None:
        self._matrix, self._findings = matrix, findings
        self._by_kind: dict[bool, list[Variant[Stack]]] = {}
        for stack in stacks:
            self._by_kind.setdefault(in_files(stack.value, matrix), []).append(stack)
        kinds = list(self._by_kind) or [False]
        self._known = {kind: collapsed(self._all(kind)) for kind in kinds}
        for name in matrix.workloads:
            self._report(name)

    @classmethod
    def of_kind(cls, matrix: Matrix, *, in_files: bool) -> tuple[Variant[Workload], ...]:
        """The workloads of a matrix on devices or in files, whatever its stacks are."""
        return tuple(cls(matrix, (), Findings())._all(in_files))

    def of(self, stack: Variant[Stack]) -> tuple[Variant[Workload], ...]:
        """The variants for a stack."""
        return self._known[in_files(stack.value, self._matrix)]

    @property
    def every(self) -> tuple[tuple[Variant[Workload], bool], ...]:
        """All of them, with whether they work on files."""
        return tuple((workload, kind) for kind, workloads in self._known.items() for workload in workloads)

    def _all(self, kind: bool) -> Iterator[Variant[Workload]]:
        for name in self._matrix.workloads:
            yield from self._variants(name, kind)

    def _variants(self, name: str, kind: bool) -> Iterator[Variant[Workload]]:
        for told in _told(written(self._matrix.workloads[name])):
            if told.amiss:
                self._findings.flaw_of(
                    told.coords(name), place_of(("workloads", name), told.choice, "phase"), told.amiss
                )
            elif kind or not told.not_on_devices:
                yield from self._variant(name, told, kind)

    def _variant(self, name: str, told: _Told, kind: bool) -> Iterator[Variant[Workload]]:
        values, _ = told.meant(in_files=kind)
        idle = _foreign(kind)(values)
        values = {key: value for key, value in values.items() if key not in idle}
        workload = constructed(Workload, values)
        if not told.preset:  # a program ends when it is through
            workload = workload.settled()
        coords = (*told.coords(name), *_coords(workload, [key for key in values if key in told.shown]))
        if not self._flawed(name, coords, told, workload):
            if not kind and workload.ioengine == "mmap" and workload.rw not in {"read", "randread"}:
                self._mention(Note(f"workload {name}: {_CLEARED}"))
            label = "/".join(filter(None, (name, label_of(coords, told.several))))
            sized = workload.on(self._matrix.machine.memory)
            yield Variant(sized, coords, label, digest(sized.model_dump(mode="json", exclude_defaults=True)))

    def _mention(self, note: Note) -> None:
        if note not in self._findings.notes:
            self._findings.notes.append(note)

    def _flawed(self, name: str, coords: Coords, told: _Told, workload: Workload) -> bool:
        problems = [*told.problems()] or [*workload.problems()]
        for problem in problems:
            place = place_of(("workloads", name), told.choice, problem.field)
            self._findings.flaw_of(coords, place, problem.message)
        return bool(problems)

    def _report(self, name: str) -> None:
        """Keys that mean nothing anywhere are errors, those that mean nothing somewhere are worth a word."""
        axes = written(self._matrix.workloads[name])
        told = [one for one in _told(axes) if not one.amiss]
        idle = [_named(one.meant(in_files=False)[1], axes) for one in told]
        report_idle(("workloads", name), axes, idle, self._findings, Note(f"workload {name}"))
        self._report_lacking(name, [one for one in told if one.not_on_devices])
        for kind in (False, True):
            if stacks := self._by_kind.get(kind):
                seen = [one.meant(in_files=kind) for one in told]
                self._report_foreign(name, _always(axes, [_foreign(kind)(values) for values, _ in seen]), stacks)

    def _report_lacking(self, name: str, told: list[_Told]) -> None:
        """Phases of programs that work on files alone, where there are devices."""
        for phase, why in {one.phase: one.not_on_devices for one in told}.items():
            if True not in self._by_kind:
                path = ("workloads", name, "phase" if "phase" in written(self._matrix.workloads[name]) else "preset")
                self._findings.unused.append(Flaw(path, f"no layout here has files for phase={phase}: {why}"))
            elif where := tuple(dict(stack.coords)["layout"] for stack in self._by_kind.get(False, ())):
                self._findings.notes.append(Note(f"workload {name}: no phase={phase} for ", where, f": {why}"))

    def _report_foreign(self, name: str, idle: Mapping[str, str], stacks: list[Variant[Stack]]) -> None:
        for axis, why in idle.items():
            if len(self._by_kind) == 1:
                self._findings.unused.append(Flaw(("workloads", name, axis), f"nothing uses '{axis}': {why}"))
            else:
                where = tuple(dict(stack.coords)["layout"] for stack in stacks)
                self._findings.notes.append(Note(f"workload {name}: {axis} is no axis for ", where, f": {why}"))


def _foreign(kind: bool) -> Callable[[Mapping[str, Any]], dict[str, str]]:
    """What tells which keys mean nothing where work is done."""
    return Workload.idle_on_files if kind else Workload.idle_on_devices


def _coords(workload: Workload, fields: Iterable[str]) -> Coords:
    return tuple((f"workload.{field}", text) for field, text in texts(workload, fields).items())


def _named(idle: Mapping[str, str], axes: Iterable[str]) -> dict[str, str]:
    """What a preset says besides need mean nothing to anybody."""
    return {name: why for name, why in idle.items() if name in axes}


@dataclass(frozen=True, slots=True)
class _Told:
    """One choice of what was written of a workload, and the program that says the rest, if it is one."""

    choice: Choice
    #: Those axes of which there are several values.
    several: tuple[str, ...]
    preset: str = ""
    phase: str = ""
    #: Why there is nothing of the sort.
    amiss: str = ""

    @property
    def not_on_devices(self) -> str:
        """Why it cannot be where there are no files; empty if it can."""
        return PRESETS[self.preset].phases[self.phase].not_on_devices if self.preset and not self.amiss else ""

    @property
    def shown(self) -> frozenset[str]:
        """The fields that it has as axes: those that were written, and of a program what it does, and how large."""
        return frozenset({*self.choice.values, *(("rw", "bs", "size") if self.preset else ())})

    @property
    def _values(self) -> dict[str, Any]:
        return {name: value for name, value in self.choice.values.items() if name not in {"preset", "phase"}}

    def meant(self, *, in_files: bool) -> tuple[dict[str, Any], dict[str, str]]:
        """The values that mean something, with what was left open to a program; and why the others do not."""
        if not self.preset:
            return without_idle(Workload, self.choice)
        filled = values_of(self.preset, self.phase, self._values, in_files=in_files)
        values, idle = without_idle(Workload, replace(self.choice, values=filled))
        idle |= PRESETS[self.preset].phases[self.phase].idle
        return {name: value for name, value in values.items() if name not in idle}, idle

    def problems(self) -> Iterator[Problem]:
        """What the program does not do."""
        if self.preset:
            yield from problems_of(self.preset, self.phase, self._values)

    def coords(self, name: str) -> Coords:
        """The name of the workload, and which program it is."""
        program = (("workload.preset", self.preset), ("workload.phase", self.phase))
        return (("workload", name), *((axis, text) for axis, text in program if text))


def _told(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[_Told]:
    """Every choice of what was written; of a program whose phases nobody named, one for each."""
    presets = axes.get("preset", ())
    for place, preset in enumerate(presets):
        meant = {"preset": (preset,), "phase": axes.get("phase", PRESETS[preset].meant)}
        for one in _choices({**meant, **{name: values for name, values in axes.items() if name not in meant}}):
            several = (*(("workload.preset",) if len(presets) > 1 else ()), *one.several)
            choice = replace(one.choice, places={**one.choice.places, "preset": place if len(presets) > 1 else None})
            phase = str(choice.values["phase"])
            yield _Told(choice, several, preset, phase, no_phase(preset, phase) if "phase" in axes else "")
    if not presets:
        alone = "nothing uses 'phase': phases are those of a `preset`" if "phase" in axes else ""
        yield from (replace(one, amiss=alone) for one in _choices(axes))


def _choices(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[_Told]:
    several = tuple(f"workload.{axis}" for axis, values in axes.items() if len(values) > 1)
    return (_Told(choice, several) for choice in choices(axes))


def _always(axes: Iterable[str], said: list[dict[str, str]]) -> dict[str, str]:
    """Those axes that mean nothing whatever the others are."""
    return {axis: said[0][axis] for axis in axes if said and all(axis in one for one in said)}
