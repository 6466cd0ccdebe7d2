"""Root's rights on this very host, for whoever is not root but may run one program of root's by sudo.

It is the program that holds disks and runs scripts on hosts behind ssh, so all that such a host is good for this one
is, too; sessions are sudo's instead of ssh's. What it runs are scripts of ours, as root: whoever may start it can do
what root can. What is won is that nothing else of a matrix is root's, neither this process nor what it writes.
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
from runner.hosts.agent.client import PROGRAM
from runner.hosts.agent.connection import Line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

INSTALLED = Path("/usr/local/libexec/matrix-holder")
#: It asks nobody for a password; nor does it go by one that somebody gave a moment ago, as that is soon forgotten.
SUDO = ("sudo", "-n", "-k", "--")


class SudoLine(Line):
    """There is no connection that could drop, or has to be made."""

    script: ClassVar[tuple[str, ...]] = (str(INSTALLED), "ask")
    installed: ClassVar[tuple[str, ...]] = (str(INSTALLED),)

    @property
    def place(self) -> str:
        """The host itself."""
        return "local"

    @property
    def whose(self) -> str:
        """As sudo's log tells of it."""
        return f"by sudo of {user()}"

    @property
    def is_up(self) -> bool:
        """Always."""
        return True

    def _session(self, argv: Sequence[str]) -> list[str]:
        return process.between([*SUDO, *argv])

    def _dropped(self) -> bool:
        return False


_LINE = SudoLine("this host")


def installed() -> bool:
    """Whether the program is there, as far as one may look."""
    with suppress(OSError):
        return INSTALLED.exists()
    return False


def by_sudo() -> Line:
    """What leads there; raises HarnessBroken with what is in the way and what to do about it."""
    if trouble := _trouble():
        raise trouble
    return _LINE


@cache
def _trouble() -> HarnessBroken | None:
    """Looked for once, as sudo tells the administrator of whoever asks in vain."""
    if shutil.which("sudo") is None:
        return HarnessBroken(
            f"there is no sudo that could let {user()} do what root does", resolution="apt install sudo"
        )
    try:
        check(INSTALLED, PROGRAM.read_bytes())
        _allowed()
    except HarnessBroken as error:
        return error
    return None


def _allowed() -> None:
    tried = _LINE.told(":")
    if tried.returncode:
        said = tried.stderr.strip()[-2000:] or f"status {tried.returncode}"
        raise HarnessBroken(
            f"sudo does not let {user()} run {INSTALLED} without a question: {said}", resolution=allowing()
        )


def check(program: Path, text: bytes) -> None:
    """Refuse to have something run as root that somebody else could have put there, or that is not what we would."""
    try:
        found = program.read_bytes()
        theirs = [one for one in _way(program) if _others_write(one.lstat())]
    except OSError as error:
        raise HarnessBroken(
            f"the program that sudo could run for {user()} cannot be used: {program}: {error.strerror}",
            resolution=f"{installing(program)} && {allowing()}",
        ) from None
    if theirs:
        raise HarnessBroken(
            f"{theirs[0]} can be written by others than root, so what sudo runs may be theirs",
            resolution=f"look who did; then sudo chown -h root {theirs[0]} && sudo chmod go-w {theirs[0]} && "
            f"{installing(program)}",
        )
    if found != text:
        raise HarnessBroken(f"{program} is not the one of this version of matrix", resolution=installing(program))


def installing(program: Path) -> str:
    """The command that does."""
    return f"sudo install -D -o root -g root -m 755 {quote(str(PROGRAM))} {program}"


def rule() -> str:
    """The line of sudoers that gives its user the rights of root, as that is what it comes to."""
    return f"{_named()} ALL=(root) NOPASSWD: {INSTALLED}"


def allowing() -> str:
    """The command that puts it among others, as a file of this user's."""
    return f"echo '{rule()}' | sudo install -m 440 /dev/stdin /etc/sudoers.d/matrix-{os.geteuid()}"


def user() -> str:
    """Who asks."""
    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return f"the user {os.geteuid()}"


def _named() -> str:
    """As sudoers writes it: a name that could be read as anything else there by its number."""
    return user() if re.fullmatch(r"[a-z_][a-z0-9_.-]*", user()) else f"#{os.geteuid()}"


def _way(path: Path) -> Iterator[Path]:
    """All that leads to it, and by links to where it really is."""
    for one in (*reversed(path.parents), path):
        yield one
        if one.is_symlink():
            yield from _way(one.parent / one.readlink())


def _others_write(status: os.stat_result) -> bool:
    """In a sticky folder others can add, but not replace what is root's, as all that leads there has to be."""
    kept = stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)
    return bool(status.st_uid or (status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not kept))
