"""The scripts of a cell, numbered in the order in which they run, also by hand; and the check of its jobs by fio."""

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from matrix_runner.base.model import Variant
from matrix_runner.base.process import run
from matrix_runner.base.text import lines_of
from matrix_runner.language.matrix import OFF, interval
from matrix_runner.language.messages import MOST_SHOWN
from matrix_runner.scripts.jinja import one_line, render
from matrix_runner.scripts.stack import (
    MEMORY,
    StackView,
    host_expectations,
    inspections,
    memory_settings_to_record,
    timers,
    tunables_of,
    view_stack,
)
from matrix_runner.space.space import Cell, Stack
from matrix_runner.work.kinds import KINDS
from matrix_runner.work.profilers import profile_file
from matrix_runner.work.workload import Workload

#: Devices in one line of a job: fio reads at most 4096 or 8192 characters of a line.
_DEVICES_PER_LINE = 32
#: fio signals the start of the workload to machines whose disks fail on demand. Without a bell it does nothing.
BEGINS = {"exec_prerun": """sh -c 'test -z "$MATRIX_BELL" || printf b >"$MATRIX_BELL" || :'"""}


@dataclass(frozen=True, slots=True)
class Files:
    """The files that a job reads and writes.

    They are in the topmost directory, because a file system may place other directories anywhere, and a disk is twice
    as fast at its beginning as at its end.
    """

    directory: str
    whole: str  # the marker that exists once all files are complete
    each: int
    count: int  # number and total size of the files of one job
    span: int
    single_use: bool  # the trial changes their layout on the disks, so the next trial needs new ones


@dataclass(frozen=True, slots=True)
class Place:
    """The target of fio: devices side by side, or files."""

    devices: tuple[str, ...] = ()
    files: Files | None = None
    span: int = 2**30  # bytes that each job covers

    def only(self, numbers: Sequence[int]) -> "Place":
        return replace(self, devices=tuple(self.devices[number] for number in numbers))

    @property
    def filenames(self) -> tuple[str, ...]:
        """Return the devices in fio's notation, in several lines: fio truncates a line with several hundred."""
        escaped = [path.replace(":", "\\:") for path in self.devices]
        step = _DEVICES_PER_LINE
        return tuple(":".join(escaped[at : at + step]) for at in range(0, len(escaped), step))


@dataclass(frozen=True, slots=True)
class StackScripts:
    stack: StackView
    set_up: str
    tear_down: str
    activate: str  # finds and starts the stack after a reboot
    aftermath: str  # prints the state of the stack after a trial in which disks failed; empty without faults


@dataclass(frozen=True, slots=True)
class CellScripts:
    tune: str
    verify: str
    measure: str
    samples: str  # prints the samples of the monitors; empty without monitors
    profile: str  # prints the rate over the course of the trial; empty unless the workload asks for it
    profilers: Mapping[str, str]  # print what profilers have found, by the file that keeps it
    files: Mapping[str, str]  # files that the scripts read


def at_pace(stack: Stack, disks: Sequence[str], *, zeroed: bool, slow: int) -> StackView:
    """Return a stack that was built, with disks that work at another pace from now on."""
    return replace(view_stack(stack.layers.value, disks, stack.disks, zeroed=zeroed, slow=slow), retimed=True)


def stack_scripts(
    stack: Stack, disks: Sequence[str], *, zeroed: bool, own: Path | None = None, only_read: bool = False
) -> StackScripts:
    view = view_stack(stack.layers.value, disks, stack.disks, zeroed=zeroed, slow=stack.slow)
    view = replace(view, only_read=only_read)

    def script(phase: str) -> str:
        return render(f"{phase}.sh", own, title=stack.label, stack=view)

    aftermath = script("aftermath") if stack.faults else ""
    return StackScripts(view, script("set-up"), script("tear-down"), script("activate"), aftermath)


#: The name of the cell in texts that several cells share.
_NAME = "@cell@"
#: Rendered scripts of one stack, with `_NAME` for the name of the cell, by what they depend on.
Rendered = MutableMapping[tuple[object, ...], str]


def cell_scripts(
    cell: Cell,
    stack: StackView,
    own: Path | None = None,
    monitor: int | str = OFF,
    rendered: Rendered | None = None,
    profile: Sequence[str] = (),
) -> CellScripts:
    """Render the scripts of a cell. `rendered` keeps texts that its stack has in common with other cells."""
    place, declared, slow = place_of(cell, stack), cell.work, stack.slow
    work, sampled = declared.slowed(slow), interval(monitor, declared) * slow
    values = cache(lambda: {**_values(cell, stack, own, place, sampled), "profilers": profile})

    def script(phase: str, *depends: object) -> str:
        if own is not None or rendered is None or not depends:  # the user's templates may use any value
            return render(f"{phase}.sh", own, title=cell.name, **values())
        if (key := (phase, *depends)) not in rendered:
            rendered[key] = render(f"{phase}.sh", own, title=_NAME, **values())
        return rendered[key].replace(_NAME, one_line(cell.name))

    # Equal for all cells of the stack that have these in common, if only fio is at work on devices.
    is_plain = not place.files and declared.script_values(place.span, slow) is None
    pace = slow, stack.retimed
    common = (cell.tune.digest, work.direct, work.trims, work.nvme_key, sampled, pace) if is_plain else ()
    samples = script("samples", *common) if sampled else ""
    course = script("profile") if work.profile else ""
    tune, verify, measure = (script(phase, *common) for phase in ("tune", "verify", "measure"))
    profilers = {
        profile_file(one): render("profiler.sh", own, title=f"{one} of {cell.name}", profiler=one, stack=stack)
        for one in profile
    }
    return CellScripts(tune, verify, measure, samples, course, profilers, declared.script_files(place.span, slow))


def _values(cell: Cell, stack: StackView, own: Path | None, place: Place, sampled: int) -> dict[str, Any]:
    tunables, declared, slow = tunables_of(cell.tune.value, stack), cell.work, stack.slow
    work = declared.slowed(slow)
    return {
        **dict.fromkeys(KINDS),
        declared.kind: declared.script_values(place.span, slow),
        "stack": stack,
        "tunables": tunables,
        "ways": sorted({tunable.way for tunable in tunables} - {""}),
        "inspections": inspections(stack, tunables),
        "host": host_expectations(tunables),
        "memory": MEMORY,
        "recorded_of_memory": memory_settings_to_record(tunables),
        "governor": next((tunable.value for tunable in tunables if tunable.way == "governor"), None) or "-",
        "work": work,
        "faults": cell.stack.faults,
        "cmdline": cell.stack.cmdline.split(),
        "module_parameters": list(_module_parameters(cell.stack.cmdline)),
        "samples": sampled,
        "files": place.files,
        "window": work.window(place.span),
        "course": declared.course * slow,
        "slow": slow,
        "timers": timers(stack, tunables),
        # The job that lays out files before the measurement; empty if no file is needed.
        "lay_out": _job("lay-out.fio", cell.workload, place, 1, own, {}, slow) if place.files and not work.new else "",
    }


def _module_parameters(cmdline: str) -> Iterator[tuple[str, str, str]]:
    """Yield the module, parameter and value of each word like `nvme.poll_queues=2`."""
    for word in cmdline.split():
        name, _, value = word.partition("=")
        module, dot, parameter = name.replace("-", "_").partition(".")
        if dot and value:
            yield module, parameter, value


def job(cell: Cell, stack: StackView, seed: int, own: Path | None = None) -> str:
    """Return the job of fio; empty if only the array is at work."""
    place = place_of(cell, stack)
    if (work := cell.work.for_fio()) is None:
        return ""
    more = {**(BEGINS if cell.stack.faults else {}), **work.job_options}
    if own is None and not more and work.job_template == _JOB:
        one = _PlainJob(cell.workload.digest, cell.workload.label, place, stack.slow, cell.workload)
        return _plain_job(one).replace(_SEED, str(seed))
    return _job(work.job_template, replace(cell.workload, value=work), place, seed, own, more, stack.slow)


_SEED, _JOB = "@seed@", "job.fio"


@dataclass(frozen=True, slots=True)
class _PlainJob:
    """The values on which the job of a plain workload depends, beside the seed."""

    digest: bytes
    label: str
    place: Place
    slow: int
    workload: Variant[Workload] = field(compare=False)


@lru_cache(maxsize=16_384)
def _plain_job(one: _PlainJob) -> str:
    """Stacks often have a job in common, and each round has it again."""
    return _job(_JOB, one.workload, one.place, _SEED, None, {}, one.slow)


def place_of(cell: Cell, stack: StackView) -> Place:
    directory, made = stack.directory, cell.files
    if directory is None or made is None:
        return Place(stack.tops, span=cell.span)
    marker = f"{directory}/{made.name}.whole"
    files = Files(directory, marker, made.each, made.count, made.span, single_use=not cell.leaves_files)
    return Place(span=cell.span, files=files)


def workload_job(workload: Variant[Workload], place: Place, seed: int, own: Path | None = None) -> str:
    """Return a job for checks by fio."""
    work = workload.value.for_fio() or workload.value
    return _job(work.job_template, replace(workload, value=work), place, seed, own, {})


def _job(
    template: str,
    workload: Variant[Workload],
    place: Place,
    seed: int | str,
    own: Path | None,
    more: Mapping[str, str],
    slow: int = 1,
) -> str:
    work = workload.value.slowed(slow)
    values = {"course": workload.value.course * slow, "slow": slow, "options": {**work.fio, **more}}
    return render(template, own, title=workload.label, place=place, work=work, seed=seed, **values)


def trial_seed(seed: int, cell: str, round_number: int) -> int:
    """Return a seed for random offsets: different for every trial, the same when a trial is repeated."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{cell}/{round_number}".encode(), digest_size=4).digest(), "big") >> 1


def files_of(stack: StackScripts, cell: CellScripts) -> dict[str, str]:
    """Return the scripts of a cell's folder by file name. Those without a number run only on some occasions."""
    return {
        "1-set-up.sh": stack.set_up,
        "2-tune.sh": cell.tune,
        "3-verify.sh": cell.verify,
        "4-measure.sh": cell.measure,
        "5-tear-down.sh": stack.tear_down,
        "activate.sh": stack.activate,
        **({"aftermath.sh": stack.aftermath} if stack.aftermath else {}),
        **({"samples.sh": cell.samples} if cell.samples else {}),
        **({"profile.sh": cell.profile} if cell.profile else {}),
        **{Path(file).with_suffix(".sh").name: script for file, script in cell.profilers.items()},
        **cell.files,
    }


_DROPPED = re.compile(r"^fio: job (\S+) dropped$", re.MULTILINE)
_VALID = re.compile(r"(?:valid values)?: +(\S+)")
#: fio reads at most this many jobs from one file.
_JOBS_PER_FILE = 1000


def explain_missing_fio() -> str:
    if shutil.which("fio"):
        return ""
    return "fio is not installed here, so jobs are checked only when they run; to check them before: apt install fio"


def fio_accepts(jobs: Mapping[str, str]) -> bool:
    """Return whether fio accepts all jobs. One fio checks many jobs, because it is slow to start."""
    return all(_find_first_rejected(in_file)[0] is None for in_file in _job_files(jobs))


def _job_files(jobs: Mapping[str, str]) -> Iterator[dict[str, str]]:
    keys = list(jobs)
    for at in range(0, len(keys), _JOBS_PER_FILE):
        yield {key: jobs[key] for key in keys[at : at + _JOBS_PER_FILE]}


def find_rejected(jobs: Mapping[str, str]) -> dict[str, str]:
    """Return the jobs that fio rejects, with its messages."""
    found: dict[str, str] = {}
    for in_file in _job_files(jobs):
        while in_file:
            culprit, message = _find_first_rejected(in_file)
            if culprit is None:
                break
            found[culprit] = message
            del in_file[culprit]
            if len(found) == MOST_SHOWN:
                return found
    return found


def _find_first_rejected(jobs: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the first job of a file that fio rejects (it stops there)."""
    # Standard input, because a file would remain if this process is killed.
    named = "".join(job.replace("[trial]", f"[{key}]") for key, job in jobs.items())
    output, message = _checked_by_fio(named)
    dropped = _DROPPED.search(output)
    culprit = dropped[1] if dropped and dropped[1] in jobs else next(iter(jobs))
    return (culprit, message) if message else (None, "")


def find_error(job: str) -> str:
    """Return fio's errors about a whole job file; empty if it accepts it."""
    return _checked_by_fio(job)[1]


def _checked_by_fio(job: str) -> tuple[str, str]:
    result = run(["fio", "--parse-only", "-"], stdin=job)
    output = result.stdout + result.stderr
    return output, "" if result.returncode == 0 else _parse_errors(output) or f"exit status {result.returncode}"


def _parse_errors(output: str) -> str:
    """Return fio's errors, with the valid values at the end, and without its guesses, which rarely help."""
    lines = [line.strip().removeprefix("fio: ") for line in lines_of(output) if not _DROPPED.match(line)]
    valid = [found[1] for line in lines if (found := _VALID.match(line))]
    errors = [line for line in lines if line and not _VALID.match(line) and not line.startswith("Did you mean ")]
    if valid and len(errors) == 1:
        errors[0] += f"; valid values: {', '.join(valid)}"
    return "\n".join(errors)
