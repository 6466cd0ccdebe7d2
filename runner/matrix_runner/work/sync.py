"""A workload that rebuilds, resyncs, checks or repairs an array, alone or beside I/O of fio."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from pydantic import Field

from matrix_runner.base.model import Coords, Model, Variant, choices, constructed, texts
from matrix_runner.layers import Layer, Problem
from matrix_runner.layers.base import Action, SyncTarget, sync_target, why_not
from matrix_runner.layers.geometry import Below
from matrix_runner.work.fio.keys import WorkloadKeys
from matrix_runner.work.fio.output import Figures, Sync
from matrix_runner.work.fio.workload import FioWorkload
from matrix_runner.work.workload import Load, NotReported, Result, Workload, Written, parse_report

#: Bytes per second that a sync has at least: the kernel's default of sync_speed_min is 1000 KiB/s.
LEAST_RATE = 10**6
#: Bytes per second that it has at most: the kernel's default of sync_speed_max.
MOST_RATE = 200_000 * 1024
_GRACE = 60.0  # seconds beyond the longest sync after which the script gives up
_SHARED = 0.5  # of its rate that a sync keeps beside other work, as an estimate
_MOST = 1e18
_AT_LIMIT = 0.95  # of sync_speed_max: from here on, it is the limit
MISMATCHES = "mismatch_cnt"  # the note with the kernel's count of a check
#: Keys that set an end, which is that of the sync.
ENDS = ("runtime", "ramp", "profile", "each", "steady")
_ENDING_OPTIONS = frozenset({"number_ios", "io_size", "loops", "runtime", "time_based", "exitall", "exitall_on_error"})


class SyncKeys(Model):
    sync_action: Action | None = Field(
        None,
        description="measure a rebuild of the last disk, a resync, a check or a repair of the array, until it is over",
    )
    under: WorkloadKeys | None = Field(
        None, description="a workload that runs from the beginning of `sync_action` to its end"
    )


class SyncWorkload(FioWorkload):
    """The keys of a workload are those of `under`."""

    kind: ClassVar[str] = "sync"
    #: fio makes this file when it begins, so that a rebuild begins with it.
    job_options: ClassVar[Mapping[str, str]] = {"exec_prerun": "sh -c ': >begun'"}
    fio_keys: ClassVar[tuple[str, ...]] = ("under",)
    report_file: ClassVar[str] = "sync.json"

    sync_action: Any = "check"
    alone: bool = True
    target: Any = None  # the sizes of the array; None before the stack is known

    @classmethod
    def of(cls, action: Action, under: Mapping[str, Any] | None) -> "SyncWorkload":
        values: dict[str, Any] = {"rw": "read"} if under is None else dict(under)
        return cls.model_construct(**values, sync_action=action, alone=under is None)

    def onto(self, layers: Iterable[tuple[Layer, Below]]) -> Self:
        return self.model_copy(update={"target": sync_target(layers) or SyncTarget(0, 0, 0)})

    def why_impossible(self, layers: tuple[Layer, ...], *, has_faults: bool) -> Problem | None:
        faulty = f"a {self.sync_action} needs disks that do not fail; exclude `faults`" if has_faults else ""
        why = faulty or why_not(layers, self.sync_action)
        return Problem("sync_action", why) if why else None

    def content(self) -> Any:
        own = {"sync_action", "alone", "target"}
        under = None if self.alone else self.model_dump(mode="json", exclude_defaults=True, exclude=own)
        return {"sync_action": self.sync_action, "under": under}

    def problems(self) -> Iterator[Problem]:
        if self.alone:
            return
        for key in ENDS:
            if key in self.model_fields_set and getattr(self, key):
                yield Problem(f"under.{key}", f"the workload runs as long as the {self.sync_action}; remove `{key}`")
        for option in sorted(_ENDING_OPTIONS & self.fio.keys()):
            why = f"the workload runs as long as the {self.sync_action}; remove `{option}`"
            yield Problem(f"under.fio.{option}", why)
        others = {option: value for option, value in self.fio.items() if option not in _ENDING_OPTIONS}
        timed = self.model_copy(update={"runtime": 1.0, "fio": others})  # a rate limit needs an end, and this has one
        for problem in super(SyncWorkload, timed).problems():
            yield Problem(f"under.{problem.field}", problem.message)

    def misfit(self, capacity: int, devices: int | None, sector: int) -> Problem | None:
        problem = None if self.alone else super().misfit(capacity, devices, sector)
        return problem and Problem(f"under.{problem.field}", problem.message)

    @property
    def uses_files(self) -> bool:
        return not self.alone

    @property
    def in_flight(self) -> int | None:
        return None  # the array has requests of its own

    @property
    def is_timed(self) -> bool:
        return True  # the end of the sync ends it

    def load(self, span: int) -> Load:  # noqa: ARG002 - the array ends it
        """Return what the sync itself does."""
        if not self.target:
            return Load()
        written = float(self.target.written(self.sync_action))
        return Load(written=written, time_limit=self.target.walked / LEAST_RATE)

    def recorded_bytes(self, span: int, counted: int, runtime: float, in_rounds: int | None) -> float:
        return super().recorded_bytes(span, counted, runtime, in_rounds) + self.load(span).written

    def seconds(self, span: int, member: Callable[[], float]) -> float:  # noqa: ARG002
        size = self.target.member if self.target else 0
        return size / (min(member(), MOST_RATE) * (1 if self.alone else _SHARED))

    @property
    def patience(self) -> float:
        return (self.load(0).time_limit or 0.0) + _GRACE

    def script_values(self, span: int, slow: int) -> Mapping[str, object]:  # noqa: ARG002
        return {"action": self.sync_action, "alone": self.alone, "patience": round(self.patience * slow)}

    def script_failed(self, status: int, report: str) -> bool:
        return status != 0 and (not report or self.alone)

    def read_output(self, output: str, report: str, slow: int) -> Result:
        read = Result() if self.alone else self.read_fio(output)
        found = parse_sync(report)
        return replace(read, figures=with_sync(read.figures, found).in_real_units(slow), notes=found.notes)

    def for_fio(self) -> FioWorkload | None:
        # It runs longer than the sync, which ends it.
        return None if self.alone else self.model_copy(update={"runtime": 2 * self.patience})


@dataclass(frozen=True, slots=True)
class SyncReport:
    action: str
    seconds: float
    bytes: int  # of a member
    mismatches: int
    fastest: int  # the limit of md, in bytes per second

    @property
    def figures(self) -> Sync:
        return Sync(self.seconds, self.bytes / self.seconds)

    @property
    def notes(self) -> dict[str, str]:
        counted = {MISMATCHES: str(self.mismatches)} if self.action in {"check", "repair"} else {}
        if self.fastest and self.bytes / self.seconds >= _AT_LIMIT * self.fastest:
            counted["sync_limit"] = f"the {self.action} was as fast as sync_speed_max allows: {self.fastest} bytes/s"
        return counted


def parse_sync(text: str) -> SyncReport:
    """Raise NotReported for a text that the script does not print."""
    names = ("began", "ended", "bytes", "mismatch_cnt", "sync_speed_max")
    found = parse_report(text, "sync", names, _MOST)
    seconds = float(found["ended"] - found["began"])
    if seconds <= 0 or found["bytes"] <= 0:
        raise NotReported(f"the sync took {seconds:g} s for {found['bytes']:g} bytes")
    whole = [int(found[name]) for name in names[2:]]
    return SyncReport(str(found.get("action", "")), seconds, *whole)


def with_sync(figures: Figures | None, report: SyncReport) -> Figures:
    """Add a sync to the figures of fio; without fio, there are no others."""
    if figures is None:
        return Figures(None, None, report.seconds, 0.0, 0.0, 0, rebuild=report.figures)
    return replace(figures, rebuild=report.figures)


_ACTION, _UNDER = "sync_action", "under."


def is_rebuild(axes: Mapping[str, Any]) -> bool:
    return _ACTION in axes or any(name.startswith(_UNDER) for name in axes)


def variants(written: Written) -> Iterator[Variant[Workload]]:
    if _ACTION not in written.axes:
        written.flaw("under", "'under' has no effect without `sync_action`")
        return
    for axis in written.axes:
        if axis != _ACTION and not axis.startswith(_UNDER):
            key = axis.partition(".")[0]
            written.flaw(axis, f"`sync_action` runs no I/O of its own; write `{key}` below `under:`, or remove it")
            return
    for choice in choices(written.axes):
        under = {axis.removeprefix(_UNDER): one for axis, one in choice.values.items() if axis != _ACTION}
        values = FioWorkload.effective(under, in_files=written.in_files) if under else {}
        made = constructed(FioWorkload, values).on(written.memory) if values else None
        given = {key: getattr(made, key) for key in made.model_fields_set} if made else None
        work = SyncWorkload.of(choice.values[_ACTION], given)
        shown = texts(made, values) if made else {}
        coords: Coords = (
            ("workload", written.name),
            (f"workload.{_ACTION}", work.sync_action),
            *((f"workload.{_UNDER}{axis}", text) for axis, text in shown.items()),
        )
        problems = [*work.problems(), *work.slow_problems(written.slow)]
        written.report(problems, coords, choice)
        if not problems:
            yield written.variant(work, coords)
