"""The variants of workloads, on raw devices and in file systems. Some keys have an effect on one of them only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from matrix_runner.base.axes import constructed
from matrix_runner.base.findings import Findings, Flaw, Note, drop_idle, place_of, report_idle
from matrix_runner.base.variants import Choice, Coords, Variant, choices, collapsed, digest, label_of, texts
from matrix_runner.language.find import find_problems, written_workload
from matrix_runner.simdisks.disk import slow_of
from matrix_runner.space.layouts import top_of
from matrix_runner.work.fio.presets import PRESETS, no_phase, problems_of, values_of
from matrix_runner.work.fio.workload import Workload
from matrix_runner.work.jobs.variants import JobVariants, has_jobs
from matrix_runner.work.pts.variants import PtsVariants, is_pts
from matrix_runner.work.replay.variants import ReplayVariants, is_replay
from matrix_runner.work.slow import FACTORS
from matrix_runner.work.sync.variants import RebuildVariants, is_rebuild

if TYPE_CHECKING:
    from matrix_runner.language.matrix import Matrix
    from matrix_runner.layers import Problem
    from matrix_runner.space.layouts import Layers

    Stacks = tuple[Variant[Layers], ...]


def in_files(stack: Layers, matrix: Matrix) -> bool:
    return any(shape.files for shape in top_of(stack, matrix))


#: Seen with fio 3.33 on a loop device. psync does not do this.
_CLEARED = "before mmap writes to a device, fio overwrites the whole region of the job with zeros, in every trial"


class Workloads:
    """The workloads of each stack, computed once for raw devices and once for file systems."""

    def __init__(self, matrix: Matrix, stacks: Stacks, findings: Findings) -> None:
        self._matrix, self._findings = matrix, findings
        self._slow = max(FACTORS) if matrix.chooses_slow else slow_of(matrix.every_disk())
        self._by_kind: dict[bool, list[Variant[Layers]]] = {}
        for stack in stacks:
            self._by_kind.setdefault(in_files(stack.value, matrix), []).append(stack)
        kinds = list(self._by_kind) or [False]
        self._known = {kind: collapsed(self._all(kind)) for kind in kinds}
        for name in matrix.workloads:
            self._report(name)
            self._check_search(name)

    @classmethod
    def of_kind(cls, matrix: Matrix, *, in_files: bool) -> tuple[Variant[Workload], ...]:
        return tuple(cls(matrix, (), Findings())._all(in_files))

    def of(self, stack: Variant[Layers]) -> tuple[Variant[Workload], ...]:
        return self._known[in_files(stack.value, self._matrix)]

    @property
    def every(self) -> tuple[tuple[Variant[Workload], bool], ...]:
        return tuple((workload, kind) for kind, workloads in self._known.items() for workload in workloads)

    def _all(self, kind: bool) -> Iterator[Variant[Workload]]:
        for name in self._matrix.workloads:
            yield from self._variants(name, kind)

    def _variants(self, name: str, kind: bool) -> Iterator[Variant[Workload]]:
        axes = written_workload(self._matrix.workloads[name])
        if is_replay(axes):
            yield from ReplayVariants(name, axes, self._matrix.machine.memory, self._findings).variants()
            return
        if has_jobs(axes):
            several = JobVariants(name, axes, self._matrix.machine.memory, self._findings, self._slow)
            yield from several.on(in_files=kind)
            return
        if is_rebuild(axes):
            slow = slow_of(self._matrix.every_disk())
            yield from RebuildVariants(name, axes, self._matrix.machine.memory, self._findings, slow).on(in_files=kind)
            return
        if is_pts(axes):
            yield from PtsVariants(name, axes, self._findings, self._slow).on()
            return
        if "rounds" in axes:
            self._findings.flaw(
                ("workloads", name, "rounds"), "'rounds' has no effect: it ends tests of SNIA (`preset`)"
            )
            return
        for declared in _written_workloads(axes):
            if declared.amiss:
                place = place_of(("workloads", name), declared.choice, "phase")
                self._findings.flaw_of(declared.coords(name), place, declared.amiss)
            elif kind or not declared.not_on_devices:
                yield from self._variant(name, declared, kind)

    def _variant(self, name: str, declared: _WrittenWorkload, kind: bool) -> Iterator[Variant[Workload]]:
        values, _ = declared.meant(in_files=kind)
        idle = _foreign(kind)(values)
        values = {key: value for key, value in values.items() if key not in idle}
        workload = constructed(Workload, values)
        if not declared.preset:  # a program has no default runtime: it ends when its work is done
            workload = workload.settled()
        fields = texts(workload, [key for key in values if key in declared.shown])
        coords = (*declared.coords(name), *((f"workload.{field}", text) for field, text in fields.items()))
        problems = [*declared.problems()] or [*workload.problems(), *workload.slow_problems(self._slow)]
        for problem in problems:
            self._findings.flaw_of(
                coords, place_of(("workloads", name), declared.choice, problem.field), problem.message
            )
        if not problems:
            cleared = Note(f"workload {name}: {_CLEARED}")
            overwrites = not kind and workload.ioengine == "mmap" and workload.rw not in {"read", "randread"}
            if overwrites and cleared not in self._findings.notes:
                self._findings.notes.append(cleared)
            label = "/".join(filter(None, (name, label_of(coords, declared.several))))
            sized = workload.on(self._matrix.machine.memory)
            yield Variant(sized, coords, label, digest(sized.content()))

    def _check_search(self, name: str) -> None:
        if (find := self._matrix.workloads[name].find) is None:
            return
        for problem in find_problems(find, written_workload(self._matrix.workloads[name])):
            self._findings.flaw(("workloads", name, *problem.field.split(".")), problem.message)
        named = [{dict(coords)["workload"] for coords in work.spellings} for work, _ in self.every]
        if others := sorted(set().union(*(names for names in named if name in names)) - {name}):
            what = f"workload {others[0]} has cells of this search, which leaves some out"
            self._findings.flaw(("workloads", name, "find"), f"{what}; change one of the workloads")

    def _report(self, name: str) -> None:
        axes = written_workload(self._matrix.workloads[name])
        if has_jobs(axes) or is_rebuild(axes) or is_replay(axes) or is_pts(axes) or "rounds" in axes:
            return
        declared = [one for one in _written_workloads(axes) if not one.amiss]
        reasons = [one.meant(in_files=False)[1] for one in declared]
        # Values that only the preset set need no note.
        idle = [{key: why for key, why in each.items() if key in axes} for each in reasons]
        report_idle(("workloads", name), axes, idle, self._findings, Note(f"workload {name}"))
        self._report_lacking(name, [one for one in declared if one.not_on_devices])
        for kind in (False, True):
            if stacks := self._by_kind.get(kind):
                seen = [one.meant(in_files=kind) for one in declared]
                reasons = [_foreign(kind)(values) for values, _ in seen]
                always = {axis: reasons[0][axis] for axis in axes if reasons and all(axis in one for one in reasons)}
                self._report_foreign(name, always, stacks)

    def _report_lacking(self, name: str, declared: list[_WrittenWorkload]) -> None:
        for phase, why in {one.phase: one.not_on_devices for one in declared}.items():
            if True not in self._by_kind:
                axes = written_workload(self._matrix.workloads[name])
                path = ("workloads", name, "phase" if "phase" in axes else "preset")
                self._findings.unused.append(Flaw(path, f"no layout has files for phase={phase}: {why}"))
            elif where := tuple(dict(stack.coords)["layout"] for stack in self._by_kind.get(False, ())):
                self._findings.notes.append(Note(f"workload {name}: no phase={phase} for ", where, f": {why}"))

    def _report_foreign(self, name: str, idle: Mapping[str, str], stacks: list[Variant[Layers]]) -> None:
        for axis, why in idle.items():
            if len(self._by_kind) == 1:
                self._findings.unused.append(Flaw(("workloads", name, axis), f"'{axis}' has no effect: {why}"))
            else:
                where = tuple(dict(stack.coords)["layout"] for stack in stacks)
                self._findings.notes.append(Note(f"workload {name}: {axis} is not an axis for ", where, f": {why}"))


def _foreign(kind: bool) -> Callable[[Mapping[str, Any]], dict[str, str]]:
    return Workload.idle_on_files if kind else Workload.idle_on_devices


@dataclass(frozen=True, slots=True)
class _WrittenWorkload:
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
            return drop_idle(Workload, self.choice)
        filled = values_of(self.preset, self.phase, self._values, in_files=in_files)
        values, idle = drop_idle(Workload, replace(self.choice, values=filled))
        idle |= PRESETS[self.preset].phases[self.phase].idle
        return {name: value for name, value in values.items() if name not in idle}, idle

    def problems(self) -> Iterator[Problem]:
        if self.preset:
            yield from problems_of(self.preset, self.phase, self._values)

    def coords(self, name: str) -> Coords:
        program = (("workload.preset", self.preset), ("workload.phase", self.phase))
        return (("workload", name), *((axis, text) for axis, text in program if text))


def _written_workloads(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[_WrittenWorkload]:
    """Yield every choice of a workload. A preset without `phase` gives one for each of its phases."""
    presets = axes.get("preset", ())
    for place, preset in enumerate(presets):
        meant = {"preset": (preset,), "phase": axes.get("phase", PRESETS[preset].meant)}
        for one in _choices({**meant, **{name: values for name, values in axes.items() if name not in meant}}):
            several = (*(("workload.preset",) if len(presets) > 1 else ()), *one.several)
            choice = replace(one.choice, places={**one.choice.places, "preset": place if len(presets) > 1 else None})
            phase = str(choice.values["phase"])
            yield _WrittenWorkload(choice, several, preset, phase, no_phase(preset, phase) if "phase" in axes else "")
    if not presets:
        alone = "'phase' has no effect: it selects a phase of a `preset`" if "phase" in axes else ""
        yield from (replace(one, amiss=alone) for one in _choices(axes))


def _choices(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[_WrittenWorkload]:
    several = tuple(f"workload.{axis}" for axis, values in axes.items() if len(values) > 1)
    return (_WrittenWorkload(choice, several) for choice in choices(axes))
