"""The variants of layouts: every stack that is declared, and what is impossible about any of them."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.expand.variants import Choice, Variant, choices, collapsed, digest, label_of, texts
from runner.model.axes import written
from runner.model.layers import LAYERS, Layer
from runner.model.source import Flaw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.model.matrix import LayerEntry, Matrix
    from runner.model.source import Path

Stack = tuple[Layer, ...]


@dataclass
class Findings:
    """What comes to light on the way: what cannot be, and what a user should be told."""

    flaws: list[Flaw] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def flaw(self, path: Path, message: str) -> None:
        """Something that cannot be."""
        self.flaws.append(Flaw(path, message))


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


def report_idle(base: Path, axes: Mapping[str, Any], seen: list[dict[str, str]], findings: Findings, what: str) -> None:
    """An axis that no variant uses is an error; one that only some use is worth a word."""
    for name in axes:
        reasons = [idle[name] for idle in seen if name in idle]
        if not reasons:
            continue
        told = "; ".join(dict.fromkeys(reasons))
        if len(reasons) == len(seen):
            findings.flaw((*base, *name.split(".")), f"nothing uses '{name}': {told}")
        else:
            findings.notes.append(f"{what}: {name} is no axis where {told}")


def _layer_variants(
    matrix: Matrix, layout: str, position: int, entry: LayerEntry, axis: str, findings: Findings
) -> Iterator[Variant[Layer]]:
    """The variants of one layer of a layout."""
    kind, declared = entry.layer
    model: Any = LAYERS[kind]
    axes = written(declared)
    base: Path = ("layouts", layout, position, kind)
    seen: list[dict[str, str]] = []
    several = [f"{axis}.{name}" for name, values in axes.items() if len(values) > 1]
    for choice in choices(axes):
        values, idle = without_idle(model, choice)
        seen.append(idle)
        layer = model.model_construct(**values)
        problems = list(layer.problems(matrix.disks.count, matrix.disks.size))
        for problem in problems:
            findings.flaw(place_of(base, choice, problem.field), problem.message)
        if not problems:
            settled = layer.settled(matrix.disks.count)
            coords = tuple((f"{axis}.{name}", text) for name, text in texts(settled, values).items())
            yield Variant(settled, coords, label_of(coords, several), digest([kind, settled.model_dump()]))
    report_idle(base, axes, seen, findings, f"layout {layout}")


def _axis_names(entries: tuple[LayerEntry, ...]) -> list[str]:
    """`md`, and `md2` for the second of its kind."""
    counted: Counter[str] = Counter()
    names = []
    for entry in entries:
        kind = entry.layer[0]
        counted[kind] += 1
        names.append(kind if counted[kind] == 1 else f"{kind}{counted[kind]}")
    return names


def _stacks(matrix: Matrix, layout: str, findings: Findings) -> Iterator[Variant[Stack]]:
    entries = matrix.layouts[layout]
    _check_stacking(layout, entries, findings)
    layers = [
        list(_layer_variants(matrix, layout, position, entry, axis, findings))
        for position, (entry, axis) in enumerate(zip(entries, _axis_names(entries), strict=True))
    ]
    for parts in itertools.product(*layers):
        coords = (("layout", layout), *itertools.chain.from_iterable(part.coords for part in parts))
        label = "/".join(filter(None, (layout, ",".join(part.label for part in parts if part.label))))
        yield Variant(tuple(part.value for part in parts), coords, label, digest([part.digest.hex() for part in parts]))


def _check_stacking(layout: str, entries: tuple[LayerEntry, ...], findings: Findings) -> None:
    """Layers that cannot stand on what is below them yet."""
    for position, entry in enumerate(entries[1:], start=1):
        kind, _ = entry.layer
        findings.flaw(("layouts", layout, position, kind), f"{kind} cannot stand on {entries[position - 1].layer[0]}")


def stack_variants(matrix: Matrix, findings: Findings) -> tuple[Variant[Stack], ...]:
    """Every different stack of a matrix."""
    return collapsed(itertools.chain.from_iterable(_stacks(matrix, layout, findings) for layout in matrix.layouts))


def capacity(stack: Stack, matrix: Matrix) -> int:
    """At most so many bytes does the top of a stack have."""
    return stack[-1].capacity(matrix.disks.count, matrix.disks.size)
