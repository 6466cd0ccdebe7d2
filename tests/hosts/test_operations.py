"""Scripts that give disks of this host back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts.checks import take_census
from matrix_runner.hosts.operations import LOCAL, LocalOperations
from matrix_runner.scripts.jinja import census_script
from tests.hosts.loops import bay, why_not

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)
#: Two that hold a pipe open: one in the background that listens to nobody, and the script itself.
SCRIPT = "exec 9>{line}; setsid sleep 1000 9>&9 & sleep 1000"


@pytest.fixture
def line(tmp_path: Path) -> Path:
    path = tmp_path / "line"
    os.mkfifo(path)
    return path


def test_only_root_sees_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LOCAL.hidden_processes() == ""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert LOCAL.hidden_processes() == "processes of other users"


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system without room."""
    folder = tmp_path / "full"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,mode=755", "none", folder], check=True)
    try:
        (folder / "all").write_bytes(bytes(4096))
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_loop_devices_without_a_file_are_not_in_the_census() -> None:
    """Each cost a hundredth of a second, and there may be a hundred."""
    subprocess.run(["losetup", "--find"], check=True, capture_output=True)  # makes one if none is free

    def idle() -> set[str]:
        return {path.name for path in Path("/sys/block").glob("loop*") if not (path / "loop").exists()}

    before = idle()
    nodes = take_census(None, census_script()).nodes
    assert before
    assert not nodes.keys() & before & idle()  # tests beside this one take and return some


@pytest.fixture
def replace_stat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let `stat` be a script with this text."""

    def replace(text: str) -> None:
        program = tmp_path / "bin/stat"
        program.parent.mkdir()
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    return replace


def test_a_device_that_is_removed_during_a_census_has_no_number(
    tmp_path: Path, replace_stat: Callable[[str], None]
) -> None:
    replace_stat('case ${!#} in */disk-a) rm -f "${!#}" ;; esac; exec /usr/bin/stat "$@"')
    with bay(tmp_path) as made:
        names = {link.name: link.dev for link in made.ask().names}
    assert names["disk-a"] == ""
    assert names["disk-b"]


def test_a_census_that_cannot_read_the_number_of_a_device_fails(
    tmp_path: Path, replace_stat: Callable[[str], None]
) -> None:
    """Without the number, it could miss that a disk is in use."""
    replace_stat("echo 'Cannot allocate memory' >&2; exit 1")
    with bay(tmp_path) as made, pytest.raises(HarnessBroken, match="cannot list its disks") as caught:
        made.ask()
    assert "Cannot allocate memory" in caught.value.details


def test_a_lock_works_on_a_full_disk(full: Path) -> None:
    lock, holder = LocalOperations(full).lock("disk", "night-1")
    assert lock is not None
    assert LocalOperations(full).lock("disk", "night-2") == (None, "another run")
    lock.close()
    assert holder == ""


def test_a_lock_is_only_of_those_who_may_write_to_disks(tmp_path: Path) -> None:
    lock, _ = LocalOperations(tmp_path / "locks").lock("disk", "night-1")
    assert lock is not None
    lock.close()
    assert (tmp_path / "locks").stat().st_mode & 0o7777 == 0o3770
    assert (tmp_path / "locks/disk-disk").stat().st_mode & 0o7777 == 0o660
    (tmp_path / "locks").chmod(0o755)  # root's alone
    assert LocalOperations(tmp_path / "locks").lock("disk", "night-1")[0] is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_no_other_user_holds_a_lock_or_changes_its_owner(tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    lock, _ = LocalOperations(locks).lock("disk", "night-1")
    assert lock is not None
    lock.close()
    for above in tmp_path.parents:
        if above.owner() == "root" and above.is_relative_to("/tmp/pytest-of-root"):
            above.chmod(0o755)
    other = ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", "bash", "-c"]
    for attack in ("exec 3<disk-disk && flock -n 3", "echo me >disk-disk", "rm disk-disk", ": >disk-other", "ls"):
        done = subprocess.run([*other, attack], cwd=locks, capture_output=True, text=True)
        assert done.returncode != 0
        assert "ermission denied" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("mkdir theirs && ln -s theirs locks", "it is no folder"),
        ("touch locks", "it is no folder"),
        ("mkdir -m 700 locks && chown 1234 locks", "it belongs to the user 1234"),
        ("mkdir -m 1777 locks", "all users may write in it"),
        ("mkdir -m 770 locks", "its group may delete what is in it"),
    ],
)
def test_no_lock_is_taken_where_others_could_take_it_away(tmp_path: Path, made: str, why: str) -> None:
    subprocess.run(["bash", "-ec", made], cwd=tmp_path, check=True)
    with pytest.raises(HarnessBroken, match=f"the locks of disks in {tmp_path}/locks cannot be trusted: {why}") as it:
        LocalOperations(tmp_path / "locks").lock("disk", "night-1")
    assert not list(tmp_path.rglob("disk-*"))
    repair = it.value.resolution.split("`")[1]
    subprocess.run(["bash", "-ec", repair], check=True)
    assert LocalOperations(tmp_path / "locks").lock("disk", "night-1")[0] is not None


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks/disk-disk").symlink_to(tmp_path / "theirs")
    (tmp_path / "theirs").write_text("theirs")
    with pytest.raises(HarnessBroken, match="the lock of a disk cannot be taken: Too many levels") as it:
        LocalOperations(tmp_path / "locks").lock("disk", "night-1")
    assert it.value.details == f"{tmp_path}/locks/disk-disk"
    assert (tmp_path / "theirs").read_text() == "theirs"


def test_this_process_is_no_other_user_of_a_disk(tmp_path: Path) -> None:
    with bay(tmp_path) as disks:
        (node,) = (node for node in disks.ask().disks if node.path == disks.disk)
        opened = LOCAL.open(node)
        assert f"process {os.getpid()} (" not in LOCAL.find_users(node.dev)
        opened.close()


def test_a_failed_script_gives_its_message_or_status() -> None:
    assert LOCAL.run("true", 60) == ""
    assert LOCAL.run("echo out; echo why >&2; exit 3", 60) == "why"
    assert LOCAL.run("exit 3", 60) == "status 3"


def test_processes_of_a_script_end_with_a_killed_runner(line: Path) -> None:
    runs = f"from matrix_runner.hosts.operations import LOCAL; LOCAL.run({SCRIPT.format(line=line)!r}, 900)"
    runner = subprocess.Popen([sys.executable, "-c", runs])
    with line.open("rb") as reader:  # waits until the script has opened it
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        assert reader.read() == b""  # and this until nobody has it open any more


def test_processes_of_a_script_end_at_its_time_limit(line: Path) -> None:
    with line.open("r+b", buffering=0) as kept:
        assert LOCAL.run(SCRIPT.format(line=line), 0.5) == "it did not end within 0.5 s"
        with line.open("rb") as reader:
            kept.close()
            assert reader.read() == b""
