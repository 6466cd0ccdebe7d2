"""The table of outcomes; the record of a trial; the outcome of a cell over its trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from math import inf
from typing import TYPE_CHECKING, Self
from zlib import crc32

from matrix_runner.base.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matrix_runner.work.fio.output import Figures

UNSETTLED = "unsettled"  # the note of a trial that did not reach its steady state
HOST_LIMITED = "host_limited"  # the note of a trial whose host could not keep up with its simulated disks: by how much
REPLAY = "replay"  # the note of a replay: how late its requests began
SATURATED = "saturated"  # the note of a replay that fell behind its trace, not because of the host: by how much
SLOW = "slow"  # the note of a trial in slow motion: how many times slower its disks worked
HOST = "host"  # the note of a trial of a cluster: the host that measured it
SPREAD = "spread"  # the note of a trial of a cluster whose figures do not depend on the host, such as synthetic ones
STEERED = "until-decided"  # the environment key of a run that chose its trials by open guidelines


class Kind(Enum):
    """What an outcome is for all who know only these four: JUnit, pytest, exit codes and colours."""

    PASSED = "passed", Exit.ALL_MEASURED
    FAILURE = "failure", Exit.CLAIM_FAILED  # a result about the storage
    ERROR = "error", Exit.BROKEN  # the harness or the set-up
    SKIPPED = "skipped", Exit.ALL_MEASURED

    def __init__(self, _: str, exit_code: Exit) -> None:
        self.exit = exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class _About:
    kind: Kind
    rank: int  # the outcome of a cell is that of its trials with the smallest rank
    again: bool = False  # `--retry-broken` repeats such trials
    brief: str = ""  # for the columns of CSV files
    meaning: str = ""  # for the list of doubts
    doubt: str = ""  # the sentence there on the figures; empty: only cells without figures change the reading
    heading: str = ""  # of the list of such cells in a summary
    against: str = ""  # of side B in a comparison


class Outcome(StrEnum):
    """The outcomes of a trial, in the order of columns. Reports, views, exit codes and options derive from this table.

    Ask for a property. Only code that makes a trial names a member.
    """

    about: _About
    counts: bool  # figures of such trials count
    is_failure: bool  # a result about the storage; no figure of the cell counts then
    is_error: bool  # the harness or the set-up, never low speed or wrong data
    is_skipped: bool  # no attempt was made

    MEASURED = "measured", _About(kind=Kind.PASSED, rank=3)
    CORRUPT = (
        "corrupt",
        _About(
            kind=Kind.FAILURE,
            rank=1,
            brief="fio read wrong data",
            meaning="fio read other data than it had written. This is a result about the storage. "
            "These cells have no figures.",
            doubt="fio read other data than it had written.",
            heading="Wrong data",
            against="read wrong data",
        ),
    )
    BROKEN = (
        "broken",
        _About(
            kind=Kind.ERROR,
            rank=2,
            again=True,
            brief="set-up, read-back or fio failed, or rigs were lost",
            meaning="Set-up, read-back or fio failed. This is not a result about speed.",
            doubt="Figures are from other trials.",
            heading="What broke",
        ),
    )
    SKIPPED = "skipped", _About(kind=Kind.SKIPPED, rank=4, again=True, meaning="These trials did not run.")

    def __new__(cls, name: str, about: _About = _About(kind=Kind.ERROR, rank=0)) -> Self:
        one = str.__new__(cls, name)
        one._value_, one.about = name, about
        one.counts, one.is_skipped = about.kind is Kind.PASSED, about.kind is Kind.SKIPPED
        one.is_failure, one.is_error = about.kind is Kind.FAILURE, about.kind is Kind.ERROR
        return one

    @property
    def kind(self) -> Kind:
        return self.about.kind


BY_RANK = tuple(sorted(Outcome, key=lambda one: one.about.rank))
COUNTED = tuple(one.value for one in Outcome if one.counts)
UNMEASURED = tuple(one for one in BY_RANK if not one.counts)
WORST = tuple(one for one in UNMEASURED if one.is_failure or one.is_error)


def count_measured(counts: Mapping[Outcome, int] | Mapping[str, int]) -> int:
    return sum(count for one, count in counts.items() if one in COUNTED)


def check_rule(confidence: float, until: float | None, least: int, most: int | None) -> None:
    """Raise ValueError for a stopping rule that no run has. Manifest and store are checked alike."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence of a run is {confidence}")
    if until is not None and not 0 < until < inf:
        raise ValueError(f"until of a run is {until}")
    if least < 0 or (most is not None and most < 0):
        raise ValueError(f"a run has {least} to {most} trials of a cell")


def outcome_of_cell(counts: Mapping[Outcome, int] | Mapping[str, int]) -> Outcome | None:
    """Return the outcome of a cell from those of its trials: one corrupt or broken trial makes it so."""
    return next((outcome for outcome in BY_RANK if counts.get(outcome)), None)


def block_of(round_number: int, host: str | None, spread: str | None) -> int:
    return round_number if host is None or spread is not None else round_number << 32 | crc32(host.encode())


@dataclass(frozen=True, slots=True)
class CellRow:
    """A cell as the store and the reports know it. `axes` maps full axis names (`md.chunk`) to canonical text."""

    id: str
    name: str
    axes: Mapping[str, str]
    position: int | None = field(default=None, compare=False)  # its position in the matrix; None in old records

    @property
    def setting(self) -> str:
        """Return the part of its name that is of the stack and its tunables."""
        return self._parts[0]

    @property
    def work(self) -> str:
        return self._parts[1]

    @property
    def _parts(self) -> tuple[str, str]:
        """Return its name, split before the part of the workload, else after the first part."""
        parts = self.name.split("/")
        workload = self.axes.get("workload")
        at = parts.index(workload, 1) if workload in parts[1:] else 1
        return "/".join(parts[:at]), "/".join(parts[at:])

    @property
    def layout(self) -> str:
        return self.axes.get("layout") or self.setting

    @property
    def workload(self) -> str:
        return self.axes.get("workload") or self.work


@dataclass(frozen=True, slots=True)
class Reading:
    setting: str
    wanted: str | None
    got: str


@dataclass(frozen=True, slots=True)
class Trial:
    """One measurement of a cell. (`cell`, `round`) is its identity, unique in a run."""

    cell: str
    round: int
    outcome: Outcome
    reason: str = ""
    started: str = ""  # ISO 8601, UTC
    seconds: float = 0.0  # wall time of the whole trial, without the set-up of the stack
    attempts: int = 1
    figures: Figures | None = None
    readings: tuple[Reading, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)  # e.g. {"sync": "assume-clean", "resync": "idle"}
    folder: str = ""  # the folder of its raw output, relative to the run

    @property
    def block(self) -> int:
        """Return the block by which comparisons pair trials: the round, and on a cluster the host as well."""
        return block_of(self.round, self.notes.get(HOST), self.notes.get(SPREAD))

    @property
    def counted(self) -> Figures | None:
        return self.figures if self.outcome.counts and UNSETTLED not in self.notes else None


def counted_trials(trials: Sequence[Trial]) -> list[tuple[Trial, Figures]]:
    """Return the trials whose figures count. A cell that read wrong data has no such trials."""
    if any(trial.outcome.is_failure for trial in trials):
        return []
    return [(trial, figures) for trial in trials if (figures := trial.counted)]


@dataclass(frozen=True, slots=True)
class Attempt:
    cell: str
    round: int
    number: int
    started: str
    reason: str
    tail: str = ""
