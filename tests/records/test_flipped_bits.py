"""One flipped bit of a journal, a store or their logs gives the same answer or a refusal, never another answer."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.answers.stored_samples import read_samples
from matrix_runner.base.errors import MatrixError
from matrix_runner.records.address import IN_MEMORY, Address
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path

TIMES = 60 * int(os.environ.get("MATRIX_TEST_TIMES", "1"))
METRICS = ("read_bw", "write_bw", "total_iops", "read_lat_p99", "write_lat_p99")
TRIALS = (
    *(past.measured(cell, number, 2e8 + number, 3e5) for cell in ("c1", "c2") for number in range(1, 12)),
    Trial("c1", 20, Outcome.CORRUPT, "wrong data"),
    Trial("c2", 20, Outcome.BROKEN, "a rig was lost"),
)


@dataclass(frozen=True)
class Answer:
    runs: dict[str, Any]  # what is answered, by the name of the run
    named: str  # what is said to be damaged or left out


def answer(address: Address, results: Path) -> Answer:
    try:
        opening = SharedStore.existing if address.file else SharedStore.open
        with opening(address) as store:
            notes = bring_up_to_date(store, results)
            runs = store.runs()
            found: dict[str, Any] = {run.name: [run] for run in runs}
            for one in read_samples(store, runs, METRICS):
                if one.run.name in found:
                    figures = [one.estimate(name) for name in METRICS]
                    found[one.run.name].append((one.cell, one.cell.position, one.rows, figures))
            kept = {name: values for name, values in found.items() if name not in store.damage}
            return Answer(kept, f"{notes} {[*store.damage]}")
    except MatrixError as problem:
        return Answer({}, f"run-1 {problem.brief}")


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
def test_one_flipped_bit_gives_the_same_answer_or_a_refusal(whole: Path, tmp_path: Path, name: str) -> None:
    draw, refused = random.Random(name), 0  # noqa: S311 - a repeatable sample
    results = tmp_path / "results"

    def fresh() -> tuple[Address, Path]:
        shutil.rmtree(results, ignore_errors=True)
        shutil.copytree(whole, results)
        for shared in (*results.glob("*-shm"), *results.glob("*/*-shm")):
            shared.unlink()
        if not name.endswith("-wal"):
            sqlite3.connect(results / name).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
        return (Address(file=results / "store.db") if name.startswith("store") else IN_MEMORY), results

    wanted = answer(*fresh())
    assert {*wanted.runs} == {"run-1", "run-2"}
    for _ in range(TIMES):
        place = fresh()
        content = bytearray((results / name).read_bytes())
        at, bit = draw.randrange(len(content)), draw.randrange(8)
        content[at] ^= 1 << bit
        (results / name).write_bytes(content)
        found = answer(*place)
        for run, values in wanted.runs.items():
            if found.runs.get(run) != values:
                assert run not in found.runs, (at, bit, run)
                assert run in found.named or "store.db" in found.named, (at, bit, found.named)
        refused += found.runs != wanted.runs
    assert refused > TIMES / 20
