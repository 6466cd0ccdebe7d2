"""Matrices in real containers, with loop devices as stand-ins for disks of this host."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.decide.plan import Plan
from matrix_runner.hosts.checks import check_disk
from matrix_runner.hosts.lease import Lease, lease_disks
from matrix_runner.machines.base import NO_OPTIONS, MachineOptions, RigLost, RigSpec, Step
from matrix_runner.machines.container import Container, Owner, disk_node, engines, make_box, sweep
from matrix_runner.machines.container.engines import (
    MEMORY,
    OWNER,
    RUN,
    find_engine,
    find_working,
    probe_command,
    start_command,
    with_workarounds,
)
from matrix_runner.records.cell_files import CellFolders
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome
from matrix_runner.records.run_folder import create
from matrix_runner.scripts.jinja import render
from matrix_runner.simdisks.disk import Disk
from matrix_runner.space.select import select
from tests.hosts.loops import SIZE, Bay, bay
from tests.machines.engines import storage, why_not
from tests.records.past import manifest
from tests.support.dry import Dry
from tests.support.execution import executor
from tests.support.local_place import Place, placed
from tests.support.matrices import space
from tests.support.runners import killed_after, waited_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matrix_runner.hosts.exclusive import LeasedDisk
    from matrix_runner.machines.base import Machine
    from matrix_runner.machines.container.engines import Engine
    from matrix_runner.records.record import Trial

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)

SMALL = """\
name: small
disks: {count: 2, size: 64MiB}
layouts:
  raw: [disk]
tune: {readahead: [default, 1MiB]}
workloads:
  work: {rw: [randread, randwrite], bs: 4KiB, iodepth: 4, runtime: 100ms, size: 8MiB}
  memory: {rw: read, bs: 64KiB, ioengine: psync, direct: false, runtime: 100ms, size: 8MiB}
repeat: 1
"""
FILES = SMALL.replace("raw: [disk]", "fs: [disk, fs: {type: ext4}]").replace("tune: {readahead: [default, 1MiB]}\n", "")
ONE = RigSpec((Disk(SIZE),))


@pytest.fixture(scope="session")
def told() -> Iterator[dict[str, str]]:
    with storage() as environment:
        with pytest.MonkeyPatch.context() as there:
            for name, text in environment.items():
                there.setenv(name, text)
            if reason := starts_none():
                pytest.skip(reason)
        yield environment


def starts_none() -> str:
    """What the engine of this host has against any container at all, in whichever way it is told; empty if nothing."""
    have = find_engine().engine
    assert have is not None
    made_of = asyncio.run(engines.provide(have, NO_OPTIONS.progress, NO_OPTIONS.notice))
    said = ""
    for way in with_workarounds(have):
        done = subprocess.run(probe_command(way, made_of), capture_output=True, text=True)
        if done.returncode == 0:
            return ""
        said = done.stderr.strip()
    return f"with {have.kind}, as it starts no container here: {said}"


@pytest.fixture(autouse=True)
def _told(told: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MATRIX_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("MATRIX_MEMORY", str(tmp_path / "memory"))
    for name, text in told.items():
        monkeypatch.setenv(name, text)


@pytest.fixture
def engine() -> Engine:
    """One that is known to work, with an image."""
    have = find_engine().engine
    assert have is not None
    made_of = asyncio.run(engines.provide(have, NO_OPTIONS.progress, NO_OPTIONS.notice))
    return find_working(have, made_of, lambda _: None)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


def names(engine: Engine) -> list[str]:
    said = subprocess.run(engine.argv("ps", "--all", "--format={{.Names}}"), capture_output=True, text=True, check=True)
    return said.stdout.split()


def taken_away(engine: Engine) -> None:
    subprocess.run(engine.argv("rm", "--force", *names(engine)), capture_output=True, check=True)


def carried_out(machine: Machine, text: str, folder: Path, lent: Mapping[str, LeasedDisk] | None = None) -> list[Trial]:
    declared = space(text)
    plan = Plan(select(declared), declared.matrix.repeat, declared.matrix.seed)
    run = create(folder, manifest())
    with Journal.open(run.journal) as journal:
        work = executor(plan, machine, journal, CellFolders(run.path), run.path, lambda _: None, boot_id="x", lent=lent)
        asyncio.run(work.run())
        return list(journal.trials())


@pytest.mark.parametrize("text", [SMALL, FILES], ids=["raw", "files"])
def test_the_same_cells_are_measured_in_a_container_as_anywhere(disks: Bay, tmp_path: Path, text: str) -> None:
    asked = Lease(
        "night-1", "small", tmp_path, tmp_path / "state", frozenset({"disk-a", "disk-b"}), operations=disks.operations
    )
    with lease_disks(
        [disks.declared, disks.beside], disks.ask, asked, lambda: datetime.now(UTC), lambda _: None
    ) as held:
        for one in held:
            one.release()
        # By names that are links, as udev's are.
        links = tuple(str(disks.names / name) for name in ("disk-a", "disk-b"))
        machine = Container(MachineOptions(disks=links, held=held))
        here = carried_out(machine, text, tmp_path / "results", dict(zip(links, held, strict=True)))
    dry = carried_out(Dry(), text, tmp_path / "dry")
    assert {trial.cell for trial in here} == {trial.cell for trial in dry}
    assert {(trial.outcome, trial.reason) for trial in here} == {(Outcome.MEASURED, "")}
    assert check_disk(disks.ask(), disks.declared).usable


def said_in(disks: Bay, spec: RigSpec, *texts: str) -> list[tuple[int, str]]:
    async def ask() -> list[tuple[int, str]]:
        machine = Container(MachineOptions(disks=(disks.disk,)))
        async with machine.rig(spec, disks.work) as rig:
            return [
                (result.status, result.output.strip())
                for text in texts
                for result in await rig.run([Step("a", text)], expected=0, deadline=60)
            ]

    return asyncio.run(ask())


def test_the_other_disks_of_the_host_are_not_there(disks: Bay) -> None:
    number = Path(disks.other).stat().st_rdev
    major, minor = os.major(number), os.minor(number)
    there, node, opened, own = said_in(
        disks,
        replace(ONE, modules=("ext4",), programs=("mkfs.ext4", "sfdisk")),  # which may make nodes
        "find /dev -type b",
        f"mknod /dev/other b {major} {minor}; echo made",
        "head -c 512 /dev/other | wc -c",
        f"head -c 512 {disks.disk} | wc -c",
    )
    assert there == (0, disks.disk)
    assert node[1].endswith("made")
    assert "Operation not permitted" in opened[1]
    assert own == (0, "512")


@pytest.mark.parametrize("spec", [ONE, replace(ONE, modules=("ext4",), programs=("mkfs.ext4",))], ids=["raw", "files"])
def test_fio_writes_only_to_its_trial_and_the_stack(disks: Bay, spec: RigSpec) -> None:
    """As if the name of a job that leads elsewhere had passed the checks of the matrix."""
    confined = render("confined.sh", None, title="confined", under_test=disks.disk)
    fio = "fio --rw=write --bs=4k --size=4k --ioengine=psync --filename_format='$jobname' --name"
    tunable = f"/sys/class/block/{Path(disks.disk).name}/queue/evil"
    paths = ("/etc/passwd", "../../../../etc/evil", "/usr/bin/evil", "/dev/evil", f"{MEMORY}/evil", tunable)
    own, device, *others, left = said_in(
        disks,
        spec,
        f"{confined}\n(confined {fio}=own) && wc -c <own",
        f"{confined}\n(confined fio --rw=write --bs=4k --size=4k --name=x --filename={disks.disk})",
        *(f"{confined}\n(confined {fio}={path}) 2>&1" for path in paths),
        f"head -n 1 /etc/passwd; ls -d /etc/evil /usr/bin/evil /dev/evil {MEMORY}/evil {tunable} 2>/dev/null; true",
    )
    assert (own[0], own[1].splitlines()[-1], device[0]) == (0, "4096", 0)
    assert [status for status, _ in others] == [1] * len(paths)
    assert left == (0, "root:x:0:0:root:/root:/bin/bash")


#: Options of a job that lead out of a trial, as if they had passed the checks of the matrix. `made` may not be there.
WAYS_OUT = (
    "--filename=/etc/passwd",
    "--filename=/host/etc/passwd",
    "--filename=../../../../etc/passwd",
    "--filename=link --allow_file_create=0",
    "--filename=/proc/1/root/etc/passwd",
    "--filename=/proc/self/cwd/../../../../etc/passwd",
    "--filename=/host/proc/self/root/etc/passwd",
    "--filename={other}",
    "--filename=/host{other}",
    "--filename=/host/dev/kmsg",
    "--filename=/host{memory}/made",
    "--filename={tunable}",
    "--filename=/host{tunable}",
    "--directory=/host/etc --filename=made",
    "--opendir=/host/etc",
    "--unlink=1 --filename=/host/etc/passwd",
    "--mem=mmapshared:/host/etc/made --filename={disk}",
    "--ioengine=filecreate --filename=/host/etc/made",
    "--write_bw_log=/host/etc/made --filename={disk}",
    "--write_iolog=/host/etc/made --filename={disk}",
    "--read_iolog=log --replay_redirect={other}",
    "--exec_prerun='touch /host/etc/made /etc/made; cp /host/etc/made {tunable}' --filename={disk}",
)


def test_no_option_of_fio_leads_from_a_raw_disk_into_its_container(disks: Bay) -> None:
    """As on a worker: `tests/scripts/test_confined.py`."""
    number = Path(disks.other).stat().st_rdev
    confined = render("confined.sh", None, title="confined", under_test=disks.disk)
    tunable = f"/sys/class/block/{Path(disks.disk).name}/queue/nr_requests"
    named = {"disk": disks.disk, "other": "/dev/other", "memory": MEMORY, "tunable": tunable}
    seen = f"cat /etc/passwd {tunable}; ls /etc /dev; ls -d {MEMORY}/made"
    before = Path(disks.other).read_bytes()[: 1 << 20]
    first, *ways, last = said_in(
        disks,
        ONE,
        f"mknod /dev/other b {os.major(number)} {os.minor(number)} 2>/dev/null; {seen}",
        *(
            f"{confined}\nln -s /etc/passwd link; printf 'fio version 2 iolog\\n/dev/other add\\n/dev/other open\\n/dev/other write 0 4096\\n' "
            f">log\n(confined fio --rw=write --bs=4k --size=8k --name=a {way.format(**named)}) 2>&1"
            for way in WAYS_OUT
        ),
        seen,
    )
    assert last == first
    assert Path(disks.other).read_bytes()[: 1 << 20] == before
    assert [way for way, (status, _) in zip(WAYS_OUT, ways, strict=True) if status == 0 and "{disk}" not in way] == []


def test_only_tunables_of_leased_disks_are_set(disks: Bay) -> None:
    mine, others = (f"/sys/class/block/{Path(disk).name}/queue/nr_requests" for disk in (disks.disk, disks.other))
    own, other, of_host = said_in(
        disks,
        ONE,
        f"cat {mine} >{mine}",
        f"cat {others} >{others}",
        "cat /proc/sys/vm/dirty_ratio >/proc/sys/vm/dirty_ratio",
    )
    assert own == (0, "")
    assert "Read-only file system" in other[1]
    assert "Read-only file system" in of_host[1]


def test_tunables_of_the_host_are_set_on_demand(disks: Bay) -> None:
    (said,) = said_in(disks, replace(ONE, powers=("host",)), "cat /proc/sys/vm/dirty_ratio >/proc/sys/vm/dirty_ratio")
    assert said == (0, "")


def test_processes_of_a_script_end_with_it_in_the_container(disks: Bay) -> None:
    left, seen = said_in(
        disks, ONE, "setsid sleep 1000 & sleep 1000 & echo x", "cat /proc/[0-9]*/comm | sort | uniq -c"
    )
    assert left == (0, "x")
    assert "sleep" not in seen[1]


def test_without_its_disk_a_container_does_not_come_up(disks: Bay, engine: Engine) -> None:
    """fio would make a file of that name, and tell of splendid figures."""
    box = make_box(engines.tag_of_packages(), (disk_node(disks.disk),), ONE, disks.work)
    argv = [word for word in start_command(engine, box) if not word.startswith("--device=")]
    done = subprocess.run(argv, input="", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, f"{disks.disk} is no block device in the container\n")
    other = replace(box, disks=(replace(box.disks[0], minor=box.disks[0].minor + 100),))
    done = subprocess.run(start_command(engine, other), input="", capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{other.disks[0].minor} was leased" in done.stdout


def test_a_name_that_leads_elsewhere_in_the_middle_of_a_run_leads_nowhere(disks: Bay) -> None:
    link = disks.names / "disk-a"

    async def turned() -> None:
        machine = Container(MachineOptions(disks=(str(link),)))
        async with machine.rig(ONE, disks.work):
            link.unlink()
            link.symlink_to(disks.other)
        async with machine.rig(ONE, disks.work):
            pytest.fail("it came up on another disk")

    with pytest.raises(HarnessBroken, match="disk-a is not the device that was leased"):
        asyncio.run(turned())


def test_a_script_that_hangs_is_a_lost_rig_and_its_container_is_gone(disks: Bay, engine: Engine) -> None:
    async def hang() -> None:
        async with Container(MachineOptions(disks=(disks.disk,))).rig(ONE, disks.work) as rig:
            await rig.run([Step("a", "trap '' HUP TERM INT; sleep 1000")], expected=0, deadline=0.5)

    with pytest.raises(RigLost, match=r"the container did not answer within 0\.5 s"):
        asyncio.run(hang())
    assert names(engine) == []


def test_a_container_that_is_taken_away_is_a_lost_rig(disks: Bay, engine: Engine) -> None:
    async def lose() -> None:
        async with Container(MachineOptions(disks=(disks.disk,))).rig(ONE, disks.work) as rig:
            await asyncio.to_thread(taken_away, engine)
            await rig.run([Step("a", "true")], expected=0, deadline=60)

    with pytest.raises(RigLost, match="no shell on the container"):
        asyncio.run(lose())


def test_only_containers_whose_run_is_gone_are_taken_away(engine: Engine) -> None:
    me = Owner.me()
    of = {
        "forgotten": [f"--label={RUN}=/r", f"--label={OWNER}={replace(me, born=me.born + 1)}"],
        "held": [f"--label={RUN}=/r", f"--label={OWNER}={me}"],
        "foreign": ["--label=org.example=1"],
    }
    try:
        for name, labels in of.items():
            line = engine.argv("create", f"--name={name}", "--network=none", *engine.workaround.container, *labels)
            subprocess.run([*line, engines.tag_of_packages(), "true"], capture_output=True, check=True)
        told = f"{engine.kind} container forgotten of /r"
        assert [one.message for one in sweep(dry=True)] == [f"{told}: its process is gone"]
        assert [(one.message, one.remains) for one in sweep()] == [(f"{told}: removed", False)]
        assert sorted(names(engine)) == ["foreign", "held"]
    finally:
        for name in of:
            subprocess.run(engine.argv("rm", "--force", name), capture_output=True)


# --- the whole command ------------------------------------------------------------------------------------------------

RUN_IT = ("run", "--on", "container", "--json", "--destroy", "disk-a", "--destroy", "disk-b", "m.yaml")


class Around(Place):
    """As for matrices on the host, and with an engine."""

    def __init__(self, disks: Bay, folder: Path, told: dict[str, str]) -> None:
        self.told = told
        super().__init__(disks, folder)

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **self.told}


@pytest.fixture
def place(disks: Bay, tmp_path: Path, told: dict[str, str]) -> Iterator[Around]:
    with placed(disks, tmp_path, SMALL, partial(Around, told=told)) as made:
        yield made


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", [SMALL, FILES], ids=["raw", "files"])
def test_a_run_killed_at_any_step_resumes_without_leftovers(
    disks: Bay, place: Around, engine: Engine, text: str
) -> None:
    """In set-up, in a trial, in tear-down: after so many lines, whatever is under way then."""
    (place.folder / "m.yaml").write_text(text)
    knob = Path(f"/sys/class/block/{Path(disks.disk).name}/queue/read_ahead_kb")
    before = knob.read_text()
    foreign = [
        *engine.argv("create", "--name=foreign", *engine.workaround.container),
        engines.tag_of_packages(),
        "true",
    ]
    place.said(*foreign)
    for lines in (1, 3, 5):
        killed_after(place.start(*RUN_IT), lines)
        if lines == 3:  # the others are followed by a run
            # Disks of other tests may be told of as well; and it may have been killed before it had any.
            output, _ = place.start("clean").communicate()
            assert "disk-a: left" not in output
            assert "could not be removed" not in output
            assert place.said(*engine.argv("ps", "--all", "--format={{.Names}}")).split() == ["foreign"]
            assert check_disk(disks.ask(), disks.declared).usable
    last = place.start(*RUN_IT)
    output, _ = last.communicate()
    assert last.returncode == 0, output
    (run,) = (place.folder / "results").glob("small-*")
    with Journal.open(run / "journal.sqlite") as journal:
        trials = list(journal.trials())
    assert len({(trial.cell, trial.round) for trial in trials}) == len(trials) == len(list(space(text).cells()))
    assert {trial.outcome for trial in trials} == {Outcome.MEASURED}
    assert "disk-a" not in place.start("clean", "--dry-run").communicate()[0]
    assert place.said(*engine.argv("ps", "--all", "--format={{.Names}}")).split() == ["foreign"]
    place.said(*engine.argv("rm", "--force", "foreign"))
    assert not disks.mounted(place.said("cat", "/proc/self/mounts"))
    assert not list((run / "standing").iterdir())
    assert knob.read_text() == before
    assert check_disk(disks.ask(), disks.declared).usable


def test_a_terminated_run_leaves_no_containers(disks: Bay, place: Around, engine: Engine) -> None:
    (place.folder / "m.yaml").write_text(FILES.replace("100ms", "30s"))
    runner = place.start(*RUN_IT)
    waited_for(runner, 4)
    runner.terminate()
    output, _ = runner.communicate()
    assert runner.returncode == 130, output
    assert place.said(*engine.argv("ps", "--all", "--quiet")) == ""
    assert not disks.mounted(place.said("cat", "/proc/self/mounts"))
    assert check_disk(disks.ask(), disks.declared).usable


def test_clean_all_removes_images_that_no_container_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if "images" in argv:
            return subprocess.CompletedProcess(argv, 0, "0123\n4567\n0123\n", "")
        failed = argv[1:3] == ["rmi", "4567"]
        return subprocess.CompletedProcess(argv, int(failed), "", "in use\n" if failed else "")

    monkeypatch.setattr(
        "matrix_runner.machines.container.engines.installed_engines", lambda: (engines.Engine("podman", "podman"),)
    )
    monkeypatch.setattr("matrix_runner.machines.container.run", answer)
    found = [(one.message, one.remains) for one in sweep(everything=True)]
    assert found == [("podman image 0123: removed", False), ("podman image 4567 could not be removed: in use", True)]
    assert [one.message for one in sweep(dry=True, everything=True)] == ["podman image 0123", "podman image 4567"]
