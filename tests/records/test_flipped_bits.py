"""Commands on a journal, a store or a log with one flipped bit: the same answer or a refusal, never another answer."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.address import Address
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call

TIMES = 40 * int(os.environ.get("MATRIX_TEST_TIMES", "1"))
TRIALS = (
    *(past.measured(cell, number, 2e8 + number, 3e5) for cell in ("c1", "c2") for number in range(1, 12)),
    Trial("c1", 20, Outcome.CORRUPT, "wrong data"),
    Trial("c2", 20, Outcome.BROKEN, "a rig was lost"),
)


METRICS = ("read_bw", "write_bw", "total_iops", "read_lat_p99", "write_lat_p99")
RESULTS = ("results", "--trials", "--format", "csv", *(word for one in METRICS for word in ("--metric", one)))
COMMANDS = (("compare", "run-1", "run-2"), ("history", "c2", "--format", "csv"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs and their store; the journal of `run-1` has a log, and so has the store."""
    source, copied = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("whole") / "results"
    folder, _ = past.recorded(source, TRIALS[:-4], 1), past.recorded(source, TRIALS, 2)
    address = Address(file=source / "store.db")
    with Journal.open(folder.journal) as journal, SharedStore.open(address) as store:
        for trial in TRIALS[-4:]:
            journal.record(trial)
        bring_up_to_date(store, source)
        shutil.copytree(source, copied)
    for log in (copied / "store.db-wal", copied / "run-1/journal.sqlite-wal"):
        assert log.stat().st_size
    return copied


@pytest.mark.parametrize("name", ["run-1/journal.sqlite", "run-1/journal.sqlite-wal", "store.db", "store.db-wal"])
def test_one_flipped_bit_gives_the_same_answer_or_a_refusal(whole: Path, tmp_path: Path, call: Call, name: str) -> None:
    draw, refused = random.Random(name), 0  # noqa: S311 - a repeatable sample
    results = tmp_path / "results"

    def fresh() -> None:
        shutil.rmtree(results, ignore_errors=True)
        shutil.copytree(whole, results)
        for shared in (*results.glob("*-shm"), *results.glob("*/*-shm")):
            shared.unlink()
        if not name.endswith("-wal"):
            sqlite3.connect(results / name).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
        if not name.startswith("store"):  # the journals are all there is
            for store in results.glob("store.db*"):
                store.unlink()

    fresh()
    wanted = {command: call(*command) for command in (RESULTS, *COMMANDS)}
    assert [one.status for one in wanted.values()] == [0, 1, 0]
    for number in range(TIMES):
        fresh()
        content = bytearray((results / name).read_bytes())
        at, bit = draw.randrange(len(content)), draw.randrange(8)
        content[at] ^= 1 << bit
        (results / name).write_bytes(content)
        for command in (COMMANDS[number % len(COMMANDS)], RESULTS):
            found, whole_answer = call(*command), wanted[command]
            assert "Traceback" not in found.err, (at, bit, found.err)
            if (found.out, found.status) != (whole_answer.out, whole_answer.status):
                assert found.status in {2, 3}, (at, bit, command, found)
                assert "is left out" in found.err or "store.db" in found.err, (at, bit, command, found)
            if command == RESULTS:
                assert {*found.out.splitlines()} <= {*whole_answer.out.splitlines()}, (at, bit, found)
                refused += found.status != 0
    assert refused > TIMES / 20
