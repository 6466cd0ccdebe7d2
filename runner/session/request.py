"""A matrix with the cells that are wanted of it, checked before anything starts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from runner.base.errors import BadInput
from runner.machines import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from runner.engine.order import Plan
    from runner.language.workload import Workload
    from runner.language.yaml_source import Flaw
    from runner.machines.base import Machine, RigSpec
    from runner.space.load import Declared
    from runner.space.select import Selection
    from runner.space.shard import Shard
    from runner.space.space import Array, Space
    from runner.space.variants import Variant

#: Of so many cells at most it is told beforehand which guidelines they cannot decide: of more it would take seconds.
FORESEEN = 10_000
_BAD_OPTION = re.compile("(?:Bad option <|failed parsing )([a-z0-9_]+)=")


@dataclass(frozen=True)
class Asked:
    """A matrix that holds, and which of its cells are wanted."""

    declared: Declared
    selection: Selection
    plan: Plan
    #: Which of the cells, in the words of the command line; empty: all that the matrix declares.
    part: str = ""

    @property
    def space(self) -> Space:
        """All its cells."""
        return self.declared.space

    def arrays(self) -> Iterator[Array]:
        """Those that are wanted."""
        return (array for array in self.space.arrays if next(self.selection.cells_of(array), None))


@dataclass(frozen=True)
class Checks:
    """What others than the language have to say of a matrix: a kind of machine, who judges guidelines, and fio."""

    #: Has it the kernels that are named by their paths? The others are known.
    place: str
    #: Templates of the user's, which make other jobs.
    own: Path | None = None

    def __call__(self, space: Space) -> Iterator[Flaw]:
        """Everything they would refuse in what is left of it."""
        yield from _lacking_kernels(space, self.place)
        yield from _beyond_judging(space)
        try:
            yield from _refused_jobs(space, self.own)
        except BadInput:  # a template of theirs, which is told of when nothing is wrong with the matrix itself
            yield from _refused_jobs(space, None)


def _nobody(_space: Space) -> Iterable[Flaw]:
    return ()


def asked(
    path: Path,
    only: tuple[str, ...] = (),
    shard: Shard | None = None,
    checks: Callable[[Space], Iterable[Flaw]] = _nobody,
) -> Asked:
    """Load a matrix and choose from it."""
    from runner.engine.order import Plan
    from runner.space.load import load
    from runner.space.select import select
    from runner.space.shard import sharded

    declared = load(path, checks)
    selection = select(declared.space, only)
    matrix = declared.space.matrix
    if next(selection.cells(), None) is None:
        rules = [name for name in ("only", "exclude") if getattr(matrix, name)]
        places = [(declared.source.place_of_key((name,)), name) for name in rules]
        named = [*(["--only"] if only else []), *(f"`{name}:`" for name in rules)]
        raise BadInput(
            f"{path}: no cell is left after {' and '.join(named)}",
            details="\n".join(f"{place.file}:{place.line}:{place.column}: {name}:" for place, name in places),
            resolution="take one of these away: `matrix plan --cells` shows what is left then",
        )
    if shard is not None:
        selection = sharded(selection, shard)
    part = ", ".join([*sorted(f"only {text}" for text in only), *([f"shard {shard}"] if shard else [])])
    return Asked(declared, selection, Plan(selection, matrix.repeat, matrix.seed), part)


def _lacking_kernels(space: Space, place: str) -> Iterator[Flaw]:
    from runner.base.kernels import is_path
    from runner.language.yaml_source import Flaw
    from runner.machines.base import MachineOptions

    for at, kernel in enumerate(space.matrix.machine.kernel or ()):
        if is_path(kernel) and (why := machine(place, MachineOptions()).kernel_refusal(kernel)):
            yield Flaw(("machine", "kernel", at), why)


def _beyond_judging(space: Space) -> Iterator[Flaw]:
    """Guidelines that no measuring would decide."""
    from runner.guidelines.verdicts import undecidable_guidelines
    from runner.language.yaml_source import Flaw
    from runner.results.record import CellRow

    guidelines = space.matrix.guidelines
    cells = list(islice(space.cells(), FORESEEN + 1)) if guidelines else []
    if len(cells) > FORESEEN:
        return
    rows = [CellRow(cell.id, cell.name, cell.axes) for cell in cells]
    for at, why in undecidable_guidelines(guidelines, rows):
        yield Flaw(("guidelines", at, guidelines[at].shape), f"no cells of this matrix can decide it: {why}")


def _refused_jobs(space: Space, own: Path | None) -> Iterator[Flaw]:
    """Every different workload that fio itself will not take."""
    from runner.scripts.fio_check import explain_missing_fio, find_rejected

    if explain_missing_fio():
        return
    mine = f" (in a job of {own / 'job.fio'})" if own and (own / "job.fio").exists() else ""
    works = space.workloads

    def refusals(numbers: Iterable[int]) -> dict[int, str]:
        jobs = {str(at): _job(*works[at], own) for at in numbers}
        return {int(at): message for at, message in find_rejected(jobs).items()}

    # fio stops at the first that it refuses: those that say the same of its own options are asked about once.
    alike: dict[object, list[int]] = {}
    for at, (work, in_files) in enumerate(works):
        alike.setdefault((dict(work.coords)["workload"], *sorted(work.value.fio.items()), in_files), []).append(at)
    first = refusals(numbers[0] for numbers in alike.values())
    others = refusals(at for numbers in alike.values() if numbers[0] not in first for at in numbers[1:])
    for at, message in {**first, **others}.items():
        yield from _flaws(works[at][0], message, mine)


def _job(work: Variant[Workload], in_files: bool, own: Path | None) -> str:
    """The fio job of a workload, on something or other."""
    from runner.scripts.cell import Files, Place, workload_job

    place = Place(files=Files("/", "/whole", 2**40, 1, 2**40, single_use=False)) if in_files else Place(("/dev/null",))
    return workload_job(work, place, 1, own)


def _flaws(work: Variant[Workload], message: str, mine: str) -> Iterator[Flaw]:
    """What fio says of a workload, each thing at the option that it is about if that can be told."""
    from runner.language.yaml_source import Flaw

    place, unplaced = ("workloads", dict(work.coords)["workload"]), []
    for line in message.splitlines():
        named = _BAD_OPTION.search(line)
        if named and named[1] in work.value.fio:
            yield Flaw((*place, "fio", named[1]), f"fio refuses it: {line}{mine}", of_key=True)
        else:
            unplaced.append(line)
    if unplaced:
        yield Flaw(place, f"fio refuses it: {'; '.join(unplaced[:3])}{mine}")


def check_templates(request: Asked, own: Path | None) -> None:
    """Render the scripts of a cell of every layout and the jobs of all workloads.

    What a user's own templates lack is told before anything starts.
    """
    from runner.scripts.cell import cell_scripts, files_of, job, stack_scripts

    if own is None:
        return
    matrix = request.space.matrix
    disks = [f"/dev/disk/by-id/matrix-{number}" for number in range(len(matrix.every_disk()))]
    for array in {dict(array.coords)["layout"]: array for array in request.arrays()}.values():
        cell = next(request.selection.cells_of(array))
        # Disks of which nobody knows that they are zeroed have more done to them.
        scripts = stack_scripts(array, disks, zeroed=False, own=own)
        for name, text in files_of(scripts, cell_scripts(cell, scripts.stack, own, matrix.monitor)).items():
            _is_bash(name, text, own)
        job(cell, scripts.stack, 1, own)
    for work, in_files in request.space.workloads:
        _job(work, in_files, own)


def check_names(own: Path | None) -> None:
    """Refuse templates that nothing would read: whoever wrote them means something else than what would run."""
    from runner.language.suggestions import did_you_mean
    from runner.scripts.jinja import effective_templates, unused_templates

    if own and (names := unused_templates(own)):
        raise BadInput(
            f"nothing reads {', '.join(str(own / name) for name in names)}",
            details="\n".join(f"{name}: {did_you_mean(name, effective_templates(None))}" for name in names),
            resolution="name it as the shipped template that it stands in for, or include it from one that does",
        )


def _is_bash(name: str, text: str, own: Path) -> None:
    """Whether a script can be read at all is asked of bash itself."""
    from runner.base.process import run

    told = run(["bash", "-n"], stdin=text)
    if told.returncode:
        raise BadInput(
            f"{name}, as the templates in {own} make it, is no script that bash can read",
            details=told.stderr.strip(),
            resolution="`matrix render --templates` writes it, to be looked at",
        )


def refuse(place: Machine, specs: Iterable[RigSpec]) -> None:
    """Stop here if the machine says that it cannot do it, with everything that it says."""
    refusals = list(dict.fromkeys(refusal for spec in specs for refusal in place.refusals(spec)))
    if refusals:
        raise BadInput(
            f"the {place.name} machine cannot run this",
            details="\n".join(f"- {one.message}" for one in refusals),
            resolution="`matrix doctor` shows what every machine needs",
        )
