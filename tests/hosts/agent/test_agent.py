"""The agent as a file that other hosts run: with an older Python, and with its standard library only."""

from __future__ import annotations

import ast
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.hosts.agent import agent
from matrix_runner.hosts.agent.client import PROGRAM, agent_command
from matrix_runner.hosts.agent.connection import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = PROGRAM.read_text(encoding="utf-8")


def test_python_3_9_can_read_it() -> None:
    tree = ast.parse(TEXT, feature_version=(3, 9))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Match)]


def test_it_imports_the_standard_library_only() -> None:
    found = set()
    for node in ast.walk(ast.parse(TEXT)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(str(node.module))
    assert found <= sys.stdlib_module_names | {"collections.abc"}


def test_it_does_not_delay_sessions_by_large_modules() -> None:
    """Of these, each takes longer than all that it imports."""
    code = f"__name__ = 'agent'; exec({TEXT!r}); import sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert not {"argparse", "asyncio", "dataclasses", "pathlib", "re", "subprocess", "typing"} & set(
        found.stdout.split()
    )


def test_its_first_line_starts_the_python_of_the_system() -> None:
    """Without the modules and settings of the user who calls it by sudo."""
    assert TEXT.startswith(f"#!{PYTHON} -I\n")


def test_it_is_text_in_any_locale() -> None:
    assert TEXT.isascii()


def begin(folder: Path, locks: Path, guard: str = "bash", **settings: str) -> subprocess.Popen[bytes]:
    """Start an agent; return its session."""
    _, *command = agent_command("begin", str(folder), "300", str(locks), guard)
    session = subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], **settings},
    )
    assert session.stdout
    assert session.stdout.readline().startswith(b"matrix agent ")
    return session


@contextmanager
def started(folder: Path, locks: Path, guard: str = "bash", **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """An agent, by its session; it has ended afterwards."""
    session = begin(folder, locks, guard, **settings)
    try:
        yield session
    finally:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(f"{folder}/line")
            line.sendall(b"1 3\nend")
            assert line.recv(1) == b""
        session.communicate()
    assert not folder.exists()


def send(session: subprocess.Popen[bytes], *words: bytes) -> None:
    assert session.stdin
    text = b"\0".join(words)
    session.stdin.write(b"7 %d\n%b" % (len(text), text))
    session.stdin.flush()


def ask(session: subprocess.Popen[bytes], *words: bytes) -> list[bytes]:
    send(session, *words)
    assert session.stdout
    number, length = session.stdout.readline().split()
    assert number == b"7"
    return session.stdout.read(int(length)).split(b"\0")


def test_a_script_has_the_signals_and_the_settings_of_the_session(tmp_path: Path) -> None:
    script = b"umask; grep SigIgn /proc/self/status; env"
    with started(tmp_path / "far/r.x", tmp_path / "locks", COLOUR="red") as session:
        assert {path.stat().st_mode & 0o077 for path in (tmp_path / "far", *(tmp_path / "far").iterdir())} == {0}
        _, status, late, _, output = ask(session, b"job", b"a", b"60", script)
    mask, ignored, *settings = output.decode().splitlines()
    assert (status, late, mask) == (b"0", b"0", "0077")
    assert not int(ignored.split()[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)
    names = {one.partition("=")[0] for one in settings}
    assert names - {"PATH", "COLOUR", "PWD", "OLDPWD", "SHLVL", "_"} == {"LVM_SUPPRESS_FD_WARNINGS"}


def test_a_script_may_contain_null_bytes_and_ends_by_a_signal(tmp_path: Path) -> None:
    with started(tmp_path / "far/r.x", tmp_path / "locks", "cat") as session:
        assert ask(session, b"job", b"a", b"60", b"one\0two") == [b"done", b"0", b"0", b"7", b"one", b"two"]
        assert ask(session, b"forget", b"a") == [b"forgotten"]
    with started(tmp_path / "far/r.y", tmp_path / "locks") as session:
        assert ask(session, b"job", b"a", b"60", b"kill -TERM $$")[1] == b"143"


def test_while_the_runner_watches_the_disks_it_ends_no_script(tmp_path: Path) -> None:
    """A disk that is gone counts -1, which is more than allowed here."""
    with started(tmp_path / "far/r.x", tmp_path / "locks") as session:
        assert ask(session, b"most", b"none", b"-2") == [b"known"]
        assert ask(session, b"job", b"a", b"60", b"echo here") == [b"done", b"0", b"0", b"5", b"here\n"]


def test_its_end_is_known_only_when_its_scripts_have_ended(tmp_path: Path) -> None:
    there, on = tmp_path / "there", tmp_path / "on"
    for pipe in (there, on):
        os.mkfifo(pipe)
    with started(tmp_path / "far/r.x", tmp_path / "locks") as session:
        send(session, b"job", b"a", b"60", f"exec 9<>{on}; echo here >{there}; read -r _ <{on}".encode())
        assert there.read_text() == "here\n"
    with pytest.raises(OSError, match="No such device or address"):  # no process reads it
        os.open(on, os.O_WRONLY | os.O_NONBLOCK)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of other users")
def test_root_trusts_no_folder_of_locks_of_who_started_it_by_sudo(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir(mode=0o755)
    os.chown(tmp_path / "locks", 1234, -1)
    with started(tmp_path / "far/r.x", tmp_path / "locks", SUDO_UID="1234") as session:
        assert ask(session, b"lock", b"disk", b"me") == [b"distrusted", b"it belongs to the user 1234"]


def test_a_request_that_it_does_not_know_or_cannot_do_fails(tmp_path: Path) -> None:
    with started(tmp_path / "far/r.x", tmp_path / "locks") as session:
        assert ask(session, b"fly", b"me") == [b"failed", b"0", b"no such request or open disk", b"me"]
        gone = [b"failed", b"2", b"No such file or directory", b"/dev/none"]
        assert ask(session, b"open", b"/dev/none") == gone
        not_open = [b"failed", b"0", b"no such request or open disk", b"/dev/none"]
        assert ask(session, b"write", b"/dev/none", b"0", b"\0\0") == not_open
        assert ask(session, b"reread", b"/dev/none") == not_open
        assert ask(session, b"close", b"/dev/none") == [b"free"]
        assert ask(session, b"counted", b"none") == [b"-1"]
        assert ask(session, b"on") == [b"yes"]


@pytest.mark.parametrize(
    "words",
    [
        *(
            (b"",),
            (b"fly",),
            (b"write",),
            (b"on", b"a", b"b"),
            (b"\xff",),
            (b"job", b"a"),
            (b"job", b"a", b"soon", b":"),
        ),
        *((b"most", b"a", b"many"), (b"who", b"9" * 12, b"9" * 13, b"1"), (b"open", b"", b""), (b"__doc__",)),
    ],
    ids=repr,
)
def test_a_request_that_no_client_sends_fails_and_ends_nothing(words: tuple[bytes, ...], tmp_path: Path) -> None:
    with started(tmp_path / "far/r.x", tmp_path / "locks") as session:
        assert ask(session, *words)[:3] == [b"failed", b"0", b"no such request or open disk"]
        assert ask(session, b"on") == [b"yes"]


@pytest.mark.parametrize(
    "text",
    [b"\n", b"1\n", b"a b\n", b"1 2 3\n", b"1 -3\nabc", b"1 " + b"9" * 5000 + b"\n", b"1 99999999999\n", b"a" * 99],
)
def test_a_session_that_sends_no_requests_ends_alone(text: bytes, tmp_path: Path) -> None:
    """The agent keeps its locks and disks, and takes no more memory than the largest request."""
    with started(tmp_path / "far/r.x", tmp_path / "locks") as session, socket.socket(socket.AF_UNIX) as other:
        assert ask(session, b"lock", b"disk", b"me") == [b"had"]
        other.connect(f"{tmp_path}/far/r.x/line")
        other.sendall(text)
        assert other.recv(1) == b""
        assert ask(session, b"on") == [b"yes"]
        assert isinstance(agent.lock_disk(str(tmp_path / "locks"), "disk", "other"), tuple)


def test_it_has_no_lock_of_which_others_hold_the_file(tmp_path: Path) -> None:
    lock = agent.lock_disk(str(tmp_path / "locks"), "disk", "me")
    assert isinstance(lock, int)
    with started(tmp_path / "far/r.x", tmp_path / "locks") as session:
        assert ask(session, b"lock", b"disk", b"you") == [b"taken", f"me, process {os.getpid()}".encode()]
        os.close(lock)
        assert ask(session, b"lock", b"disk", b"you") == [b"had"]
        assert ask(session, b"unlock", b"disk") == [b"free"]
        assert (tmp_path / "locks/disk-disk").read_text().startswith("you, process ")
        again = agent.lock_disk(str(tmp_path / "locks"), "disk", "me")
        assert isinstance(again, int)
        os.close(again)


def test_a_disk_stays_locked_as_long_as_a_script_of_a_killed_agent_works(tmp_path: Path) -> None:
    """With a guard that does not end when the agent does."""
    there, on, locks = tmp_path / "there", tmp_path / "on", tmp_path / "locks"
    for pipe in (there, on):
        os.mkfifo(pipe)

    def lock() -> int | tuple[str, str]:
        return agent.lock_disk(str(locks), "disk", "me")

    session = begin(tmp_path / "far/r.x", locks)
    assert ask(session, b"lock", b"disk", b"you") == [b"had"]
    owner = (locks / "disk-disk").read_text().strip()
    send(session, b"job", b"a", b"60", f"echo here >{there}; read -r -t 60 _ <>{on}".encode())
    assert there.read_text() == "here\n"
    os.kill(int(owner.split()[-1]), signal.SIGKILL)
    assert session.stdout
    assert session.stdout.read() == b""
    session.communicate()
    assert lock() == ("taken", owner)
    on.write_text("on\n")
    while not isinstance(again := lock(), int):
        time.sleep(0.05)
    os.close(again)


def test_a_new_agent_ends_agents_of_its_own_run_only(tmp_path: Path) -> None:
    """The name of another run may begin with its name and a dot."""
    with started(tmp_path / "far/r.b.x", tmp_path / "locks") as other:
        first = begin(tmp_path / "far/r.x", tmp_path / "locks")
        (tmp_path / "far/r.dead").mkdir()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(f"{tmp_path}/far/r.dead/line")
        with started(tmp_path / "far/r.y", tmp_path / "locks"):
            assert first.stdout
            assert first.stdout.read() == b""  # its session ends with it
            first.communicate()
            assert ask(other, b"on") == [b"yes"]
            assert {path.name for path in (tmp_path / "far").iterdir()} == {"r.b.x", "r.y"}


def test_an_agent_that_cannot_start_gives_the_reason(tmp_path: Path) -> None:
    (tmp_path / "far").touch()
    command = agent_command("begin", f"{tmp_path}/far/r.x", "300", f"{tmp_path}/locks", "bash")
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("matrix failed ")


def test_users_of_a_device_are_named_for_writing_too() -> None:
    full = Path("/dev/full")
    device = full.stat().st_rdev

    def found(*, writing: bool) -> bool:
        users = agent.find_processes(device, bool, writing=writing)
        return any(one.startswith(f"process {os.getpid()} (") for one in users)

    with full.open("rb"):
        assert (found(writing=False), found(writing=True)) == (True, False)
    with full.open("wb"):
        assert (found(writing=False), found(writing=True)) == (True, True)
    assert (found(writing=False), found(writing=True)) == (False, False)
