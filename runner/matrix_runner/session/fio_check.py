"""The check of each job by fio itself, before a run: fio refuses unknown options and impossible values.

scripts/cell.py starts fio. Options that fio knows, but no workload may have: work/fio/keys.py.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from matrix_runner.answers.axes import grouped
from matrix_runner.base.findings import Flaw
from matrix_runner.base.model import Variant
from matrix_runner.base.text import lines_of
from matrix_runner.scripts.cell import (
    Files,
    Place,
    explain_missing_fio,
    find_error,
    find_rejected,
    fio_accepts,
    workload_job,
)
from matrix_runner.space.space import Space
from matrix_runner.work.workload import Workload

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
