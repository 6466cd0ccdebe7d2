"""Runs that keep to a budget."""

import asyncio
from pathlib import Path

import pytest

from matrix_runner.carry.executor import ONE, LocalRun
from matrix_runner.decide.budget import Cost, Spending
from matrix_runner.decide.concurrency import Level
from tests.support.dry import Dry
from tests.support.engine import Bench, Clock, by_cell
from tests.support.execution import executor

MATRIX = """\
name: spent
disks: {count: 2, size: 64MiB}
layouts: {raid0: [md: {level: 0}], disk: [disk]}
workloads: {work: {rw: [read, write], bs: 4KiB, runtime: 1s}}
repeat: {min: 2, max: 9, until: 0.0001%}
"""
FOREVER = float("inf")


def spend(bench: Bench, seconds: float = FOREVER, written: float = FOREVER, level: Level = ONE) -> LocalRun:
    clock = Clock()
    spending = Spending(Cost(seconds, written), clock=clock)
    execution = executor(
        bench.plan,
        Dry(clock.answer),
        bench.journal,
        bench.shelf,
        bench.folder,
        bench.events.append,
        boot_id="one",
        spending=spending,
        level=level,
    )
    asyncio.run(execution.run())
    return execution


def written_by(bench: Bench) -> int:
    return sum(trial.figures.write.bytes for trial in bench.journal.trials() if trial.figures and trial.figures.write)


def test_a_budget_of_time_ends_a_run_after_everybodys_minimum(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MATRIX)
    execution = spend(bench, seconds=20)
    counts = by_cell(bench)
    assert len(counts) == 4
    assert min(counts.values()) >= 2
    assert 8 <= sum(counts.values()) <= 20
    assert execution.scheduler.short == 0
    assert execution.scheduler.left_out > 0


def test_without_a_budget_no_cost_is_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    estimated: list[str] = []
    monkeypatch.setattr(Spending, "of_cell", lambda _, cell: estimated.append(cell.id))
    bench = Bench(tmp_path, MATRIX.replace("{min: 2, max: 9, until: 0.0001%}", "1"))
    spend(bench)
    assert sum(by_cell(bench).values()) == 4
    assert not estimated


def test_a_small_budget_counts_the_missing_trials_and_can_be_continued(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MATRIX)
    execution = spend(bench, seconds=5)
    done = [trial.round for trial in bench.journal.trials()]
    assert len(done) <= 5
    assert execution.scheduler.short == 8 - sum(round_number <= 2 for round_number in done)
    assert spend(bench, seconds=1000).scheduler.short == 0
    assert set(by_cell(bench).values()) == {9}


def test_bytes_are_those_of_the_whole_run_and_reading_goes_on_without(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MATRIX)
    spend(bench, written=500e6)
    assert written_by(bench) <= 500e6
    reads = {cell.id for cell in bench.plan.selection.cells() if cell.axes["workload.rw"] == "read"}
    counts = by_cell(bench)
    assert all(counts[cell] == 9 for cell in reads)
    before = sum(counts.values())
    assert spend(bench, written=500e6).scheduler.short > 0
    assert sum(by_cell(bench).values()) == before


@pytest.mark.parametrize("seconds", [FOREVER, 1000])
def test_a_large_budget_leaves_out_no_trial(tmp_path: Path, seconds: float) -> None:
    bench = Bench(tmp_path, MATRIX)
    execution = spend(bench, seconds)
    assert (execution.scheduler.short, execution.scheduler.left_out) == (0, 0)
    assert set(by_cell(bench).values()) == {9}


MANY = """\
name: many
disks: {count: 2, size: 64MiB}
layouts: {raid0: [md: {level: 0, chunk: [4KiB, 8KiB, 16KiB, 32KiB, 64KiB, 128KiB]}]}
workloads: {work: {rw: write, bs: 4KiB, runtime: 1s}}
repeat: 3
"""


@pytest.mark.parametrize("jobs", [1, 6])
def test_rigs_side_by_side_do_not_spend_the_same_bytes(tmp_path: Path, jobs: int) -> None:
    bench = Bench(tmp_path, MANY)
    spend(bench, written=500e6, level=Level.of(jobs))
    assert 0 < written_by(bench) <= 500e6


FILLED = """\
name: filled
disks: {count: 2, size: 64MiB}
layouts: {raid5: [precondition: {how: fill}, md: {level: 0}]}
workloads: {work: {rw: read, bs: 4KiB, runtime: 1s}}
repeat: 3
"""


def test_bytes_of_set_ups_count_for_the_next_process(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FILLED)
    spend(bench, written=2 * 2 * 64 * 2**20)
    assert len(list(bench.journal.trials())) == 2
    spend(bench, written=2 * 2 * 64 * 2**20)
    assert len(list(bench.journal.trials())) == 2
