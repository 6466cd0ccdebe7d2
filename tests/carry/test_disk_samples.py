"""What modelled disks did, in all and as time went on."""

import asyncio
import csv
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from matrix_runner.carry import disk_samples as service
from matrix_runner.machines.base import Rig, RigSpec
from matrix_runner.simdisks.clib import Report
from tests.support.dry import Dry

IDLE = Report(
    reads=0, writes=0, flushes=0, read_bytes=0, written_bytes=0, seeks=0, hits=0, copied_bytes=0,
    busy=0.0, occupied=0.0, late=0.0, owed=0.0, failed=0, idle=0.0, starved=0.0,
)  # fmt: skip


class Busy:
    """Two disks, of which the second does a request and a quarter of a second of work between any two looks."""

    def __init__(self) -> None:
        self.looks = 0

    def disk_reports(self) -> tuple[Report, ...]:
        self.looks += 1
        return IDLE, replace(IDLE, reads=self.looks, busy=self.looks / 4)


async def _watched(rig: Rig, turns: int) -> service.Service:
    async with service.sample_disks(rig) as found:
        for _ in range(turns):
            await asyncio.sleep(0)
    return found


def test_the_work_of_each_disk_in_total_and_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "INTERVAL", 0.0)
    found = asyncio.run(_watched(cast("Rig", Busy()), 4))
    assert [one.reads for one in found.done] == [0, len(found.samples) - 1]
    files = {name: list(csv.DictReader(text.splitlines())) for name, text in found.files().items()}
    assert [(row["disk"], row["reads"]) for row in files["disks.csv"]] == [
        ("0", "0"),
        ("1", str(len(found.samples) - 1)),
    ]
    course = [row for row in files["disks-over-time.csv"] if row["disk"] == "1"]
    assert {(row["reads"], row["busy"]) for row in course} == {("1", "0.25")}
    assert len(course) == len(found.samples) - 1
    times = [float(row["seconds"]) for row in course]
    assert times == sorted(times)


def test_preparation_is_excluded_from_the_work_of_the_disks() -> None:
    looks: list[tuple[float, tuple[Report, ...]]] = [
        (at / 2, (replace(IDLE, reads=at, starved=min(at, 6) / 2),)) for at in range(10)
    ]
    found = service.Service(looks)

    def since(seconds: float) -> tuple[int, float]:
        (one,) = found.since(seconds)
        return one.reads, one.starved

    assert since(0.1) == (9, 3.0) == (found.done[0].reads, found.done[0].starved)
    assert since(2.9) == (3, 0.0)
    # Too short for a look of its own: from the last one before.
    assert since(4.4) == (1, 0.0)


def test_times_of_slow_disks_are_as_without_slow_motion() -> None:
    found = service.Service([(at, (replace(IDLE, reads=int(at)),)) for at in (10.0, 14.0, 18.0)], slow=4)
    rows = csv.DictReader(found.files()["disks-over-time.csv"].splitlines())
    assert [row["seconds"] for row in rows] == ["1.000", "2.000"]
    # Until the first sample, nothing can be told apart.
    assert [one.reads for one in found.since(1.9)] == [8]
    assert [one.reads for one in found.since(2.1)] == [4]


async def _dry(scratch: Path) -> service.Service:
    async with Dry().rig(RigSpec(()), scratch) as rig, service.sample_disks(rig) as found:
        assert asyncio.all_tasks() == {asyncio.current_task()}, "there is nothing to sample"
    return found


def test_no_files_and_no_task_without_simulated_disks(tmp_path: Path) -> None:
    found = asyncio.run(_dry(tmp_path))
    assert found.done == ()
    assert found.files() == {}
