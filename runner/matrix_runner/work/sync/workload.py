"""A workload that rebuilds, resyncs, checks or repairs an array, alone or beside I/O of fio."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from matrix_runner.base.model import Model
from matrix_runner.layers import Layer, Problem
from matrix_runner.layers.redundancy import Action, SyncTarget, sync_target, why_not
from matrix_runner.work.fio.workload import Workload
from matrix_runner.work.result import Result
from matrix_runner.work.sync.output import parse_sync, with_sync

if TYPE_CHECKING:
    from matrix_runner.layers.geometry import Below

#: Bytes per second that a sync has at least: the kernel's default of sync_speed_min is 1000 KiB/s.
LEAST_RATE = 10**6
#: Bytes per second that it has at most: the kernel's default of sync_speed_max.
MOST_RATE = 200_000 * 1024
_GRACE = 60.0  # seconds beyond the longest sync after which the script gives up
_SHARED = 0.5  # of its rate that a sync keeps beside other work, as an estimate
#: Keys that set an end, which is that of the sync.
ENDS = ("runtime", "ramp", "profile", "each", "steady")
_ENDING_OPTIONS = frozenset({"number_ios", "io_size", "loops", "runtime", "time_based", "exitall", "exitall_on_error"})


class SyncKeys(Model):
    sync_action: Action | None = Field(
        None,
        description="measure a rebuild of the last disk, a resync, a check or a repair of the array, until it is over",
    )
    under: Workload | None = Field(
        None, description="a workload that runs from the beginning of `sync_action` to its end"
    )


class SyncWorkload(Workload):
    """The keys of a workload are those of `under`."""

    kind: ClassVar[str] = "sync"
    #: fio makes this file when it begins, so that a rebuild begins with it.
    job_options: ClassVar[Mapping[str, str]] = {"exec_prerun": "sh -c ': >begun'"}
    fio_keys: ClassVar[tuple[str, ...]] = ("under",)

    sync_action: Any = "check"
    alone: bool = True
    target: Any = None  # the sizes of the array; None before the stack is known

    @classmethod
    def of(cls, action: Action, under: Mapping[str, Any] | None) -> SyncWorkload:
        values: dict[str, Any] = {"rw": "read"} if under is None else dict(under)
        return cls.model_construct(**values, sync_action=action, alone=under is None)

    @property
    def needs_array(self) -> bool:
        return True

    def onto(self, layers: Iterable[tuple[Layer, Below]]) -> Workload:
        return self.model_copy(update={"target": sync_target(layers) or SyncTarget(0, 0, 0)})

    def why_impossible(self, layers: tuple[Layer, ...], *, has_faults: bool) -> Problem | None:
        faulty = f"a {self.sync_action} needs disks that do not fail; exclude `faults`" if has_faults else ""
        why = faulty or why_not(layers, self.sync_action)
        return Problem("sync_action", why) if why else None

    def content(self) -> Any:
        own = {"sync_action", "alone", "target"}
        under = None if self.alone else self.model_dump(mode="json", exclude_defaults=True, exclude=own)
        return {"sync_action": self.sync_action, "under": under}

    def settled(self) -> Workload:
        return self

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

    def misfit(self, capacity: int, devices: int) -> Problem | None:
        return None if self.alone else _within(super().misfit(capacity, devices))

    def files_misfit(self, capacity: int) -> Problem | None:
        return None if self.alone else _within(super().files_misfit(capacity))

    def unaligned(self, sector: int) -> Problem | None:
        return None if self.alone else _within(super().unaligned(sector))

    @property
    def uses_files(self) -> bool:
        return not self.alone

    @property
    def lays_out(self) -> bool:
        return not self.alone and super().lays_out

    @property
    def in_flight(self) -> int | None:
        return None  # the array has requests of its own

    @property
    def is_timed(self) -> bool:
        return True  # the end of the sync ends it

    def moved(self, span: int) -> int:  # noqa: ARG002
        return 0

    def passed(self, span: int) -> int:  # noqa: ARG002
        return 0

    def requests(self, span: int) -> float:  # noqa: ARG002
        return 0.0

    def written(self, span: int) -> float:  # noqa: ARG002
        """Return the most bytes that the sync itself writes."""
        return float(self.target.written(self.sync_action)) if self.target else 0.0

    def recorded_bytes(self, span: int, counted: int, runtime: float, in_rounds: int | None) -> float:
        return super().recorded_bytes(span, counted, runtime, in_rounds) + self.written(span)

    def seconds(self, span: int, member: Callable[[], float]) -> float:  # noqa: ARG002
        size = self.target.member if self.target else 0
        return size / (min(member(), MOST_RATE) * (1 if self.alone else _SHARED))

    def time_limit(self, span: int = 0) -> float:  # noqa: ARG002
        return self.target.walked / LEAST_RATE if self.target else 0.0

    @property
    def patience(self) -> float:
        return self.time_limit() + _GRACE

    @property
    def has_fio_job(self) -> bool:
        return not self.alone

    def script_values(self, span: int, slow: int) -> Mapping[str, object]:  # noqa: ARG002
        return {"action": self.sync_action, "alone": self.alone, "patience": round(self.patience * slow)}

    @property
    def report_file(self) -> str:
        return "sync.json"

    def script_failed(self, status: int, report: str) -> bool:
        return status != 0 and (not report or self.alone)

    def read_output(self, output: str, report: str, slow: int) -> Result:
        read = Result() if self.alone else self.read_fio(output)
        found = parse_sync(report)
        return replace(read, figures=with_sync(read.figures, found).in_real_units(slow), notes=found.notes)

    def for_fio(self) -> Workload:
        # It runs longer than the sync, which ends it.
        return self.model_copy(update={"runtime": 2 * self.patience})


def _within(problem: Problem | None) -> Problem | None:
    return problem and Problem(f"under.{problem.field}", problem.message)
