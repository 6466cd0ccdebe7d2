"""What a set-up takes of the machine's memory, where that is known beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.expand.layouts import Findings, Stack, place_of
from runner.expand.variants import Variant, choices
from runner.model.axes import written
from runner.model.layers import Md
from runner.model.layers.md import PARITY
from runner.model.tune import split
from runner.model.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.model.matrix import Matrix

_PAGE = 4096
#: What a kernel and its tools need for themselves: without it a machine ends in the OOM killer, or in a panic.
_REST = 192 * 1024 * 1024


def check_stripe_caches(matrix: Matrix, stacks: Iterable[Variant[Stack]], findings: Findings) -> None:
    """A stripe cache has so many pages for each device, and the kernel takes them all as soon as it is told."""
    axes = {name: values for name, values in written(matrix.tune).items() if split(name)[1] == "stripe_cache_size"}
    cached = [(stack.label, count) for stack in stacks if (count := _cached_devices(stack.value))]
    if not (axes and cached):
        return
    label, devices = max(cached, key=lambda one: one[1])
    memory = matrix.machine.memory
    for choice in choices(axes):
        (name, pages), *_ = choice.values.items()
        if isinstance(pages, int) and pages * _PAGE * devices > memory - _REST:
            findings.flaw(
                place_of(("tune",), choice, name),
                f"'{pages}': that many pages for each of {devices} devices of {label} are "
                f"{format_size(pages * _PAGE * devices)}, too much for a machine with {format_size(memory)}; "
                "give it more, like machine: {memory: 1GiB}",
            )


def _cached_devices(stack: Stack) -> int:
    """Devices of arrays that have a stripe cache."""
    arrays = (layer for layer in stack if isinstance(layer, Md) and layer.level in PARITY)
    return sum((array.devices or 0) * array.groups for array in arrays)
