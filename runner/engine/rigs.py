"""The rig that a stack needs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.language.axes import written
from runner.language.tune import target_kind
from runner.machines.base import RigSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.language.matrix import Matrix
    from runner.space.space import Array


def rig_spec(matrix: Matrix, array: Array, kernel: str | None) -> RigSpec:
    """Describe the rig for a stack; `kernel`: from the command line."""
    wish = matrix.machine
    modules = tuple(sorted({name for layer in array.stack.value for name in layer.modules}))
    programs = tuple(sorted({name for layer in array.stack.value for name in layer.programs}))
    powers = powers_of(array)
    return RigSpec(matrix.every_disk(), kernel or array.kernel, wish.cpus, wish.memory, modules, programs, powers)


def specs_of(matrix: Matrix, arrays: Iterable[Array], kernel: str | None) -> Iterator[RigSpec]:
    return (rig_spec(matrix, array, kernel) for array in arrays)


def powers_of(array: Array) -> tuple[str, ...]:
    """Return `RigSpec.powers` for all cells of the stack."""
    return tuple(sorted(set(_powers(array))))


def _powers(array: Array) -> Iterator[str]:
    if array.faults:
        yield "faults"
    for workload in array.workloads:
        if not workload.value.direct:
            yield "caches"
    for tune in array.tunes:
        for name in written(tune.value):
            if not target_kind(name, top="disk"):
                yield "host"
            if name.rpartition(".")[2] == "write_cache":
                yield "caches"  # the drive's own
