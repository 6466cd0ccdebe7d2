"""What work on an array takes of a machine beyond reading and writing its disks. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.model.axes import written
from runner.model.tune import meant_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.expand.space import Array


def powers_of(array: Array) -> tuple[str, ...]:
    """As `RigSpec.powers` has them, of all cells of the array together."""
    return tuple(sorted(set(_powers(array))))


def _powers(array: Array) -> Iterator[str]:
    for workload in array.workloads:
        if not workload.value.direct:
            yield "caches"
    for tune in array.tunes:
        for name in written(tune.value):
            if not meant_kind(name, top="disk"):
                yield "host"
            if name.rpartition(".")[2] == "write_cache":
                yield "caches"  # the drive's own
