"""The table of outcomes; the record of a trial; the outcome of a cell over its trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from zlib import crc32

from matrix_runner.base.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matrix_runner.work.fio.output import Figures

#: Notes for people. `TrialFacts` has the same for programs.
UNSETTLED = "unsettled"  # the steady state that a trial did not reach
HOST_LIMITED = "host_limited"  # by how much, and why, a host could not keep up with its simulated disks
REPLAY = "replay"  # how late the requests of a replay began
SATURATED = "saturated"  # how much a replay fell behind its trace, not because of the host
UNCONFINED = "unconfined"  # why fio could write outside of its trial and what is under test
SLOW = "slow"
HOST = "host"
SPREAD = "spread"
#: Keys of the environment of a run: what chose its trials, and the differences that count as equal if these are others.
STEERED, EQUAL = "until-decided", "practical"

#: Characters of any text, also of a name or an axis. Longer ones are damage, so an import refuses them.
LONGEST = 1 << 20

T = TypeVar("T")


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
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence of a run is {confidence}")
    if until is not None and not 0 < until < inf:
        raise ValueError(f"until of a run is {until}")
    if least < 0 or (most is not None and most < 0):
        raise ValueError(f"a run has {least} to {most} trials of a cell")


def outcome_of_cell(counts: Mapping[Outcome, int] | Mapping[str, int]) -> Outcome | None:
    """Return the outcome of a cell from those of its trials: one corrupt or broken trial makes it so."""
    return next((outcome for outcome in BY_RANK if counts.get(outcome)), None)


def block_of(round_number: int, host: str, *, spread: bool) -> int:
    return round_number << 32 | crc32(host.encode()) if host and not spread else round_number


def round_of(block: int) -> int:
    return block >> 32 or block


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


class Loss(NamedTuple):
    words: str  # in the note
    meaning: str


#: The causes by which a host-limited trial loses time. `TrialFacts` has a field of each: `lost_late`.
LOSSES = {
    "late": Loss("answers late", "answers left late"),
    "idle": Loss("disks left waiting", "requests came late, so disks were idle"),
    "processor": Loss("disks left waiting for a processor", "disks were idle, and a processor of the machine was busy"),
    "transit": Loss("on the way to the disks and back", "requests and answers were under way"),
    "crowded": Loss("no processor for the machine", "the virtual machine waited for a processor of the host"),
    "programs": Loss("other programs", "other programs used the processors"),
    "machines": Loss("other machines", "other virtual machines used the processors"),
}


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """The facts of a trial by which programs decide. Shares are rounded as in the notes."""

    kernel: str = ""
    slow: int = 1  # how many times slower its disks worked
    settled: bool = True  # it reached its steady state, or none was wanted
    saturated: bool = False  # a replay fell behind its trace, not because of the host
    host: str = ""  # the host that measured it, of a cluster
    spread: bool = False  # its figures do not depend on the host, such as synthetic ones
    iowait: float | None = None
    evenness: float | None = None
    host_limited_share: float | None = None  # the share of time lost to the host, also if that is little
    steady: bool | None = None  # a test of SNIA reached its steady state
    written_in_rounds: int | None = None  # bytes, of a test of SNIA
    lost: float | None = None  # the share of time lost to the host; None: it was not host-limited
    lost_late: float | None = None  # its causes, as in LOSSES
    lost_idle: float | None = None
    lost_transit: float | None = None
    lost_crowded: float | None = None
    lost_programs: float | None = None
    lost_machines: float | None = None
    lost_processor: float | None = None
    cpu_per_io: float | None = None  # ns of the machine's processors
    switches_per_io: float | None = None
    ipis_per_io: float | None = None
    host_cpu_per_io: float | None = None  # ns of processors of the host beneath the machine

    @property
    def is_host_limited(self) -> bool:
        return self.lost is not None

    @property
    def is_processor_limited(self) -> bool:
        return is_processor_limited(self.lost, self.lost_processor)

    @property
    def losses(self) -> dict[str, float]:
        """Return the known causes of `lost`, in the order of LOSSES."""
        return {name: share for name in LOSSES if (share := getattr(self, f"lost_{name}")) is not None}


def is_processor_limited(lost: float | None, by_processor: float | None) -> bool:
    """Return whether a processor of the machine is the reason for most of the loss of a trial."""
    return lost is not None and 2 * (by_processor or 0.0) > lost


def format_loss(share: float, causes: Mapping[str, float]) -> str:
    return f"{share:.1%} ({', '.join(f'{LOSSES[name].words} {one:.1%}' for name, one in causes.items())})"


def round_loss(share: float) -> float:
    """Round to tenths of a percent."""
    return min(1.0, round(share * 100, 1) / 100)


def losses_of(share: float, causes: Mapping[str, float]) -> dict[str, Any]:
    """Return the fields of `TrialFacts` of a host-limited trial."""
    return {"lost": round_loss(share), **{f"lost_{name}": round_loss(one) for name, one in causes.items()}}


NO_FACTS = TrialFacts()


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
    notes: Mapping[str, str] = field(default_factory=dict)  # texts for people: {"resync": "idle"}
    folder: str = ""  # the folder of its raw output, relative to the run
    facts: TrialFacts = NO_FACTS

    @property
    def block(self) -> int:
        """Return the block by which comparisons pair trials: the round, and on a cluster the host as well."""
        return block_of(self.round, self.facts.host, spread=self.facts.spread)

    @property
    def counted(self) -> Figures | None:
        return self.figures if self.outcome.counts and self.facts.settled else None


def counted_trials(trials: Sequence[Trial]) -> list[tuple[Trial, Figures]]:
    """Return the trials whose figures count: no stalled ones, and none of a cell that read wrong data."""
    if any(trial.outcome.is_failure for trial in trials):
        return []
    found = [(trial, figures) for trial in trials if (figures := trial.counted)]
    return without_stalled(found, [figures.is_stalled for _, figures in found])


def without_stalled(counted: list[T], stalled: Sequence[bool]) -> list[T]:
    """Leave out stalled trials, unless half of all are: then they are what the disk does."""
    if not any(stalled) or 2 * sum(stalled) >= len(stalled):
        return counted
    return [one for one, is_stalled in zip(counted, stalled, strict=True) if not is_stalled]


@dataclass(frozen=True, slots=True)
class Attempt:
    cell: str
    round: int
    number: int
    started: str
    reason: str
    tail: str = ""
