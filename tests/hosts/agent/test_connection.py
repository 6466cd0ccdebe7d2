"""The connection to a host: how ssh is called, and what a real one says where there is none."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts.agent import connection as lines
from matrix_runner.hosts.agent.client import agent_command
from matrix_runner.hosts.agent.connection import (
    Connection,
    master_command,
    private_folder,
    remote_command,
    session_command,
)
from tests.hosts.agent.far import NAME, Far, Shelf, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

REASON = why_not()
for_real = pytest.mark.skipif(bool(REASON), reason=REASON)
WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1)


@given(WORDS)
def test_a_command_arrives_as_it_was_given(argv: list[str]) -> None:
    first, *rest = shlex.split(remote_command(argv))
    assert (first, rest) == ("exec", argv)


def test_a_session_uses_the_shared_connection_without_questions() -> None:
    for argv in (master_command("shelf", Path("/c")), session_command("shelf", Path("/c"), ["true"])):
        assert "BatchMode=yes" in argv
        assert "ControlPath=/c" in argv
        # A name that looks like an option is none.
        assert argv[-3:-1] == ["--", "shelf"]
    assert "ProxyCommand=false" in session_command("shelf", Path("/c"), ["true"])
    assert "ProxyCommand=false" not in master_command("shelf", Path("/c"))


def test_the_remote_program_fits_into_one_argument() -> None:
    """The kernel takes 128 KiB."""
    assert (
        len(remote_command(agent_command("begin", "/run/matrix/far/x.y", "300", "/run/matrix-locks", "guard")))
        < 1 << 16
    )


def test_sockets_are_in_a_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "matrix").mkdir(mode=0o755)
    with pytest.raises(HarnessBroken, match="is not private to this user"):
        private_folder()
    (tmp_path / "matrix").chmod(0o700)
    long_ago = time.time() - 2 * lines.PATIENCE
    with socket.socket(socket.AF_UNIX) as lived, socket.socket(socket.AF_UNIX) as lives:
        for name, one in (("lived", lived), ("lives", lives), ("new", socket.socket(socket.AF_UNIX))):
            one.bind(str(tmp_path / "matrix" / name))
            if name == "new":
                one.close()
            else:
                os.utime(tmp_path / "matrix" / name, (long_ago, long_ago))
        lives.listen()
        lived.close()
        assert sorted(path.name for path in private_folder().iterdir()) == ["lives", "new"]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    """As whoever runs the tests; root's server asks for a folder in /run, and so gets a /run of its own."""
    made = Far(tmp_path / "ssh") if os.geteuid() else Shelf(tmp_path / "ssh")
    monkeypatch.setenv("PATH", made.path)
    yield made
    if isinstance(made, Shelf):
        made.close()


@for_real
def test_one_connection_serves_all_and_comes_back(shelf: Far) -> None:
    line = Connection(NAME)
    try:
        assert line.run(["printf", "%s|", "it's", "a b", "$x"]).stdout == "it's|a b|$x|"
        assert line.run(["cat"], stdin="heard").stdout == "heard"
        assert line.run(["sh", "-c", "exit 255"]).returncode == 255
        assert len(shelf.connections) == 1
        shelf.drop("masters")
        assert line.run(["echo", "again"]).stdout == "again\n"
        assert len(shelf.connections) == 2
    finally:
        line.disconnect()


@for_real
def test_a_slow_host_is_distinguished_from_an_unreachable_one(shelf: Far) -> None:
    line = Connection(NAME)
    try:
        with pytest.raises(HarnessBroken) as caught:
            line.run(["sleep", "1000"], timeout=0.2)
        assert caught.value.brief == "shelf did not answer within 0.2 s, though the connection to it is up"
        assert line.is_connected
        assert line.run(["echo", "here"]).stdout == "here\n"
        assert len(shelf.connections) == 1
    finally:
        line.disconnect()


@for_real
def test_the_message_of_ssh_is_shown(shelf: Far) -> None:
    (shelf.folder / "known_hosts").write_text("")
    with pytest.raises(HarnessBroken, match="shelf cannot be reached by ssh") as caught:
        Connection(NAME).connect()
    assert "Host key verification failed." in caught.value.details


@for_real
def test_a_connection_ends_with_its_process(shelf: Far) -> None:
    script = "from matrix_runner.hosts.agent.connection import Connection; Connection('shelf').connect(); print('up', flush=True); input()"
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "up\n"
        runner.kill()
    # Reading from the far end's server would go on if anybody still had it.
    (server,) = shelf.connections
    while Path(f"/proc/{server}").exists():
        time.sleep(0.05)


#: Fails where the socket has its name before it listens.
LISTENS_FIRST = """\
import os, socket, sys
listen = socket.socket.listen
def checked(listener, backlog):
    assert not os.path.exists(sys.argv[2] + "/line")
    listen(listener, backlog)
socket.socket.listen = checked
exec({text!r})
"""


def test_an_agent_is_named_only_when_it_listens(tmp_path: Path) -> None:
    """Whoever begins beside it sweeps those at whose name nobody listens."""
    *python, text, begin, folder, lease, locks, guard = agent_command(
        "begin", str(tmp_path / "far" / "r.x"), "300", str(tmp_path / "locks"), "true"
    )
    with subprocess.Popen(
        [*python, LISTENS_FIRST.format(text=text), begin, folder, lease, locks, guard],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as session:
        assert session.stdout
        assert session.stdout.readline().startswith("matrix agent ")
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(tmp_path / "far" / "r.x" / "line"))
            line.sendall(b"1 3\nend")
            assert line.recv(1) == b""
    assert list((tmp_path / "far").iterdir()) == []
