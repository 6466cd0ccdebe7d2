"""A run as one HTML page without scripts, fonts or network access. A second rendering gives the same bytes."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from runner.reports import verdicts
from runner.reports.answer import summarize_rankings
from runner.reports.charts import curves
from runner.reports.junit import strip_illegal
from runner.reports.knees import knee_table
from runner.reports.sections import MOST_CHARTS, MOST_ROWS, sections
from runner.reports.terminal import drift_note, precision_note
from runner.results.record import HOST_LIMITED, UNSETTLED, Outcome, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from runner.reports.run_data import RunData
    from runner.reports.table import Grid
    from runner.results.run_folder import Manifest

    _Why = Callable[[Trial], str | None]  # why a trial needs attention; None if it does not

MOST_CONCERNS = 50  # cells to list for each kind of concern
MOST_GROUNDS = 50  # cells and answers to list for each guideline


@dataclass(frozen=True, slots=True)
class Concern:
    cell: str
    trials: str
    why: str


@dataclass(frozen=True, slots=True)
class Concerns:
    title: str
    meaning: str
    found: tuple[Concern, ...]

    @property
    def left(self) -> int:
        return max(0, len(self.found) - MOST_CONCERNS)


@dataclass(frozen=True, slots=True)
class Grounds:
    guideline: str
    answers: Grid | None  # None if the guideline asks only one thing
    cells: tuple[str, ...]
    is_cut: bool  # some cells or answers are not listed


def page(
    recorded: RunData, manifest: Manifest, name: str, *, rows: int = MOST_ROWS, charts: int = MOST_CHARTS
) -> bytes:
    shown = list(sections(recorded, rows=rows, charts=charts))
    template = _environment().get_template("report.html.j2")
    text = template.render(
        run=recorded,
        manifest=manifest,
        name=name,
        facts=dict(_facts(recorded, manifest)),
        environment=dict(_environment_of(manifest)),
        answer=summarize_rankings(recorded.rankings, recorded.losses, synthetic=False, over=recorded.over),
        remarks=[
            *([f"Slow motion: {recorded.slow_motion}."] if recorded.slow else []),
            *filter(None, (precision_note(recorded), drift_note(recorded))),
        ],
        concerns=list(_concerns(recorded)),
        most_concerns=MOST_CONCERNS,
        verdicts=verdicts.verdict_table(recorded.judgements) if recorded.judgements else None,
        knees=knee_table(recorded.knees, over=recorded.over) if recorded.knees else None,
        grounds=list(_grounds(recorded)),
        most_grounds=MOST_GROUNDS,
        sections=shown,
        left=len(recorded.summaries) - sum(len(one.rows) for one in shown),
        undrawn=sum(one.undrawn for one in shown),
        curves=list(islice(curves(recorded), charts)),
    )
    return text.encode()


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).with_name("page")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _plain(value: object) -> object:
    if value is None:
        raise TypeError("a value of the page is None")
    return value if isinstance(value, Markup) else strip_illegal(str(value))


def _facts(recorded: RunData, manifest: Manifest) -> Iterator[tuple[str, str]]:
    host = manifest.host
    counts = Counter[str](trial.outcome for trial in recorded.trials)
    cells = Counter(summary.outcome or summary.text_without_trials for summary in recorded.summaries)
    yield "machine", recorded.machine
    yield "host", ", ".join(filter(None, (host.hostname, host.cpu, f"{host.cores} cores", host.system)))
    if manifest.versions:
        yield "kernel under test", ", ".join(manifest.versions)
    yield "started", manifest.started
    if last := max((trial.started for trial in recorded.trials), default=""):
        yield "last trial started", last
    yield "part of the matrix", manifest.part or "all"
    yield "cells", f"{len(recorded.cells):,}: {_counted(cells)}"
    yield "trials", f"{len(recorded.trials):,} of {manifest.planned:,} planned: {_counted(counts)}"
    yield "state", "finished" if recorded.over else "not finished: the same command continues it"


def _counted(counts: Mapping[str, int]) -> str:
    order = (*Outcome, *(text for text in counts if text not in {*Outcome}))
    return ", ".join(f"{count:,} {one}" for one in order if (count := counts.get(one, 0))) or "none yet"


def _environment_of(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "command", shlex.join(manifest.command)
    yield "run", manifest.identity
    yield "fingerprint", manifest.fingerprint
    if one := manifest.revision:
        dirty = ", with changes that are not committed" if one.dirty else ""
        yield "git revision of the matrix", f"{one.commit}{f' ({one.branch})' if one.branch else ''}{dirty}"
    yield from manifest.environment.items()
    for health in manifest.health:
        yield f"{health.disk} before", str(health.before)
        yield f"{health.disk} after", str(health.after or "")


def _concerns(recorded: RunData) -> Iterator[Concerns]:
    kinds = (
        (
            "Corrupt",
            "fio read other data than it had written. This is a result about the storage. These cells have no figures.",
            _ended(Outcome.CORRUPT),
        ),
        ("Broken", "Set-up, read-back or fio failed. This is not a result about speed.", _ended(Outcome.BROKEN)),
        ("Skipped", "These trials did not run.", _ended(Outcome.SKIPPED)),
        (
            "Host-limited",
            "The host could not keep up with its simulated disks. The figures depend on both.",
            _noted(HOST_LIMITED),
        ),
        (
            "Unsettled",
            "The wanted steady state was not reached. These trials are not in the figures below.",
            _noted(UNSETTLED),
        ),
    )
    for title, meaning, why in kinds:
        found = []
        for cell in recorded.cells:
            trials = recorded.by_cell[cell.id]
            if whys := [text for trial in trials if (text := why(trial)) is not None]:
                reasons = "; ".join(dict.fromkeys(filter(None, whys)))
                found.append(Concern(cell.name, f"{len(whys):,} of {len(trials):,}", reasons))
        if found:
            yield Concerns(title, meaning, tuple(found))


def _ended(outcome: Outcome) -> _Why:
    return lambda trial: trial.reason if trial.outcome is outcome else None


def _noted(note: str) -> _Why:
    return lambda trial: trial.notes.get(note) if trial.outcome is Outcome.MEASURED else None


def _grounds(recorded: RunData) -> Iterator[Grounds]:
    names = {cell.id: cell.name for cell in recorded.cells}
    for one in verdicts.sort_by_verdict(recorded.judgements):
        if any(answer.n for answer in one.answers):
            table = verdicts.answer_table(one) if len(one.answers) > 1 else None
            few = replace(table, rows=table.rows[:MOST_GROUNDS]) if table else None
            cells = tuple(names.get(cell, cell) for cell in one.cells)
            cut = max(len(cells), len(one.answers)) > MOST_GROUNDS
            yield Grounds(one.guideline.id, few, cells, cut)
