"""The variants of workloads, on raw devices and in file systems. Some keys have an effect on one of them only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from matrix_runner.base.findings import Findings, Flaw, Note, report_idle
from matrix_runner.base.variants import Variant, collapsed
from matrix_runner.language.find import find_problems, written_workload
from matrix_runner.simdisks.disk import slow_of
from matrix_runner.space.layouts import top_of
from matrix_runner.work.fio.variants import Declared, declared_in
from matrix_runner.work.fio.workload import FioWorkload
from matrix_runner.work.kinds import KINDS, kind_of
from matrix_runner.work.workload import Written

if TYPE_CHECKING:
    from matrix_runner.language.matrix import Matrix
    from matrix_runner.space.layouts import Layers
    from matrix_runner.work.workload import Workload

    Stacks = tuple[Variant[Layers], ...]


def in_files(stack: Layers, matrix: Matrix) -> bool:
    return any(shape.files for shape in top_of(stack, matrix))


class Workloads:
    """The workloads of each stack, computed once for raw devices and once for file systems."""

    def __init__(self, matrix: Matrix, stacks: Stacks, findings: Findings) -> None:
        self._matrix, self._findings = matrix, findings
        self._slow = slow_of(matrix.every_disk())
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
        written = Written(name, axes, self._matrix.machine.memory, self._slow, self._findings)
        return KINDS[kind_of(axes)].variants(written, in_files=kind)

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
        if kind_of(axes) != FioWorkload.kind:
            return
        declared = [one for one in declared_in(axes) if not one.amiss]
        reasons = [one.meant(in_files=False)[1] for one in declared]
        # Values that only the preset set need no note.
        idle = [{key: why for key, why in each.items() if key in axes} for each in reasons]
        report_idle(("workloads", name), axes, idle, self._findings, Note(f"workload {name}"))
        self._report_lacking(name, [one for one in declared if one.not_on_devices])
        for kind in (False, True):
            if stacks := self._by_kind.get(kind):
                seen = [one.meant(in_files=kind) for one in declared]
                reasons = [FioWorkload.foreign(values, in_files=kind) for values, _ in seen]
                always = {axis: reasons[0][axis] for axis in axes if reasons and all(axis in one for one in reasons)}
                self._reportforeign(name, always, stacks)

    def _report_lacking(self, name: str, declared: list[Declared]) -> None:
        for phase, why in {one.phase: one.not_on_devices for one in declared}.items():
            if True not in self._by_kind:
                axes = written_workload(self._matrix.workloads[name])
                path = ("workloads", name, "phase" if "phase" in axes else "preset")
                self._findings.unused.append(Flaw(path, f"no layout has files for phase={phase}: {why}"))
            elif where := tuple(dict(stack.coords)["layout"] for stack in self._by_kind.get(False, ())):
                self._findings.notes.append(Note(f"workload {name}: no phase={phase} for ", where, f": {why}"))

    def _reportforeign(self, name: str, idle: Mapping[str, str], stacks: list[Variant[Layers]]) -> None:
        for axis, why in idle.items():
            if len(self._by_kind) == 1:
                self._findings.unused.append(Flaw(("workloads", name, axis), f"'{axis}' has no effect: {why}"))
            else:
                where = tuple(dict(stack.coords)["layout"] for stack in stacks)
                self._findings.notes.append(Note(f"workload {name}: {axis} is not an axis for ", where, f": {why}"))
