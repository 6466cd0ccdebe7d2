"""`kill -9` at random moments: in the end the store holds what an undisturbed run gives, each trial once."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.cli import main, run
from matrix_runner.records.address import address_of
from matrix_runner.records.environment import Host
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import load, run_folders
from matrix_runner.records.store import SharedStore
from matrix_runner.scripts import cell as check
from tests.support.amounts import times
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KILLS = times(12)
#: Long enough that kills fall on all of it: they hit some two or three trials on.
TRIALS = 3 * KILLS
MATRIX = SMALL.replace("repeat: 2", f"repeat: {TRIALS // 4}")
#: Calls of functions that two or three trials are made of.
STEPS = 60_000
#: What makes a trial what it is, wherever and whenever it ran.
SAME = ("cell", "round", "outcome", "read_bw", "write_bw", "readings", "kernel")


def killing_itself(trial: int, steps: int) -> None:
    """Have this process kill itself so many calls of functions after it has begun its n-th trial.

    Half of all kills are such: they are as likely between any two steps of ours, however fast those are. The others
    come from outside, in the middle of whatever takes long, like what the disk does.
    """
    begin, left = Journal.begin, [trial, steps]

    def step(*_: object) -> None:
        left[1] -= 1
        if left[1] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(self: Journal, *arguments: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            sys.setprofile(step)
        begin(self, *arguments)

    setattr(Journal, "begin", counted)  # noqa: B010 - another signature, on purpose


def run_matrix(place: Path, speak: int) -> None:
    """What the child does: `matrix run`, which says a line for every trial."""
    os.chdir(place)
    os.dup2(speak, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.stdout = os.fdopen(1, "w")
    sys.argv = ["matrix", "run", "--on", "dry", "m.yaml"]
    # What other programs have to say of the host and of the jobs takes longer than all the rest.
    for module, name, answer in (
        (run, "facts_of", lambda _: Host(kernel="", cpu="", cores=1, memory=1)),
        (run, "revision", lambda _: None),
        (check, "explain_missing_fio", lambda: "not checked"),
    ):
        setattr(module, name, answer)
    main()


def started(place: Path, prepared: Callable[[], None] = lambda: None) -> tuple[int, int]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            prepared()
            run_matrix(place, write)
        except SystemExit as ended:
            sys.stdout.flush()
            os._exit(int(ended.code or 0))
        finally:
            os._exit(99)
    os.close(write)
    return child, read


def killed(place: Path, chance: random.Random) -> bool:
    """Run it, and kill it at a random moment; False if it was finished before."""
    trial = chance.choice((1, 1, 2))
    if chance.random() < 0.5:
        steps = chance.randrange(STEPS)
        child, read = started(place, lambda: killing_itself(trial, steps))
        with os.fdopen(read, "rb") as lines:
            lines.read()
    else:
        child, read = started(place)
        with os.fdopen(read, "rb") as lines:
            for _ in range(trial):
                lines.readline()
            for _ in range(chance.randrange(300_000)):
                pass
            os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def finished(place: Path) -> None:
    child, read = started(place)
    with os.fdopen(read, "rb") as lines:
        lines.read()
    assert os.waitpid(child, 0)[1] == 0


def content(place: Path) -> list[tuple[object, ...]]:
    with SharedStore.existing(address_of(None, place / "results")) as store:
        assert len(store.runs()) == 1
        return sorted(tuple(row) for row in store.trials(SAME))


@pytest.mark.timeout(3000)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_at_random_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MATRIX_STORE", raising=False)
    disturbed, undisturbed = tmp_path / "disturbed", tmp_path / "undisturbed"
    for place in (disturbed, undisturbed):
        place.mkdir()
        (place / "m.yaml").write_text(MATRIX)
    chance = random.Random(5)  # noqa: S311 - so that a failure comes again
    kills = sum(killed(disturbed, chance) for _ in range(KILLS))
    assert kills == KILLS, "the run is long enough for all of them"
    finished(disturbed)
    finished(undisturbed)
    (folder,) = run_folders(disturbed / "results")
    with Journal.existing(load(folder).journal) as journal:
        recorded = journal.recorded_identities()
    found = content(disturbed)
    assert len(found) == TRIALS == len(recorded)
    assert {(row[0], row[1]) for row in found} == recorded
    assert repr(found) == repr(content(undisturbed))
    with closing(sqlite3.connect(disturbed / "results" / "store.db")) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
