"""The traps that loop devices are enough for, and those of the moment at which a disk is taken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.hosts import exclusive as work
from matrix_runner.hosts.agent import agent
from matrix_runner.hosts.checks import check_disk, check_undeclared
from matrix_runner.hosts.exclusive import DisksRefused, acquire_disks
from matrix_runner.hosts.reasons import Reason
from tests.hosts.loops import SIZE, Bay, attach, bay, detach, exchange, why_not
from tests.hosts.traps import EXT4, PART, TRAPS, Trap, script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matrix_runner.hosts.inventory import Census

REASON = why_not()
on_loops = pytest.mark.skipif(bool(REASON), reason=REASON)
VARIABLES = '\nfor one in part twin; do if [[ -v $one ]]; then declare -p "$one"; fi; done >"$WORK/variables"'


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


@on_loops
@pytest.mark.parametrize("trap", [trap for trap in TRAPS if "host" in trap.on], ids=lambda trap: trap.name)
def test_a_disk_that_is_somebodys_is_refused_and_stays_as_it_is(trap: Trap, empty: Bay) -> None:
    if missing := [tool for tool in trap.tools if not shutil.which(tool)]:
        pytest.skip(f"without {', '.join(missing)} on this host; built in a virtual machine instead")
    empty.bash(script(trap, str(empty.file)) + VARIABLES)
    try:
        _refused(trap, empty)
    finally:
        empty.bash(f'. "$WORK/variables"\n{trap.undo or ":"}')


def _refused(trap: Trap, empty: Bay) -> None:
    before = empty.digest()
    claim = trap.declared(empty.declared)
    asked: list[Census] = []

    def ask() -> Census:
        asked.append(empty.ask())
        return asked[-1]

    with (
        pytest.raises(DisksRefused) as caught,
        acquire_disks([claim], ask, purpose="study", operations=empty.operations),
    ):
        pass
    expected = [
        one for one in caught.value.refusals if (one.reason, trap.evidence in one.evidence) == (trap.reason, True)
    ]
    # blkid of util-linux 2.41 needs more of a pool than these uberblocks, so it is data of an unknown kind there.
    unknown = trap.name == "zfs" and any(one.reason is Reason.UNKNOWN_DATA for one in caught.value.refusals)
    assert expected or unknown, caught.value.details
    wiped = check_disk(asked[0], replace(claim, wipe=True), purpose="study")
    assert wiped.usable is trap.cured_by_wiping, wiped.refusals
    assert empty.digest() == before


@on_loops
def test_a_disk_without_an_answer_is_refused_and_the_others_are_listed(
    empty: Bay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    silent = f'case $* in *{empty.disk}) sleep 60 ;; *) exec {shutil.which("wipefs")} "$@" ;; esac'
    shorter = (
        f'case $* in *" {Path(empty.disk).name} "*) set -- 0.2 "${{@:2}}" ;; esac; exec {shutil.which("timeout")} "$@"'
    )
    for name, text in (("wipefs", silent), ("timeout", shorter)):
        (tools / name).write_text(f"#!/bin/bash\n{text}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    census = empty.ask()
    for claim in (empty.declared, replace(empty.declared, wipe=True)):
        (refusal,) = check_disk(census, claim, purpose="study").refusals
        assert (refusal.reason, refusal.evidence) == (Reason.UNREADABLE, "no answer within 60 seconds")
    assert check_disk(census, empty.beside, purpose="study").usable


@on_loops
def test_empty_and_labelled_disks_are_accepted(empty: Bay) -> None:
    before = empty.digest()
    with acquire_disks([empty.declared, empty.beside], empty.ask, operations=empty.operations) as both:
        assert [one.node.path for one in both] == [empty.disk, empty.other]
    assert empty.digest() == before


def _during(empty: Bay, act: Callable[[], object]) -> Callable[[], Census]:
    """Asked for the second time, when the disk is opened already, something has happened in between."""
    asked: list[Census] = []

    def ask() -> Census:
        if asked:
            act()
        asked.append(empty.ask())
        return asked[-1]

    return ask


def _before_it_is_opened(empty: Bay, act: Callable[[], object]) -> Callable[[], Census]:
    """Judged, and then something happens before it is opened."""

    def ask() -> Census:
        census = empty.ask()
        act()
        return census

    return ask


def _relinked(empty: Bay) -> Callable[[], object]:
    return lambda: empty.bash('ln -sfn "$OTHER" "$NAMES/$NAME"')


def _filled(empty: Bay) -> Callable[[], object]:
    return lambda: empty.bash('printf "somebody was faster" >"$DISK"')


def _another_file(empty: Bay) -> Callable[[], object]:
    """Another disk behind the same name and number, as after pulling one out and putting one in."""

    def act() -> None:
        (empty.work / "third").touch()
        os.truncate(empty.work / "third", SIZE)
        exchange(empty.disk, empty.work / "third")

    return act


RACES = {
    "its name comes to lead elsewhere": (_relinked, _during, "now leads to"),
    "somebody writes on it": (_filled, _during, "was free at the first check"),
    "its name comes to lead elsewhere before it is opened": (_relinked, _before_it_is_opened, "now leads to"),
    "another disk takes its place": (_another_file, _before_it_is_opened, "had the sequence"),
}


@on_loops
@pytest.mark.parametrize("race", RACES.values(), ids=RACES)
def test_changes_between_check_and_use_are_found(
    race: tuple[Callable[[Bay], Callable[[], object]], Callable[..., Callable[[], Census]], str], empty: Bay
) -> None:
    act, when, evidence = race
    with (
        pytest.raises(DisksRefused) as caught,
        acquire_disks([empty.declared], when(empty, act(empty)), operations=empty.operations),
    ):
        pass
    assert any(one.reason is Reason.CHANGED and evidence in one.evidence for one in caught.value.refusals), (
        caught.value.details
    )
    assert not any((empty.work / "third").read_bytes()) if (empty.work / "third").exists() else True


#: The name of a process that runs it.
PYTHON = Path(sys.executable).name
HOLDER = "import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_EXCL); print('held', flush=True); sys.stdin.read()"


@on_loops
def test_a_held_disk_is_refused_with_its_holder(empty: Bay) -> None:
    before = empty.digest()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, empty.disk], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(DisksRefused) as caught,
            acquire_disks([empty.declared], empty.ask, operations=empty.operations),
        ):
            pass
        holder.communicate()
    (refused,) = caught.value.refusals
    assert refused.reason is Reason.BUSY
    assert f"process {holder.pid} ({PYTHON})" in refused.evidence
    assert empty.digest() == before


WRITER = "import os, sys; os.open(sys.argv[1], os.O_RDWR); print('open', flush=True); sys.stdin.read()"


@on_loops
def test_a_disk_open_for_writing_is_refused(empty: Bay) -> None:
    before = empty.digest()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, empty.disk], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        claim = replace(empty.declared, wipe=True)
        with pytest.raises(DisksRefused) as caught, acquire_disks([claim], empty.ask, operations=empty.operations):
            pass
        writer.communicate()
    (refused,) = caught.value.refusals
    assert str(refused) == f"busy: {empty.disk} is open for writing by process {writer.pid} ({PYTHON})"
    assert empty.digest() == before


@contextmanager
def opened(program: str, device: str) -> Iterator[int]:
    """By somebody; the number of the process."""
    with subprocess.Popen(
        [sys.executable, "-c", program, device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as somebody:
        assert somebody.stdout is not None
        assert somebody.stdout.readline()
        yield somebody.pid
        somebody.communicate()


@on_loops
def test_a_disk_with_a_partition_open_for_writing_is_refused(empty: Bay) -> None:
    empty.bash(f"{PART}; {EXT4}")
    before = empty.digest()
    claim = replace(empty.declared, wipe=True)
    with (
        opened(WRITER, f"{empty.disk}p1") as writer,
        pytest.raises(DisksRefused) as caught,
        acquire_disks([claim], empty.ask, operations=empty.operations),
    ):
        pass
    (refused,) = caught.value.refusals
    assert str(refused) == f"busy: {empty.disk}p1 is open for writing by process {writer} ({PYTHON})"
    assert empty.digest() == before


@on_loops
def test_a_disk_with_an_open_partition_is_not_wiped(empty: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who only reads is seen by the kernel alone, as is whoever hides."""
    monkeypatch.setattr(work, "OPEN_PAUSE", 0)
    empty.bash(f"{PART}; {EXT4}")
    before = empty.digest()
    with acquire_disks([replace(empty.declared, wipe=True)], empty.ask, operations=empty.operations) as (have,):
        with (
            opened(WRITER.replace("O_RDWR", "O_RDONLY"), f"{empty.disk}p1") as reader,
            pytest.raises(DisksRefused) as caught,
        ):
            work.prepare_disk(have, "night-1")
        assert empty.digest() == before
        (refused,) = caught.value.refusals
        assert str(refused) == f"busy: a partition of {empty.disk} is open by process {reader} ({PYTHON})"


@on_loops
def test_a_disk_that_the_kernel_itself_exports_is_refused(
    empty: Bay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = tmp_path / "targets/nqn.2026-01.test/namespaces/1"
    space.mkdir(parents=True)
    (space / "device_path").write_text(f"{empty.names / 'disk-a'}\n")
    (space / "enable").write_text("0\n")
    monkeypatch.setattr(agent, "TARGETS", str(tmp_path / "targets"))
    with acquire_disks([empty.declared], empty.ask, operations=empty.operations):
        (space / "enable").write_text("1\n")
    with pytest.raises(DisksRefused) as caught, acquire_disks([empty.declared], empty.ask, operations=empty.operations):
        pass
    (refused,) = caught.value.refusals
    assert str(refused) == f"busy: {empty.disk} is open for writing by the NVMe target nqn.2026-01.test"


@on_loops
def test_a_second_run_is_refused_until_the_first_ends(empty: Bay) -> None:
    script = (
        "import sys; from pathlib import Path; from matrix_runner.hosts.operations import LocalOperations\n"
        "LocalOperations(Path(sys.argv[2])).lock(sys.argv[1], 'night-1'); print('locked', flush=True); sys.stdin.read()"
    )

    command = [sys.executable, "-c", script, str(empty.file), str(empty.locks)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        with (
            pytest.raises(DisksRefused) as caught,
            acquire_disks([empty.declared], empty.ask, operations=empty.operations),
        ):
            pass
        (refused,) = caught.value.refusals
        assert refused.reason is Reason.LOCKED
        assert refused.evidence == f"{empty.disk} is used by the run night-1, process {first.pid}"
        first.kill()
    with acquire_disks([empty.declared], empty.ask, operations=empty.operations) as have:
        assert have[0].node.path == empty.disk


@on_loops
def test_a_leased_disk_is_exclusive_until_it_is_released(empty: Bay) -> None:
    with acquire_disks([empty.declared], empty.ask, operations=empty.operations) as (have,):
        with pytest.raises(OSError, match="busy"):
            os.open(empty.disk, os.O_RDONLY | os.O_EXCL)
        have.release()
        os.close(os.open(empty.disk, os.O_RDONLY | os.O_EXCL))
        with pytest.raises(DisksRefused), acquire_disks([empty.declared], empty.ask, operations=empty.operations):
            pass
    os.close(os.open(empty.disk, os.O_RDONLY | os.O_EXCL))


@on_loops
def test_one_disk_under_two_names_is_one_disk(empty: Bay) -> None:
    (empty.names / "disk-c").symlink_to(empty.disk)
    twice = [empty.declared, replace(empty.declared, id="disk-c")]
    with pytest.raises(DisksRefused) as caught, acquire_disks(twice, empty.ask, operations=empty.operations):
        pass
    assert [str(one) for one in caught.value.refusals] == [
        f"twice: disk-c is {empty.disk} as well",
        f"twice: disk-a is {empty.disk} as well",
    ]


@on_loops
def test_an_undeclared_disk_is_refused(empty: Bay) -> None:
    census = empty.ask()
    node = next(node for node in census.disks if node.path == empty.disk)
    (refused,) = check_undeclared(census, node, (empty.beside,))
    assert refused.reason is Reason.NOT_NAMED
    assert "disk-a" in refused.evidence
    assert check_undeclared(census, node, (empty.declared,)) == ()


@on_loops
def test_a_device_without_a_medium_is_refused(empty: Bay, tmp_path: Path) -> None:
    (tmp_path / "nothing").touch()
    loop = attach(tmp_path / "nothing")
    try:
        (empty.names / "disk-c").symlink_to(loop)
        one = check_disk(empty.ask(), replace(empty.declared, id="disk-c", serial=str(tmp_path / "nothing"), size=0))
    finally:
        detach(loop)
    assert [refused.reason for refused in one.refusals if refused.reason is Reason.NO_SIZE] == [Reason.NO_SIZE]


@on_loops
def test_the_disk_with_the_root_file_system_is_refused(empty: Bay) -> None:
    census = empty.ask()
    root = next((mount for mount in census.mounts if mount.point == "/" and mount.source.startswith("/dev/")), None)
    node = next((node for node in census.disks if root and node.dev == root.dev), None)
    if node is None:
        pytest.skip("this host does not run from a disk that it sees whole")
    (empty.names / "system").symlink_to(node.path)
    claim = replace(empty.declared, id="system", size=node.size, serial=node.serial, wwn=node.wwn, wipe=True)
    with pytest.raises(DisksRefused) as caught, acquire_disks([claim], empty.ask, operations=empty.operations):
        pass
    assert Reason.BOOT_DISK in {one.reason for one in caught.value.refusals}


def test_every_reason_comes_with_something_to_do() -> None:
    assert all(reason.advice for reason in Reason)


def test_the_collection_is_large_and_every_trap_is_another() -> None:
    assert len(TRAPS) >= 70
    assert len({trap.name for trap in TRAPS}) == len(TRAPS)
