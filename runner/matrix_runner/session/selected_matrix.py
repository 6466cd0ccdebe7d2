"""A matrix, its selected cells, and all checks before a run, with that of each job by fio itself."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matrix_runner.answers.axes import DEFAULT, grouped, is_numeric
from matrix_runner.base.errors import BadInput
from matrix_runner.base.findings import Flaw
from matrix_runner.base.model import Variant
from matrix_runner.base.process import run
from matrix_runner.base.text import lines_of
from matrix_runner.decide.plan import Plan
from matrix_runner.language.matrix import is_path
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.machines import machine
from matrix_runner.machines.base import Machine, MachineOptions, Refusal, RigSpec
from matrix_runner.machines.requirements import describe
from matrix_runner.records.environment import WHOLE, Requested
from matrix_runner.records.record import CellRow
from matrix_runner.scripts.cell import (
    Files,
    Place,
    cell_scripts,
    explain_missing_fio,
    files_of,
    find_error,
    find_rejected,
    fio_accepts,
    job,
    stack_scripts,
    workload_job,
)
from matrix_runner.scripts.jinja import effective_templates, unused_templates
from matrix_runner.space.load import Declared, load
from matrix_runner.space.select import Design, Selection, Shard, design_refusal, designed, select, sharded
from matrix_runner.space.space import Space, Stack, expand
from matrix_runner.work.workload import Workload

#: With more cells, or cells × guidelines, the check for undecidable guidelines would take seconds, so it is skipped.
MAX_CHECKED_CELLS, MAX_CHECKED_PAIRS = 10_000, 50_000
_LEAST_VALUES = 3  # of a search for the best


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
        yield from _search_flaws(space)
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
    *,
    raced: bool = False,
) -> SelectedMatrix:
    """Load a matrix and select its cells. `kernels`: versions of a search, which it does not name itself."""
    declared = load(path, checks or (lambda _space: ()))
    if kernels:
        declared = on_kernels(declared, kernels)
    selection = select(declared.space, only)
    matrix = declared.space.matrix
    if not selection.count():
        rules = [name for name in ("only", "exclude") if getattr(matrix, name)]
        places = [(declared.source.place((name,), of_key=True), name) for name in rules]
        filters = [*(["--only"] if only else []), *(f"`{name}:`" for name in rules)]
        raise BadInput(
            f"{path}: no cell is left after {' and '.join(filters)}",
            details="\n".join(f"{place.file}:{place.line}:{place.column}: {name}:" for place, name in places),
            resolution="remove or widen one of these; `matrix plan --cells` lists the cells",
        )
    if shard is not None:
        if best := [name for name, find in matrix.finds.items() if find.is_for_best]:
            raise BadInput(
                f"`find` of {', '.join(best)} compares values of all stacks, and --shard has only some of them",
                resolution="leave one of them out; --jobs and --cluster search in parallel",
            )
        selection = sharded(selection, shard)
    if design is not None:
        if shard is not None:
            raise design_refusal("--shard")
        selection = designed(selection, design, matrix.seed)
    requested = Requested(only=tuple(sorted(only)), shard=str(shard or ""), design=str(design or ""))
    repeat = matrix.repeat.of_race if raced else matrix.repeat
    return SelectedMatrix(declared, selection, Plan(selection, repeat, matrix.seed), requested)


def on_kernels(declared: Declared, kernels: tuple[str, ...]) -> Declared:
    matrix = declared.space.matrix
    if matrix.machine.kernel:
        raise BadInput(
            f"{declared.source.name} names kernels, and the versions of the search are others",
            resolution="remove `kernel:` from `machine:`",
        )
    wish = matrix.machine.model_copy(update={"kernel": kernels})
    space, _ = expand(matrix.model_copy(update={"machine": wish}))
    return replace(declared, space=space)


def _search_flaws(space: Space) -> Iterator[Flaw]:
    for name, find in space.matrix.finds.items():
        values = space.values_of(find.axis, name) - {DEFAULT}
        path = ("workloads", name, "find")
        if find.is_for_best and len(values) < _LEAST_VALUES:
            what = f"{find.axis} has {len(values)} value{'s' if len(values) != 1 else ''} to search"
            yield Flaw(path, f"{what}; write {_LEAST_VALUES} or more, or another axis at `over`")
        elif find.is_for_best and not is_numeric(find.axis, values):
            yield Flaw(path, f"{find.axis} has values that are no numbers, so none of them is the smallest")


def _guideline_flaws(space: Space) -> Iterator[Flaw]:
    guidelines = space.matrix.guidelines
    count = space.count()
    if not guidelines or count > MAX_CHECKED_CELLS or count * len(guidelines) > MAX_CHECKED_PAIRS:
        return
    from matrix_runner.answers.cell_figures import Measured
    from matrix_runner.answers.verdicts import undecidable_guidelines

    found = [
        Measured("", CellRow(cell.id, cell.name, cell.axes), jobs=cell.workload.value.directions)
        for cell in space.cells()
    ]
    if space.matrix.finds:
        from matrix_runner.answers.knee import searches_of

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
        for name, text in files_of(
            scripts, cell_scripts(cell, scripts.stack, own, matrix.monitor, profile=matrix.profile)
        ).items():
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


def refusals_of(place: Machine, specs: Iterable[RigSpec]) -> list[Refusal]:
    """Return why a run is refused. If some stacks can run, cells of those that lack something are skipped instead."""
    each = [place.refusals(spec) for spec in specs]
    some = not all(each)
    return list(dict.fromkeys(one for found in each for one in found if not (some and one.of_layers)))


def check_machine(place: Machine, specs: Iterable[RigSpec]) -> None:
    if refusals := refusals_of(place, specs):
        lines, commands = describe(refusals, also=("fio",) if explain_missing_fio() else ())
        raise BadInput(
            f"the {place.name} machine cannot run this",
            details="\n".join(f"- {line}" for line in lines),
            resolution="\n→ ".join([*commands, "`matrix doctor` shows the needs of every machine"]),
        )


_MOST_CHECKED, _MOST_SECTIONS = 200, 1000  # job files that fio checks before a run, 10 ms each, and 2 ms a section
_BAD_OPTION = re.compile("(?:Bad option <|failed parsing )([a-z0-9_]+)=")


def fio_flaws(space: Space, own: Path | None) -> Iterator[Flaw]:
    if explain_missing_fio():
        return
    mine = f" (in a job of {own / 'job.fio'})" if own and (own / "job.fio").exists() else ""
    yield from _job_file_flaws([one for one in space.workloads if one[0].value.job_sections], own)
    works = [one for one in space.workloads if one[0].value.for_fio() and not one[0].value.job_sections]
    # The user's templates may make another job of each.
    works = works if own else list(_that_differ(works))
    jobs = {str(at): job_text(work, in_files, own) for at, (work, in_files) in enumerate(works)}
    if fio_accepts(jobs):
        return

    def refusals(numbers: Iterable[int]) -> dict[int, str]:
        return {int(at): message for at, message in find_rejected({str(at): jobs[str(at)] for at in numbers}).items()}

    # fio stops at the first refused job, so each set of fio options is checked once.
    alike = grouped((_kind(work, in_files), at) for at, (work, in_files) in enumerate(works))
    first = refusals(numbers[0] for numbers in alike.values())
    others = refusals(at for numbers in alike.values() if numbers[0] not in first for at in numbers[1:])
    for at, message in {**first, **others}.items():
        yield from _workload_flaws(works[at][0], message, mine)


def _kind(work: Variant[Workload], in_files: bool) -> tuple[object, ...]:
    return dict(work.coords)["workload"], in_files, tuple(sorted(work.value.fio.items()))


def _that_differ(works: Iterable[tuple[Variant[Workload], bool]]) -> Iterator[tuple[Variant[Workload], bool]]:
    """Yield a workload of each kind, and with each value of each axis: fio reads every option by itself."""
    known = set[object]()
    for work, in_files in works:
        name = dict(work.coords)["workload"]
        kind = (*_kind(work, in_files), work.value.rw)
        new = {kind, *((name, in_files, *coord) for coord in work.coords)} - known
        if new:
            known |= new
            yield work, in_files


def _job_file_flaws(works: Sequence[tuple[Variant[Workload], bool]], own: Path | None) -> Iterator[Flaw]:
    # Each job file has its own sections, so fio checks each in a separate start. The rest is checked when it runs.
    sections = 0
    for work, in_files in works[:_MOST_CHECKED]:
        if sections > _MOST_SECTIONS:
            return
        sections += work.value.job_sections
        if message := find_error(job_text(work, in_files, own)):
            name = dict(work.coords)["workload"]
            key = "job" if any(axis == "workload.job" for axis, _ in work.coords) else "jobs"
            yield Flaw(("workloads", name, key), f"fio refuses it: {'; '.join(lines_of(message)[:3])}")


def job_text(work: Variant[Workload], in_files: bool, own: Path | None) -> str:
    place = Place(files=Files("/", "/whole", 2**40, 1, 2**40, single_use=False)) if in_files else Place(("/dev/null",))
    return workload_job(work, place, 1, own)


def _workload_flaws(work: Variant[Workload], message: str, mine: str) -> Iterator[Flaw]:
    place, unplaced = ("workloads", dict(work.coords)["workload"], *work.value.fio_keys), list[str]()
    for line in lines_of(message):
        option = _BAD_OPTION.search(line)
        if option and option[1] in work.value.fio:
            yield Flaw((*place, "fio", option[1]), f"fio refuses it: {line}{mine}", of_key=True)
        else:
            unplaced.append(line)
    if unplaced:
        yield Flaw(place, f"fio refuses it: {'; '.join(unplaced[:3])}{mine}")
