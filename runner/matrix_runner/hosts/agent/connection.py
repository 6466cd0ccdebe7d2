"""The connection to a host, by OpenSSH with the user's own keys, agents and jump hosts."""

from __future__ import annotations

import atexit
import os
import platform
import socket
import stat
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from shlex import join
from signal import SIGKILL
from threading import RLock, Timer
from typing import IO, TYPE_CHECKING, ClassVar

from matrix_runner.base import process
from matrix_runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

#: A session is only a program's input and output: these options override the user's ssh settings.
SESSION_OPTIONS = ("-T", "-x", "-a", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none")
#: A host that is silent for 15 seconds is disconnected.
KEEPALIVE_OPTIONS = ("-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
#: Reports that it is up, and ends with its input, so also when we are killed. Other output of a starting shell comes
#: before.
READY = "matrix is up"
REMOTE_END = ("sh", "-c", f"echo; echo {READY}; exec cat >/dev/null")
SSH_FAILED = 255
#: Seconds until a connection attempt fails: the user may have to touch a key.
PATIENCE = 60.0


def master_command(name: str, control: Path) -> list[str]:
    shared = ("-o", "ControlMaster=yes", "-o", f"ControlPath={control}", "-o", "ControlPersist=no")
    return ["ssh", *SESSION_OPTIONS, *KEEPALIVE_OPTIONS, *shared, "--", name, remote_command(REMOTE_END)]


def session_command(name: str, control: Path, argv: Sequence[str]) -> list[str]:
    """Return the command that uses the shared connection, and never makes one."""
    shared = ("-o", "ControlMaster=no", "-o", f"ControlPath={control}", "-o", "ProxyCommand=false")
    return ["ssh", *SESSION_OPTIONS, *shared, "--", name, remote_command(argv)]


def remote_command(argv: Sequence[str]) -> str:
    """Return the command for the login shell. `exec`, so that no shell stays between it and sshd."""
    return f"exec {join(argv)}"


@cache
def connection_to(name: str) -> Connection:
    """Return the one connection of this process to a host. Each new one could ask the user to touch a key."""
    line = Connection(name)
    atexit.register(line.disconnect)
    return line


class Connection:
    """The connection to a host, made when first needed and again after it dropped."""

    #: Runs the script on its input, which it reads completely before it starts.
    query_command: ClassVar[tuple[str, ...]] = ("bash", "-c", 'eval "$(cat)"')
    #: The installed agent; empty if each session sends it (see `client.agent_command`).
    agent_command: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self._mutex = RLock()
        self._master: subprocess.Popen[bytes] | None = None
        self._control = Path()

    @property
    def target(self) -> str:
        return f"ssh:{self.name}"

    @property
    def owner(self) -> str:
        return f"by ssh from {platform.node()}"

    @property
    def is_connected(self) -> bool:
        return self._master is not None and self._master.poll() is None

    def connect(self) -> None:
        with self._mutex:
            if not self.is_connected:
                self.disconnect()
                self._connect()

    def disconnect(self) -> None:
        with self._mutex:
            if self._master is not None:
                process.stop_child(self._master)
                self._control.unlink(missing_ok=True)
            self._master = None

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a program to its end. If the connection drops, run it once more: it must be idempotent."""
        done = self._run(argv, stdin, timeout)
        if done.returncode == SSH_FAILED and self._has_dropped():
            self.disconnect()
            done = self._run(argv, stdin, timeout)
        return done

    def query(self, script: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return self.run(self.query_command, stdin=script, timeout=timeout)

    def _run(self, argv: Sequence[str], stdin: str, timeout: float) -> subprocess.CompletedProcess[str]:
        self.connect()
        try:
            return process.run(self._session(argv), stdin=stdin, timeout=timeout)
        except process.TimedOut:  # ssh ends by itself when the connection drops
            raise HarnessBroken(
                f"{self.name} did not answer within {timeout:g} s, though the connection to it is up",
                resolution="`dmesg` and `ps` there show what blocks it",
            ) from None

    def start(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        self.connect()
        return process.start_with_pipes(self._session(argv))

    def _session(self, argv: Sequence[str]) -> list[str]:
        return session_command(self.name, self._control, argv)

    def _has_dropped(self) -> bool:
        return not self.is_connected or not _has_listener(self._control)

    def _connect(self) -> None:
        self._control = private_folder() / token_hex(8)
        with tempfile.TemporaryFile() as complaints:
            child = process.start_with_pipes(master_command(self.name, self._control), complaints.fileno())
            timer = Timer(PATIENCE, child.kill)
            timer.start()
            try:
                self._wait_for_shell(child, complaints)
            except BaseException:
                process.stop_child(child)
                self._control.unlink(missing_ok=True)
                raise
            finally:
                timer.cancel()
        self._master = child

    def _wait_for_shell(self, child: subprocess.Popen[bytes], complaints: IO[bytes]) -> None:
        assert child.stdout is not None  # noqa: S101 - for the type checker; it was asked for
        with child.stdout as output:
            if f"{READY}\n".encode() in output:
                return
        status = child.wait()
        complaints.seek(0)
        ended = f"no shell within {PATIENCE:g} s" if status == -SIGKILL else f"ssh ended with status {status}"
        raise HarnessBroken(
            f"{self.name} cannot be reached by ssh",
            details="\n".join(filter(None, (complaints.read().decode(errors="replace").strip()[-2000:], ended))),
            resolution=f"matrix uses ssh's BatchMode: make `ssh {self.name}` work without a prompt first",
        )


def private_folder() -> Path:
    """Return the folder of our sockets. Its path is short, as socket names are limited to about 100 bytes."""
    above = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(above, "matrix") if above and Path(above).is_dir() else Path(f"/tmp/matrix-{os.geteuid()}")  # noqa: S108
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise HarnessBroken(
            f"{folder} is not private to this user",
            resolution="others could use the connection: check who created the folder, then remove it",
        )
    for left in folder.iterdir():
        with suppress(FileNotFoundError):  # its owner, or another process like this one, removed it
            # A new socket may have no listener yet.
            if time.time() - left.lstat().st_mtime > PATIENCE and not _has_listener(left):
                left.unlink()
    return folder


def _has_listener(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return path.is_socket()
    return True
