"""A runner that is killed at any moment loses nothing it was told is safe, and counts nothing twice."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Outcome, Trial

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 20
CELL = CellRow("c1", "single/seqread", {})


def trial(round_number: int) -> Trial:
    """Sizes vary, so that kills fall into commits of one page and of many."""
    return Trial("c1", round_number, Outcome.BROKEN, reason=f"{round_number} " * (1 + round_number % 7 * 400))


def record_forever(path: Path, acknowledge: int) -> None:
    """What the child does: go on where the journal ends, and print each round once it is recorded."""
    with Journal.open(path) as journal:
        journal.add_cells([CELL])
        for round_number in count(len(journal.recorded_identities())):
            journal.begin("c1", round_number, 1, "boot")
            journal.record(trial(round_number))
            os.write(acknowledge, f"{round_number}\n".encode())


def run_and_kill(path: Path, after: int) -> list[int]:
    """Start a recorder, kill it once it has acknowledged so many trials, and return all it acknowledged."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            record_forever(path, write)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as acknowledged:
        lines = [acknowledged.readline() for _ in range(after)]
        os.kill(child, signal.SIGKILL)
        lines += acknowledged.readlines()
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    return [int(line) for line in lines]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_twenty_kills_leave_exactly_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    acknowledged: set[int] = set()
    for kill in range(KILLS):
        new = run_and_kill(path, after=kill * 3 % 11)
        assert acknowledged.isdisjoint(new), "nothing is recorded twice"
        acknowledged |= set(new)
        with Journal.open(path) as journal:
            found = {trial.round: trial for trial in journal.trials()}
            open_ends = [begun.round for begun in journal.unended_attempts()]
        # The kill may fall between the commit and the word about it: that one trial counts, and is not repeated.
        unspoken = set(found) - acknowledged
        assert len(unspoken) <= 1
        acknowledged |= unspoken
        assert acknowledged == set(range(len(found))) == set(found)
        assert all(kept == trial(round_number) for round_number, kept in found.items())
        assert open_ends in ([], [len(found)]), "at most the trial under way has no end"
    assert len(acknowledged) >= KILLS
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_kill_while_the_journal_is_being_made(tmp_path: Path) -> None:
    """Killed before anything was said: whatever state the file is in, the next one opens it."""
    for number in range(5):
        path = tmp_path / f"{number}.sqlite"
        run_and_kill(path, after=0)
        with Journal.open(path) as journal:
            journal.add_cells([CELL])
            assert len(journal.recorded_identities()) <= 1 + max(
                (round_number for _, round_number in journal.recorded_identities()), default=-1
            )
