"""Recovery of disks after a kill, by the own scripts of the run, if no other user could have written them."""

import errno
import grp
import os
import pwd
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from shlex import join, quote

from matrix_runner.base.errors import HarnessBroken, MatrixError
from matrix_runner.hosts.disk_ledger import LeaseRecord, clear_controller, count_written, delete_record, lease_records
from matrix_runner.hosts.exclusive import DisksRefused, acquire_disks
from matrix_runner.hosts.inventory import Census, Node
from matrix_runner.hosts.lease import return_disk
from matrix_runner.hosts.operations import LOCAL, DiskOperations, Lock
from matrix_runner.hosts.reasons import OwnMarks
from matrix_runner.hosts.vfio import POLL, RELEASE_TIMEOUT, return_to_driver, wait_for_disk
from matrix_runner.language.hosts import DeclaredDisk
from matrix_runner.layers.partition import partition_path
from matrix_runner.records.files import STANDING, locked

PATIENCE = 900.0
#: Runs a script for a virtual machine, which is its input, in a mount namespace: $1 pairs of a link and its target.
#: Folders that belong to other runs on the host (mounts, saved tunables) are empty there; no change is visible outside.
NAMESPACE_SCRIPT = Path(__file__).with_name("namespace.sh").read_text(encoding="utf-8")
ONLY_LABELLED = (
    "only its label names the run, and another machine or a container may use it; "
    "if none does: matrix clean --labelled {disk}"
)


@dataclass(frozen=True, slots=True)
class Leftover:
    disk: str
    run: str
    refusal: str = ""  # why it was left as it is; empty if it was released
    scripts: int = 0


def unreturned_disks(census: Census, records: Sequence[LeaseRecord], reach: str = "local") -> tuple[LeaseRecord, ...]:
    known = {one.identity for one in records}
    labelled = (
        LeaseRecord(
            disk=_stable_name(census, node),
            identity=node.identity,
            reach=reach,
            size=node.size,
            run=node.label.run,
            folder="",
            since="",
        )
        for node in census.disks
        if node.label and node.label.state == "held" and node.label.serial == (node.wwn or node.serial)
        if node.identity not in known
    )
    return (*records, *labelled)


def clean(
    state: Path,
    ask: Callable[[], Census],
    operations: DiskOperations = LOCAL,
    *,
    reach: str = "local",
    only: str | None = None,
    labelled: Collection[str] = (),
    counted: tuple[str, date] | None = None,
) -> Iterator[Leftover]:
    """Release disks of one host that no active run uses; `only`: those of this run.

    `counted`: the boot of the host, and the night to which uncounted writes belong.

    A disk with only a label may be in use by another machine that has the disk too, or by a container with its own
    locks: it is left unless `labelled` names it.
    """
    host = _Host(state, ask, operations)
    asked = [one for one in lease_records(state, reach) if only in {None, one.run}]
    stuck = host.return_controllers(asked, mine=only, boot=counted[0] if counted else "")
    records, census = lease_records(state, reach), ask()
    for one in unreturned_disks(census, records, reach):
        if only not in {None, one.run}:
            continue
        if one.identity in stuck:
            yield Leftover(one.disk, one.run, stuck[one.identity])
            continue
        if one in records and counted and is_idle(one, operations):
            there = {node.identity: node.written for node in census.disks if node.identity == one.identity}
            count_written(state, one.run, there, *counted)
        if one in records or one.disk in labelled:
            yield host.clean(one)
        else:
            yield Leftover(one.disk, one.run, ONLY_LABELLED.format(disk=one.disk))


def is_idle(one: LeaseRecord, operations: DiskOperations = LOCAL) -> bool:
    lock, _ = operations.lock(one.identity, one.run)
    if lock is not None:
        lock.close()
    return lock is not None


@contextmanager
def _block_run(one: LeaseRecord) -> Iterator[bool]:
    """Yield whether the run is over, and keep it from starting. A run whose folder is not here counts as active."""
    with ExitStack() as stack:
        over = any((Path(one.folder) / name).is_file() for name in ("manifest.json", "id"))  # of a run, of a pool
        try:
            if over:
                stack.enter_context(locked(Path(one.folder)))
        except MatrixError:
            over = False
        yield over


@dataclass(frozen=True, slots=True)
class _Host:
    """A host: the state folder with the records of its disks, its disks now, and what can be done with them."""

    state: Path
    ask: Callable[[], Census]
    operations: DiskOperations

    def return_controllers(self, records: Sequence[LeaseRecord], *, mine: str | None, boot: str) -> dict[str, str]:
        """Return controllers to their drivers, and why that failed. After a reboot the host has them already."""
        stuck = {}
        for one in records:
            if not one.controller or one.boot != boot:
                continue
            lock, holder = self._wait_for_lock(one, over=one.run == mine)
            if lock is None:
                stuck[one.identity] = f"it is in use by {holder}"
                continue
            try:
                if return_to_driver(one.controller):
                    wait_for_disk(one.identity, one.disk, one.controller, self.ask)
                clear_controller(self.state, one.identity)
            except HarnessBroken as error:
                stuck[one.identity] = error.brief
            finally:
                lock.close()
        return stuck

    def _wait_for_lock(self, one: LeaseRecord, *, over: bool) -> tuple[Lock | None, str]:
        """Take the lock. A virtual machine that was killed with its run holds it until its memory is freed."""
        deadline = time.monotonic() + RELEASE_TIMEOUT
        lock, holder = self.operations.lock(one.identity, one.run)
        while lock is None and time.monotonic() < deadline:
            with _block_run(one) as is_over:
                if not (over or is_over):
                    break
            time.sleep(POLL)
            lock, holder = self.operations.lock(one.identity, one.run)
        return lock, holder

    def clean(self, one: LeaseRecord) -> Leftover:
        lock, holder = self.operations.lock(one.identity, one.run)
        if lock is None and one.folder:
            with _block_run(one) as over:
                if over:  # only its agent has the lock
                    self.operations.dismiss(one.run)
                    lock, holder = self.operations.lock(one.identity, one.run)
        if lock is None:
            return Leftover(one.disk, one.run, f"it is in use by {holder}")
        with closing(lock):
            if one.only_read:
                delete_record(self.state, one.identity, one.reach)
                return Leftover(one.disk, one.run)
            try:
                scripts = read_scripts(Path(one.folder, STANDING), trusted_users()) if one.folder else ()
            except UntrustedScript as error:  # they would run with our rights
                return Leftover(one.disk, one.run, str(error))
            namespace, troubles = self._namespace_command(one), []
            for script in scripts:  # it takes apart only what carries the mark of its array
                text = f"printf %s {quote(script.text)} | {join(namespace)}" if namespace else script.text
                if why := self.operations.run(text, PATIENCE):
                    troubles.append(f"{script.path}: {why}")
        return Leftover(one.disk, one.run, self._return(one, troubles), len(scripts))

    def _return(self, one: LeaseRecord, troubles: list[str]) -> str:
        census = self.ask()
        node = next((node for node in census.disks if node.identity == one.identity and node.size == one.size), None)
        if node is None:
            return "the disk is not present; `matrix clean` releases it once it is"
        declared = DeclaredDisk(_stable_name(census, node), node.size, node.serial, node.wwn)
        mine = OwnMarks(one.run, frozenset(one.marks), frozenset({one.identity}))
        try:
            with acquire_disks([declared], self.ask, ours=mine, operations=self.operations) as (disk,):
                refusals = return_disk(disk, mine, census, self.ask)
                if not refusals:
                    delete_record(self.state, one.identity, one.reach)
                    return ""
        except DisksRefused as refused:
            refusals = refused.refusals
        except HarnessBroken as error:  # a dead disk must not block the others
            return error.brief
        return f"its teardown scripts left something on it: {'; '.join([*map(str, refusals), *troubles])}"

    def _namespace_command(self, one: LeaseRecord) -> list[str]:
        if not one.inside:
            return []
        census = self.ask()
        known = {node.identity: node for node in census.disks}
        mine = [other for other in lease_records(self.state) if other.run == one.run and other.inside]
        free = [other for other in mine if other.identity == one.identity or is_idle(other, self.operations)]
        there = [(other.inside, known[other.identity]) for other in free if other.identity in known]
        parts = [(partition_path(at, part.number), part) for at, disk in there for part in census.parts_of(disk)]
        names = [word for inside, node in (*there, *parts) for word in (inside, node.path)]
        return ["unshare", "--mount", "--", "bash", "-c", NAMESPACE_SCRIPT, "room", str(len(names) // 2), *names]


def _stable_name(census: Census, node: Node) -> str:
    return next(iter(census.names_of(node)), node.name)


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
        with ExitStack() as opened:
            walk = _Walk(opened, trusted, folder.absolute())
            while walk.ahead:
                walk.step()
            descriptor = walk.opened(".", READ | os.O_DIRECTORY)
            names = sorted(name for name in os.listdir(descriptor) if name.endswith(".sh"))  # noqa: PTH208 - by its descriptor
            return tuple(_read_script(descriptor, folder / name, trusted) for name in names)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise UntrustedScript(f"{folder} cannot be looked at ({error.strerror}), so nothing in it is run") from None


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
        return bool(os.getxattr(f"/proc/self/fd/{opened}", "system.posix_acl_access"))  # the descriptor may be O_PATH
    except OSError as error:
        return error.errno not in {errno.ENODATA, errno.ENOTSUP}


def _is_private(group: int, trusted: Collection[int]) -> bool:
    """A user's own group. Membership of other groups cannot be known: directories do not list all members."""
    try:
        found = grp.getgrgid(group)
        user = pwd.getpwnam(found.gr_name)
    except KeyError:
        return False
    others = {one.pw_name for one in pwd.getpwall() if one.pw_gid == group} | {*found.gr_mem}
    return user.pw_gid == group and user.pw_uid in trusted and others <= {user.pw_name}
