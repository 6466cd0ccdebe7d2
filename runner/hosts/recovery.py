"""Recovery of disks after a kill: teardown by the run's own scripts, then release. Other content is left alone."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING

from runner.base.errors import BadInput, HarnessBroken
from runner.hosts.disk_ledger import LeaseRecord, clear_controller, count_written, delete_record, lease_records
from runner.hosts.exclusive import DisksRefused, acquire_disks
from runner.hosts.lease import return_disk
from runner.hosts.operations import LOCAL
from runner.hosts.reasons import OwnMarks
from runner.hosts.trusted_scripts import UntrustedScript, read_scripts, trusted_users
from runner.hosts.vfio import POLL, RELEASE_TIMEOUT, return_to_driver, wait_for_disk
from runner.language.hosts import DeclaredDisk
from runner.layers.partition import partition_path
from runner.results.run_folder import STANDING, load

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import date

    from runner.hosts.inventory import Census, Node
    from runner.hosts.operations import DiskOperations, Lock
    from runner.hosts.trusted_scripts import Script

#: Seconds; a teardown may have to wait for arrays.
PATIENCE = 900.0
#: Runs a script for a virtual machine, which is its input, in a mount namespace: $1 pairs of a link and its target.
#: Folders that belong to other runs on the host (mounts, saved tunables) are empty there; no change is visible outside.
NAMESPACE_SCRIPT = """\
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
    "only its label names the run, and another machine or a container may use it; "
    "if none does: matrix clean --labelled {disk}"
)


@dataclass(frozen=True, slots=True)
class Leftover:
    disk: str
    run: str
    #: Why it was left as it is; empty if it was released.
    refusal: str = ""
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
    records = lease_records(state, reach)
    asked = [one for one in records if only in {None, one.run}]
    stuck = _return_controllers(asked, state, ask, operations, mine=only, boot=counted[0] if counted else "")
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
            yield _clean_disk(one, state, ask, operations)
        else:
            yield Leftover(one.disk, one.run, ONLY_LABELLED.format(disk=one.disk))


def _return_controllers(
    records: Sequence[LeaseRecord],
    state: Path,
    ask: Callable[[], Census],
    operations: DiskOperations,
    *,
    mine: str | None,
    boot: str,
) -> dict[str, str]:
    """Return controllers to their drivers, and why that failed. After a reboot the host has them already."""
    stuck = {}
    for one in records:
        if not one.controller or one.boot != boot:
            continue
        lock, holder = _wait_for_lock(one, operations, over=one.run == mine)
        if lock is None:
            stuck[one.identity] = f"it is in use by {holder}"
            continue
        try:
            if return_to_driver(one.controller):
                wait_for_disk(one.identity, one.disk, one.controller, ask)
            clear_controller(state, one.identity)
        except HarnessBroken as error:
            stuck[one.identity] = error.brief
        finally:
            lock.close()
    return stuck


def _wait_for_lock(one: LeaseRecord, operations: DiskOperations, *, over: bool) -> tuple[Lock | None, str]:
    """Take the lock. A virtual machine that was killed with its run holds it until its memory is freed."""
    deadline = time.monotonic() + RELEASE_TIMEOUT
    lock, holder = operations.lock(one.identity, one.run)
    while lock is None and time.monotonic() < deadline:
        with _block_run(one) as is_over:
            if not (over or is_over):
                break
        time.sleep(POLL)
        lock, holder = operations.lock(one.identity, one.run)
    return lock, holder


def is_idle(one: LeaseRecord, operations: DiskOperations = LOCAL) -> bool:
    lock, _ = operations.lock(one.identity, one.run)
    if lock is not None:
        lock.close()
    return lock is not None


@contextmanager
def _block_run(one: LeaseRecord) -> Iterator[bool]:
    """Yield whether the run is over, and keep it from starting. A run whose folder is not here counts as active."""
    with ExitStack() as stack:
        try:
            stack.enter_context(load(Path(one.folder)).locked())
            over = True
        except BadInput:
            over = False
        yield over


def _clean_disk(one: LeaseRecord, state: Path, ask: Callable[[], Census], operations: DiskOperations) -> Leftover:
    lock, holder = operations.lock(one.identity, one.run)
    if lock is None and one.folder:
        with _block_run(one) as over:
            if over:  # only its agent has the lock
                operations.dismiss(one.run)
                lock, holder = operations.lock(one.identity, one.run)
    if lock is None:
        return Leftover(one.disk, one.run, f"it is in use by {holder}")
    with closing(lock):
        try:
            scripts = read_scripts(Path(one.folder, STANDING), trusted_users()) if one.folder else ()
        except UntrustedScript as error:  # they would run with our rights
            return Leftover(one.disk, one.run, str(error))
        room = _namespace_command(one, state, ask, operations)
        troubles = [why for script in scripts if (why := _run_teardown(script, room, operations))]
    return Leftover(one.disk, one.run, _return_cleaned(one, troubles, state, ask, operations), len(scripts))


def _return_cleaned(
    one: LeaseRecord, troubles: list[str], state: Path, ask: Callable[[], Census], operations: DiskOperations
) -> str:
    """Release the disk, or return why it cannot be."""
    census = ask()
    node = next((node for node in census.disks if node.identity == one.identity and node.size == one.size), None)
    if node is None:
        return "the disk is not present; `matrix clean` releases it once it is"
    declared = DeclaredDisk(_stable_name(census, node), node.size, node.serial, node.wwn)
    mine = OwnMarks(one.run, frozenset(one.marks), frozenset({one.identity}))
    try:
        with acquire_disks([declared], ask, ours=mine, operations=operations) as (disk,):
            refusals = return_disk(disk, mine, census, ask)
            if not refusals:
                delete_record(state, one.identity, one.reach)
                return ""
    except DisksRefused as refused:
        refusals = refused.refusals
    except HarnessBroken as error:  # a dead disk must not block the others
        return error.brief
    return f"its teardown scripts left something on it: {'; '.join([*map(str, refusals), *troubles])}"


def _namespace_command(
    one: LeaseRecord, state: Path, ask: Callable[[], Census], operations: DiskOperations
) -> list[str]:
    """Return the command for a namespace in which disks have their names of the guest; empty if it is not needed."""
    if not one.inside:
        return []
    census = ask()
    known = {node.identity: node for node in census.disks}
    mine = [other for other in lease_records(state) if other.run == one.run and other.inside]
    free = [other for other in mine if other.identity == one.identity or is_idle(other, operations)]
    there = [(other.inside, known[other.identity]) for other in free if other.identity in known]
    parts = [(partition_path(inside, part.number), part) for inside, disk in there for part in census.parts_of(disk)]
    names = [word for inside, node in (*there, *parts) for word in (inside, node.path)]
    return ["unshare", "--mount", "--", "bash", "-c", NAMESPACE_SCRIPT, "room", str(len(names) // 2), *names]


def _run_teardown(script: Script, room: Sequence[str], operations: DiskOperations) -> str:
    """Run a script; return its error. It takes apart only what carries the mark of its array."""
    there = f"printf %s {quote(script.text)} | {join(room)}" if room else script.text
    trouble = operations.run(there, PATIENCE)
    return f"{script.path}: {trouble}" if trouble else ""


def _stable_name(census: Census, node: Node) -> str:
    return next(iter(census.names_of(node)), node.name)
