"""The variants of layouts, every declared stack, and of workloads; and what is impossible about them."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matrix_runner.base.findings import Findings, Flaw, Note, drop_idle, place_of, report_idle
from matrix_runner.base.model import Coords, Variant, choices, collapsed, digest, label_of, texts, written
from matrix_runner.language.find import find_problems, written_workload
from matrix_runner.language.layouts import Step, steps_of
from matrix_runner.language.matrix import Matrix
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.language.tune import QUEUED
from matrix_runner.layers import LAYERS, Layer, Problem
from matrix_runner.layers.bare import On
from matrix_runner.layers.fs import Fs
from matrix_runner.layers.geometry import Below, Part, Shape
from matrix_runner.simdisks.disk import slow_of
from matrix_runner.work.fio.variants import Declared, declared_in
from matrix_runner.work.fio.workload import FioWorkload
from matrix_runner.work.kinds import KINDS, kind_of
from matrix_runner.work.workload import Workload, Written

Layers = tuple[Layer, ...]


#: A layer without a possible stack below it is tried on one device and on many large ones. A flaw that both have is
#: the layer's own.
_MANY, _LARGE = (1, 24), 2**50


@dataclass(frozen=True, slots=True)
class _Step:
    layers: tuple[Variant[Layer], ...]
    top: Below

    @property
    def coords(self) -> Coords:
        return tuple(itertools.chain.from_iterable(part.coords for part in self.layers))


def _untrue(layer: Layer, top: Below) -> Iterator[Problem]:
    if layer.assumes_zeros and (below := top.scrambled_by):
        yield Problem("sync", f"assume-clean needs members that read as zeros, not {below}")


def _unknown_parts(layer: Layer, top: Below) -> Iterator[Problem]:
    for name, field in layer.parts.items():
        part, free = top.part(name), [one.name for one in top.parts if not one.uses]
        if part is None:
            remedy = "a layout with parts is a map with `on`, `parts` and `layers`"
            known = did_you_mean(name, free) if free else remedy
            yield Problem(field, f"there is no group of disks and no part above called {name}; {known}")
        elif any(shape.files for shape in part.top.devices):
            yield Problem(field, f"{name} is a file system; a part that another layer uses has devices")
        elif part.uses > 1:
            yield Problem(field, f"{name} is used already, below or beside this; a part has one use")


class _Declared:
    def __init__(self, layout: str, step: Step, axis: str) -> None:
        self.kind, self.base = step.kind, step.path
        self.model: Any = LAYERS[self.kind] if step.declared else On
        self.axes = written(step.declared) if step.declared else {}
        self.fixed = {} if step.declared else {"names": step.on, "keep": step.keep}
        self.layout = layout
        self.axis = axis
        self.several = [f"{axis}.{name}" for name, values in self.axes.items() if len(values) > 1]
        self.seen: list[dict[str, str]] = []

    def on(self, step: _Step, findings: Findings, *, alone: bool = False) -> Iterator[_Step]:
        if any(shape.files for shape in step.top.devices) and not self.fixed:
            findings.flaw(self.base, f"{self.kind} cannot be built on a file system")
            return
        for choice in choices(self.axes):
            values, idle = drop_idle(self.model, choice)
            self.seen.append(idle)
            layer: Layer = self.model.model_construct(**self.fixed, **values)
            if alone and layer.parts:
                continue
            top = layer.ground(step.top)
            coords = tuple((f"{self.axis}.{name}", text) for name, text in texts(layer, values).items())
            problems = [*_unknown_parts(layer, top)] or [*layer.problems(top), *_untrue(layer, top)]
            for problem in problems:
                place = place_of(self.base, choice, problem.field)
                findings.flaw_of((("layout", self.layout), *step.coords, *coords), place, problem.message)
            if not problems:
                resolved = layer.resolve(top)
                # Names and filters use the written values; the id uses the resolved ones. Defaults are left out, so
                # that a new field does not change the id of any cell.
                content = [self.kind, resolved.model_dump(mode="json", exclude_defaults=True)]
                variant: Variant[Layer] = Variant(resolved, coords, label_of(coords, self.several), digest(content))
                yield _Step((*step.layers, variant), resolved.above(top))


def axis_names(kinds: Iterable[str]) -> list[str]:
    counted: Counter[str] = Counter()
    names = []
    for kind in kinds:
        counted[kind] += 1
        names.append(kind if counted[kind] == 1 else f"{kind}{counted[kind]}")
    return names


def _stacks(matrix: Matrix, layout: str, findings: Findings) -> Iterator[Variant[Layers]]:
    steps = steps_of(layout, matrix.layouts[layout])
    axes = axis_names(step.kind for step in steps)
    declared = [_Declared(layout, step, axis) for step, axis in zip(steps, axes, strict=True)]
    disks = disks_of(matrix)
    # A layout without parts is on all disks, so no group is left.
    groups = [[part.name, part.top.count] for part in disks.parts] if any(step.on for step in steps) else []
    idle, stacks = dict.fromkeys(step.keep for step in steps if step.keep), 0
    for name in idle.keys() & {part.name for part in disks.parts}:
        findings.flaw(("layouts", layout, "parts", name), f"{name} is a group of disks; give the part another name")
        return
    for step in _built_up(declared, _Step((), disks if groups else replace(disks, parts=())), findings):
        for part in step.top.parts:
            if part.uses:
                idle.pop(part.name, None)
        coords = (("layout", layout), *step.coords)
        label = "/".join(filter(None, (layout, ",".join(part.label for part in step.layers if part.label))))
        # Without layers that do nothing: the stack is the one in which they are not written.
        built = tuple(part for part in step.layers if not part.value.is_absent) or step.layers
        content = [*groups, *(part.digest.hex() for part in built)]
        stacks += 1
        yield Variant(tuple(part.value for part in built), coords, label, digest(content))
    for name in idle if stacks else ():
        findings.flaw(
            ("layouts", layout, "parts", name),
            f"no layer uses the part {name}; name it in `on:` or in a layer, or remove it",
        )
    for layer in declared:
        if not layer.seen:
            findings.flaws += _wrong_anywhere(layer)
    for layer in declared:
        report_idle(layer.base, layer.axes, layer.seen, findings, Note("layout ", (layout,)))


def _wrong_anywhere(layer: _Declared) -> Iterator[Flaw]:
    """Find what is impossible about a layer when no possible stack lies below it."""
    found = []
    for count in _MANY:
        alone, on = Findings(), _Step((), Below((Shape(_LARGE),) * count))
        for _ in layer.on(on, alone, alone=True):
            pass
        found.append(dict.fromkeys(flaw for _, flaw in alone.impossible))
    layer.seen.clear()  # this check does not show which axes it uses
    return (flaw for flaw in found[0] if all(flaw in others for others in found))


def _built_up(declared: list[_Declared], step: _Step, findings: Findings) -> Iterator[_Step]:
    if not declared:
        yield step
        return
    for higher in declared[0].on(step, findings):
        yield from _built_up(declared[1:], higher, findings)


def disks_of(matrix: Matrix, sizes: Sequence[int] = ()) -> Below:
    """Return the disks as layers see them; `sizes`: other ones than theirs."""
    disks = matrix.every_disk()
    sizes = sizes or [disk.size for disk in disks]
    shapes = [Shape(size, queued=disk.bus in QUEUED) for disk, size in zip(disks, sizes, strict=True)]
    groups = dict.fromkeys(disk.group for disk in disks if disk.group)
    parts = (
        Part(group, Below(tuple(shape for disk, shape in zip(disks, shapes, strict=True) if disk.group == group)))
        for group in groups
    )
    return Below(tuple(shapes), parts=tuple(parts))


def stack_variants(matrix: Matrix, findings: Findings) -> tuple[Variant[Layers], ...]:
    return collapsed(itertools.chain.from_iterable(_stacks(matrix, layout, findings) for layout in matrix.layouts))


def levels(stack: Layers, disks: Below) -> Iterator[tuple[Layer, Below]]:
    top = disks
    for layer in stack:
        below = layer.ground(top)
        yield layer, below
        top = layer.above(below)


def disks_at_work(stack: Layers, disks: Below) -> int:
    """Return the number of disks that one large request keeps busy."""
    *_, (layer, below) = levels(stack, disks)
    devices = below.own.devices if isinstance(layer, Fs) else layer.devices_above(below)
    return max(1, sum(device.stripes for device in devices))


def top_of(stack: Layers, matrix: Matrix) -> tuple[Shape, ...]:
    *_, (layer, below) = levels(stack, disks_of(matrix))
    return layer.devices_above(below)


def in_files(stack: Layers, matrix: Matrix) -> bool:
    return any(shape.files for shape in top_of(stack, matrix))


class Workloads:
    """The workloads of each stack, computed once for raw devices and once for file systems."""

    def __init__(self, matrix: Matrix, stacks: tuple[Variant[Layers], ...], findings: Findings) -> None:
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
        written = Written(name, axes, self._matrix.machine.memory, self._slow, self._findings, kind)
        return KINDS[kind_of(axes)].variants(written)

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
