"""What earlier runs teach a plan."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from matrix_runner.carry.past_timings import pace_of, refine_pace
from matrix_runner.decide.estimate import Pace
from matrix_runner.machines import machine
from matrix_runner.machines.base import MachineOptions
from matrix_runner.machines.rig_specs import simulated_disk_facts
from matrix_runner.records.environment import DiskFacts
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow
from matrix_runner.records.run_folder import create
from tests.pages.samples import direction, measured
from tests.support.begun_runs import manifest
from tests.support.matrices import space

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.language.matrix import Matrix


GUESS = Pace(once=40.0)
#: The matrix of all these runs.
MATRIX = manifest().matrix


def ran(
    results: Path,
    hour: int,
    *,
    seconds: float,
    machine: str = "qemu",
    bw: float = 1e8,
    matrix: str = MATRIX,
    disks: tuple[DiskFacts, ...] = (),
) -> Path:
    """A run of one trial: fio took 1 s of these seconds, the array half of them."""
    started = f"2026-03-04T{hour:02}:00:00+00:00"
    run = create(results, manifest(machine=machine, matrix=matrix, started=started, disks=disks))
    with Journal.open(run.journal) as journal:
        journal.add_cells([CellRow("c1", "cell", {})])
        journal.record_set_up(1, "array", seconds / 2)
        trial = measured("c1", 1, None, direction(bw, 1 << 20))
        object.__setattr__(trial, "seconds", seconds)
        journal.record(trial)
    return run.path


def refined(results: Path, machine: str, matrix: str, guess: Pace) -> Pace:
    return refine_pace(results, machine, matrix, guess, lambda _: True)


def test_without_recorded_runs_the_pace_is_a_guess(tmp_path: Path) -> None:
    assert refined(tmp_path / "none", "qemu", MATRIX, GUESS) == GUESS
    ran(tmp_path, 1, seconds=5.0, machine="dry")
    assert refined(tmp_path, "qemu", MATRIX, GUESS) == GUESS


def test_runs_on_this_machine_are_averaged(tmp_path: Path) -> None:
    ran(tmp_path, 1, seconds=3.0, bw=1e8)
    ran(tmp_path, 2, seconds=5.0, bw=3e8)
    ran(tmp_path, 3, seconds=99.0, machine="dry")
    pace = refined(tmp_path, "qemu", MATRIX, GUESS)
    assert (pace.runs, pace.overhead, pace.set_up) == (2, 3.0, 2.0)
    assert pace.write_rate == pytest.approx(2e8)
    assert (pace.cells, pace.stacks) == ({"c1": 5.0}, {"array": 2.5}), "of the latest"
    assert pace.once == 40.0, "what is to be prepared is another matter"


def test_runs_of_another_matrix_say_nothing(tmp_path: Path) -> None:
    """Their scatter, ten times that of this work, multiplied the trials of a race."""
    ran(tmp_path, 1, seconds=3.0, bw=2e6)
    assert refined(tmp_path, "qemu", "another", GUESS) == GUESS


DISKS = "{count: 2, size: 1GiB, model: nas-7200}\nseed: 1"


@pytest.mark.parametrize(
    ("disks", "is_known"),
    [
        (DISKS, True),
        (DISKS.replace("seed: 1", "seed: 2"), True),
        (DISKS.replace("nas-7200", "sata-ssd"), False),
        (DISKS.replace(", model: nas-7200", ""), False),
        (DISKS.replace("count: 2", "count: 3"), False),
        (DISKS.replace("}", ", slow: 4}"), False),
        (DISKS.replace("}", ", slow: auto}"), True),
    ],
)
def test_runs_on_other_disks_say_nothing(disks: str, is_known: bool, tmp_path: Path) -> None:
    def matrix(disks: str) -> Matrix:
        return space(f"name: {MATRIX}\ndisks: {disks}\nlayouts: {{a: [disk]}}\nworkloads: {{w: {{rw: write}}}}").matrix

    before = tuple(map(simulated_disk_facts, matrix(DISKS).every_disk()))
    ran(tmp_path, 1, seconds=3.0, disks=before)
    pace = pace_of(tmp_path, machine("qemu", MachineOptions()), "qemu", matrix(disks), ())
    assert (pace.runs, pace.write_rate is not None) == (int(is_known), is_known)


def test_runs_of_the_same_matrix_precede_later_ones_of_others(tmp_path: Path) -> None:
    ran(tmp_path, 1, seconds=3.0)
    for hour in range(2, 8):
        ran(tmp_path, hour, seconds=99.0, matrix="another")
    assert refined(tmp_path, "qemu", MATRIX, GUESS).overhead == 2.0


def test_old_runs_do_not_count(tmp_path: Path) -> None:
    ran(tmp_path, 1, seconds=1000.0)
    for hour in range(2, 7):
        ran(tmp_path, hour, seconds=3.0)
    assert refined(tmp_path, "qemu", MATRIX, GUESS).overhead == 2.0


def test_an_unreadable_run_is_skipped(tmp_path: Path) -> None:
    ran(tmp_path, 1, seconds=3.0)
    (ran(tmp_path, 2, seconds=1000.0) / "journal.sqlite").write_bytes(b"no database" * 100)
    missing = ran(tmp_path, 3, seconds=1000.0) / "journal.sqlite"
    missing.unlink()
    assert refined(tmp_path, "qemu", MATRIX, GUESS).runs == 1
    assert not missing.exists(), "looking makes nothing"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE batches SET seconds = 'abc'",
        "UPDATE batches SET seconds = x'01'",
        "UPDATE batches SET seconds = 9e999",
        "UPDATE batches SET seconds = -1",
        "UPDATE trials SET seconds = '{}'",
        "UPDATE trials SET runtime = 'abc'",
        "UPDATE trials SET write_bw = 1e300",
        "UPDATE trials SET notes = '{'",
        "UPDATE batches SET stack = CAST(x'ff' AS TEXT)",
    ],
)
def test_a_run_with_damaged_numbers_is_skipped(damage: str, tmp_path: Path) -> None:
    ran(tmp_path, 1, seconds=3.0)
    path = ran(tmp_path, 2, seconds=1000.0) / "journal.sqlite"
    before = refined(tmp_path, "qemu", MATRIX, GUESS)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    after = refined(tmp_path, "qemu", MATRIX, GUESS)
    assert (before.runs, after.runs) == (2, 1)


def test_a_run_without_measured_trials_does_not_count(tmp_path: Path) -> None:
    run = create(tmp_path, manifest())
    with Journal.open(run.journal) as journal:
        journal.record_set_up(1, "array", 4.0)
    assert refined(tmp_path, "qemu", MATRIX, GUESS) == GUESS


def test_disks_of_hosts_are_not_compared(tmp_path: Path) -> None:
    ran(tmp_path, 1, seconds=3.0, machine="local", disks=(DiskFacts(size=1 << 30, bus="its own", serial="s1"),))
    content = space(f"name: {MATRIX}\ndisks: {DISKS}\nlayouts: {{a: [disk]}}\nworkloads: {{w: {{rw: write}}}}").matrix
    assert pace_of(tmp_path, machine("local", MachineOptions()), "local", content, ()).runs == 1
