"""A matrix, its selected cells, and all checks before a run; fio_check.py lets fio check the jobs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from matrix_runner.answers.knee import searches_of
from matrix_runner.answers.samples import Measured
from matrix_runner.answers.verdicts import undecidable_guidelines
from matrix_runner.base.errors import BadInput
from matrix_runner.base.findings import Flaw
from matrix_runner.base.process import run
from matrix_runner.decide.plan import Plan
from matrix_runner.language.matrix import is_path
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.machines import machine
from matrix_runner.machines.base import Machine, MachineOptions, RigSpec
from matrix_runner.machines.requirements import describe
from matrix_runner.records.environment import WHOLE, Requested
from matrix_runner.records.record import CellRow
from matrix_runner.scripts.cell import cell_scripts, explain_missing_fio, files_of, job, stack_scripts
from matrix_runner.scripts.jinja import effective_templates, unused_templates
from matrix_runner.session.fio_check import fio_flaws, job_text
from matrix_runner.space.load import Declared, load
from matrix_runner.space.select import Design, Selection, Shard, design_refusal, designed, select, sharded
from matrix_runner.space.space import Space, Stack, expand

#: With more cells, or cells × guidelines, the check for undecidable guidelines would take seconds, so it is skipped.
MAX_CHECKED_CELLS, MAX_CHECKED_PAIRS = 10_000, 50_000


@dataclass(frozen=True)
class SelectedMatrix:
    declared: Declared
    selection: Selection
    plan: Plan
    requested: Requested = WHOLE

    @property
    def space(self) -> Space:
        return self.declared.space

    def stacks(self) -> Iterator[Stack]:
        return (stack for stack in self.space.stacks if self.selection.count_of(stack))


@dataclass(frozen=True)
class Checks:
    #: The machine that must boot the kernel images.
    place: str
    own: Path | None = None

    def __call__(self, space: Space) -> Iterator[Flaw]:
        for at, kernel in enumerate(space.matrix.machine.kernel or ()):
            if is_path(kernel) and (why := machine(self.place, MachineOptions()).kernel_refusal(kernel)):
                yield Flaw(("machine", "kernel", at), why)
        yield from _guideline_flaws(space)
        try:
            yield from fio_flaws(space, self.own)
        except BadInput:  # a user template is wrong: `check_templates` reports it if the matrix itself is valid
            yield from fio_flaws(space, None)


def load_selected(
    path: Path,
    only: tuple[str, ...] = (),
    shard: Shard | None = None,
    checks: Checks | None = None,
    design: Design | None = None,
    kernels: tuple[str, ...] = (),
) -> SelectedMatrix:
    """Load a matrix and select its cells. `kernels`: versions of a search, which it does not name itself."""
    declared = load(path, checks or (lambda _space: ()))
    if kernels:
        declared = _on_kernels(declared, kernels)
    selection = select(declared.space, only)
    matrix = declared.space.matrix
    if not selection.count():
        rules = [name for name in ("only", "exclude") if getattr(matrix, name)]
        places = [(declared.source.place_of_key((name,)), name) for name in rules]
        filters = [*(["--only"] if only else []), *(f"`{name}:`" for name in rules)]
        raise BadInput(
            f"{path}: no cell is left after {' and '.join(filters)}",
            details="\n".join(f"{place.file}:{place.line}:{place.column}: {name}:" for place, name in places),
            resolution="remove or widen one of these; `matrix plan --cells` lists the cells",
        )
    if shard is not None:
        selection = sharded(selection, shard)
    if design is not None:
        if shard is not None:
            raise design_refusal("--shard")
        selection = designed(selection, design, matrix.seed)
    requested = Requested(only=tuple(sorted(only)), shard=str(shard or ""), design=str(design or ""))
    return SelectedMatrix(declared, selection, Plan(selection, matrix.repeat, matrix.seed), requested)


def _on_kernels(declared: Declared, kernels: tuple[str, ...]) -> Declared:
    matrix = declared.space.matrix
    if matrix.machine.kernel:
        raise BadInput(
            f"{declared.source.name} names kernels, and the versions of the search are others",
            resolution="remove `kernel:` from `machine:`",
        )
    wish = matrix.machine.model_copy(update={"kernel": kernels})
    space, _ = expand(matrix.model_copy(update={"machine": wish}))
    return replace(declared, space=space)


def _guideline_flaws(space: Space) -> Iterator[Flaw]:
    guidelines = space.matrix.guidelines
    count = space.count()
    if count > MAX_CHECKED_CELLS or count * len(guidelines) > MAX_CHECKED_PAIRS:
        return
    found = [
        Measured("", CellRow(cell.id, cell.name, cell.axes), jobs=cell.workload.value.directions)
        for cell in (space.cells() if guidelines else ())
    ]
    found += [Measured("", one.row) for one in searches_of([each.cell for each in found], space.matrix.finds)]
    for at, why in undecidable_guidelines(guidelines, found):
        yield Flaw(("guidelines", at, guidelines[at].shape), f"no cells of this matrix can decide it: {why}")


def check_templates(selected: SelectedMatrix, own: Path | None) -> None:
    """Render one cell of every layout and all workloads, so that faults of user templates appear before the run."""
    if own is None:
        return
    matrix = selected.space.matrix
    disks = [f"/dev/disk/by-id/matrix-{number}" for number in range(len(matrix.every_disk()))]
    for stack in {dict(stack.coords)["layout"]: stack for stack in selected.stacks()}.values():
        cell = next(selected.selection.cells_of(stack))
        # Scripts for disks that may hold data have more steps.
        scripts = stack_scripts(stack, disks, zeroed=False, own=own)
        for name, text in files_of(scripts, cell_scripts(cell, scripts.stack, own, matrix.monitor)).items():
            result = run(["bash", "-n"], stdin=text) if name.endswith(".sh") else None
            if result and result.returncode:
                raise BadInput(
                    f"the templates in {own} render {name} with a bash syntax error",
                    details=result.stderr.strip(),
                    resolution="`matrix render --templates` writes the script for inspection",
                )
        job(cell, scripts.stack, 1, own)
    for work, in_files in selected.space.workloads:
        if work.value.for_fio():
            job_text(work, in_files, own)


def check_names(own: Path | None) -> None:
    if own and (names := unused_templates(own)):
        raise BadInput(
            f"unused templates: {', '.join(str(own / name) for name in names)}",
            details="\n".join(f"{name}: {did_you_mean(name, effective_templates(None))}" for name in names),
            resolution="use the name of the shipped template to replace, or include the file from such a template",
        )


def check_machine(place: Machine, specs: Iterable[RigSpec]) -> None:
    refusals = list(dict.fromkeys(refusal for spec in specs for refusal in place.refusals(spec)))
    if refusals:
        lines, commands = describe(refusals, also=("fio",) if explain_missing_fio() else ())
        raise BadInput(
            f"the {place.name} machine cannot run this",
            details="\n".join(f"- {line}" for line in lines),
            resolution="\n→ ".join([*commands, "`matrix doctor` shows the needs of every machine"]),
        )
