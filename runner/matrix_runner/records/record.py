"""The record of a trial (cell, outcome, figures, readings, attempts), and the outcome of a cell over its trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matrix_runner.records.fio_output import Figures

UNSETTLED = "unsettled"  # the note of a trial that did not reach its steady state
HOST_LIMITED = "host_limited"  # the note of a trial whose host could not keep up with its simulated disks: by how much
REPLAY = "replay"  # the note of a replay: how late its requests began
SATURATED = "saturated"  # the note of a replay that fell behind its trace, not because of the host: by how much
SLOW = "slow"  # the note of a trial in slow motion: how many times slower its disks worked
HOST = "host"  # the note of a trial of a cluster: the host that measured it
SPREAD = "spread"  # the note of a trial of a cluster whose figures do not depend on the host, such as synthetic ones
STEERED = "until-decided"  # the environment key of a run that chose its trials by open guidelines


class Outcome(StrEnum):
    """The outcome of a trial. `broken` means the harness or the set-up, never low speed or wrong data."""

    MEASURED = "measured"
    CORRUPT = "corrupt"  # fio read other data than it had written
    BROKEN = "broken"
    SKIPPED = "skipped"


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
    order = (Outcome.CORRUPT, Outcome.BROKEN, Outcome.MEASURED, Outcome.SKIPPED)
    return next((outcome for outcome in order if counts.get(outcome)), None)


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
        return self.figures if self.outcome is Outcome.MEASURED and UNSETTLED not in self.notes else None


def counted_trials(trials: Sequence[Trial]) -> list[tuple[Trial, Figures]]:
    """Return the trials whose figures count. A cell that read wrong data has no such trials."""
    if any(trial.outcome is Outcome.CORRUPT for trial in trials):
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
