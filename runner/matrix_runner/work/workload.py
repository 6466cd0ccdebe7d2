"""The interface of all kinds of work: what the rest of the program asks, and the result of a trial."""

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import orjson
from pydantic import Field

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.findings import Findings, Note, Path, place_of
from matrix_runner.base.model import Choice, Coords, Model, Variant, digest, label_of
from matrix_runner.base.text import lines_of
from matrix_runner.layers import Layer, Problem
from matrix_runner.layers.geometry import Below
from matrix_runner.work.fio.keys import FileSet
from matrix_runner.work.fio.output import Figures, figures_of, find_json, jobs_of, missed_steady_states

NO_MODEL_OF_TRIMS = (
    "models of disks know no trims without `ageing:`, so the figures would be meaningless; remove `model:`"
)
#: Seconds over which a profile over time averages, and the value for work of less than ten times as long.
COURSE, SHORT_COURSE = 1.0, 0.1


@dataclass(frozen=True, slots=True)
class Load:
    """What all jobs do on a region, at most. Bytes are 0 if time ends the work."""

    moved: int = 0
    written: float = 0.0
    passed: int = 0  # bytes that heads pass over, with those that are skipped
    requests: float = 0.0
    timed: float = 0.0  # seconds that do not depend on the speed of the disks
    time_limit: float | None = None  # of work of an unknown length
    restarts: float = 0.0  # seconds of later starts of fio and its jobs, on a host that is slow and busy

    @property
    def longest(self) -> float:
        return self.timed if self.time_limit is None else self.time_limit


class Workload(Model):
    """What runs on a stack in each trial. Its values have the bounds of all its jobs."""

    kind: ClassVar[str]
    job_template: ClassVar[str]  # the template of its job, and options of fio beside those of the keys
    job_options: ClassVar[Mapping[str, str]] = {}
    fio_keys: ClassVar[tuple[str, ...]] = ()  # where the keys of fio are in a workload of the matrix
    report_file: ClassVar[str] = ""  # the file of a trial that keeps the report of its script; empty: none

    rw: str
    bs: int = 4096
    iodepth: int = 1
    numjobs: int = 1
    runtime: float | None = None
    ramp: float = 0.0
    ioengine: str = "libaio"
    direct: bool = True
    new: bool = False  # it creates its files
    profile: Literal["position", "time"] | None = None
    each: int | None = None  # bytes at each place of a profile
    fio: dict[str, bool | int | float | str] = Field(default_factory=dict)

    @abstractmethod
    def content(self) -> Any:
        """Return what the id of a cell is made of."""

    @abstractmethod
    def load(self, span: int) -> Load:
        """Return what it does. `span`: the region of one job."""

    @property
    @abstractmethod
    def write_share(self) -> float: ...

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Return the smallest and the largest request."""

    @property
    @abstractmethod
    def under_way(self) -> int:
        """Return the most requests at a time."""

    @property
    @abstractmethod
    def pauses(self) -> bool:
        """Return whether a limit of the rate or a think time lets disks wait on purpose."""

    @property
    @abstractmethod
    def is_timed(self) -> bool:
        """Return whether time ends one of its jobs, so that a faster disk moves more bytes."""

    @property
    @abstractmethod
    def trims(self) -> bool: ...

    @abstractmethod
    def trim_problem(self, why: str) -> Problem:
        """Return why its trims are impossible; `why`: the reason of a layer, empty if a model of a disk knows none."""

    @property
    def nvme_key(self) -> str:
        """Return the key that needs NVMe disks; empty if none does."""
        return ""

    @property
    @abstractmethod
    def directions(self) -> Mapping[str, Collection[str]]:
        """Return the directions that each job may have, and at the empty name those of all jobs."""

    @abstractmethod
    def span(self, capacity: int, devices: int = 1) -> int:
        """Return the bytes of the region that one job covers; `capacity` is that of all devices together."""

    @abstractmethod
    def fileset(self, capacity: int) -> FileSet:
        """Return the files in a file system."""

    def fixed_size(self, *, in_files: bool) -> int:  # noqa: ARG002
        """Return the bytes of its files or of its region of a device, if they do not depend on the stack; else 0."""
        return 0

    @abstractmethod
    def misfit(self, capacity: int, devices: int | None, sector: int) -> Problem | None:
        """Return why it does not fit. `devices`: those that have the capacity together; None: a file system."""

    @abstractmethod
    def slow_problems(self, slow: int) -> Iterator[Problem]: ...

    @abstractmethod
    def slowed(self, slow: int) -> "Workload":
        """Return the workload in slow motion of the disks. Raise ValueError if fio cannot express it."""

    def seconds(self, span: int, member: Callable[[], float]) -> float:  # noqa: ARG002
        """Return its seconds on a stack; `member`: bytes per second at which a member of its array is written."""
        return self.load(span).timed

    def recorded_bytes(self, span: int, counted: int, runtime: float, in_rounds: int | None) -> float:  # noqa: ARG002
        """Return the bytes that a trial wrote.

        fio counted some of them in `runtime`, without the ramp; those of a test of SNIA are `in_rounds`.
        """
        return counted * (1 + self.ramp / runtime if runtime else 1.0)

    @property
    def in_flight(self) -> int | None:
        """Return the requests under way at a time; None if it is unknown."""
        return self.iodepth * self.numjobs if self.direct else None

    @property
    def uses_files(self) -> bool:
        """Return whether it needs files in a file system."""
        return True

    @property
    def lays_out(self) -> bool:
        """Return whether its files are written before the measurement."""
        return not self.new

    @property
    def job_names(self) -> tuple[str, ...]:
        """Return the jobs that have their own figures; empty if there is only one."""
        return ()

    @property
    def job_sections(self) -> int:
        """Return the number of sections, if fio has to check its job by itself; 0 if it may be with others."""
        return 0

    def onto(self, layers: Iterable[tuple[Layer, Below]]) -> "Workload":  # noqa: ARG002
        """Return the work on a stack, whose layers come with what is below each."""
        return self

    def why_impossible(self, layers: tuple[Layer, ...], *, has_faults: bool) -> Problem | None:  # noqa: ARG002
        return None

    def for_fio(self) -> "Workload | None":
        """Return the workload that fio runs; None if only the array is at work."""
        return self

    def script_values(self, span: int, slow: int) -> Mapping[str, object] | None:  # noqa: ARG002
        """Return what templates get under the name of its kind; None if its scripts are those of any fio job."""
        return None

    def script_files(self, span: int, slow: int) -> Mapping[str, str]:  # noqa: ARG002
        """Return the files beside the scripts."""
        return {}

    def window(self, span: int) -> int:  # noqa: ARG002
        """Return the bytes of a place of a profile."""
        return 0

    @property
    def course(self) -> float:
        return SHORT_COURSE if self.runtime is not None and self.runtime < 10 * COURSE else COURSE

    @property
    def has_whole_runtime(self) -> bool:
        """Return whether the run time in its figures is that of the whole measurement."""
        return True

    def script_failed(self, status: int, report: str) -> bool:  # noqa: ARG002
        """Return whether the script itself failed, rather than fio."""
        return False

    def read_output(self, output: str, report: str, slow: int) -> "Result":  # noqa: ARG002
        """Return the result of a trial from the output of its script and its report. Raise FioFailed or NotReported."""
        read = self.read_fio(output)
        return replace(read, figures=read.figures and read.figures.in_real_units(slow))

    def read_fio(self, output: str, phases: Mapping[str, int] | None = None) -> "Result":
        """Return what fio measured in slow motion. `phases`: of jobs that run one after another, by name."""
        jobs = jobs_of(find_json(output), output)
        return Result(figures_of(jobs, output, phases or {}), missed_steady_states(jobs))


@dataclass(frozen=True, slots=True)
class Written:
    """A workload as written: what each kind needs to make its variants, and to report what is wrong."""

    name: str
    axes: Mapping[str, tuple[Any, ...]]
    memory: int
    slow: int  # the declared factor of slow motion
    findings: Findings
    in_files: bool  # it runs on stacks with a file system

    @property
    def path(self) -> Path:
        return ("workloads", self.name)

    @property
    def several(self) -> tuple[str, ...]:
        """Return the axes with several values."""
        return tuple(f"workload.{axis}" for axis, values in self.axes.items() if len(values) > 1)

    def flaw(self, axis: str, message: str) -> None:
        self.findings.flaw((*self.path, *axis.split(".")), message)

    def report(self, problems: Iterable[Problem], coords: Coords, choice: Choice) -> None:
        for problem in problems:
            self.findings.flaw_of(coords, place_of(self.path, choice, problem.field), problem.message)

    def note(self, text: str) -> None:
        note = Note(f"workload {self.name}: {text}")
        if note not in self.findings.notes:
            self.findings.notes.append(note)

    def variant(self, work: Workload, coords: Coords, several: Iterable[str] | None = None) -> Variant[Workload]:
        shown = label_of(coords, self.several if several is None else several)
        return Variant(work, coords, "/".join(filter(None, (self.name, shown))), digest(work.content()))


class NotReported(HarnessBroken):
    pass


#: A request is late if it begins this much after its time in the trace, in seconds.
LATE = 0.01
#: A replay fell behind if a larger share of its requests is late.
MOST_LATE = 0.01


@dataclass(frozen=True, slots=True)
class ReplayReport:
    requests: int
    late: int
    worst: float  # the largest delay of a request, in seconds
    seconds: float  # from the time of the first request to the end of the last one

    @property
    def fell_behind(self) -> bool:
        return self.late > MOST_LATE * self.requests

    def behind(self, length: float) -> float:
        """Return the share of its time by which a replay of `length` seconds took longer."""
        return max(0.0, 1 - length / self.seconds)

    def in_real_units(self, slow: int) -> "ReplayReport":
        return replace(self, worst=self.worst / slow, seconds=self.seconds / slow)

    def __str__(self) -> str:
        share = f"{self.late / self.requests:.1%} of {self.requests:,} requests began over {LATE * 1000:g} ms late"
        return f"{share}, at most {self.worst * 1000:,.0f} ms"


@dataclass(frozen=True, slots=True)
class Result:
    figures: Figures | None = None
    unsettled: str = ""  # the steady state that was not reached; else empty
    verified: str = ""  # how much fio read back
    notes: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # of the trial
    replay: ReplayReport | None = None  # how late its requests began
    steady: bool | None = None  # of a test of SNIA: it reached its steady state
    written_in_rounds: int | None = None  # bytes


def split_report(output: str, kind: str) -> tuple[str, str]:
    """Split the output of a script into the rest, and the JSON of its report; empty without a report."""
    lines, word = lines_of(output, keepends=True), f"{kind}\t"
    found = [line for line in lines if line.startswith(word)]
    if not found:
        return output, ""
    return "".join(line for line in lines if not line.startswith(word)), found[-1].removeprefix(word).strip()


def notes_of(output: str) -> dict[str, str]:
    notes: dict[str, str] = {}
    for line in lines_of(output):
        if line.startswith("note\t") and line.count("\t") >= 2:
            _, name, text = line.split("\t", 2)
            notes[name] = f"{notes[name]}; {text}" if name in notes else text
    return notes


def parse_report(text: str, kind: str, names: Sequence[str], most: float) -> dict[str, float]:
    """Return the numbers of a report. Raise NotReported for a text that the script does not print."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise NotReported(f"the report of the {kind} is no JSON: {text:.60}") from None
    if not isinstance(found, dict) or not all(_is_number(found.get(name), most) for name in names):
        raise NotReported(f"the report of the {kind} is not as a script writes it: {text:.60}")
    return found


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= most
