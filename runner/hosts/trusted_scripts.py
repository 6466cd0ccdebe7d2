"""Reading of scripts that no other user could have written, by a check of every component of their path."""

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

LINKS = 40
#: A folder on the path need not be readable.
PASSED = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
#: O_NONBLOCK: do not wait for a planted pipe.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UntrustedScript(Exception):
    """Another user could have written or replaced a script."""


@dataclass(frozen=True, slots=True)
class Script:
    path: Path
    text: str


def trusted_users() -> frozenset[int]:
    """Return users whose files may run with our rights. The owner of this program could change this very file."""
    return frozenset({0, os.geteuid(), Path(__file__).stat().st_uid})


def read_scripts(folder: Path, trusted: Collection[int]) -> tuple[Script, ...]:
    """Return all `*.sh` of a folder, sorted; raise UntrustedScript if others could change any."""
    try:
        with _open_folder(folder, trusted) as there:
            names = sorted(name for name in os.listdir(there) if name.endswith(".sh"))  # noqa: PTH208 - by its descriptor
            return tuple(_read_script(there, folder / name, trusted) for name in names)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise UntrustedScript(f"{folder} cannot be looked at ({error.strerror}), so nothing in it is run") from None


@contextmanager
def _open_folder(folder: Path, trusted: Collection[int]) -> Iterator[int]:
    with ExitStack() as opened:
        way = _Walk(opened, trusted, folder.absolute())
        while way.ahead:
            way.step()
        yield way.opened(".", READ | os.O_DIRECTORY)


class _Walk:
    """A walk along a path: the current folder by its descriptor, and the names ahead, the next one last."""

    def __init__(self, stack: ExitStack, trusted: Collection[int], folder: Path) -> None:
        self._stack, self._trusted, self._links = stack, trusted, 0
        self._at: int | None = None
        self._place = Path("/")
        self.ahead = [*reversed(folder.parts)]

    def opened(self, name: str, how: int = PASSED) -> int:
        found = os.open(name, how, dir_fd=self._at)
        self._stack.callback(os.close, found)
        return found

    def step(self) -> None:
        """Go to the next name, a folder or a link, if only trusted users can change it."""
        name = self.ahead.pop()
        found, place = self.opened(name), self._place / name
        status = os.fstat(found)
        if stat.S_ISLNK(status.st_mode):
            self._links += 1
            if status.st_uid not in self._trusted:
                raise UntrustedScript(
                    f"{place} is a link that belongs to user {status.st_uid}, who could let it lead elsewhere"
                )
            if self._links > LINKS:
                raise UntrustedScript(f"{place} leads in circles")
            self.ahead += reversed(Path(os.readlink("", dir_fd=found)).parts)
            return
        _check_folder(found, place, self._trusted, passed=bool(self.ahead))
        self._at, self._place = found, place


def _check_folder(opened: int, place: Path, trusted: Collection[int], *, passed: bool) -> None:
    """In a sticky folder others cannot replace our next component, but they can add files."""
    status = os.fstat(opened)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(place)
    if status.st_uid not in trusted:
        raise UntrustedScript(
            f"{place} belongs to user {status.st_uid}, who could put other scripts there; "
            "look at those that are there, and run them yourself"
        )
    if _others_write(opened, trusted) and not (passed and status.st_mode & stat.S_ISVTX):
        raise UntrustedScript(
            f"{place} can be written by others (its mode is {stat.S_IMODE(status.st_mode):04o}), who could put other "
            f"scripts there; once you have seen that they did not: chmod go-w {quote(str(place))}"
        )


def _read_script(folder: int, path: Path, trusted: Collection[int]) -> Script:
    with open(os.open(path.name, READ, dir_fd=folder), encoding="utf-8") as file:  # noqa: PTH123 - in its folder
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in trusted or _others_write(file.fileno(), trusted):
            raise UntrustedScript(f"{path} can be written by others, so it is not run; look at it and run it yourself")
        return Script(path, file.read())


def _others_write(opened: int, trusted: Collection[int]) -> bool:
    """Check the mode bits, in which rights by an access control list show as the group's."""
    status = os.fstat(opened)
    if status.st_mode & stat.S_IWGRP and not (_is_private(status.st_gid, trusted) and not _has_list(opened)):
        return True
    return bool(status.st_mode & stat.S_IWOTH)


def _has_list(opened: int) -> bool:
    try:
        os.getxattr(f"/proc/self/fd/{opened}", "system.posix_acl_access")  # the descriptor may be O_PATH
    except OSError as error:
        return error.errno not in {errno.ENODATA, errno.ENOTSUP}
    return True


def _is_private(group: int, trusted: Collection[int]) -> bool:
    """A user's own group. Membership of other groups cannot be known: directories do not list all members."""
    try:
        found = grp.getgrgid(group)
        user = pwd.getpwnam(found.gr_name)
    except KeyError:
        return False
    others = {one.pw_name for one in pwd.getpwall() if one.pw_gid == group} | {*found.gr_mem}
    return user.pw_gid == group and user.pw_uid in trusted and others <= {user.pw_name}
