"""Locked and exclusively opened disks, checked again once they are: a disk may change between check and opening."""

from __future__ import annotations

import errno
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.base.errors import BadInput
from runner.hosts.checks import DiskCheck, check_disks
from runner.hosts.operations import LOCAL, OPEN_PAUSE, OPEN_TRIES
from runner.hosts.reasons import NO_MARKS, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.hosts.inventory import Census, Node
    from runner.hosts.operations import DiskOperations, Lock, OpenDisk
    from runner.hosts.reasons import OwnMarks
    from runner.language.hosts import DeclaredDisk


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
    #: Opened for reading, exclusively; None while it is released.
    exclusive: OpenDisk | None = None
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
        try:
            self.exclusive = _open_exclusively(self.node, self.operations)
            return tuple(_identity_changes(self.node, self.exclusive))
        except OSError as error:
            return (_open_refusal(self.node, error, self.operations),)

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
    lock, holder = operations.lock(one.node.identity, "")
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


def _open_exclusively(node: Node, operations: DiskOperations) -> OpenDisk:
    """Open for reading. Retry: after every change, programs of udev open a disk exclusively for a moment."""
    for left in reversed(range(OPEN_TRIES)):
        try:
            return operations.open(node)
        except OSError as error:
            if error.errno != errno.EBUSY or not left:
                raise
            time.sleep(OPEN_PAUSE)
    raise AssertionError("unreachable")


def _open_refusal(node: Node, error: OSError, operations: DiskOperations) -> Refusal:
    if error.errno == errno.EBUSY:
        return Refusal(
            Reason.BUSY, f"{node.path} is opened exclusively by {operations.find_users(node.dev) or 'the kernel'}"
        )
    why = Reason.CHANGED if error.errno in {errno.ENOENT, errno.ENXIO, errno.ENODEV} else Reason.UNREADABLE
    return Refusal(why, f"{node.path} cannot be opened: {error.strerror}")


def _identity_changes(node: Node, opened: OpenDisk) -> Iterator[Refusal]:
    """Compare the open device with the checked one. Names and numbers are reused, the sequence number never is."""
    found, expected = opened.identify(), {"number": node.dev, "size": str(node.size)}
    if node.sequence:
        expected["sequence"] = node.sequence
    for what, value in expected.items():
        if found.get(what) != value:
            now = found.get(what) or "none"
            yield Refusal(Reason.CHANGED, f"{node.path} had the {what} {value} when it was checked, now {now}")


def _compare_checks(before: DiskCheck, after: DiskCheck) -> DiskCheck:
    """Return the second check, with a refusal if anything changed since the first."""
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
