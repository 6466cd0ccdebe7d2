"""Root's rights by sudo: what is refused before sudo is asked, what a stand-in for it says, and who ends when."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base import process
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts.agent import connection
from matrix_runner.hosts.agent.client import PROGRAM
from matrix_runner.hosts.agent.connection import SudoConnection, check_program, sudo_connection
from matrix_runner.machines import machine
from matrix_runner.machines.base import MachineOptions, RigSpec
from matrix_runner.machines.local import Local, Sudo
from matrix_runner.session.disk_lease import _connection_for, open_connection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of root's")
TEXT = PROGRAM.read_bytes()


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    connection._find_trouble.cache_clear()
    yield
    connection._find_trouble.cache_clear()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    path = tmp_path / "libexec/matrix-agent"
    path.parent.mkdir(mode=0o755)
    path.write_bytes(TEXT)
    path.chmod(0o755)
    return path


def why(program: Path) -> HarnessBroken:
    with pytest.raises(HarnessBroken) as caught:
        check_program(program, TEXT)
    return caught.value


@needs_root
def test_an_installed_program_of_root_is_accepted(installed: Path) -> None:
    check_program(installed, TEXT)


def test_one_that_is_not_there_is_refused_with_all_it_takes(tmp_path: Path) -> None:
    found = why(tmp_path / "none")
    assert found.brief.endswith(f"cannot be used: {tmp_path}/none: No such file or directory")
    assert f"sudo install -D -o root -g root -m 755 {PROGRAM} {tmp_path}/none && sudo sh -c '" in found.resolution
    assert found.resolution.endswith(f" /etc/sudoers.d/zz-matrix-{os.geteuid()}'")


@pytest.mark.skipif(not shutil.which("visudo"), reason="without visudo on this host")
@pytest.mark.parametrize("name", ["jo", "j.o-1_", "Jo", "JO", "jo smith", "LAB\\jo", "%jo", "#jo"])
def test_sudo_understands_the_line_that_lets_one_user_run_one_program(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "user_name", lambda: name)
    (tmp_path / "matrix").write_text(f"{connection.sudoers_rule()}\n")
    (tmp_path / "matrix").chmod(0o440)
    tried = subprocess.run(["visudo", "-c", "-f", str(tmp_path / "matrix")], capture_output=True, text=True)
    assert (tried.returncode, tried.stderr) == (0, "")
    who, _, what = connection.sudoers_rule().partition(" ")
    assert who in {name, f"#{os.geteuid()}"}
    assert what == "ALL=(root) NOPASSWD: /usr/local/libexec/matrix-agent"


@needs_root
@pytest.mark.parametrize("what", ["mode", "owner", "folder", "above", "where a link is"])
def test_one_that_others_may_write_or_replace_is_refused(installed: Path, tmp_path: Path, what: str) -> None:
    asked, suspect = installed, installed
    if what == "mode":
        installed.chmod(0o775)
    elif what == "owner":
        os.chown(installed, 65534, -1)
    elif what == "folder":
        suspect = installed.parent
        suspect.chmod(0o757)
    elif what == "above":
        suspect = tmp_path
        os.chown(suspect, 65534, -1)
    else:
        suspect = tmp_path / "theirs"
        suspect.mkdir()
        (suspect / "second").symlink_to(installed)
        asked = tmp_path / "first"
        asked.symlink_to("theirs/second")
        os.chown(suspect, 65534, -1)
    assert why(asked).brief == f"{suspect} can be written by others than root, so sudo could run someone else's program"


@needs_root
def test_a_link_of_another_user_is_refused(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(installed)
    os.chown(tmp_path / "link", 65534, -1, follow_symlinks=False)
    assert why(tmp_path / "link").brief.startswith(f"{tmp_path}/link can be written by others")


@needs_root
def test_the_target_of_a_link_is_checked(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(installed)
    installed.parent.chmod(0o757)
    assert why(tmp_path / "link").brief.startswith(f"{installed.parent} can be written by others")


@needs_root
def test_one_of_another_version_is_refused(installed: Path) -> None:
    installed.write_bytes(TEXT + b"\n")
    assert why(installed).brief == f"{installed} is not the one of this version of matrix"


def stand_in(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "sudo").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def _there(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "INSTALLED", installed)
    monkeypatch.setattr(SudoConnection, "query_command", (str(installed), "ask"))


@needs_root
@pytest.mark.usefixtures("_there")
def test_a_sudo_that_wants_a_password_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path / "bin", "echo sudo: a password is required >&2; exit 1", monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    *_, told = machine("local", MachineOptions()).refusals(RigSpec(()))
    assert "without a password: sudo: a password is required" in told.brief
    assert f'NOPASSWD: {connection.INSTALLED}"' in told.resolution
    assert "install -D" not in told.resolution
    assert open_connection("local") is None
    assert "continuing without root: sudo does not let" in capsys.readouterr().err


def test_missing_sudo_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HarnessBroken, match="sudo is not installed, so"):
        sudo_connection()


@pytest.mark.usefixtures("_there")
@pytest.mark.parametrize("body", ["exit 1", None])
def test_a_host_whose_python_cannot_run_the_agent_is_refused(
    body: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path / "bin", f"touch {tmp_path}/asked; exit 1", monkeypatch)
    python = tmp_path / "python3"
    if body:
        python.write_text(f"#!/bin/sh\n{body}\n")
        python.chmod(0o755)
    monkeypatch.setattr(connection, "PYTHON", str(python))
    with pytest.raises(HarnessBroken) as caught:
        sudo_connection()
    assert caught.value.brief == f"{python} is missing or older than Python 3.9: it runs the disk agent"
    assert caught.value.resolution == "apt install python3"
    assert not (tmp_path / "asked").exists()


@needs_root
@pytest.mark.usefixtures("_there")
def test_sudo_runs_one_command_that_reads_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", f'echo "$*" >>{tmp_path}/calls; shift 3; exec "$@"', monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    line = open_connection("local")
    assert line is not None
    said = line.query("yes hello | head -n 1; echo ${PIPESTATUS[0]}; cat; echo oh >&2; exit 3")
    assert (said.returncode, said.stdout, said.stderr) == (3, "hello\n141\n", "oh\n")
    assert (tmp_path / "calls").read_text() == f"-n -k -- {connection.INSTALLED} ask\n" * 2


def test_root_and_hosts_without_the_program_do_not_use_sudo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(connection, "sudo_connection", lambda: pytest.fail("nobody has to be asked"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert open_connection("local") is None
    assert type(machine("local", MachineOptions())) is Local
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert type(machine("local", MachineOptions())) is Sudo
    monkeypatch.setattr(connection, "INSTALLED", tmp_path / "none")
    assert open_connection("local") is None


@pytest.mark.usefixtures("_there")
def test_disks_that_are_handed_on_are_not_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setattr(connection, "sudo_connection", lambda: SudoConnection("this host"))
    assert [_connection_for("local", place) is None for place in ("local", "qemu-passthrough", "container")] == [
        False,
        True,
        True,
    ]


def test_an_unreadable_program_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: object) -> bool:
        raise PermissionError

    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setattr(type(connection.INSTALLED), "exists", denied)
    assert open_connection("local") is None


#: It hears of the end of its input, and then of the end of whoever listens to it.
FAR = 'echo "$$"; cat >/dev/null; trap "" PIPE; while echo still; do :; done 2>/dev/null; echo both >"$1"'


@pytest.mark.parametrize("who", ["it", "whoever started it"])
def test_a_relayed_program_notices_the_end_of_either_side(tmp_path: Path, who: str) -> None:
    """The pipe is opened by nobody else, so reading it waits for the end."""
    end = tmp_path / "end"
    os.mkfifo(end)
    argv = process.relayed(["bash", "-c", FAR, "bash", str(end)])
    if who == "it":
        child = process.start_with_pipes(argv)
        assert child.stdout is not None
        with child.stdout as said:
            said.readline()
            process.stop_child(child)
    else:
        script = (
            f"from matrix_runner.base import process; c = process.start_with_pipes({argv!r}); "
            "c.stdout.readline(); print(flush=True); input()"
        )
        with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as runner:
            assert runner.stdout is not None
            runner.stdout.readline()
            runner.kill()
    assert end.read_text() == "both\n"


def test_its_status_and_its_last_words_arrive_while_it_could_still_be_spoken_with() -> None:
    child = process.start_with_pipes(process.relayed(["sh", "-c", "echo bye; exit 3"]))
    assert child.stdout is not None
    with child.stdout as said:
        assert (said.read(), child.wait()) == (b"bye\n", 3)
    process.stop_child(child)
