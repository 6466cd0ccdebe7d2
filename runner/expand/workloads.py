"""The variants of workloads: on raw devices, and in file systems, where other keys mean something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.expand.layouts import Findings, place_of, report_idle, top_of, without_idle
from runner.expand.notes import Note
from runner.expand.variants import Choice, Coords, Variant, choices, collapsed, digest, label_of, texts
from runner.model.axes import constructed, written
from runner.model.source import Flaw
from runner.model.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from runner.expand.layouts import Stack
    from runner.model.matrix import Matrix

    Stacks = tuple[Variant[Stack], ...]


def in_files(stack: Stack, matrix: Matrix) -> bool:
    """Whether work on a stack is work on files."""
    return any(shape.files for shape in top_of(stack, matrix))


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

    def of(self, stack: Variant[Stack]) -> tuple[Variant[Workload], ...]:
        """The variants for a stack."""
        return self._known[in_files(stack.value, self._matrix)]

    def _all(self, kind: bool) -> Iterator[Variant[Workload]]:
        for name in self._matrix.workloads:
            yield from self._variants(name, Workload.idle_on_files if kind else Workload.idle_on_devices)

    def _variants(self, name: str, foreign: Any) -> Iterator[Variant[Workload]]:
        axes = written(self._matrix.workloads[name])
        several = [f"workload.{axis}" for axis, values in axes.items() if len(values) > 1]
        for choice in choices(axes):
            values, _ = without_idle(Workload, choice)
            idle = foreign(values)
            values = {key: value for key, value in values.items() if key not in idle}
            workload = constructed(Workload, values).settled()
            written_so = texts(workload, values).items()
            coords = (("workload", name), *((f"workload.{axis}", text) for axis, text in written_so))
            if not self._flawed(name, coords, choice, workload):
                label = "/".join(filter(None, (name, label_of(coords, several))))
                sized = workload.on(self._matrix.machine.memory)
                yield Variant(sized, coords, label, digest(sized.model_dump(mode="json", exclude_defaults=True)))

    def _flawed(self, name: str, coords: Coords, choice: Choice, workload: Workload) -> bool:
        problems = list(workload.problems())
        for problem in problems:
            self._findings.flaw_of(coords, place_of(("workloads", name), choice, problem.field), problem.message)
        return bool(problems)

    def _report(self, name: str) -> None:
        """Keys that mean nothing anywhere are errors, those that mean nothing somewhere are worth a word."""
        axes = written(self._matrix.workloads[name])
        seen = [without_idle(Workload, choice) for choice in choices(axes)]
        report_idle(("workloads", name), axes, [idle for _, idle in seen], self._findings, Note(f"workload {name}"))
        for kind, foreign in ((False, Workload.idle_on_devices), (True, Workload.idle_on_files)):
            if stacks := self._by_kind.get(kind):
                said = [foreign(values) for values, _ in seen]
                self._report_foreign(name, _always(axes, said), stacks)

    def _report_foreign(self, name: str, idle: Mapping[str, str], stacks: list[Variant[Stack]]) -> None:
        for axis, why in idle.items():
            if len(self._by_kind) == 1:
                self._findings.unused.append(Flaw(("workloads", name, axis), f"nothing uses '{axis}': {why}"))
            else:
                where = tuple(dict(stack.coords)["layout"] for stack in stacks)
                self._findings.notes.append(Note(f"workload {name}: {axis} is no axis for ", where, f": {why}"))


def _always(axes: Iterable[str], said: list[dict[str, str]]) -> dict[str, str]:
    """Those axes that mean nothing whatever the others are."""
    return {axis: said[0][axis] for axis in axes if said and all(axis in one for one in said)}
