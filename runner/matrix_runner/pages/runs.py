"""The list of runs, and the progress of one, for people and for programs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from matrix_runner.base.errors import BadInput
from matrix_runner.base.text import of_planned
from matrix_runner.decide.estimate import count_down, remaining_seconds
from matrix_runner.language.suggestions import few_names
from matrix_runner.pages.table import Grid
from matrix_runner.pages.terminal_text import digits, duration
from matrix_runner.records.observe import ActiveTrial, Holder, LastTrial, Progress, State
from matrix_runner.records.record import WORST, Outcome
from matrix_runner.records.run_folder import RunFolder
from matrix_runner.records.store import RunRow


@dataclass(frozen=True, slots=True)
class ListedRun:
    run: RunRow
    state: State
    progress: Progress | None  # None: the journal is unreadable
    verdicts: Mapping[str, int]
    folder: str  # empty: only the store knows the run
    is_baseline: bool = False  # baselines.yaml names it


def select_by_name(runs: Sequence[RunRow], names: Sequence[str]) -> list[RunRow]:
    wanted: set[int] = set()
    for name in names:
        chosen = {id(run) for run in runs if fnmatchcase(run.matrix, name) or fnmatchcase(run.name, name)}
        if not chosen:
            matrices = few_names(list(dict.fromkeys(run.matrix for run in runs)))
            raise BadInput(
                f"there is no run of '{name}'",
                details=f"there are runs of {matrices}" if matrices else "there is no run at all",
                resolution="name a matrix, a folder, or a pattern of either: `matrix runs 'nightly-*'`",
            )
        wanted |= chosen
    return [run for run in runs if not names or id(run) in wanted]


def list_table(listed: Sequence[ListedRun]) -> Grid:
    hosts = len({one.run.host for one in listed}) > 1
    verdicts = any(one.verdicts for one in listed)
    marks = any(one.run.tags or one.run.note for one in listed)
    columns = ("run", "state", "matrix", "machine", *(("host",) * hosts), "started (UTC)", "cells", "trials")
    rows = [
        (
            *(one.run.name, f"{one.state}{', baseline' * one.is_baseline}{excluded and f', excluded: {excluded}'}"),
            *(one.run.matrix, one.run.machine),
            *((one.run.host,) * hosts),
            one.run.started[:16].replace("T", " "),
            *_count_cells_and_trials(one),
            *((", ".join(f"{count} {verdict}" for verdict, count in one.verdicts.items()),) * verdicts),
            *(("; ".join(filter(None, (", ".join(one.run.tags), one.run.note))),) * marks),
        )
        for one in listed
        for excluded in (one.run.excluded,)
    ]
    return Grid((*columns, *(("verdicts",) * verdicts), *(("tags and note",) * marks)), rows)


def _count_cells_and_trials(one: ListedRun) -> tuple[str, str]:
    progress = one.progress
    if progress is None:
        return "?", "?"
    measured = "" if progress.measured == progress.cells else f"{progress.measured:,} of "
    bad = "".join(f", {len(cells):,} {kind}" for kind, cells in progress.bad.items() if cells)
    trials = of_planned(progress.trials, 0 if one.run.finished else one.run.planned)
    return f"{measured}{progress.cells:,}{bad}", trials


def run_document(one: ListedRun) -> dict[str, Any]:
    run, progress = one.run, one.progress
    return {
        "run": run.name,
        "state": one.state.value,
        "matrix": run.matrix,
        "machine": run.machine,
        "synthetic": run.synthetic,
        "host": run.host,
        "part": run.part,
        "started": run.started,
        "exit": run.exit,
        "planned": run.planned,
        "trials": dict(progress.outcomes) if progress else None,
        "cells": progress.cells if progress else None,
        "cells_measured": progress.measured if progress else None,
        **{f"cells_{bad}": len(progress.bad.get(bad, ())) if progress else None for bad in WORST},
        "verdicts": dict(one.verdicts),
        "tags": list(run.tags),
        "note": run.note,
        "excluded": run.excluded,
        "baseline": one.is_baseline,
        "folder": one.folder or None,
    }


_FEW = 5


@dataclass(frozen=True, slots=True)
class RunStatus:
    folder: RunFolder
    state: State
    holder: Holder | None
    progress: Progress
    now: datetime

    @property
    def running(self) -> bool:
        return self.state is State.RUNNING

    @property
    def waiting(self) -> str:
        return self.folder.manifest.waiting if self.running else ""

    @property
    def knows_underway(self) -> bool:
        """Return whether the journal has the trials under way: those of a cluster are on its hosts until they end."""
        return bool(self.progress.underway) or not (self.running and self.folder.manifest.on_cluster)

    @property
    def seconds_a_trial(self) -> float | None:
        return self._elapsed / self.progress.recent if self.holder and self.progress.recent else None

    @property
    def seconds_left(self) -> float | None:
        manifest, recent = self.folder.manifest, self.progress.recent
        left = max(0, manifest.planned - self.progress.trials)
        if self.holder is None or self.waiting or not (recent or manifest.expected):
            return None
        if left and manifest.ends:
            return max(0.0, (manifest.ends - self.now).total_seconds())
        if not left:
            return 0.0
        measured = self._seconds_to_last_trial
        guess = remaining_seconds(manifest.expected, recent / (recent + left), measured)
        return count_down(guess, self._elapsed - measured, left)

    @property
    def _seconds_to_last_trial(self) -> float:
        """Return the seconds from the start of the process to the end of its last trial."""
        if not (self.progress.recent and self.progress.last and self.holder):
            return 0.0
        end = _parsed(self.progress.last.started) + timedelta(seconds=self.progress.last.seconds)
        return min(self._elapsed, (end - self.holder.since).total_seconds())

    @property
    def _elapsed(self) -> float:
        return max(0.0, (self.now - self.holder.since).total_seconds()) if self.holder else 0.0

    @property
    def at_most(self) -> bool:
        manifest = self.folder.manifest
        return manifest.until is not None or (manifest.steered and manifest.requested.race is None)


def status_lines(status: RunStatus) -> Iterator[tuple[str, str]]:
    manifest, progress = status.folder.manifest, status.progress
    at_most = "at most " if status.at_most else ""
    yield "state", status.state.value
    yield "folder", f"{status.folder.path}/"
    yield "matrix", f"{manifest.matrix} on {manifest.machine}{f', {manifest.part}' if manifest.part else ''}"
    yield "started", _moment(manifest.started)
    if status.holder:
        host = f" on {status.holder.host}" if status.holder.host else ""
        yield "process", f"{status.holder.pid}{host}, for {_since(status.holder.since, status.now)}"
    elif manifest.ended:
        yield "ended", _moment(manifest.ended)
    outcomes = ", ".join(f"{count:,} {one}" for one in Outcome if (count := progress.outcomes.get(one, 0)))
    done = of_planned(progress.trials, manifest.planned, at_most)
    yield "trials", f"{done}{f': {outcomes}' if outcomes else ''}"
    yield "cells", f"{progress.measured:,} of {progress.cells:,} have a measured trial"
    for kind, bad in progress.bad.items():
        yield from ((kind.value, f"{name}: {why}") for name, why in list(bad.items())[:_FEW])
        if len(bad) > _FEW:
            yield kind.value, f"{len(bad) - _FEW:,} more cells"
    if progress.lost:
        yield "lost machines", f"{progress.lost:,}"
    if status.running:
        yield from _now(status)
    elif status.state is State.INTERRUPTED:
        yield "next", "`matrix run` with the same matrix and options continues it"


def _now(status: RunStatus) -> Iterator[tuple[str, str]]:
    progress = status.progress
    for one in progress.underway:
        again = f", attempt {one.attempt}" if one.attempt > 1 else ""
        yield "now", f"{one.name}, trial {one.round}{again}, for {_since(_parsed(one.started), status.now)}"
    if status.waiting:
        yield "now", status.waiting
    elif not status.knows_underway:
        yield "now", "the terminal of `matrix run` shows the trials under way on the cluster"
    elif not progress.underway:
        yield "now", "no trial: a machine starts, a stack is built or removed, or the run waits for a host"
    if progress.last:
        yield "last", f"{progress.last.name}, trial {progress.last.round}: {progress.last.outcome}"
    if status.seconds_left is not None:
        at_most = "at most " if status.at_most else ""
        rate = f", at {_rate(status.seconds_a_trial)}" if status.seconds_a_trial is not None else ""
        yield "left", f"{at_most}{duration(status.seconds_left)}{rate}"
    else:
        yield "left", f"not known {'while it waits' if status.waiting else 'before the first trial of this process'}"


def status_document(status: RunStatus) -> dict[str, Any]:
    manifest, progress, holder = status.folder.manifest, status.progress, status.holder
    underway = [_trial_document(one, attempt=one.attempt) for one in progress.underway]
    return {
        "run": status.folder.path.name,
        "state": status.state.value,
        "folder": str(status.folder.path),
        "matrix": manifest.matrix,
        "machine": manifest.machine,
        "synthetic": manifest.synthetic,
        "started": manifest.started,
        "ended": manifest.ended or None,
        "pid": int(holder.pid) if holder and holder.pid.isdigit() else None,
        "host": holder.host if holder else None,
        "process_started": holder.since.isoformat(timespec="milliseconds") if holder else None,
        "planned": manifest.planned,
        "planned_at_most": status.at_most,
        "trials": dict(progress.outcomes),
        "cells": progress.cells,
        "cells_measured": progress.measured,
        **{f"cells_{bad}": dict(progress.bad.get(bad, {})) for bad in WORST},
        "lost_machines": progress.lost,
        "waiting": status.waiting or None,
        "now": underway if status.knows_underway else None,
        "last": _trial_document(progress.last, outcome=progress.last.outcome) if progress.last else None,
        "seconds_a_trial": status.seconds_a_trial,
        "seconds_left": status.seconds_left,
    }


def _trial_document(one: ActiveTrial | LastTrial, **more: Any) -> dict[str, Any]:
    return {"cell": one.name, "trial": one.round, **more, "started": one.started}


def _rate(seconds: float) -> str:
    for unit, length in (("second", 1), ("minute", 60), ("hour", 3600)):
        if seconds <= length:
            return f"{digits(length / seconds) if seconds else 'many'} trials a {unit}"
    return f"{duration(seconds)} a trial"


def _moment(text: str) -> str:
    """The minute, or the text itself if a damaged manifest has no time there."""
    try:
        return f"{_parsed(text):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return text


def _parsed(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _since(moment: datetime, now: datetime) -> str:
    """Return the elapsed time, at least zero: the clocks of two hosts may differ."""
    return duration(max(0.0, (now - moment).total_seconds()))
