"""Cells to doubt (broken, host-limited, unsettled and others); a sentence for those that change the reading."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matrix_runner.answers.cell_figures import mean_lost_share
from matrix_runner.pages.ranking import percent
from matrix_runner.pages.terminal_text import figure, spaced
from matrix_runner.records.record import (
    HOST_LIMITED,
    LOSSES,
    SATURATED,
    UNCONFINED,
    UNMEASURED,
    UNSETTLED,
    Outcome,
    Trial,
    counted_trials,
)

_Summary = Callable[[Sequence[Trial]], str]  # why such trials need attention

MOST_CONCERNS = 50  # cells to list for each kind of concern


@dataclass(frozen=True, slots=True)
class Concern:
    cell: str
    trials: str
    why: str
    measured: bool  # the cell has figures all the same


@dataclass(frozen=True, slots=True)
class Concerns:
    title: str
    meaning: str
    found: tuple[Concern, ...]  # the first ones
    count: int  # cells
    missing: int  # cells without figures
    always: str = ""  # a sentence on the figures; empty: only cells without figures change the reading

    @property
    def left(self) -> int:
        return self.count - len(self.found)

    @property
    def doubt(self) -> str:
        """Return a sentence about a doubt that changes the reading of the figures, or an empty one."""
        if not self.always:
            return f"{self.title}: {_cells(self.missing)} without figures." if self.missing else ""
        without = f", {self.missing:,} of them without figures" if self.missing else ""
        return f"{self.title}: {_cells(self.count)}{without}. {self.always}"


def held_back_by(trials: Sequence[Trial]) -> str:
    """Return the most frequent bottleneck of the trials of a cell; if the host is one of them, both."""
    counted = [trial for trial, _ in counted_trials(trials)]
    limited = sum(trial.facts.is_host_limited for trial in counted)
    kept_up = (trial.notes.get("bottleneck") for trial in trials if not trial.facts.is_host_limited)
    others = Counter(filter(None, kept_up)).most_common(1)
    named = others[0][0] if others else ""
    if not limited:
        return spaced(named)
    which, whose = (
        (f" in {limited:,} of {len(counted):,} trials", " of all trials") if limited < len(counted) else ("", "")
    )
    lost = f"on average {percent(mean_lost_share(counted))} of the time{whose} lost"
    host = f"host{which}: too slow or too busy, {lost}"
    return f"{host}; else {spaced(named)}" if named else host


class ConcernCounter:
    """Counts the cells of each kind of concern, and keeps the first ones."""

    def __init__(self) -> None:
        self._found: dict[str, list[Concern]] = {kind.title: [] for kind in _KINDS}
        self._count, self._missing = Counter[str](), Counter[str]()

    def add(self, name: str, trials: Sequence[Trial]) -> None:
        for kind in _KINDS:
            if found := [trial for trial in trials if kind.has(trial)]:
                self._count[kind.title] += 1
                measured = bool(counted_trials(trials))
                self._missing[kind.title] += not measured
                if self._count[kind.title] <= MOST_CONCERNS:
                    reasons = spaced(kind.summary(found))
                    counts = f"{len(found):,} of {len(trials):,}"
                    self._found[kind.title].append(Concern(name, counts, reasons, measured))

    def concerns(self) -> tuple[Concerns, ...]:
        return tuple(
            Concerns(title, meaning, tuple(self._found[title]), count, self._missing[title], always)
            for title, meaning, _, _, always in _KINDS
            if (count := self._count[title])
        )


def _worst_loss(trials: Sequence[Trial]) -> str:
    worst = max(trials, key=lambda trial: trial.facts.lost or 0.0)
    facts = worst.facts
    parts = sorted(((share, LOSSES[name].meaning) for name, share in facts.losses.items() if share), reverse=True)
    causes = ", ".join(f"{meaning} ({share * 100:.1f} %)" for share, meaning in parts)
    if not causes:
        return worst.notes.get(HOST_LIMITED, "")
    return f"{(facts.lost or 0.0) * 100:.1f} % of the time was lost: {causes}"


def _longest(trials: Sequence[Trial]) -> str:
    sides = [one for trial in trials if trial.counted for one in trial.counted.all_sides.values()]
    return f"the longest request took {figure(max(one.lat_max or 0.0 for one in sides), 'ns')}"


def _cells(count: int) -> str:
    return f"{count:,} cell{'s' if count != 1 else ''}"


def _ended(outcome: Outcome) -> Callable[[Trial], bool]:
    return lambda trial: trial.outcome is outcome


def _reasons(trials: Sequence[Trial]) -> str:
    return "; ".join(dict.fromkeys(trial.reason for trial in trials if trial.reason))


def _notes(name: str) -> _Summary:
    return lambda trials: "; ".join(dict.fromkeys(trial.notes[name] for trial in trials if trial.notes.get(name)))


class _Kind(NamedTuple):
    title: str
    meaning: str
    has: Callable[[Trial], bool]
    summary: _Summary
    always: str


_KINDS = (
    *(_Kind(one.capitalize(), one.about.meaning, _ended(one), _reasons, one.about.doubt) for one in UNMEASURED),
    _Kind(
        "Host-limited",
        "The host could not keep up with its simulated disks, or was busy with other work. The figures depend on both. "
        "Each row is of the worst trial; the shares in the answer and in `held back by` are means over all trials. "
        "Late answers and idle disks add up. The other losses overlap with these, so only the largest counts. "
        "`matrix help simulated-disks` explains the losses.",
        lambda trial: trial.outcome.counts and trial.facts.is_host_limited and not trial.facts.is_processor_limited,
        _worst_loss,
        "The host was too slow or too busy, so the figures also depend on it.",
    ),
    _Kind(
        "Processor-limited",
        "Disks were idle most of the lost time, while a processor of the machine was busy: with parity, checksums, "
        "ciphers or requests. Without KVM, processors are emulated.",
        lambda trial: trial.outcome.counts and trial.facts.is_processor_limited,
        _worst_loss,
        "The processors of the machine were the limit, so the figures also depend on them.",
    ),
    _Kind(
        "Saturated",
        "The disks could not keep up with the times of the trace.",
        lambda trial: trial.outcome.counts and trial.facts.saturated,
        _notes(SATURATED),
        "The disks could not keep up with the trace, so the figures are of a slower replay.",
    ),
    _Kind(
        "Stalled",
        "One request took more than a tenth of the time of the trial, and more than ten times the mean. These trials "
        "are not in the figures, unless half of the trials are stalled.",
        lambda trial: bool(trial.counted and trial.counted.is_stalled),
        _longest,
        "Single requests took a large part of the time: look at the disk.",
    ),
    _Kind(
        "Unsettled",
        "The wanted steady state was not reached. These trials are not in the figures.",
        lambda trial: trial.outcome.counts and not trial.facts.settled,
        _notes(UNSETTLED),
        "The figures leave out the trials that did not become steady.",
    ),
    _Kind(
        "Unconfined",
        "fio could write outside of its trial and what is under test. The confinement needs the right to mount.",
        lambda trial: bool(trial.notes.get(UNCONFINED)),
        _notes(UNCONFINED),
        "fio could write to other files and devices of the machine.",
    ),
)
