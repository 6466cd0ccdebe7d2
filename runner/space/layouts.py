"""The variants of layouts: every stack that is declared, and what is impossible about any of them."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runner.language.axes import written
from runner.language.tune import QUEUED
from runner.language.yaml_source import Flaw
from runner.layers import LAYERS, Layer, Problem
from runner.layers.geometry import Below, Shape
from runner.space.notes import Note
from runner.space.variants import Choice, Variant, choices, collapsed, digest, label_of, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runner.language.matrix import LayerEntry, Matrix
    from runner.language.yaml_source import Path
    from runner.space.variants import Coords

Stack = tuple[Layer, ...]


@dataclass
class Findings:
    """What comes to light on the way: what cannot be, and what a user should be told."""

    flaws: list[Flaw] = field(default_factory=list)
    #: What cannot be of some cells, by where these stand; if they are left out, it does not matter.
    impossible: list[tuple[Coords, Flaw]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    #: What nothing uses. Where malformed parts of a matrix were cut out, what uses it may be among them.
    unused: list[Flaw] = field(default_factory=list)

    def flaw(self, path: Path, message: str) -> None:
        """Something that cannot be."""
        self.flaws.append(Flaw(path, message))

    def flaw_of(self, coords: Coords, path: Path, message: str) -> None:
        """Something that cannot be of the cells that stand there."""
        self.impossible.append((coords, Flaw(path, message)))


def without_idle(model: Any, choice: Choice) -> tuple[dict[str, Any], dict[str, str]]:
    """The values that mean something, and why the others do not."""
    defaults = {name: info.default for name, info in model.model_fields.items()}
    idle = model.idle({**defaults, **choice.values})
    return {name: value for name, value in choice.values.items() if name not in idle}, idle


def place_of(base: Path, choice: Choice, name: str) -> Path:
    """Where the value of one field of a choice was written."""
    if name not in choice.places:
        return base
    path: Path = (*base, *name.split("."))
    place = choice.places[name]
    return path if place is None else (*path, place)


def report_idle(
    base: Path, axes: Mapping[str, Any], seen: list[dict[str, str]], findings: Findings, about: Note
) -> None:
    """An axis that no variant uses is an error; one that only some use is worth a word."""
    for name in axes:
        reasons = [idle[name] for idle in seen if name in idle]
        if not reasons:
            continue
        told = "; ".join(dict.fromkeys(reasons))
        if len(reasons) == len(seen):
            findings.flaw((*base, *name.split(".")), f"nothing uses '{name}': {told}")
        else:
            findings.notes.append(replace(about, rest=f": {name} is no axis where {told}"))


#: So different that nothing is said of both that is only true of one.
_MANY, _LARGE = (1, 24), 2**50


@dataclass(frozen=True, slots=True)
class _Step:
    """A stack so far: its layers, and the devices on top of them."""

    layers: tuple[Variant[Layer], ...]
    top: Below

    @property
    def coords(self) -> Coords:
        """Where it stands, as far as it goes."""
        return tuple(itertools.chain.from_iterable(part.coords for part in self.layers))


def _untrue(layer: Layer, step: _Step) -> Iterator[Problem]:
    """Members that do not read as zeros are no clean array."""
    if getattr(layer, "sync", "") == "assume-clean":
        for below in step.layers:
            if not (below.value.keeps_zeros or below.value.is_absent):
                yield Problem(
                    "sync", f"assume-clean is only true where there are zeros, and {below.value.kind} leaves none"
                )


class _Declared:
    """One layer of a layout as it was written, and what its variants come to on whatever stands below."""

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
        """Every variant of it on a stack so far."""
        if any(shape.files for shape in step.top.devices):
            findings.flaw(self.base, f"{self.kind} cannot stand on a file system")
            return
        for choice in choices(self.axes):
            values, idle = without_idle(self.model, choice)
            self.seen.append(idle)
            layer: Layer = self.model.model_construct(**values)
            problems = [*layer.problems(step.top), *_untrue(layer, step)]
            for problem in problems:
                coords = (("layout", self.layout), *step.coords, *self._coords(layer, values))
                findings.flaw_of(coords, place_of(self.base, choice, problem.field), problem.message)
            if not problems:
                resolved = layer.resolve(step.top)
                top = Below(resolved.devices_above(step.top), resolved.noun_above(step.top))
                yield _Step((*step.layers, self._variant(layer, resolved, values)), top)

    def _coords(self, layer: Layer, values: dict[str, Any]) -> Coords:
        return tuple((f"{self.axis}.{name}", text) for name, text in texts(layer, values).items())

    def _variant(self, layer: Layer, settled: Layer, values: dict[str, Any]) -> Variant[Layer]:
        """Named and filtered by what was written, told apart by what it comes to."""
        coords = self._coords(layer, values)
        # Only what differs from the default counts, so that a field that is added later changes no cell's id.
        content = [self.kind, settled.model_dump(mode="json", exclude_defaults=True)]
        return Variant(settled, coords, label_of(coords, self.several), digest(content))


def axis_names(kinds: Iterable[str]) -> list[str]:
    """`md`, and `md2` for the second of its kind."""
    counted: Counter[str] = Counter()
    names = []
    for kind in kinds:
        counted[kind] += 1
        names.append(kind if counted[kind] == 1 else f"{kind}{counted[kind]}")
    return names


def _stacks(matrix: Matrix, layout: str, findings: Findings) -> Iterator[Variant[Stack]]:
    entries = matrix.layouts[layout]
    declared = [
        _Declared(layout, position, entry, axis)
        for position, (entry, axis) in enumerate(
            zip(entries, axis_names(entry.layer[0] for entry in entries), strict=True)
        )
    ]
    for step in _built_up(declared, _Step((), disks_of(matrix)), findings):
        coords = (("layout", layout), *step.coords)
        label = "/".join(filter(None, (layout, ",".join(part.label for part in step.layers if part.label))))
        built = _present(step.layers)
        stack = tuple(part.value for part in built)
        yield Variant(stack, coords, label, digest([part.digest.hex() for part in built]))
    for layer in declared:
        if not layer.seen:
            findings.flaws += _wrong_anywhere(layer)
    for layer in declared:
        report_idle(layer.base, layer.axes, layer.seen, findings, Note("layout ", (layout,)))


def _wrong_anywhere(layer: _Declared) -> Iterator[Flaw]:
    """What is impossible about a layer that nothing possible stands below: on one device, and on many."""
    found = []
    for count in _MANY:
        alone, on = Findings(), _Step((), Below((Shape(_LARGE),) * count))
        for _ in layer.on(on, alone):
            pass
        found.append(dict.fromkeys(flaw for _, flaw in alone.impossible))
    layer.seen.clear()  # nothing is known of what it uses
    return (flaw for flaw in found[0] if all(flaw in others for others in found))


def _present(layers: tuple[Variant[Layer], ...]) -> tuple[Variant[Layer], ...]:
    """Without those that do nothing: the stack is the one in which they are not written."""
    return tuple(layer for layer in layers if not layer.value.is_absent) or layers


def _built_up(declared: list[_Declared], step: _Step, findings: Findings) -> Iterator[_Step]:
    """Every way to put the declared layers on top of a stack so far."""
    if not declared:
        yield step
        return
    for higher in declared[0].on(step, findings):
        yield from _built_up(declared[1:], higher, findings)


def disks_of(matrix: Matrix) -> Below:
    """What every stack stands on."""
    return Below(tuple(Shape(disk.size, queued=disk.bus in QUEUED) for disk in matrix.every_disk()))


def stack_variants(matrix: Matrix, findings: Findings) -> tuple[Variant[Stack], ...]:
    """Every different stack of a matrix."""
    return collapsed(itertools.chain.from_iterable(_stacks(matrix, layout, findings) for layout in matrix.layouts))


def levels(stack: Stack, disks: Below) -> Iterator[tuple[Layer, Below]]:
    """Each layer with what it stands on, from the bottom up."""
    below = disks
    for layer in stack:
        yield layer, below
        below = Below(layer.devices_above(below), layer.noun_above(below))


def top_of(stack: Stack, matrix: Matrix) -> tuple[Shape, ...]:
    """The devices on top of a stack."""
    *_, (layer, below) = levels(stack, disks_of(matrix))
    return layer.devices_above(below)
