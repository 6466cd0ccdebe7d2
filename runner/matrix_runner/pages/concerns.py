"""Cells to doubt (broken, host-limited, unsettled and others); a sentence for those that change the reading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matrix_runner.answers.samples import mean_lost_share
from matrix_runner.pages.ranking_terms import percent
from matrix_runner.pages.terminal_text import spaced
from matrix_runner.records.record import HOST_LIMITED, SATURATED, UNMEASURED, UNSETTLED, Outcome, Trial, counted_trials
from matrix_runner.simdisks.server import lost_share

_Why = Callable[[Trial], str | None]  # why a trial needs attention; None if it does not

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
    limited = sum(HOST_LIMITED in trial.notes for trial in counted)
    kept_up = (trial.notes.get("bottleneck") for trial in trials if HOST_LIMITED not in trial.notes)
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
            if whys := [text for trial in trials if (text := kind.why(trial)) is not None]:
                self._count[kind.title] += 1
                measured = bool(counted_trials(trials))
                self._missing[kind.title] += not measured
                if self._count[kind.title] <= MOST_CONCERNS:
                    reasons = spaced(kind.summary(whys))
                    counts = f"{len(whys):,} of {len(trials):,}"
                    self._found[kind.title].append(Concern(name, counts, reasons, measured))

    def concerns(self) -> tuple[Concerns, ...]:
        return tuple(
            Concerns(title, meaning, tuple(self._found[title]), count, self._missing[title], always)
            for title, meaning, _, always, _ in _KINDS
            if (count := self._count[title])
        )


#: The parts of a note on a host-limited trial, and what they mean.
_LOSSES = {
    "answers late": "answers left late",
    "disks left waiting": "requests came late, so disks were idle",
    "on the way to the disks and back": "requests and answers were under way",
    "no processor for the machine": "the virtual machine waited for a processor of the host",
    "other programs": "other programs used the processors",
    "other machines": "other virtual machines used the processors",
}
_LOSS = re.compile(rf"({'|'.join(_LOSSES)}) ([\d.]+)%")


def _summarize(whys: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, whys)))


def _worst_loss(whys: Sequence[str]) -> str:
    worst = max(whys, key=lost_share)
    parts = sorted(((float(lost), _LOSSES[what]) for what, lost in _LOSS.findall(worst)), reverse=True)
    causes = ", ".join(f"{meaning} ({lost:.1f} %)" for lost, meaning in parts if lost)
    return f"{lost_share(worst) * 100:.1f} % of the time was lost: {causes}" if causes else worst


def _cells(count: int) -> str:
    return f"{count:,} cell{'s' if count != 1 else ''}"


def _ended(outcome: Outcome) -> _Why:
    return lambda trial: trial.reason if trial.outcome is outcome else None


def _noted(note: str) -> _Why:
    return lambda trial: trial.notes.get(note) if trial.outcome.counts else None


class _Kind(NamedTuple):
    title: str
    meaning: str
    why: _Why
    always: str
    summary: Callable[[Sequence[str]], str] = _summarize


_KINDS = (
    *(_Kind(one.capitalize(), one.about.meaning, _ended(one), one.about.doubt) for one in UNMEASURED),
    _Kind(
        "Host-limited",
        "The host could not keep up with its simulated disks, or was busy with other work. The figures depend on both. "
        "Each row is of the worst trial; the shares in the answer and in `held back by` are means over all trials. "
        "Late answers and idle disks add up. The other losses overlap with these, so only the largest counts. "
        "`matrix help simulated-disks` explains the losses.",
        _noted(HOST_LIMITED),
        "The host was too slow or too busy, so the figures also depend on it.",
        _worst_loss,
    ),
    _Kind(
        "Saturated",
        "The disks could not keep up with the times of the trace.",
        _noted(SATURATED),
        "The disks could not keep up with the trace, so the figures are of a slower replay.",
    ),
    _Kind(
        "Unsettled",
        "The wanted steady state was not reached. These trials are not in the figures.",
        _noted(UNSETTLED),
        "The figures leave out the trials that did not become steady.",
    ),
)
