"""Models of named drives: the figures that they are fitted to, and the page that compares them."""

from __future__ import annotations

import asyncio

import pytest

from bench.drives.__main__ import MODELS, model_file
from bench.drives.figures import FITTED, is_fitted, jobs
from bench.drives.page import PAGE, PICTURES, Compared, page
from bench.drives.sets import DRIVES
from matrix_runner.simdisks.clib import Library, build_library, load_library
from matrix_runner.space.load import disk_model


@pytest.fixture(scope="module")
def code() -> Library:
    return load_library(asyncio.run(build_library()))


def test_half_of_the_jobs_of_a_drive_are_held_out() -> None:
    for drive in DRIVES:
        found = [job.pattern for job in jobs(drive, drive.own)]
        assert 0.35 < sum(map(is_fitted, found)) / len(found) < 0.65, drive.name
        assert {one.depth for one in found if not is_fitted(one)}.isdisjoint(FITTED)


@pytest.mark.parametrize("drive", DRIVES, ids=lambda drive: drive.name)
def test_a_model_names_its_measurements(drive: object) -> None:
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
