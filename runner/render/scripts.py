"""A cell into the scripts that run it: plain bash and fio, in order, that anybody can run again by hand."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.render.environment import render
from runner.render.knobs import inspections, knobs
from runner.render.stack import Built, built

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.expand.space import Array, Cell
    from runner.expand.variants import Variant
    from runner.model.workload import Workload


@dataclass(frozen=True, slots=True)
class ArrayScripts:
    """What is run once for an array."""

    stack: Built
    set_up: str
    tear_down: str
    #: Finds and starts it again after a reboot.
    activate: str


@dataclass(frozen=True, slots=True)
class CellScripts:
    """What is run for a trial of a cell."""

    tune: str
    verify: str
    measure: str


def array_scripts(array: Array, disks: Sequence[str], *, zeroed: bool, own: Path | None = None) -> ArrayScripts:
    """The scripts of an array on these disks."""
    stack = built(array.stack.value, disks, array.disks, zeroed=zeroed)
    values = {"title": array.label, "stack": stack}
    return ArrayScripts(stack, *(render(f"{phase}.sh", own, **values) for phase in ("set-up", "tear-down", "activate")))


def cell_scripts(cell: Cell, stack: Built, own: Path | None = None) -> CellScripts:
    """The scripts of a cell on an array that is up."""
    tuned = knobs(cell.tune.value, stack)
    values = {
        "title": cell.name,
        "stack": stack,
        "knobs": tuned,
        "inspections": inspections(stack, tuned),
        "work": cell.workload.value,
    }
    return CellScripts(*(render(f"{phase}.sh", own, **values) for phase in ("tune", "verify", "measure")))


def job(cell: Cell, stack: Built, seed: int, own: Path | None = None) -> str:
    """The fio job of one trial; `seed` makes its random offsets its own."""
    return job_of(cell.workload, stack.tops, seed, own)


def job_of(workload: Variant[Workload], tops: Sequence[str], seed: int, own: Path | None = None) -> str:
    """The fio job of a workload on one device, or on several side by side."""
    work = workload.value
    return render(
        "job.fio",
        own,
        title=workload.label,
        top=":".join(path.replace(":", "\\:") for path in tops),
        work=work,
        options=work.fio,
        seed=seed,
    )


def trial_seed(seed: int, cell: str, block: int) -> int:
    """Another sequence of random offsets for every trial, the same one whenever the trial is redone."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{cell}/{block}".encode(), digest_size=4).digest(), "big") >> 1


def files_of(array: ArrayScripts, cell: CellScripts) -> dict[str, str]:
    """A cell's folder: its scripts, numbered in the order in which they run."""
    return {
        "1-set-up.sh": array.set_up,
        "2-tune.sh": cell.tune,
        "3-verify.sh": cell.verify,
        "4-measure.sh": cell.measure,
        "5-tear-down.sh": array.tear_down,
    }
