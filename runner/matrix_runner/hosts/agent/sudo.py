"""Root access on this host for other users: the disk agent, started by sudo."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from shlex import quote
from typing import ClassVar

from matrix_runner.base import process
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts.agent import PYTHON_CHECK
from matrix_runner.hosts.agent.client import PROGRAM
from matrix_runner.hosts.agent.connection import Connection

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
