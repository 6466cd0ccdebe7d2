"""Disks that are ours alone while we use them: locked, opened exclusively, and looked at a second time once they are.

What was judged may have changed before it was opened. So nothing is written before the opened device has been asked
what it is, and everything about it judged again: from then on nobody who asks the kernel for it gets it.
The kernel takes locks and descriptors back from whoever is killed.
"""

from __future__ import annotations

import errno
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.base.errors import BadInput
from runner.hosts.checks import Judged, judged_all
from runner.hosts.local_operations import GLANCE, GLANCES, HERE
from runner.hosts.own_work import NOTHING
from runner.hosts.reasons import ADVICE, Refused, Why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runner.hosts.inventory import Census, Node
    from runner.hosts.operations import Hands, Lock, Opened
    from runner.hosts.own_work import Ours
    from runner.language.hosts import DeclaredDisk


class DisksRefused(BadInput):
    """At least one of the disks is not used; nothing was written on any."""

    def __init__(self, judged: Sequence[Judged]) -> None:
        self.judged = tuple(judged)
        self.refusals = tuple(refused for one in judged for refused in one.refusals)
        refused = [one for one in judged if one.refusals]
        of = f"{len(judged)} disk{'s' if len(judged) != 1 else ''}"
        super().__init__(
            f"{len(refused)} of {of} cannot be used; nothing was written",
            details="\n".join(f"  {one.claim.id}: {why}" for one in refused for why in one.refusals),
            resolution="; ".join(dict.fromkeys(ADVICE[why.why] for why in self.refusals)),
        )


@dataclass
class Held:
    """A disk that is ours alone."""

    claim: DeclaredDisk
    node: Node
    hands: Hands
    lock: Lock
    #: Opened for reading, exclusively; None once it was let go.
    exclusive: Opened | None = None
    #: Its partitions, as the kernel knew them when it was judged.
    parts: tuple[Node, ...] = ()
    #: The PCI address of its controller, if that goes with it.
    controller: str = ""

    def let_go(self) -> None:
        """Let the kernel's own drivers and mkfs have it, which want it exclusively themselves; the lock stays."""
        if self.exclusive is not None:
            self.exclusive.close()
            self.exclusive = None

    def take_again(self) -> None:
        """Have it exclusively once more, once nothing stands on it any more; DisksRefused if something does."""
        if self.exclusive is not None:
            return
        try:
            self.exclusive = _opened(self.node, self.hands)
            changes = tuple(_another(self.node, self.exclusive))
        except OSError as error:
            changes = (_not_opened(self.node, error, self.hands),)
        if changes:
            self.let_go()
            raise DisksRefused([Judged(self.claim, self.node, changes)])

    @property
    def alone(self) -> Opened:
        """What may be written."""
        if self.exclusive is None:
            raise ValueError(f"{self.claim.id} was let go: who knows who has it now")
        return self.exclusive


@contextmanager
def held(
    claims: Sequence[DeclaredDisk],
    ask: Callable[[], Census],
    *,
    ours: Ours = NOTHING,
    purpose: str | None = None,
    hands: Hands = HERE,
) -> Iterator[tuple[Held, ...]]:
    """Have these disks, all of them, or raise DisksRefused with everything that speaks against any. Writes on none."""
    census = ask()
    first = _unless_refused(judged_all(census, tuple(claims), ours, purpose))
    with ExitStack() as stack:
        taken = [_taken(one, census, hands, stack, ours.run) for one in first]
        _unless_refused([Judged(one.claim, one.node, why) for one, (_, why) in zip(first, taken, strict=True)])
        second = judged_all(ask(), tuple(claims), ours, purpose)
        _unless_refused([_unchanged(*pair) for pair in zip(first, second, strict=True)])
        yield tuple(have for have, _ in taken if have)


def seen_at_work(one: Judged, hands: Hands) -> Judged:
    """What was handed to a run that is still at work is used by it, and all that stands on it is that run's."""
    if one.node is None or all(refused.why is not Why.LEFT_OVER for refused in one.refusals):
        return one
    lock, holder = hands.lock(one.node.identity, "")
    if lock is not None:
        lock.close()
        return one
    return replace(one, refusals=(Refused(Why.LOCKED, f"{one.node.path} is used by {holder}"),))


def _unless_refused(judged: Sequence[Judged]) -> Sequence[Judged]:
    if any(one.refusals for one in judged):
        raise DisksRefused(judged)
    return judged


def _taken(
    one: Judged, census: Census, hands: Hands, stack: ExitStack, run: str
) -> tuple[Held | None, tuple[Refused, ...]]:
    """Locked, and opened as what was judged; or why not."""
    node = one.node
    if node is None:
        raise ValueError(f"{one.claim.id} was not found, and is to be opened")
    lock, holder = hands.lock(node.identity, run)
    if lock is None:
        return None, (Refused(Why.LOCKED, f"{node.path} is used by {holder}"),)
    stack.callback(lock.close)
    have = Held(one.claim, node, hands, lock, parts=census.parts_of(node))
    stack.callback(have.let_go)
    try:
        have.exclusive = _opened(node, hands)
        changes = tuple(_another(node, have.exclusive))
    except OSError as error:
        return None, (_not_opened(node, error, hands),)
    return have, (*changes, *_written_by_others((node, *have.parts), hands))


def _opened(node: Node, hands: Hands) -> Opened:
    """For reading, and alone. After every change udev's programs look at a disk, alone too, but only for a moment."""
    for left in reversed(range(GLANCES)):
        try:
            return hands.open(node)
        except OSError as error:
            if error.errno != errno.EBUSY or not left:
                raise
            time.sleep(GLANCE)
    raise AssertionError("unreachable")


def _not_opened(node: Node, error: OSError, hands: Hands) -> Refused:
    if error.errno == errno.EBUSY:
        return Refused(Why.BUSY, f"{node.path} is held exclusively by {hands.who_has(node.dev) or 'the kernel'}")
    why = Why.CHANGED if error.errno in {errno.ENOENT, errno.ENXIO, errno.ENODEV} else Why.UNREADABLE
    return Refused(why, f"{node.path} cannot be opened: {error.strerror}")


def _another(node: Node, opened: Opened) -> Iterator[Refused]:
    """Is what was opened what was judged? Numbers and names are given anew; the sequence never is."""
    found, meant = opened.seen(), {"number": node.dev, "size": str(node.size)}
    if node.sequence:
        meant["sequence"] = node.sequence
    for what, value in meant.items():
        if found.get(what) != value:
            now = found.get(what, "none")
            yield Refused(Why.CHANGED, f"{node.path} had the {what} {value} when it was judged, now {now}")


def _written_by_others(nodes: Iterable[Node], hands: Hands) -> Iterator[Refused]:
    """Not everybody who writes on a disk, or a part of it, asks to be alone with it: virtual machines do not."""
    for node in nodes:
        if writers := hands.who_has(node.dev, writing=True):
            yield Refused(Why.BUSY, f"{node.path} is open for writing by {writers}")


def _unchanged(before: Judged, after: Judged) -> Judged:
    """What is judged again is the device that was opened, or it is refused."""
    was, now, name = before.node, after.node, before.claim.id
    if was is None or now is None:
        return Judged(before.claim, was, (Refused(Why.CHANGED, f"{name} leads to nothing any more"), *after.refusals))
    if was.dev != now.dev:
        moved = f"{name} led to {was.path} ({was.dev}), and now leads to {now.path} ({now.dev})"
        return Judged(before.claim, was, (Refused(Why.CHANGED, moved), *after.refusals))
    if after.refusals:
        return Judged(before.claim, was, (Refused(Why.CHANGED, f"{name} was free a moment ago"), *after.refusals))
    return after
