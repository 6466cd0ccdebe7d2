"""Disks of this host in the hands of a whole run: how well they are, and how much they may still be written."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import load
from tests.hosts.loops import SIZE, Bay, bay, why_not
from tests.support.local_place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)

MATRIX = """\
name: worn
disks: {count: 1, size: 64MiB}
layouts: {raw: [disk]}
workloads:
  work: {rw: write, bs: 64KiB, size: 16MiB}
repeat: 3
"""
RUN = ("run", "--on", "local", "--destroy", "disk-a", "m.yaml")
#: A disk of which the sectors go, one each time that it is asked.
SMARTCTL = """\
#!/bin/sh
count=$(cat {folder}/asked 2>/dev/null || echo 0)
echo $((count + 1)) >{folder}/asked
printf '{{"model_name": "IRON", "firmware_version": "F%s", "smart_status": {{"passed": true}},' "$(cat {folder}/firmware)"
printf '"ata_smart_attributes": {{"table": [{{"id": 5, "raw": {{"value": %s}}}}]}}}}' "$count"
"""


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


@pytest.fixture
def place(disks: Bay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "m.yaml").write_text(MATRIX)
    allow(folder, disks, "")
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    made = Place(disks, folder)
    yield made
    made.holder.kill()
    made.holder.communicate()


def allow(folder: Path, disks: Bay, more: str) -> None:
    entry = f"{{id: disk-a, serial: '{disks.declared.serial}', size: {SIZE}B{more}}}"
    (folder / "hosts.yaml").write_text(f"hosts:\n  here:\n    disks:\n      - {entry}\n")


def ended(place: Place, *words: str) -> tuple[int, str]:
    runner = place.start(*words)
    output, _ = runner.communicate()
    return runner.returncode, output


def repeat(place: Place, rounds: int) -> None:
    (place.folder / "m.yaml").write_text(MATRIX.replace("repeat: 3", f"repeat: {rounds}"))


def trials(place: Place) -> int:
    (run,) = (place.folder / "results").glob("worn-*")
    with Journal.open(run / "journal.sqlite") as journal:
        return len(list(journal.trials()))


def test_a_run_stops_at_the_wear_limit_and_continues_with_a_larger_one(disks: Bay, place: Place) -> None:
    allow(place.folder, disks, ", wear: 40MiB")
    status, output = ended(place, *RUN)
    assert status == 3, output
    assert "stopped for tonight, to limit the wear of disk-a" in output
    assert 0 < trials(place) < 3
    (night,) = json.loads((place.folder / "state/wear.json").read_text())["nights"]
    assert 16 << 20 <= night["written"] <= 40 << 20
    allow(place.folder, disks, ", wear: 100MiB")
    status, output = ended(place, *RUN)
    assert status == 0, output
    assert "continuing the run" in output
    assert trials(place) == 3


def test_writes_of_a_killed_run_are_in_the_ledger(place: Place) -> None:
    runner = place.start(*RUN, "--json")
    assert runner.stdout is not None
    for line in runner.stdout:
        if '"trial"' in line:
            break
    runner.kill()
    runner.communicate()
    place.start("clean").communicate()
    (night,) = json.loads((place.folder / "state/wear.json").read_text())["nights"]
    assert night["written"] >= 16 << 20


def test_a_failing_disk_is_reported_and_its_identity_kept(disks: Bay, place: Place) -> None:
    (place.folder / "bin").mkdir()
    (place.folder / "bin/smartctl").write_text(SMARTCTL.format(folder=place.folder))
    (place.folder / "bin/smartctl").chmod(0o755)
    (place.folder / "firmware").write_text("1")
    repeat(place, 1)
    status, output = ended(place, *RUN)
    assert status == 0, output
    assert "disk-a has a problem: reallocated sectors: 0 before, 1 after" in output
    (run,) = (place.folder / "results").glob("worn-*")
    manifest = load(run).manifest
    assert (manifest.disks[0].model, manifest.disks[0].firmware) == ("IRON", "F1")
    assert manifest.health[0].after is not None
    assert manifest.environment["disk0.firmware"] == "F1"
    status, output = ended(place, "disks", "--format", "json")
    (found,) = [one for one in json.loads(output) if one["path"] == disks.disk]
    assert found["health"]["passed"] is True


def test_missing_smartctl_is_noted_once(place: Place) -> None:
    if any(os.access(f"{folder}/smartctl", os.X_OK) for folder in (*os.environ["PATH"].split(":"), "/usr/sbin")):
        pytest.skip("this host has smartctl")
    repeat(place, 2)
    status, output = ended(place, *RUN)
    assert status == 0, output
    assert output.count("smartctl is not installed") == 1
