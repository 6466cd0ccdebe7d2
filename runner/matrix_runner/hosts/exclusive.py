"""Leased disks: locked, opened exclusively and checked again, and the only writes on them: wiping and labelling."""

import errno
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join, quote
from typing import TypeVar

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.hosts import LABEL_BLOCK, LABEL_BYTES, SECTOR, inventory
from matrix_runner.hosts.checks import DiskCheck, check_disks
from matrix_runner.hosts.inventory import Census, Label, Node, Signature, State
from matrix_runner.hosts.operations import LOCAL, OPEN_PAUSE, OPEN_TRIES, DiskOperations, Lock, OpenDisk
from matrix_runner.hosts.reasons import NO_MARKS, OwnMarks, Reason, Refusal, is_marked
from matrix_runner.language.hosts import DeclaredDisk

T = TypeVar("T")


class DisksRefused(BadInput):
    """At least one disk is refused; no disk was written."""

    def __init__(self, checks: Sequence[DiskCheck]) -> None:
        self.checks = tuple(checks)
        self.refusals = tuple(refused for one in checks for refused in one.refusals)
        refused = [one for one in checks if one.refusals]
        of = f"{len(checks)} disk{'s' if len(checks) != 1 else ''}"
        super().__init__(
            f"{len(refused)} of {of} cannot be used; nothing was written",
            details="\n".join(f"  {one.declared.id}: {why}" for one in refused for why in one.refusals),
            resolution="; ".join(dict.fromkeys(why.reason.advice for why in self.refusals)),
        )


@dataclass
class LeasedDisk:
    declared: DeclaredDisk
    node: Node
    operations: DiskOperations
    lock: Lock
    exclusive: OpenDisk | None = None  # opened for reading, exclusively; None while it is released
    parts: tuple[Node, ...] = ()
    controller: str = ""

    def release(self) -> None:
        """Close the device, so that kernel drivers and mkfs can open it exclusively; the lock stays."""
        if self.exclusive is not None:
            self.exclusive.close()
            self.exclusive = None

    def reacquire(self) -> None:
        if self.exclusive is None and (refusals := self.try_open()):
            self.release()
            raise DisksRefused([DiskCheck(self.declared, self.node, refusals)])

    def try_open(self) -> tuple[Refusal, ...]:
        node, found = self.node, dict[str, str]()
        try:
            self.exclusive = _retry_while_busy(lambda: self.operations.open(node))
            found = dict(self.exclusive.identify())
        except OSError as error:
            if error.errno == errno.EBUSY:
                users = self.operations.find_users(node.dev) or "the kernel"
                return (Refusal(Reason.BUSY, f"{node.path} is opened exclusively by {users}"),)
            why = Reason.CHANGED if error.errno in {errno.ENOENT, errno.ENXIO, errno.ENODEV} else Reason.UNREADABLE
            return (Refusal(why, f"{node.path} cannot be opened: {error.strerror}"),)
        # Names and numbers are reused, the sequence number never is.
        expected = {"number": node.dev, "size": str(node.size), "sequence": node.sequence or found.get("sequence", "")}
        return tuple(
            Refusal(
                Reason.CHANGED,
                f"{node.path} had the {what} {value} when it was checked, now {found.get(what) or 'none'}",
            )
            for what, value in expected.items()
            if found.get(what, "") != value
        )

    @property
    def opened(self) -> OpenDisk:
        if self.exclusive is None:
            raise ValueError(f"{self.declared.id} is released: another process may use it")
        return self.exclusive


@contextmanager
def acquire_disks(
    declarations: Sequence[DeclaredDisk],
    ask: Callable[[], Census],
    *,
    ours: OwnMarks = NO_MARKS,
    purpose: str | None = None,
    operations: DiskOperations = LOCAL,
) -> Iterator[tuple[LeasedDisk, ...]]:
    """Lock and open all of these disks, or raise DisksRefused with every refusal. Writes on none."""
    census = ask()
    first = raise_if_refused(check_disks(census, tuple(declarations), ours, purpose))
    with ExitStack() as stack:
        taken = [_acquire(one, census, operations, stack, ours.run) for one in first]
        raise_if_refused([DiskCheck(one.declared, one.node, why) for one, (_, why) in zip(first, taken, strict=True)])
        second = check_disks(ask(), tuple(declarations), ours, purpose)
        raise_if_refused([_compare_checks(*pair) for pair in zip(first, second, strict=True)])
        yield tuple(disk for disk, _ in taken if disk)


def report_active_run(one: DiskCheck, operations: DiskOperations) -> DiskCheck:
    """Replace the refusals of a disk that an active run uses: all that is on it belongs to that run."""
    if one.node is None or all(refused.reason is not Reason.LEFT_OVER for refused in one.refusals):
        return one
    try:
        lock, holder = operations.lock(one.node.identity, "")
    except HarnessBroken:  # who may not lock disks cannot see who did
        return one
    if lock is not None:
        lock.close()
        return one
    return replace(one, refusals=(Refusal(Reason.LOCKED, f"{one.node.path} is used by {holder}"),))


def raise_if_refused(checks: Sequence[DiskCheck]) -> Sequence[DiskCheck]:
    if any(one.refusals for one in checks):
        raise DisksRefused(checks)
    return checks


def _acquire(
    one: DiskCheck, census: Census, operations: DiskOperations, stack: ExitStack, run: str
) -> tuple[LeasedDisk | None, tuple[Refusal, ...]]:
    node = one.node
    if node is None:
        raise ValueError(f"{one.declared.id} was not found, and is to be opened")
    lock, holder = operations.lock(node.identity, run)
    if lock is None:
        return None, (Refusal(Reason.LOCKED, f"{node.path} is used by {holder}"),)
    stack.callback(lock.close)
    disk = LeasedDisk(one.declared, node, operations, lock, parts=census.parts_of(node))
    stack.callback(disk.release)
    refusals = disk.try_open()
    if disk.exclusive is None:
        return None, refusals
    # Virtual machines write to a disk or partition without an exclusive open.
    writers = ((one.path, operations.find_users(one.dev, writing=True)) for one in (node, *disk.parts))
    busy = (Refusal(Reason.BUSY, f"{path} is open for writing by {users}") for path, users in writers if users)
    return disk, (*refusals, *busy)


def _retry_while_busy(action: Callable[[], T]) -> T:
    """Retry: after every change, programs of udev open a disk and its partitions for a moment."""
    for left in reversed(range(OPEN_TRIES)):
        try:
            return action()
        except OSError as error:
            if error.errno != errno.EBUSY or not left:
                raise
            time.sleep(OPEN_PAUSE)
    raise AssertionError("unreachable")


def _compare_checks(before: DiskCheck, after: DiskCheck) -> DiskCheck:
    was, now, name = before.node, after.node, before.declared.id
    if was is None or now is None:
        change = f"{name} no longer exists"
    elif was.dev != now.dev:
        change = f"{name} led to {was.path} ({was.dev}), and now leads to {now.path} ({now.dev})"
    elif after.refusals:
        change = f"{name} was free at the first check"
    else:
        return after
    return replace(before, refusals=(Refusal(Reason.CHANGED, change), *after.refusals))


PATIENCE = 60.0
#: Partitions first: without the table they cannot be found. Partitions that were only added by hand (addpart) are
#: forgotten when the table is reread, so they are added again, unless the table now has others.
WIPE = Path(__file__).with_name("wipe.sh").read_text(encoding="utf-8")


def label_of(disk: LeasedDisk, run: str, state: State) -> Label:
    return Label(run, disk.declared.id, disk.node.wwn or disk.node.serial, state)


def require_closed_partitions(disks: Iterable[LeasedDisk]) -> None:
    """Raise DisksRefused if a partition is open, even by a hidden process: the kernel rereads tables only then."""
    raise_if_refused([DiskCheck(one.declared, one.node, tuple(_open_partitions(one))) for one in disks])


def _open_partitions(disk: LeasedDisk) -> Iterator[Refusal]:
    if not (disk.node.signatures or disk.parts):
        return
    try:
        _reread_partitions(disk, disk.opened)
    except OSError as error:
        if error.errno == errno.EBUSY:
            users = filter(None, (disk.operations.find_users(part.dev) for part in disk.parts))
            who = ", ".join(users) or "a process that is not visible"
            yield Refusal(Reason.BUSY, f"a partition of {disk.node.path} is open by {who}")
        else:
            why = f"{disk.node.path}: its partitions cannot be reread: {error.strerror}"
            yield Refusal(Reason.UNREADABLE, why)


def prepare_disk(disk: LeasedDisk, run: str) -> None:
    block = _label_block(disk, run, "held")
    if disk.node.signatures:
        _wipe(disk)
    _write_label(disk, block)


def give_back(disk: LeasedDisk, run: str) -> None:
    """Label the disk as free, so that the next run may use it with the data that fio left there."""
    _write_label(disk, _label_block(disk, run, "free"))


def wipe_marked(disk: LeasedDisk, found: Iterable[Signature], ours: OwnMarks) -> None:
    opened, mine = disk.opened, [one for one in found if one.offset and is_marked(one, ours)]
    for one in mine:
        words = f"wipefs --force --quiet --offset={quote(one.offset)} -- {quote(disk.node.path)}"
        _run_wipe(disk, f"PATH=$PATH:/usr/sbin:/sbin {words}", f"{one} on {disk.node.path}")
    if mine:
        with _name_disk_on_error(disk):
            _reread_partitions(disk, opened)


def _wipe(disk: LeasedDisk) -> None:
    """Wipe every signature on the disk and its partitions. It needs --force, as we have the disk open exclusively."""
    require_closed_partitions([disk])
    opened = disk.opened
    parts = [word for one in disk.parts for word in (one.name, one.number, one.start // SECTOR, one.size // SECTOR)]
    script = f"name={quote(disk.node.name)}\nset -- {join(map(str, parts))}\n{WIPE}"
    _run_wipe(disk, script, f"the content of {disk.node.path}")
    with _name_disk_on_error(disk):
        _reread_partitions(disk, opened)


def _run_wipe(disk: LeasedDisk, script: str, what: str) -> None:
    if trouble := disk.operations.run(script, PATIENCE):
        raise HarnessBroken(
            f"{what} could not be wiped",
            details=trouble,
            resolution=f"`matrix disks` shows the state of {disk.declared.id}",
        )


def _reread_partitions(disk: LeasedDisk, opened: OpenDisk) -> None:
    try:
        _retry_while_busy(opened.reread_partitions)
    except OSError as error:
        # Only root may reread; without partitions there is no need to.
        if error.errno not in {errno.EACCES, errno.EPERM} or disk.parts:
            raise


def _label_block(disk: LeasedDisk, run: str, state: State) -> bytes:
    try:
        return inventory.encode_label(label_of(disk, run, state))
    except ValueError as error:
        raise HarnessBroken(f"{disk.declared.id} ({disk.node.path}) cannot be labelled", details=str(error)) from None


def _write_label(disk: LeasedDisk, block: bytes) -> None:
    with _name_disk_on_error(disk):
        disk.opened.write(block, LABEL_BLOCK * LABEL_BYTES)


@contextmanager
def _name_disk_on_error(disk: LeasedDisk) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HarnessBroken(
            f"{disk.declared.id} ({disk.node.path}) cannot be written: {error.strerror}",
            resolution="`dmesg` of its host shows more; `matrix disks` shows its state now",
        ) from error
