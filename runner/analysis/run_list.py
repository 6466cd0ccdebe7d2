"""The list of runs, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from runner.base.errors import BadInput
from runner.reports.table import Grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.results.observe import Progress, State
    from runner.results.store import RunRow


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One run of the list."""

    run: RunRow
    state: State
    #: None: the journal is unreadable.
    progress: Progress | None
    #: Number of guidelines by verdict.
    verdicts: Mapping[str, int]
    #: Empty: only the store knows the run.
    folder: str


def select_by_name(runs: Sequence[RunRow], names: Sequence[str]) -> list[RunRow]:
    """Return the runs by names or patterns of their matrices or folders. Without names, return all."""
    chosen = {name: [run for run in runs if _is_called(run, name)] for name in names}
    if strange := [name for name, found in chosen.items() if not found]:
        there = ", ".join(dict.fromkeys(run.matrix for run in runs))
        raise BadInput(
            f"there is no run of '{strange[0]}'",
            details=f"there are runs of {there}" if there else "there is no run at all",
            resolution="name a matrix, a folder, or a pattern of either: `matrix runs 'nightly-*'`",
        )
    wanted = {id(run) for found in chosen.values() for run in found}
    return [run for run in runs if not names or id(run) in wanted]


def _is_called(run: RunRow, name: str) -> bool:
    return any(fnmatchcase(one, name) for one in (run.matrix, run.name))


def list_table(listed: Sequence[ListedRun]) -> Grid:
    """Return a row for each run."""
    hosts = len({one.run.host for one in listed}) > 1
    verdicts = any(one.verdicts for one in listed)
    columns = ("run", "state", "matrix", "machine", *(("host",) * hosts), "started (UTC)", "cells", "trials")
    rows = [
        (
            *(one.run.name, one.state.value, one.run.matrix, one.run.machine),
            *((one.run.host,) * hosts),
            one.run.started[:16].replace("T", " "),
            _cells(one.progress),
            _trials(one),
            *((_counts(one.verdicts),) * verdicts),
        )
        for one in listed
    ]
    return Grid((*columns, *(("verdicts",) * verdicts)), rows)


def _cells(progress: Progress | None) -> str:
    if progress is None:
        return "?"
    told = (
        f"{progress.cells:,}" if progress.measured == progress.cells else f"{progress.measured:,} of {progress.cells:,}"
    )
    return f"{told}, {len(progress.broken):,} broken" if progress.broken else told


def _trials(one: ListedRun) -> str:
    """Return the recorded trials, with the planned number if more follow."""
    if one.progress is None:
        return "?"
    return f"{one.progress.trials:,}" + ("" if one.run.finished else f" of {one.run.planned:,}")


def _counts(verdicts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())


def list_document(listed: Sequence[ListedRun], left_out: int, notes: Sequence[str]) -> dict[str, Any]:
    """Return the list as JSON data."""
    return {"runs": [_row(one) for one in listed], "left_out": left_out, "notes": list(notes)}


def _row(one: ListedRun) -> dict[str, Any]:
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
        "cells_broken": len(progress.broken) if progress else None,
        "verdicts": dict(one.verdicts),
        "folder": one.folder or None,
    }
