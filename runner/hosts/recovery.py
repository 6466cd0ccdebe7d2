"""What a run left on disks when it was killed: taken apart by its own scripts, and the disks given back. Nothing else.

What tells ours from theirs: the record of whom a disk was handed to, the label on it, and the UUIDs that the scripts of
the run look for. Where anything else is on a disk, or anything stands on it still, it is left and told.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING

from runner.base.errors import BadInput, HarnessBroken
from runner.hosts.disk_ledger import Handed, came_back, count, handed, strike_out
from runner.hosts.exclusive import DisksRefused, held
from runner.hosts.lease import returned
from runner.hosts.local_operations import HERE
from runner.hosts.own_work import Ours
from runner.hosts.trusted_scripts import Distrusted, scripts_in, those_trusted
from runner.hosts.vfio import LETS_GO, LOOK, bring_back, seen_again
from runner.language.hosts import DeclaredDisk
from runner.layers.partition import partition_path
from runner.results.run_folder import STANDING, load

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import date

    from runner.hosts.inventory import Census, Node
    from runner.hosts.operations import Hands, Lock
    from runner.hosts.trusted_scripts import Script

#: A tear-down may have to wait for arrays.
PATIENCE = 900.0
#: Runs a script that was made for a virtual machine, which is its input: $1 pairs of a name and what it is to lead to.
#: Places that are its own there and others' here (mounts, what knobs were) are empty; nothing of this is seen outside.
ROOM = """\
set -e
mount --make-rprivate /
export MATRIX_MEMORY=/run/matrix
for folder in /run/matrix /dev/disk/by-id; do
  mkdir -p "$folder"
  mount -t tmpfs none "$folder"
done
for ((pairs = $1; pairs > 0; pairs--)); do
  ln -s "$3" "$2"
  shift 2
done
exec bash -c 'eval "$(cat)"'
"""
ONLY_LABELLED = (
    "only its label says so, and another machine or a container may be at it; "
    "if none is: matrix clean --labelled {disk}"
)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A disk that a run had, and what became of it."""

    disk: str
    run: str
    #: Why it was left as it is; empty if it was given back.
    left: str = ""
    scripts: int = 0


def left_behind(census: Census, records: Sequence[Handed], reach: str = "local") -> tuple[Handed, ...]:
    """Every disk that is still with a run: by our records, and by labels of runs whose record is gone."""
    known = {one.identity for one in records}
    labelled = (
        Handed(
            disk=_name(census, node),
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
    hands: Hands = HERE,
    *,
    reach: str = "local",
    only: str | None = None,
    labelled: Collection[str] = (),
    counted: tuple[str, date] | None = None,
) -> Iterator[Leftover]:
    """Give back what no run is at any more on one host; `only`: of this run alone.

    `counted`: the boot of this machine, and the night to which goes what was written since it was last counted.

    What only a label tells of may be in use by another machine that has the disk too, or by a container with locks
    of its own: that is left unless somebody says that it is not (`labelled`, by name).
    """
    records = handed(state, reach)
    asked = [one for one in records if only in {None, one.run}]
    stuck = _controllers_back(asked, state, ask, hands, mine=only, boot=counted[0] if counted else "")
    records, census = handed(state, reach), ask()
    for one in left_behind(census, records, reach):
        if only not in {None, one.run}:
            continue
        if one.identity in stuck:
            yield Leftover(one.disk, one.run, stuck[one.identity])
            continue
        if one in records and counted and idle(one, hands):
            there = {node.identity: node.written for node in census.disks if node.identity == one.identity}
            count(state, one.run, there, *counted)
        if one in records or one.disk in labelled:
            yield _cleaned(one, state, ask, hands)
        else:
            yield Leftover(one.disk, one.run, ONLY_LABELLED.format(disk=one.disk))


def _controllers_back(
    records: Sequence[Handed],
    state: Path,
    ask: Callable[[], Census],
    hands: Hands,
    *,
    mine: str | None,
    boot: str,
) -> dict[str, str]:
    """Give controllers that killed runs had back to their drivers: which disks have to stay with them, and why.

    After a boot the host has them by itself, and whoever has one now is somebody else.
    """
    stuck = {}
    for one in records:
        if not one.controller or one.boot != boot:
            continue
        lock, holder = _lock_of_the_dying(one, hands, over=one.run == mine)
        if lock is None:
            stuck[one.identity] = f"it is in use by {holder}"
            continue
        try:
            if bring_back(one.controller):
                seen_again(one.identity, one.disk, one.controller, ask)
            came_back(state, one.identity)
        except HarnessBroken as error:
            stuck[one.identity] = error.brief
        finally:
            lock.close()
    return stuck


def _lock_of_the_dying(one: Handed, hands: Hands, *, over: bool) -> tuple[Lock | None, str]:
    """Its lock; a machine that was killed with its run holds it until all of its memory is given back."""
    deadline = time.monotonic() + LETS_GO
    lock, holder = hands.lock(one.identity, one.run)
    while lock is None and (over or _is_over(one)) and time.monotonic() < deadline:
        time.sleep(LOOK)
        lock, holder = hands.lock(one.identity, one.run)
    return lock, holder


def _is_over(one: Handed) -> bool:
    with _over(one) as over:
        return over


def idle(one: Handed, hands: Hands = HERE) -> bool:
    """Whether no process of a run of ours is at it."""
    lock, _ = hands.lock(one.identity, one.run)
    if lock is not None:
        lock.close()
    return lock is not None


@contextmanager
def _over(one: Handed) -> Iterator[bool]:
    """Whether nobody is at the run whose folder that is; nor can anybody begin to be, for as long as this lasts.

    Of a folder that is not here (moved, or on another machine that shares our records) nobody knows.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(load(Path(one.folder)).locked())
            over = True
        except BadInput:
            over = False
        yield over


def _cleaned(one: Handed, state: Path, ask: Callable[[], Census], hands: Hands) -> Leftover:
    found = Leftover(one.disk, one.run)
    with ExitStack() as stack:
        lock, holder = _lock(one, hands)
        if lock is None:
            return replace(found, left=f"it is in use by {holder}")
        stack.callback(lock.close)
        try:
            scripts = tear_downs(one)
        except Distrusted as why:
            return replace(found, left=str(why))
        room = _room(one, state, ask, hands)
        troubles = [said for script in scripts if (said := _ran(script, room, hands))]
    return _given_back(one, replace(found, scripts=len(scripts)), troubles, state, ask, hands)


def _lock(one: Handed, hands: Hands) -> tuple[Lock | None, str]:
    """Its lock, if need be from what works on for a run that is gone; only of our records is known whether it is."""
    lock, holder = hands.lock(one.identity, one.run)
    if lock is None and one.folder:
        with _over(one) as over:
            if over:
                hands.dismiss(one.run)
                lock, holder = hands.lock(one.identity, one.run)
    return lock, holder


def _given_back(
    one: Handed, found: Leftover, troubles: list[str], state: Path, ask: Callable[[], Census], hands: Hands
) -> Leftover:
    """Once nothing stands on it and nothing is recognised on it, it is a disk with our bytes on it."""
    census = ask()
    node = next((node for node in census.disks if node.identity == one.identity and node.size == one.size), None)
    if node is None:
        return replace(found, left="it is not there; it is given back when it is")
    claim = DeclaredDisk(_name(census, node), node.size, node.serial, node.wwn)
    mine = Ours(one.run, frozenset(one.marks), frozenset({one.identity}))
    try:
        with held([claim], ask, ours=mine, hands=hands) as (have,):
            refusals = returned(have, mine, census, ask)
            if not refusals:
                strike_out(state, one.identity, one.reach)
    except DisksRefused as refused:
        refusals = refused.refusals
    except HarnessBroken as error:  # one that died keeps none of the others
        return replace(found, left=error.brief)
    if not refusals:
        return found
    why = "; ".join([*map(str, refusals), *troubles])
    return replace(found, left=f"something is on it that its own scripts did not take away: {why}")


def tear_downs(one: Handed) -> tuple[Script, ...]:
    """What takes apart the arrays that the run may have left standing; by their marks alone, whatever they stand on.

    Scripts that somebody else could have written are not run with our rights: Distrusted.
    """
    return scripts_in(Path(one.folder, STANDING), those_trusted()) if one.folder else ()


def _room(one: Handed, state: Path, ask: Callable[[], Census], hands: Hands) -> list[str]:
    """Where its scripts are run, if need be: where disks, and parts of them, have the names that they had inside."""
    if not one.inside:
        return []
    census = ask()
    known = {node.identity: node for node in census.disks}
    mine = [other for other in handed(state) if other.run == one.run and other.inside]
    free = [other for other in mine if other.identity == one.identity or idle(other, hands)]
    there = [(other.inside, known[other.identity]) for other in free if other.identity in known]
    parts = [(partition_path(inside, part.number), part) for inside, disk in there for part in census.parts_of(disk)]
    names = [word for inside, node in (*there, *parts) for word in (inside, node.path)]
    return ["unshare", "--mount", "--", "bash", "-c", ROOM, "room", str(len(names) // 2), *names]


def _ran(script: Script, room: Sequence[str], hands: Hands) -> str:
    """What a script complained of; they take apart only what carries the mark of their array."""
    there = f"printf %s {quote(script.text)} | {join(room)}" if room else script.text
    trouble = hands.run(there, PATIENCE)
    return f"{script.path}: {trouble}" if trouble else ""


def _name(census: Census, node: Node) -> str:
    return next(iter(census.names_of(node)), node.name)
