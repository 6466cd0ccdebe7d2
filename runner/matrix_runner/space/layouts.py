"""The variants of layouts: every declared stack, and what is impossible about it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matrix_runner.base.axes import written
from matrix_runner.base.findings import Findings, Note, drop_idle, place_of, report_idle
from matrix_runner.base.variants import Coords, Variant, choices, collapsed, digest, label_of, texts
from matrix_runner.language.tune import QUEUED
from matrix_runner.layers import LAYERS, Fs, Layer, Problem
from matrix_runner.layers.geometry import Below, Shape

if TYPE_CHECKING:
    from matrix_runner.base.findings import Flaw, Path
    from matrix_runner.language.matrix import LayerEntry, Matrix

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


def _untrue(layer: Layer, step: _Step) -> Iterator[Problem]:
    if layer.assumes_zeros:
        for below in (variant.value for variant in step.layers):
            if not (below.keeps_zeros or below.is_absent):
                yield Problem("sync", f"assume-clean needs members that read as zeros, not {below.kind}")


class _Declared:
    def __init__(self, layout: str, position: int, entry: LayerEntry, axis: str) -> None:
        self.kind, declared = entry.layer
        self.model: Any = LAYERS[self.kind]
        self.axes = written(declared)
        self.layout = layout
        self.base: Path = ("layouts", layout, position, self.kind)
        self.axis = axis
        self.several = [f"{axis}.{name}" for name, values in self.axes.items() if len(values) > 1]
        self.seen: list[dict[str, str]] = []

    def on(self, step: _Step, findings: Findings) -> Iterator[_Step]:
        if any(shape.files for shape in step.top.devices):
            findings.flaw(self.base, f"{self.kind} cannot be built on a file system")
            return
        for choice in choices(self.axes):
            values, idle = drop_idle(self.model, choice)
            self.seen.append(idle)
            layer: Layer = self.model.model_construct(**values)
            coords = tuple((f"{self.axis}.{name}", text) for name, text in texts(layer, values).items())
            problems = [*layer.problems(step.top), *_untrue(layer, step)]
            for problem in problems:
                place = place_of(self.base, choice, problem.field)
                findings.flaw_of((("layout", self.layout), *step.coords, *coords), place, problem.message)
            if not problems:
                resolved = layer.resolve(step.top)
                # Names and filters use the written values; the id uses the resolved ones. Defaults are left out, so
                # that a new field does not change the id of any cell.
                content = [self.kind, resolved.model_dump(mode="json", exclude_defaults=True)]
                variant: Variant[Layer] = Variant(resolved, coords, label_of(coords, self.several), digest(content))
                yield _Step((*step.layers, variant), resolved.above(step.top))


def axis_names(kinds: Iterable[str]) -> list[str]:
    counted: Counter[str] = Counter()
    names = []
    for kind in kinds:
        counted[kind] += 1
        names.append(kind if counted[kind] == 1 else f"{kind}{counted[kind]}")
    return names


def _stacks(matrix: Matrix, layout: str, findings: Findings) -> Iterator[Variant[Layers]]:
    entries = matrix.layouts[layout]
    axes = axis_names(entry.layer[0] for entry in entries)
    declared = [_Declared(layout, at, entry, axis) for at, (entry, axis) in enumerate(zip(entries, axes, strict=True))]
    for step in _built_up(declared, _Step((), disks_of(matrix)), findings):
        coords = (("layout", layout), *step.coords)
        label = "/".join(filter(None, (layout, ",".join(part.label for part in step.layers if part.label))))
        # Without layers that do nothing: the stack is the one in which they are not written.
        built = tuple(part for part in step.layers if not part.value.is_absent) or step.layers
        yield Variant(tuple(part.value for part in built), coords, label, digest([part.digest.hex() for part in built]))
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
        for _ in layer.on(on, alone):
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


def disks_of(matrix: Matrix) -> Below:
    return Below(tuple(Shape(disk.size, queued=disk.bus in QUEUED) for disk in matrix.every_disk()))


def stack_variants(matrix: Matrix, findings: Findings) -> tuple[Variant[Layers], ...]:
    return collapsed(itertools.chain.from_iterable(_stacks(matrix, layout, findings) for layout in matrix.layouts))


def levels(stack: Layers, disks: Below) -> Iterator[tuple[Layer, Below]]:
    below = disks
    for layer in stack:
        yield layer, below
        below = layer.above(below)


def disks_at_work(stack: Layers, disks: Below) -> int:
    """Return the number of disks that one large request keeps busy."""
    *_, (layer, below) = levels(stack, disks)
    devices = below.devices if isinstance(layer, Fs) else layer.devices_above(below)
    return max(1, sum(device.stripes for device in devices))


def top_of(stack: Layers, matrix: Matrix) -> tuple[Shape, ...]:
    *_, (layer, below) = levels(stack, disks_of(matrix))
    return layer.devices_above(below)
