"""The scripts of a cell: plain bash and fio in order, which can be run again by hand."""

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


#: Devices in one line of a job: fio reads at most 4096 or 8192 characters of a line.
_A_LINE = 32
#: fio rings the bell when the workload begins, for machines whose disks are to fail then; by hand there is no bell.
BEGINS = {"exec_prerun": """sh -c 'test -z "$MATRIX_BELL" || printf b >"$MATRIX_BELL" || :'"""}


@dataclass(frozen=True, slots=True)
class Files:
    """The files that a job works on: laid out before it, as an earlier cell of that shape left them, or made by it.

    They lie in the topmost directory. Folders in it lie wherever a file system thinks best, and a disk is twice as fast
    at its beginning as at its end.
    """

    directory: str
    #: The path that exists once all files are complete.
    whole: str
    each: int
    #: Number and bytes of one job's files.
    count: int
    span: int
    #: The trial changes their layout on the disks.
    spent: bool


@dataclass(frozen=True, slots=True)
class Place:
    """The target of fio: devices side by side, or files."""

    devices: tuple[str, ...] = ()
    files: Files | None = None
    #: Bytes that each job covers.
    span: int = 2**30

    @property
    def filenames(self) -> tuple[str, ...]:
        """Return the devices as fio takes them, in several lines: fio would cut one with several hundred."""
        escaped = [path.replace(":", "\\:") for path in self.devices]
        return tuple(":".join(escaped[at : at + _A_LINE]) for at in range(0, len(escaped), _A_LINE))


@dataclass(frozen=True, slots=True)
class ArrayScripts:
    """The scripts that run once for an array."""

    stack: Built
    set_up: str
    tear_down: str
    #: Finds and starts the array after a reboot.
    activate: str
    #: Prints the array's state after a trial in which disks failed; empty if no disk is to fail.
    aftermath: str


@dataclass(frozen=True, slots=True)
class CellScripts:
    """The scripts of a trial."""

    tune: str
    verify: str
    measure: str
    #: Prints the samples of the monitors; empty if there are none.
    samples: str
    #: Prints the course of the rate; empty if it is not wanted.
    profile: str


def array_scripts(array: Array, disks: Sequence[str], *, zeroed: bool, own: Path | None = None) -> ArrayScripts:
    stack = built(array.stack.value, disks, array.disks, zeroed=zeroed)

    def script(phase: str) -> str:
        return render(f"{phase}.sh", own, title=array.label, stack=stack)

    aftermath = script("aftermath") if array.faults else ""
    return ArrayScripts(stack, script("set-up"), script("tear-down"), script("activate"), aftermath)


def cell_scripts(cell: Cell, stack: Built, own: Path | None = None, monitor: int | str = OFF) -> CellScripts:
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
    """Return the fio job of one trial; `seed` gives it random offsets of its own."""
    workload, place = cell.workload, place_of(cell, stack)
    return _job("job.fio", workload, place, seed, own, BEGINS if cell.array.faults else {})


def place_of(cell: Cell, stack: Built) -> Place:
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
    """Return the job that lays out files before the measurement; empty if no file is needed."""
    if place.files is None or cell.workload.value.new:
        return ""
    return _job("lay-out.fio", cell.workload, place, 1, own, {})


def job_of(workload: Variant[Workload], place: Place, seed: int, own: Path | None = None) -> str:
    return _job("job.fio", workload, place, seed, own, {})


def _job(
    template: str, workload: Variant[Workload], place: Place, seed: int, own: Path | None, more: Mapping[str, str]
) -> str:
    work = workload.value
    return render(template, own, title=workload.label, place=place, work=work, options={**work.fio, **more}, seed=seed)


def trial_seed(seed: int, cell: str, round_number: int) -> int:
    """Return a seed for random offsets: different for every trial, the same when a trial is repeated."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{cell}/{round_number}".encode(), digest_size=4).digest(), "big") >> 1


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
