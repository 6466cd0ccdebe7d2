"""Memory that stripe caches take from the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.base.quantities import format_size
from runner.language.axes import written
from runner.language.tune import split
from runner.layers import Md
from runner.layers.md import PARITY
from runner.space.layouts import place_of
from runner.space.variants import choices

if TYPE_CHECKING:
    from runner.language.yaml_source import Path
    from runner.space.layouts import Findings, Stack
    from runner.space.select import Ruled
    from runner.space.space import Space

_PAGE = 4096
_GIB = 2**30
#: Memory for the kernel and the tools. Without it the machine runs into the OOM killer or a panic.
_REST = 192 * 1024 * 1024


def check_stripe_caches(space: Space, ruled: Ruled, findings: Findings) -> None:
    """Report stripe caches that do not fit into memory: the kernel allocates all of their pages at once."""
    axes = {
        name: values for name, values in written(space.matrix.tune).items() if split(name)[1] == "stripe_cache_size"
    }
    cached = [(array, count) for array in space.arrays if (count := _cached_devices(array.stack.value))]
    memory = space.matrix.machine.memory
    wrong: list[tuple[Path, int, int, str]] = []
    for choice in choices(axes):
        for name, pages in choice.values.items():
            meant = [
                (count, one.label)
                for one, count in cached
                if not ruled.out((*one.coords, (f"tune.{name}", str(pages))))
            ]
            devices, label = max(meant, key=lambda one: one[0], default=(0, ""))
            if isinstance(pages, int) and pages * _PAGE * devices > memory - _REST:
                wrong.append((place_of(("tune",), choice, name), pages, devices, label))
    # One remedy for all of them: a user who follows the first must not get the next error.
    enough = format_size(_machine_for(max((pages * devices for _, pages, devices, _ in wrong), default=0)))
    for path, pages, devices, label in wrong:
        findings.flaw(
            path,
            f"'{pages}': {pages} pages for each of {devices} devices of {label} are "
            f"{format_size(pages * _PAGE * devices)}, too much for a machine with {format_size(memory)} of memory; "
            f"write machine: {{memory: {enough}}} or fewer pages",
        )


def _machine_for(pages: int) -> int:
    return -(-(pages * _PAGE + _REST) // _GIB) * _GIB


def _cached_devices(stack: Stack) -> int:
    arrays = (layer for layer in stack if isinstance(layer, Md) and layer.level in PARITY)
    return sum((array.devices or 0) * array.groups for array in arrays)
