"""A matrix on this very host, with loop devices as stand-ins for its disks."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.decide.plan import Plan
from matrix_runner.hosts.checks import check_disk
from matrix_runner.hosts.lease import Lease, lease_disks
from matrix_runner.machines.base import MachineOptions
from matrix_runner.machines.local import Local
from matrix_runner.records.cell_files import CellFolders
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome
from matrix_runner.records.run_folder import create, load
from matrix_runner.space.select import select
from tests.hosts.loops import Bay, bay, why_not
from tests.records.past import manifest
from tests.support.amounts import kill_moments
from tests.support.dry import Dry
from tests.support.execution import executor
from tests.support.local_place import ROOT, RUN, SMALL, Gate, Place, placed
from tests.support.matrices import space
from tests.support.runners import killed_after

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matrix_runner.hosts.exclusive import LeasedDisk
    from matrix_runner.machines.base import Machine
    from matrix_runner.records.record import Trial

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


def carried_out(machine: Machine, folder: Path, held: Sequence[LeasedDisk] = ()) -> list[Trial]:
    found = space(SMALL)
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    run = create(folder, manifest())
    with Journal.open(run.journal) as journal:
        lent = {one.node.path: one for one in held}
        asyncio.run(
            executor(
                plan, machine, journal, CellFolders(run.path), run.path, lambda _: None, boot_id="x", lent=lent
            ).run()
        )
        assert not list((run.path / "standing").glob("*")) if machine.name == "local" else True
        return list(journal.trials())


def test_the_same_cells_are_measured_on_this_host_as_anywhere(disks: Bay, tmp_path: Path) -> None:
    said: list[str] = []
    asked = Lease(
        "night-1", "small", tmp_path, tmp_path / "state", frozenset({"disk-a", "disk-b"}), operations=disks.operations
    )
    with lease_disks([disks.declared, disks.beside], disks.ask, asked, lambda: datetime.now(UTC), said.append) as held:
        for one in held:
            one.release()
        here = carried_out(
            Local(MachineOptions(disks=tuple(one.node.path for one in held))), tmp_path / "results", held
        )
    dry = carried_out(Dry(), tmp_path / "dry")
    assert {trial.cell for trial in here} == {trial.cell for trial in dry}
    assert {(trial.outcome, trial.reason) for trial in here} == {(Outcome.MEASURED, "")}
    assert len(said) == 1
    assert check_disk(disks.ask(), disks.declared).usable


@pytest.fixture
def place(disks: Bay, tmp_path: Path) -> Iterator[Place]:
    with placed(disks, tmp_path, SMALL, Place) as made:
        yield made


def test_a_run_killed_at_any_step_resumes_without_leftovers(disks: Bay, place: Place) -> None:
    """In set-up, in a trial, in tear-down: after so many lines, whatever is under way then."""
    for lines in kill_moments():
        killed_after(place.start(*RUN), lines)
    last = place.start(*RUN)
    output, _ = last.communicate()
    assert last.returncode == 0, output
    (run,) = (place.folder / "results").glob("small-*")
    with Journal.open(run / "journal.sqlite") as journal:
        trials = list(journal.trials())
    assert len({(trial.cell, trial.round) for trial in trials}) == len(trials) == 4
    assert {trial.outcome for trial in trials} == {Outcome.MEASURED}
    assert "disk-" not in place.start("clean", "--dry-run").communicate()[0]
    assert not disks.mounted(place.said("cat", "/proc/self/mounts"))
    assert not list((run / "standing").iterdir())
    assert check_disk(disks.ask(), disks.declared).usable


def test_a_disk_that_cannot_be_returned_is_reported_in_each_view(disks: Bay, place: Place) -> None:
    busy = place.folder / "own/fs/unmount.sh"
    busy.parent.mkdir(parents=True)
    busy.write_text('if mounted {{ layer.directory }}; then fail "target is busy"; fi\n')
    words = (word for word in RUN if word != "--json")
    runner = place.start(*words, "--quiet", "--only", "layout=fs", "--templates", "own")
    output, _ = runner.communicate()
    assert runner.returncode == 3, output
    assert "disk-a stays with the run, for `matrix clean`: " in output
    assert "target is busy; its cells are measured; the next rig takes the stack apart" in output
    (run,) = (place.folder / "results").glob("small-*")
    ended = load(run).manifest
    assert (ended.finished, ended.exit) == (True, 3)
    assert not check_disk(disks.ask(), disks.declared).usable
    assert check_disk(disks.ask(), disks.beside).usable


def test_without_destroy_no_disk_is_written(disks: Bay, place: Place) -> None:
    before = disks.digest()
    runner = place.start("run", "--on", "local", "m.yaml")
    output, _ = runner.communicate()
    assert runner.returncode == 2
    assert "--destroy disk-a --destroy disk-b" in output
    assert disks.digest() == before
    assert not (place.folder / "results").exists()


def test_a_run_is_about_its_disks(place: Place) -> None:
    killed_after(place.start(*RUN), 5)
    lines = (place.folder / "hosts.yaml").read_text().splitlines(keepends=True)
    (place.folder / "hosts.yaml").write_text("".join([*lines[:-2], lines[-1], lines[-2]]))
    # What the killed run had is not another's; once it was taken back, the other disks make another run.
    assert place.start(*RUN).communicate()[0].count("left over") == 2
    # Disks of tests beside this one may be told of as well.
    assert place.start("clean").communicate()[0].count("returned from the run") == 2
    last = place.start(*RUN)
    last.communicate()
    assert last.returncode == 0
    found = sorted((place.folder / "results").glob("small-*"))
    assert len(found) == 2
    assert [disk.serial for disk in load(found[-1]).manifest.disks] == [
        yaml_serial(lines[-1]),
        yaml_serial(lines[-2]),
    ]


def yaml_serial(line: str) -> str:
    return line.partition("serial: '")[2].partition("'")[0]


def test_work_goes_over_the_size_that_was_declared_or_not_at_all(place: Place) -> None:
    (place.folder / "m.yaml").write_text(SMALL.replace("size: 64MiB}\n", "size: 32MiB}\n", 1))
    runner = place.start(*RUN)
    output, _ = runner.communicate()
    assert runner.returncode == 2
    assert "is declared with 33554432B, disk-a has 67108864B" in output


def test_a_run_terminated_in_a_set_up_leaves_no_part_of_it(disks: Bay, place: Place) -> None:
    (place.folder / "m.yaml").write_text(SMALL.replace("  raw: [disk]\n", ""))
    slow = place.folder / "templates/fs"
    slow.mkdir(parents=True)
    (slow / "set-up.sh").write_text(
        (ROOT / "templates/fs/set-up.sh").read_text() + f"\necho there >{place.folder}/line; sleep 1000\n"
    )
    os.mkfifo(place.folder / "line")
    runner = place.start(*RUN, "--templates", "templates")
    with (place.folder / "line").open() as line:
        assert line.read() == "there\n"
    runner.terminate()
    output, _ = runner.communicate()
    assert runner.returncode == 130, output
    assert not disks.mounted(place.said("cat", "/proc/self/mounts"))
    assert check_disk(disks.ask(), disks.declared).usable


RAW = (*RUN, "--only", "layout=raw", "--templates", "own")


def test_a_measured_disk_is_exclusive(disks: Bay, place: Place) -> None:
    gate = Gate(place.folder, "measure.sh")
    with place.start(*RAW) as runner:
        gate.reached()
        try:
            disks.bash('if mkfs.ext4 -q -F "$DISK" || wipefs --all "$DISK"; then exit 1; fi')
        finally:
            gate.opened()
        output, _ = runner.communicate()
    assert runner.returncode == 0, output
    assert check_disk(disks.ask(), disks.declared).usable
    os.close(os.open(disks.disk, os.O_RDONLY | os.O_EXCL))


def test_a_disk_taken_before_its_trial_is_not_written(disks: Bay, place: Place) -> None:
    gate = Gate(place.folder, "disk/set-up.sh")
    with place.start(*RAW) as runner:
        gate.reached()
        device = os.open(disks.disk, os.O_RDONLY | os.O_EXCL)
        before = disks.digest()
        gate.opened()
        output, _ = runner.communicate()
    assert disks.digest() == before
    os.close(device)
    assert runner.returncode == 3, output
    (run,) = (place.folder / "results").glob("small-*")
    with Journal.open(run / "journal.sqlite") as journal:
        trials = list(journal.trials())
    assert [trial.outcome for trial in trials] == [Outcome.BROKEN] * 2
    busy = f"disk-a is busy: {disks.disk} is opened exclusively by process {os.getpid()} ("
    assert all(busy in trial.reason for trial in trials)
    assert "disk-a stays with the run, for `matrix clean`: busy: " in output


def test_a_host_that_lacks_what_a_layout_needs_is_refused_before_anything_is_made(place: Place) -> None:
    (place.folder / "m.yaml").write_text(
        SMALL.replace("raw: [disk]", "raw: [integrity: {}]").replace("  fs: [disk, fs: {type: ext4}]\n", "")
    )
    if Path("/sys/class/misc/device-mapper").exists():
        pytest.skip("this host has a device mapper")
    runner = place.start("run", "--on", "local", "m.yaml")
    output, _ = runner.communicate()
    assert runner.returncode == 2
    assert "has no dm_integrity, neither built in nor as a module" in output
    assert not (place.folder / "results").exists()
