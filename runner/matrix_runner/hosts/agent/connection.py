"""The ways to the disk agent: OpenSSH to other hosts, with the user's own keys and jump hosts, and sudo on this one."""

import atexit
import os
import platform
import pwd
import re
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from shlex import join, quote
from signal import SIGKILL
from threading import RLock, Timer
from typing import IO, ClassVar

from matrix_runner.base import process
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts.agent import PYTHON_CHECK
from matrix_runner.hosts.agent.client import PROGRAM

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
def connection_to(name: str) -> "Connection":
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


#: The program that the agent's first line names.
PYTHON = "/usr/bin/python3"
INSTALLED = Path("/usr/local/libexec/matrix-agent")
#: Never ask for a password, and ignore cached credentials, as they expire soon.
SUDO = ("sudo", "-n", "-k", "--")


class SudoConnection(Connection):
    query_command: ClassVar[tuple[str, ...]] = (str(INSTALLED), "ask")
    agent_command: ClassVar[tuple[str, ...]] = (str(INSTALLED),)

    @property
    def target(self) -> str:
        return "local"

    @property
    def owner(self) -> str:
        return f"by sudo of {user_name()}"

    @property
    def is_connected(self) -> bool:
        return True

    def _session(self, argv: Sequence[str]) -> list[str]:
        return process.relayed([*SUDO, *argv])

    def _has_dropped(self) -> bool:
        return False


_CONNECTION = SudoConnection("this host")


def is_installed() -> bool:
    with suppress(OSError):
        return INSTALLED.exists()
    return False


def sudo_connection() -> Connection:
    if trouble := _find_trouble():
        raise trouble
    return _CONNECTION


@cache
def _find_trouble() -> HarnessBroken | None:
    """Cached: sudo reports every refused attempt to the administrator."""
    user = user_name()
    if shutil.which("sudo") is None:
        return HarnessBroken(
            f"sudo is not installed, so {user} cannot run the disk agent as root", resolution="apt install sudo"
        )
    if shutil.which(PYTHON) is None or process.run([PYTHON, "-I", "-c", PYTHON_CHECK]).returncode:
        return HarnessBroken(
            f"{PYTHON} is missing or older than Python 3.9: it runs the disk agent", resolution="apt install python3"
        )
    try:
        check_program(INSTALLED, PROGRAM.read_bytes())
        tried = _CONNECTION.query(":")
    except HarnessBroken as error:
        return error
    if tried.returncode:
        why = tried.stderr.strip()[-2000:] or f"status {tried.returncode}"
        return HarnessBroken(
            f"sudo does not let {user} run {INSTALLED} without a password: {why}", resolution=allow_command()
        )
    return None


def check_program(program: Path, text: bytes) -> None:
    """Raise HarnessBroken if others could have written the program, or if it is not this version's."""
    try:
        found = program.read_bytes()
        theirs = [one for one in _path_components(program) if _others_write(one.lstat())]
    except OSError as error:
        raise HarnessBroken(
            f"the disk agent that sudo runs for {user_name()} cannot be used: {program}: {error.strerror}",
            resolution=f"{install_command(program)} && {allow_command()}",
        ) from None
    if theirs:
        raise HarnessBroken(
            f"{theirs[0]} can be written by others than root, so sudo could run someone else's program",
            resolution=f"check who changed it; then sudo chown -h root {theirs[0]} && sudo chmod go-w {theirs[0]} && "
            f"{install_command(program)}",
        )
    if found != text:
        raise HarnessBroken(f"{program} is not the one of this version of matrix", resolution=install_command(program))


def install_command(program: Path) -> str:
    return f"sudo install -D -o root -g root -m 755 {quote(str(PROGRAM))} {program}"


def sudoers_rule() -> str:
    """Return the sudoers line. It amounts to full root rights for the user."""
    # By number if sudoers could misread the name.
    user = user_name() if re.fullmatch(r"[a-z_][a-z0-9_.-]*", user_name()) else f"#{os.geteuid()}"
    return f"{user} ALL=(root) NOPASSWD: {INSTALLED}"


def allow_command() -> str:
    # The last matching rule decides, so the file is the last. Sudo ignores the name with a dot that visudo checks.
    file = f"/etc/sudoers.d/zz-matrix-{os.geteuid()}"
    write = f'umask 227 && echo "{sudoers_rule()}" >{file}.new'
    return f"sudo sh -c '{write} && /usr/sbin/visudo -cqf {file}.new && mv -f {file}.new {file}'"


def user_name() -> str:
    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return f"the user {os.geteuid()}"


def _path_components(path: Path) -> Iterator[Path]:
    for one in (*reversed(path.parents), path):
        yield one
        if one.is_symlink():
            yield from _path_components(one.parent / one.readlink())


def _others_write(status: os.stat_result) -> bool:
    """In a sticky folder others can add files, but cannot replace root's."""
    kept = stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)
    return bool(status.st_uid or (status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not kept))
