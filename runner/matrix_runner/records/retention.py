"""Which runs are removed, and their removal: the folder and the rows of the store together."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING

from matrix_runner.base.errors import BadInput
from matrix_runner.records.files import recorded_file_errors
from matrix_runner.records.run_folder import HALF
from matrix_runner.records.standing import STANDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

    from matrix_runner.records.run_folder import RunFolder
    from matrix_runner.records.store import RunRow, SharedStore


@dataclass(frozen=True, slots=True)
class KeptRun:
    run: RunRow
    folder: RunFolder | None = None  # None: only the store has the run
    size: int = 0  # bytes of its folder


@dataclass(frozen=True, slots=True)
class Keep:
    """What stays. A run is removed if no rule keeps it."""

    since: datetime | None = None  # runs that started later
    last: int = 0  # so many of each kind: runs of the same matrix, machine, host and part
    tagged: bool = True
    size: int | None = None  # remove the oldest only until all folders together are not larger
    named: frozenset[str] = frozenset()  # ids of runs that a baseline names


def reasons_to_keep(runs: Iterable[KeptRun], keep: Keep) -> list[tuple[KeptRun, str]]:
    """Return each run with the reason why it stays, the latest first; empty: no rule keeps it.

    Some runs always stay: those that are not finished, those that a baseline names, and the last good run of its kind.
    """
    seen, has_good = Counter[tuple[str, ...]](), set[tuple[str, ...]]()
    found = []
    for one in sorted(runs, key=lambda one: (one.run.started, one.run.name), reverse=True):
        kind = one.run.kind
        seen[kind] += 1
        is_last_good = one.run.is_good and kind not in has_good
        has_good |= {kind} if is_last_good else set()
        rules = {
            "it is not finished": not one.run.finished,
            "baselines.yaml names it": one.run.id in keep.named,
            "the last good run of its kind, a baseline": is_last_good,
            f"one of the last {keep.last} of its kind": seen[kind] <= keep.last,
            "it is young enough": keep.since is not None and one.run.started >= keep.since.isoformat(),
            f"it has the tag {', '.join(one.run.tags)}": bool(keep.tagged and one.run.tags),
        }
        found.append((one, next((reason for reason, holds in rules.items() if holds), "")))
    return found


def runs_to_remove(runs: Iterable[KeptRun], keep: Keep) -> list[KeptRun]:
    """Return the runs that no rule keeps, the oldest first."""
    known = reasons_to_keep(runs, keep)
    found = [one for one, why in reversed(known) if not why]
    return found if keep.size is None else _until(found, sum(one.size for one, _ in known) - keep.size)


def _until(oldest_first: Sequence[KeptRun], excess: int) -> list[KeptRun]:
    found = []
    for one in oldest_first:
        if excess <= 0:
            break
        found.append(one)
        excess -= one.size
    return found


def folder_size(folder: Path) -> int:
    """Return the bytes on disk. Files that vanish meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += 512 * path.lstat().st_blocks
    return total


def remove_run(one: KeptRun, store: SharedStore | None) -> None:
    """Remove a run. After a kill in the middle, the same command, or the next run, removes the rest."""
    if one.folder is None:
        if store:
            store.remove_run(one.run.id)
        return
    path = one.folder.path
    with one.folder.locked(), recorded_file_errors(path):
        if any((path / STANDING).glob("*.sh")):
            raise BadInput(
                f"{path} has scripts of stacks that may still be up",
                resolution="run `matrix clean` first, or continue the run with the same `matrix run`",
            )
        if store:
            store.remove_run(one.run.id)
        if path.is_symlink():  # the folder belongs to another place
            path.unlink()
            return
        gone = path.with_name(f".{token_hex(8)}{HALF}")  # the next run removes what a kill leaves of it
        path.rename(gone)
        shutil.rmtree(gone)
