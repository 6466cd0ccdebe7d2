"""A cell into the scripts that run it: plain bash and fio, in order, that anybody can run again by hand."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.language.monitor import OFF, interval
from runner.scripts.jinja import render
from runner.scripts.knobs import MEMORY, host, inspections, knobs, recorded_of_memory
from runner.scripts.stack import Built, built

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from runner.language.workload import Workload
    from runner.space.space import Array, Cell
    from runner.space.variants import Variant


#: So many devices stand in one line of a job, of which fio reads no more than 4096 or 8192 characters.
_A_LINE = 32
#: With these, fio tells when its work begins, to whoever has disks that are to fail then; by hand it tells nobody.
BEGINS = {"exec_prerun": """sh -c 'test -z "$MATRIX_BELL" || printf b >"$MATRIX_BELL" || :'"""}


@dataclass(frozen=True, slots=True)
class Files:
    """The files that a job works on: laid out before it, as an earlier cell of that shape left them, or made by it.

    They lie in the topmost directory. Folders in it lie wherever a file system thinks best, and a disk is twice as fast
    at its beginning as at its end.
    """

    directory: str
    #: What is there once all of them are.
    whole: str
    each: int
    #: Of one job.
    count: int
    span: int
    #: The trial changes how they lie on the disks.
    spent: bool


@dataclass(frozen=True, slots=True)
class Place:
    """What fio works on: devices side by side, or files."""

    devices: tuple[str, ...] = ()
    files: Files | None = None
    #: Bytes that each job goes over.
    span: int = 2**30

    @property
    def filenames(self) -> tuple[str, ...]:
        """The devices as fio takes them, in lines that add up: one with all of several hundred would be cut."""
        escaped = [path.replace(":", "\\:") for path in self.devices]
        return tuple(":".join(escaped[at : at + _A_LINE]) for at in range(0, len(escaped), _A_LINE))


@dataclass(frozen=True, slots=True)
class ArrayScripts:
    """What is run once for an array."""

    stack: Built
    set_up: str
    tear_down: str
    #: Finds and starts it again after a reboot.
    activate: str
    #: Tells how it stands after a trial in which disks failed; empty if none is to.
    aftermath: str


@dataclass(frozen=True, slots=True)
class CellScripts:
    """What is run for a trial of a cell."""

    tune: str
    verify: str
    measure: str
    #: Tells what was sampled beside it; empty if nothing is to be.
    samples: str
    #: Tells the course of the rate; empty if nothing asks for it.
    profile: str


def array_scripts(array: Array, disks: Sequence[str], *, zeroed: bool, own: Path | None = None) -> ArrayScripts:
    """The scripts of an array on these disks."""
    stack = built(array.stack.value, disks, array.disks, zeroed=zeroed)

    def script(phase: str) -> str:
        return render(f"{phase}.sh", own, title=array.label, stack=stack)

    aftermath = script("aftermath") if array.faults else ""
    return ArrayScripts(stack, script("set-up"), script("tear-down"), script("activate"), aftermath)


def cell_scripts(cell: Cell, stack: Built, own: Path | None = None, monitor: int | str = OFF) -> CellScripts:
    """The scripts of a cell on an array that is up; `monitor` as the matrix has it."""
    tuned, place = knobs(cell.tune.value, stack), place_of(cell, stack)
    values = {
        "stack": stack,
        "knobs": tuned,
        "ways": sorted({knob.way for knob in tuned} - {""}),
        "inspections": inspections(stack, tuned),
        "host": host(tuned),
        "memory": MEMORY,
        "recorded_of_memory": recorded_of_memory(tuned),
        "governor": next((knob.value for knob in tuned if knob.way == "governor"), None) or "-",
        "work": cell.workload.value,
        "faults": cell.array.faults,
        "samples": interval(monitor, cell.workload.value),
        "files": place.files,
        "window": cell.workload.value.window(place.span),
        "lay_out": _lay_out(cell, place, own),
    }

    def script(phase: str) -> str:
        return render(f"{phase}.sh", own, title=cell.name, **values)

    samples = script("samples") if values["samples"] else ""
    course = script("profile") if cell.workload.value.profile else ""
    return CellScripts(script("tune"), script("verify"), script("measure"), samples, course)


def job(cell: Cell, stack: Built, seed: int, own: Path | None = None) -> str:
    """The fio job of one trial; `seed` makes its random offsets its own."""
    workload, place = cell.workload, place_of(cell, stack)
    return _job("job.fio", workload, place, seed, own, BEGINS if cell.array.faults else {})


def place_of(cell: Cell, stack: Built) -> Place:
    """Where a cell works."""
    if stack.directory is None or cell.files is None:
        return Place(stack.tops, span=cell.span)
    return Place(
        span=cell.span,
        files=Files(
            directory=stack.directory,
            whole=f"{stack.directory}/{cell.files.name}.whole",
            each=cell.files.each,
            count=cell.files.count,
            span=cell.files.span,
            spent=not cell.leaves_files,
        ),
    )


def _lay_out(cell: Cell, place: Place, own: Path | None) -> str:
    """The job that makes the files which have to be there before; empty if none have to."""
    if place.files is None or cell.workload.value.new:
        return ""
    return _job("lay-out.fio", cell.workload, place, 1, own, {})


def job_of(workload: Variant[Workload], place: Place, seed: int, own: Path | None = None) -> str:
    """The fio job of a workload on one device, on several side by side, or on files."""
    return _job("job.fio", workload, place, seed, own, {})


def _job(
    template: str, workload: Variant[Workload], place: Place, seed: int, own: Path | None, more: Mapping[str, str]
) -> str:
    work = workload.value
    return render(template, own, title=workload.label, place=place, work=work, options={**work.fio, **more}, seed=seed)


def trial_seed(seed: int, cell: str, block: int) -> int:
    """Another sequence of random offsets for every trial, the same one whenever the trial is redone."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{cell}/{block}".encode(), digest_size=4).digest(), "big") >> 1


def files_of(array: ArrayScripts, cell: CellScripts) -> dict[str, str]:
    """A cell's folder: its scripts, numbered in the order in which they run; `activate` is for after a reboot.

    `aftermath` runs after the measurement, if disks are to fail during that; `samples` and `profile`, if it is to be
    seen how it went.
    """
    return {
        "1-set-up.sh": array.set_up,
        "2-tune.sh": cell.tune,
        "3-verify.sh": cell.verify,
        "4-measure.sh": cell.measure,
        "5-tear-down.sh": array.tear_down,
        "activate.sh": array.activate,
        **({"aftermath.sh": array.aftermath} if array.aftermath else {}),
        **({"samples.sh": cell.samples} if cell.samples else {}),
        **({"profile.sh": cell.profile} if cell.profile else {}),
    }
