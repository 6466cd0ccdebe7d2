"""`matrix disks calibrate DISK`: a physical disk is measured, and not one byte of it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.run_folder import runs
from matrix_runner.space.load import disk_model
from tests.hosts.loops import SIZE, Bay, bay, why_not
from tests.support.local_place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)
CALIBRATE = ("disks", "calibrate", "disk-a", "--to", "mine.yaml", "--seconds", "0.5")


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        made.bash('mkfs.ext4 -q -F "$DISK"')
        yield made


@pytest.fixture
def place(disks: Bay, tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "place"
    folder.mkdir()
    entry = f"{{id: disk-a, kind: ssd, serial: '{disks.declared.serial}', size: {SIZE}B}}"
    (folder / "hosts.yaml").write_text(f"hosts: {{here: {{disks: [{entry}]}}}}\n")
    made = Place(disks, folder)
    yield made
    made.holder.kill()
    made.holder.communicate()


def ended(place: Place, *words: str) -> tuple[int, str]:
    runner = place.start(*words)
    output, _ = runner.communicate()
    return runner.returncode, output


def test_a_disk_with_content_is_measured_and_not_changed(disks: Bay, place: Place) -> None:
    before = disks.digest()
    status, output = ended(place, *CALIBRATE)
    assert status == 0, output
    assert "Nothing is written to the disk: fio only reads." in output
    assert "left out" not in output
    model = disk_model(str(place.folder / "mine.yaml"))
    assert (model.name, model.kind) == ("mine", "ssd")
    (run,) = runs(place.folder / "results")
    scripts = sorted((run.path / "cells/alone").glob("*/4-measure.sh"))
    assert len(scripts) == 9
    assert all("confined fio --readonly " in script.read_text() for script in scripts)
    assert not list((place.folder / "state/disks").iterdir())
    assert disks.digest() == before


def test_a_killed_measurement_is_continued_and_others_may_use_the_disk(disks: Bay, place: Place) -> None:
    before = disks.digest()
    runner = place.start(*CALIBRATE)
    assert runner.stdout is not None
    for line in runner.stdout:
        if "[1/9]" in line:
            break
    runner.kill()
    runner.communicate()
    assert len(list((place.folder / "state/disks").iterdir())) == 1
    status, output = ended(place, *CALIBRATE)
    assert status == 0, output
    assert "continuing the run" in output
    assert not list((place.folder / "state/disks").iterdir())
    assert disks.digest() == before


def test_writes_need_permission_for_the_disk_and_its_content(disks: Bay, place: Place) -> None:
    before = disks.digest()
    status, output = ended(place, *CALIBRATE, "--destroy", "disk-a")
    assert status == 2
    assert "disk-a: file system" in output
    status, output = ended(place, *CALIBRATE, "--destroy", "disk-b")
    assert status == 2
    assert "--destroy names a disk that this run does not use" in output
    assert disks.digest() == before
    hosts = place.folder / "hosts.yaml"
    hosts.write_text(hosts.read_text().replace("kind: ssd", "kind: ssd, wipe: allowed"))
    status, output = ended(place, *CALIBRATE, "--fill")
    assert status == 2
    assert "--fill writes to the disk" in output
    status, output = ended(place, *CALIBRATE, "--destroy", "disk-a", "--fill")
    assert status == 0, output
    (run,) = runs(place.folder / "results")
    assert "rw=write" in (run.path / "cells/alone/write-1/1-set-up.sh").read_text()
    assert "write_latency" in (place.folder / "mine.yaml").read_text()
    assert "Writes were not measured" not in output


def test_a_disk_that_hosts_yaml_does_not_list_is_refused(place: Place) -> None:
    status, output = ended(place, "disks", "calibrate", "/dev/disk/by-id/disk-b", "--to", "mine.yaml")
    assert status == 2
    assert "hosts.yaml does not list disk-b, so it may not be used" in output
    status, output = ended(place, "disks", "calibrate", "--to", "mine.yaml")
    assert status == 2
    assert "name the DISK to measure" in output
