"""Copies finished trials from the journals of runs into the shared store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.base.errors import MatrixError
from runner.results.folders import run_folders, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.results.store import SharedStore


def bring_up_to_date(store: SharedStore, results: Path) -> list[str]:
    """Add the trials of runs below a folder that the store lacks.

    Return the runs that could not be added, with reasons.
    """
    settled = store.complete_states()
    waiting = [path for path in run_folders(results) if state_of(path) not in settled]
    if store.fixed:
        which = _few([path.name for path in waiting])
        return [f"{store.address} is read-only; it may lack trials of {which}"] if waiting else []
    return _added(store, waiting) if waiting else []


def _added(store: SharedStore, waiting: Sequence[Path]) -> list[str]:
    """Import late: the modules are slow to import, and usually all trials are in the store."""
    from runner.results.run_folder import InUse

    failed: dict[str, list[str]] = {}
    for path in waiting:
        try:
            _add_run(store, path)
        except InUse:
            continue  # the process that measures this run feeds the store itself
        except MatrixError as trouble:
            failed.setdefault(trouble.brief, []).append(path.name)
        except Exception as trouble:  # noqa: BLE001 - whatever is odd about one run, the others can be answered from
            failed.setdefault(f"{type(trouble).__name__}: {trouble}", []).append(path.name)
    return [f"not completely in the store: {_few(names)}: {brief}" for brief, names in failed.items()]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _add_run(store: SharedStore, path: Path) -> None:
    from runner.results.journal import Journal
    from runner.results.run_folder import load

    folder = load(path)
    with folder.feeding(wait=False), Journal.existing(folder.journal) as journal:
        store.catch_up(load(path), journal)
