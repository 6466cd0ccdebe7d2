"""The one connection to a host: OpenSSH's own, so agents, jump hosts and known hosts are as its user knows them."""

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

from runner.base import process
from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

#: Nothing of a user's settings for this host may turn a session into something else than a program's input and output.
PLAIN = ("-T", "-x", "-a", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none")
#: A host that keeps silent for a quarter of a minute is no longer connected.
ALERT = ("-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
#: Says that it is up, and ends when its input does, which no death of ours can prevent. Whatever else a shell says as
#: it starts comes before.
UP = "matrix is up"
AT_THE_END = ("sh", "-c", f"echo; echo {UP}; exec cat >/dev/null")
#: What ssh ends with when it was ssh that failed.
SSH_FAILED = 255
#: Seconds until a connection counts as not to be had: somebody may have to touch a key.
PATIENCE = 60.0


def master(name: str, control: Path) -> list[str]:
    """The command that connects, and lets others use the connection."""
    shared = ("-o", "ControlMaster=yes", "-o", f"ControlPath={control}", "-o", "ControlPersist=no")
    return ["ssh", *PLAIN, *ALERT, *shared, "--", name, far(AT_THE_END)]


def session(name: str, control: Path, argv: Sequence[str]) -> list[str]:
    """The command that runs another over there, by a connection that is up: without one it fails, and makes none."""
    shared = ("-o", "ControlMaster=no", "-o", f"ControlPath={control}", "-o", "ProxyCommand=false")
    return ["ssh", *PLAIN, *shared, "--", name, far(argv)]


def far(argv: Sequence[str]) -> str:
    """A command as the login shell over there is told it; in its place, so that nothing stands between it and sshd."""
    return f"exec {join(argv)}"


@cache
def line_to(name: str) -> Line:
    """The line of this process to a host: one, whoever needs it. Somebody may have to touch a key for each."""
    line = Line(name)
    atexit.register(line.down)
    return line


class Line:
    """A host by its name for ssh. The connection is made when it is first needed, and again when it dropped."""

    #: What runs a script that is all there is to read: it has the whole of it before it begins.
    script: ClassVar[tuple[str, ...]] = ("bash", "-c", 'eval "$(cat)"')
    #: What holds disks, unless that is handed over (see `holder.program`).
    installed: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self._alone = RLock()
        self._master: subprocess.Popen[bytes] | None = None
        self._control = Path()

    @property
    def place(self) -> str:
        """As it is called where machines are."""
        return f"ssh:{self.name}"

    @property
    def whose(self) -> str:
        """Who takes locks by it."""
        return f"by ssh from {platform.node()}"

    @property
    def is_up(self) -> bool:
        """Whether it was, when last looked at."""
        return self._master is not None and self._master.poll() is None

    def up(self) -> None:
        """Be connected; raises HarnessBroken with what ssh says if that cannot be."""
        with self._alone:
            if not self.is_up:
                self._connect()

    def down(self) -> None:
        """Let the connection go, or what is left of it."""
        with self._alone:
            if self._master is not None:
                process.let_go(self._master)
                self._control.unlink(missing_ok=True)
            self._master = None

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a program over there, to its end. If the connection drops meanwhile, once more: it must bear that."""
        done = self._ran(argv, stdin, timeout)
        if done.returncode == SSH_FAILED and self._dropped():
            self.down()
            done = self._ran(argv, stdin, timeout)
        return done

    def told(self, script: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a script over there that only asks."""
        return self.run(self.script, stdin=script, timeout=timeout)

    def _ran(self, argv: Sequence[str], stdin: str, timeout: float) -> subprocess.CompletedProcess[str]:
        self.up()
        try:
            return process.run(self._session(argv), stdin=stdin, timeout=timeout)
        except process.TookTooLong:  # had the line dropped, ssh would have ended by itself
            raise HarnessBroken(
                f"{self.name} did not answer within {timeout:g} s, though the connection to it is up",
                resolution="`dmesg` and `ps` there say what it is busy with or stuck at",
            ) from None

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program over there that is spoken with."""
        self.up()
        return process.on_its_line(self._session(argv))

    def _session(self, argv: Sequence[str]) -> list[str]:
        return session(self.name, self._control, argv)

    def _dropped(self) -> bool:
        return not self.is_up or not _answers(self._control)

    def _connect(self) -> None:
        self._control = private_folder() / token_hex(8)
        with tempfile.TemporaryFile() as complaints:
            child = process.on_its_line(master(self.name, self._control), complaints.fileno())
            timer = Timer(PATIENCE, child.kill)
            timer.start()
            try:
                self._await(child, complaints)
            except BaseException:
                process.let_go(child)
                self._control.unlink(missing_ok=True)
                raise
            finally:
                timer.cancel()
        self._master = child

    def _await(self, child: subprocess.Popen[bytes], complaints: IO[bytes]) -> None:
        assert child.stdout is not None  # noqa: S101 - for the type checker; it was asked for
        with child.stdout as said:
            if any(line == f"{UP}\n".encode() for line in said):
                return
        status = child.wait()
        complaints.seek(0)
        ended = f"no shell within {PATIENCE:g} s" if status == -SIGKILL else f"ssh ended with status {status}"
        raise HarnessBroken(
            f"{self.name} cannot be reached by ssh",
            details="\n".join(filter(None, (complaints.read().decode(errors="replace").strip()[-2000:], ended))),
            resolution=f"it is asked nothing here (BatchMode): make `ssh {self.name}` work without a question first",
        )


def private_folder() -> Path:
    """Where sockets are: ours alone, and short, as the name of a socket has to be."""
    above = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(above, "matrix") if above and Path(above).is_dir() else Path(f"/tmp/matrix-{os.geteuid()}")  # noqa: S108
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise HarnessBroken(
            f"{folder} is not a folder of ours alone",
            resolution="a connection that others may use is none: look who made it, and take it away",
        )
    for left in folder.iterdir():
        with suppress(FileNotFoundError):  # whoever had it, or looked at it beside us, took it away
            # One that was made just now may not be listened at yet.
            if time.time() - left.lstat().st_mtime > PATIENCE and not _answers(left):
                left.unlink()
    return folder


def _answers(path: Path) -> bool:
    """Whether anybody listens at a socket still."""
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return path.is_socket()
    return True
