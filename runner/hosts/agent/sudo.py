"""Root access on this host for other users: the disk agent, started by sudo.

The agent runs our scripts as root, so a user who may start it can do all that root can. The gain: this process
and the files that it writes are not root's.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, ClassVar

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.hosts.agent import PYTHON_CHECK
from runner.hosts.agent.client import PROGRAM
from runner.hosts.agent.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The program that the agent's first line names.
PYTHON = "/usr/bin/python3"
INSTALLED = Path("/usr/local/libexec/matrix-agent")
#: Never ask for a password, and ignore cached credentials, as they expire soon.
SUDO = ("sudo", "-n", "-k", "--")


class SudoConnection(Connection):
    """A connection that needs no set-up and cannot drop."""

    query_command: ClassVar[tuple[str, ...]] = (str(INSTALLED), "ask")
    agent_command: ClassVar[tuple[str, ...]] = (str(INSTALLED),)

    @property
    def target(self) -> str:
        return "local"

    @property
    def owner(self) -> str:
        """The name that lock files show; the same as in sudo's log."""
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
    """Return whether the agent's file is visible."""
    with suppress(OSError):
        return INSTALLED.exists()
    return False


def sudo_connection() -> Connection:
    """Return the connection; raise HarnessBroken with the obstacle and its remedy."""
    if trouble := _find_trouble():
        raise trouble
    return _CONNECTION


@cache
def _find_trouble() -> HarnessBroken | None:
    """Cached: sudo reports every refused attempt to the administrator."""
    if shutil.which("sudo") is None:
        return HarnessBroken(
            f"sudo is not installed, so {user_name()} cannot run the disk agent as root", resolution="apt install sudo"
        )
    try:
        _check_python()
        check_program(INSTALLED, PROGRAM.read_bytes())
        _check_allowed()
    except HarnessBroken as error:
        return error
    return None


def _check_python() -> None:
    if shutil.which(PYTHON) is None or process.run([PYTHON, "-I", "-c", PYTHON_CHECK]).returncode:
        raise HarnessBroken(
            f"{PYTHON} is missing or older than Python 3.9: it runs the disk agent", resolution="apt install python3"
        )


def _check_allowed() -> None:
    tried = _CONNECTION.query(":")
    if tried.returncode:
        said = tried.stderr.strip()[-2000:] or f"status {tried.returncode}"
        raise HarnessBroken(
            f"sudo does not let {user_name()} run {INSTALLED} without a password: {said}", resolution=allow_command()
        )


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
    return f"{_sudoers_name()} ALL=(root) NOPASSWD: {INSTALLED}"


def allow_command() -> str:
    """Return the shell command that installs the rule in a file for this user."""
    return f"echo '{sudoers_rule()}' | sudo install -m 440 /dev/stdin /etc/sudoers.d/matrix-{os.geteuid()}"


def user_name() -> str:
    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return f"the user {os.geteuid()}"


def _sudoers_name() -> str:
    """Return the user by name if sudoers cannot misread it, else by number."""
    return user_name() if re.fullmatch(r"[a-z_][a-z0-9_.-]*", user_name()) else f"#{os.geteuid()}"


def _path_components(path: Path) -> Iterator[Path]:
    """Yield all that leads to a path, symbolic links and their targets included."""
    for one in (*reversed(path.parents), path):
        yield one
        if one.is_symlink():
            yield from _path_components(one.parent / one.readlink())


def _others_write(status: os.stat_result) -> bool:
    """In a sticky folder others can add files, but cannot replace root's."""
    kept = stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)
    return bool(status.st_uid or (status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not kept))
