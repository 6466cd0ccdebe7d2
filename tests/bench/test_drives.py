"""Models of named drives: the figures that they are fitted to, the simulation, and the page that compares them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bench.drives.__main__ import MODELS, model_file
from bench.drives.figures import FITTED, PERCENTILES, Figures, jobs, table
from bench.drives.fit import demerit, spots
from bench.drives.page import PAGE, PICTURES, Compared, page
from bench.drives.sets import DRIVES
from bench.drives.simulate import Work, simulate
from matrix_runner.simdisks.clib import Library, build_library, load_library
from matrix_runner.simdisks.disk import Physics
from matrix_runner.space.load import disk_model

SSD = Physics(
    "ssd",
    (("read_latency", 1e-4), ("write_latency", 5e-5), ("channels", 4.0), ("read_rate", 1e12), ("write_rate", 1e12)),
)
WORK = Work(size=1e9, span=1e9, depth=1, reads=1.0, queue=32, turn=1e-5, disks=1, most=2000)


@pytest.fixture(scope="module")
def code() -> Library:
    return load_library(asyncio.run(build_library()))


def figures(*percentiles: float) -> Figures:
    return Figures(1.0, 1.0, 1.0, 0.0, percentiles)


def test_the_demerit_is_the_distance_of_the_curves_in_means() -> None:
    ones = figures(*[1.0] * len(PERCENTILES))
    assert demerit(ones, ones) == 0
    assert demerit(figures(*[1.5] * len(PERCENTILES)), ones) == pytest.approx(0.5)
    assert demerit(ones, figures(*[2.0] * len(PERCENTILES))) == pytest.approx(0.5)


def test_half_of_the_jobs_of_a_drive_are_held_out() -> None:
    for drive in DRIVES:
        found = [job for source in drive.own for job in jobs(source)]
        fitted = sum(job.fitted for job in found)
        assert 0.35 < fitted / len(found) < 0.65, drive.name
        assert {job.depth for job in found if not job.fitted}.isdisjoint(FITTED)


def test_a_drive_that_stopped_is_left_out() -> None:
    job = replace(table()[0], depth=1)
    assert job.read
    stopped = replace(job, read=replace(job.read, longest=30.0))
    assert [spot.jobs for spot in spots([job, stopped])] == [(job,)]


def test_a_closed_loop_asks_when_it_is_answered(code: Library) -> None:
    found = simulate(code, SSD, WORK)
    assert set(found) == {"read"}
    assert found["read"].iops == pytest.approx(1 / (1e-4 + 1e-5), rel=0.01)
    assert found["read"].mean == pytest.approx(1e-4, rel=0.01)
    deep = simulate(code, SSD, replace(WORK, depth=64))["read"]
    assert deep.iops == pytest.approx(4 / 1e-4, rel=0.02)
    assert simulate(code, SSD, replace(WORK, depth=64)) == {"read": deep}


def test_disks_share_requests_and_directions_their_number(code: Library) -> None:
    two = simulate(code, SSD, replace(WORK, depth=64, disks=2))["read"]
    assert two.iops == pytest.approx(8 / 1e-4, rel=0.1)
    mixed = simulate(code, SSD, replace(WORK, depth=64, reads=0.75, most=8000))
    assert mixed["read"].iops == pytest.approx(3 * mixed["write"].iops, rel=0.1)


def test_what_a_queue_has_no_place_for_is_sorted(code: Library) -> None:
    """One command at a time is under way, so only the scheduler can shorten seeks."""
    hdd = disk_model("samsung-f1-1tb").physics(1)
    work = Work(size=1e12, span=1e12, depth=64, reads=1.0, queue=1, turn=1e-5, disks=1, seconds=60, most=20_000)
    assert simulate(code, hdd, work)["read"].iops > 1.2 * simulate(code, hdd, replace(work, depth=1))["read"].iops


@pytest.mark.parametrize("drive", DRIVES, ids=lambda drive: drive.name)
def test_a_model_says_what_it_is_fitted_to(drive: object) -> None:
    (one,) = [known for known in DRIVES if known is drive]
    model = disk_model(one.name)
    assert all(f"{own.repository} {own.commit} {own.folder}" in (model.fitted_to or "") for own in one.own)
    head = model_file(one, {}).splitlines()
    assert (MODELS / f"{one.name}.yaml").read_text().splitlines()[: len(head)] == head


def test_the_page_is_what_its_program_writes(code: Library) -> None:
    """One drive stands for all: it has the fewest requests."""
    (drive,) = [drive for drive in DRIVES if drive.name == "samsung-pm883-sata2"]
    text = PAGE.read_text()
    written = page([Compared(code, drive)])
    row = next(line for line in written.splitlines() if line.startswith("| [`samsung"))
    assert row in text.splitlines()
    assert written[written.index("\n## samsung") :] in text
    assert {path.stem for path in PICTURES.glob("*.svg")} == {drive.name for drive in DRIVES}
