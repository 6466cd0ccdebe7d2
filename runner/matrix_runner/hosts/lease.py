"""The lease of a run's disks: checks, confirmation and records before the first write; wear and release at the end.

The lock of one disk is in exclusive.py.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from matrix_runner.base.errors import BadInput, HarnessBroken, MatrixError
from matrix_runner.hosts import disk_ledger, exclusive
from matrix_runner.hosts.checks import DiskCheck, check_disk
from matrix_runner.hosts.inventory import Census
from matrix_runner.hosts.operations import LOCAL, DiskOperations, Lock
from matrix_runner.hosts.reasons import OwnMarks, Refusal
from matrix_runner.hosts.vfio import check_controller, controller_of
from matrix_runner.language.hosts import DeclaredDisk


class NotConfirmed(BadInput):
    """Disks would be overwritten that neither the command line nor hosts.yaml names."""


def describe_losses(checks: Sequence[DiskCheck]) -> str:
    lines = [f"Everything on {'these disks' if len(checks) != 1 else 'this disk'} will be destroyed:"]
    return "\n".join([*lines, *(f"  {_describe_loss(one)}" for one in checks)])


def confirm_losses(checks: Sequence[DiskCheck], given: Collection[str], standing: Collection[str]) -> str:
    """Return what is lost; empty if the disks are only read."""
    checks = [one for one in checks if not one.declared.only_read]
    missing = [one.declared.id for one in checks if one.declared.id not in given and one.declared.id not in standing]
    if missing:
        words = " ".join(f"--destroy {name}" for name in missing)
        raise NotConfirmed(
            f"{len(missing)} of {len(checks)} disks would be overwritten, but no --destroy names them",
            details=describe_losses(checks),
            resolution=f"to destroy their content, add  {words}  or list them in `destroy:` of the host in hosts.yaml",
        )
    return describe_losses(checks) if checks else ""


def _describe_loss(one: DiskCheck) -> str:
    node = one.node
    if node is None:
        return f"{one.declared.id}: not there"
    what = " ".join(
        filter(None, (node.path, node.model, f"serial {node.serial}" if node.serial else "", f"{node.size} bytes"))
    )
    written = ", ".join(map(str, node.signatures))
    filled = f"the label of an earlier run (id {node.label.run})" if node.label else "unrecognised data"
    if not node.filled:
        filled = "zeros in the eight places that were read" if node.filled == 0 else "its content could not be read"
    return f"{one.declared.id} ({what}): {written or filled}"


class WearExceeded(BadInput):
    pass


@dataclass(frozen=True, slots=True)
class Lease:
    run: str
    matrix: str
    folder: Path
    state: Path  # the state folder of this machine: records and ledger
    destroy: frozenset[str]  # named with --destroy, or in `destroy:` of the host
    #: Returns UUIDs of what the run makes on disks.
    marks: Callable[[Sequence[exclusive.LeasedDisk]], Iterable[str]] = lambda _: ()
    inside: tuple[str, ...] = ()  # names of the disks in the guest, in order; empty if scripts run on the host
    boot: str = ""
    operations: DiskOperations = LOCAL
    reach: str = "local"
    shares_nothing: bool = False  # the disks of the host share no controller or bus: other runs may measure there too


_ANY_DISK = "any disk"


def exclude_other_runs(operations: DiskOperations, run: str, reach: str) -> closing[Lock]:
    """Allow one run per host to measure its disks: they may share a controller."""
    lock, holder = operations.lock(_ANY_DISK, run)
    if lock is None:
        where = "this host" if reach == "local" else reach
        raise BadInput(
            f"disks of {where} are being measured already, by {holder}",
            resolution="wait until that run ends; if the disks share neither controller nor bus, set "
            "`shares: nothing` for the host in hosts.yaml",
        )
    return closing(lock)


@contextmanager
def lease_disks(
    declarations: Sequence[DeclaredDisk],
    ask: Callable[[], Census],
    lease: Lease,
    now: Callable[[], datetime],
    say: Callable[[str], None],
    warn: Callable[[str], None] | None = None,
) -> Iterator[tuple[exclusive.LeasedDisk, ...]]:
    """Lease the disks, or raise before the first write. `warn` gets what cannot be released, instead of `say`."""
    known = disk_ledger.own_marks(lease.state, lease.run, lease.reach)
    with (
        nullcontext() if lease.shares_nothing else exclude_other_runs(lease.operations, lease.run, lease.reach),
        exclusive.acquire_disks(
            declarations, ask, ours=known, purpose=lease.matrix, operations=lease.operations
        ) as disks,
    ):
        written = [one for one in disks if not one.declared.only_read]
        losses = confirm_losses([DiskCheck(one.declared, one.node, ()) for one in disks], lease.destroy, ())
        say(losses or "Nothing is written to the disk: fio only reads.")
        if hidden := lease.operations.hidden_processes():
            say(f"not root: cannot see whether {hidden} write to these disks without an exclusive open")
        _check_wear(written, lease, now())
        exclusive.require_closed_partitions(written)
        exclusive.raise_if_refused([check_controller(DiskCheck(one.declared, one.node, ())) for one in disks])
        for one in disks:
            one.controller = controller_of(one.node).address if one.declared.whole else ""
        warn = warn or say
        marks, mine = tuple(sorted(lease.marks(disks))), list[exclusive.LeasedDisk]()
        try:
            for one, inside in zip(disks, lease.inside or ("",) * len(disks), strict=True):
                record = disk_ledger.LeaseRecord(
                    disk=one.declared.id,
                    identity=one.node.identity,
                    reach=lease.reach,
                    size=one.node.size,
                    run=lease.run,
                    folder=str(lease.folder.absolute()),
                    marks=marks,
                    inside=inside,
                    since=now().isoformat(),
                    written=one.node.written,
                    boot=lease.boot,
                    controller=one.controller,
                    only_read=one.declared.only_read,
                )
                disk_ledger.write_record(lease.state, record)
                mine.append(one)  # from here on it may be written, and has to be released
                if one in written:
                    exclusive.prepare_disk(one, lease.run)
            yield disks
        finally:
            try:
                for line in _return_disks(mine, frozenset(marks), ask, lease, now()):
                    warn(line)
            except MatrixError as error:  # an earlier error matters more; the records keep the disks known
                warn(f"the disks stay with the run, for `matrix clean`: {error.brief}")


def _check_wear(disks: Sequence[exclusive.LeasedDisk], lease: Lease, now: datetime) -> None:
    known, night = disk_ledger.read_ledger(lease.state), disk_ledger.night_of(now)
    refusals = [disk_ledger.wear_refusal(known, one.declared, one.node.identity, night) for one in disks]
    if any(refusals):
        raise WearExceeded(
            "the write budget of a disk (`wear:`) is used up for tonight; nothing was written",
            details="\n".join(f"  {one}" for one in refusals if one),
            resolution="run it after 12:00 UTC, or raise `wear:` of the disk in hosts.yaml",
        )


def _return_disks(
    disks: Sequence[exclusive.LeasedDisk], marks: frozenset[str], ask: Callable[[], Census], lease: Lease, now: datetime
) -> Iterator[str]:
    census = ask()
    found = [(one, census.by_number(one.node.dev)) for one in disks]
    # After a reboot of a remote host, device numbers may belong to other disks.
    written = {node.identity: node.written for one, node in found if node and node.identity == one.node.identity}
    disk_ledger.count_written(lease.state, lease.run, written, lease.boot, disk_ledger.night_of(now))
    for one in disks:
        mine = OwnMarks(lease.run, marks, frozenset({one.node.identity}))
        if why := _try_return(one, mine, census, ask):
            yield f"{one.declared.id} stays with the run, for `matrix clean`: {why}"
        else:
            disk_ledger.delete_record(lease.state, one.node.identity, lease.reach)


def _try_return(one: exclusive.LeasedDisk, mine: OwnMarks, census: Census, ask: Callable[[], Census]) -> str:
    if one.declared.only_read:
        return ""
    try:
        why = check_disk(census, one.declared, mine).refusals
        if not why:
            one.reacquire()
            why = return_disk(one, mine, census, ask)
    except exclusive.DisksRefused as refused:
        why = refused.refusals
    except HarnessBroken as error:  # a dead disk must not keep the others from being released
        return error.brief
    return "; ".join(map(str, why))


def return_disk(
    one: exclusive.LeasedDisk, mine: OwnMarks, census: Census, ask: Callable[[], Census]
) -> tuple[Refusal, ...]:
    node = census.by_number(one.node.dev)
    if node and node.signatures:
        exclusive.wipe_marked(one, node.signatures, mine)
        if why := check_disk(ask(), one.declared, replace(mine, marks=frozenset())).refusals:
            return why
    exclusive.give_back(one, mine.run)
    return ()
