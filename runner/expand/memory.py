"""What a set-up takes of the machine's memory, where that is known beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.expand.layouts import place_of
from runner.expand.variants import choices
from runner.model.axes import written
from runner.model.layers import Md
from runner.model.layers.md import PARITY
from runner.model.units import format_size

if TYPE_CHECKING:
    from runner.expand.layouts import Findings, Stack
    from runner.expand.select import Ruled
    from runner.expand.space import Space

_PAGE = 4096
#: What a kernel and its tools need for themselves: without it a machine ends in the OOM killer, or in a panic.
_REST = 192 * 1024 * 1024


def check_stripe_caches(space: Space, ruled: Ruled, findings: Findings) -> None:
    """A stripe cache has so many pages for each device, and the kernel takes them all as soon as it is told."""
    axes = {name: values for name, values in written(space.matrix.tune).items() if name == "stripe_cache_size"}
    cached = [(array, count) for array in space.arrays if (count := _cached_devices(array.stack.value))]
    memory = space.matrix.machine.memory
    for choice in choices(axes):
        pages = choice.values.get("stripe_cache_size")
        if not isinstance(pages, int):
            continue
        coords = ("tune.stripe_cache_size", str(pages))
        meant = [(count, array.label) for array, count in cached if not ruled.out((*array.coords, coords))]
        devices, label = max(meant, key=lambda one: one[0], default=(0, ""))
        if pages * _PAGE * devices > memory - _REST:
            findings.flaw(
                place_of(("tune",), choice, "stripe_cache_size"),
                f"'{pages}': that many pages for each of {devices} devices of {label} are "
                f"{format_size(pages * _PAGE * devices)}, too much for a machine with {format_size(memory)}; "
                "give it more, like machine: {memory: 1GiB}",
            )


def _cached_devices(stack: Stack) -> int:
    """Devices of arrays that have a stripe cache."""
    arrays = (layer for layer in stack if isinstance(layer, Md) and layer.level in PARITY)
    return sum((array.devices or 0) * array.groups for array in arrays)
