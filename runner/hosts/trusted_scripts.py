"""Scripts that nobody but us could have written, or put where they are: found, checked and read by descriptors.

Who may write to a folder may put another file in the place of any in it, whoever owns that one. So everything on the
way there is looked at, from the root on, and what was looked at is what is gone on from: nothing is looked up by its
path a second time.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: Links that are followed on one way, as many as the kernel would.
LINKS = 40
#: What is only passed through need not be readable.
PASSED = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
#: A pipe that somebody put there is not waited for.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Distrusted(Exception):
    """Somebody else could have written what would be run, or put it there; says who, where, and what helps."""


@dataclass(frozen=True, slots=True)
class Script:
    """One, as it was when it was checked."""

    path: Path
    text: str


def those_trusted() -> frozenset[int]:
    """Whose files may be run with our rights: root's, our own, and those of whoever owns the program that asks.

    The last could do whatever they like by changing this very file; it is them who say `sudo` in their own checkout.
    """
    return frozenset({0, os.geteuid(), Path(__file__).stat().st_uid})


def scripts_in(folder: Path, trusted: Collection[int]) -> tuple[Script, ...]:
    """All `*.sh` of a folder, in order, or none where there is none; Distrusted if any could be others'."""
    try:
        with _reached(folder, trusted) as there:
            names = sorted(name for name in os.listdir(there) if name.endswith(".sh"))  # noqa: PTH208 - by its descriptor
            return tuple(_read(there, folder / name, trusted) for name in names)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise Distrusted(f"{folder} cannot be looked at ({error.strerror}), so nothing in it is run") from None


@contextmanager
def _reached(folder: Path, trusted: Collection[int]) -> Iterator[int]:
    """A descriptor of it, by a way on which nobody else can turn a signpost."""
    with ExitStack() as opened:
        way = _Way(opened, trusted, folder.absolute())
        while way.ahead:
            way.step()
        yield way.opened(".", READ | os.O_DIRECTORY)


class _Way:
    """Where one is, by a descriptor, and what is still ahead, the next last."""

    def __init__(self, stack: ExitStack, trusted: Collection[int], folder: Path) -> None:
        self._stack, self._trusted, self._links = stack, trusted, 0
        self._at: int | None = None
        self._place = Path("/")
        self.ahead = [*reversed(folder.parts)]

    def opened(self, name: str, how: int = PASSED) -> int:
        """What has this name here."""
        found = os.open(name, how, dir_fd=self._at)
        self._stack.callback(os.close, found)
        return found

    def step(self) -> None:
        """Go on by one name, through a folder or by a link, if both are only for those to change who are trusted."""
        name = self.ahead.pop()
        found, place = self.opened(name), self._place / name
        status = os.fstat(found)
        if stat.S_ISLNK(status.st_mode):
            self._follow(place, status.st_uid, os.readlink("", dir_fd=found))
            return
        _unless_ours(found, place, self._trusted, passed=bool(self.ahead))
        self._at, self._place = found, place

    def _follow(self, link: Path, owner: int, target: str) -> None:
        """A link with the name `/` in it leads back to the root, as that is what opening this name does."""
        self._links += 1
        if owner not in self._trusted:
            raise Distrusted(f"{link} is a link that belongs to user {owner}, who could let it lead elsewhere")
        if self._links > LINKS:
            raise Distrusted(f"{link} leads in circles")
        self.ahead += reversed(Path(target).parts)


def _unless_ours(opened: int, place: Path, trusted: Collection[int], *, passed: bool) -> None:
    """In a sticky folder others cannot replace what is ours, as what comes next has to be; but they can add to it."""
    status = os.fstat(opened)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(place)
    if status.st_uid not in trusted:
        raise Distrusted(
            f"{place} belongs to user {status.st_uid}, who could put other scripts there; "
            "look at those that are there, and run them yourself"
        )
    if _others_write(opened, trusted) and not (passed and status.st_mode & stat.S_ISVTX):
        raise Distrusted(
            f"{place} can be written by others (its mode is {stat.S_IMODE(status.st_mode):04o}), who could put other "
            f"scripts there; once you have seen that they did not: chmod go-w {quote(str(place))}"
        )


def _read(folder: int, path: Path, trusted: Collection[int]) -> Script:
    with open(os.open(path.name, READ, dir_fd=folder), encoding="utf-8") as file:  # noqa: PTH123 - in its folder
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in trusted or _others_write(file.fileno(), trusted):
            raise Distrusted(f"{path} can be written by others, so it is not run; look at it and run it yourself")
        return Script(path, file.read())


def _others_write(opened: int, trusted: Collection[int]) -> bool:
    """By its mode, in which rights that a list gives to single others show as the group's."""
    status = os.fstat(opened)
    if status.st_mode & stat.S_IWGRP and not (_is_private(status.st_gid, trusted) and not _has_list(opened)):
        return True
    return bool(status.st_mode & stat.S_IWOTH)


def _has_list(opened: int) -> bool:
    """An access control list, asked for by a descriptor that may be one for passing through alone."""
    try:
        os.getxattr(f"/proc/self/fd/{opened}", "system.posix_acl_access")
    except OSError as error:
        return error.errno not in {errno.ENODATA, errno.ENOTSUP}
    return True


def _is_private(group: int, trusted: Collection[int]) -> bool:
    """A group of one, which has the name of its user: where those are usual, everything is made writable for it.

    Of other groups, nobody can be sure to have seen all who belong to them: directories do not list them.
    """
    try:
        found = grp.getgrgid(group)
        user = pwd.getpwnam(found.gr_name)
    except KeyError:
        return False
    others = {one.pw_name for one in pwd.getpwall() if one.pw_gid == group} | {*found.gr_mem}
    return user.pw_gid == group and user.pw_uid in trusted and others <= {user.pw_name}
