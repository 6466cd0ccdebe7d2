"""Disks that exist, lent to a run: the one way from what hosts.yaml allows to disks that may be written, and back.

Whoever brings a rig up on such disks does so inside of `lent`: on the way in everything is checked, said and noted down
before the first byte is written; on the way out what was written is counted, and a disk that nothing is left on is
given back. A disk on which something is left stays with the run, for `matrix clean`.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.base.errors import BadInput, HarnessBroken, MatrixError
from runner.hosts.checks import Judged, judged
from runner.hosts.confirmation import asked_for
from runner.hosts.disk_ledger import Handed, count, hand, ledger, ours, strike_out
from runner.hosts.exclusive import DisksRefused, Held, held
from runner.hosts.local_operations import HERE
from runner.hosts.own_work import Ours
from runner.hosts.vfio import controller_of, judged_whole
from runner.hosts.wear import night_of, worn_out
from runner.hosts.wipe_and_label import give_back, prepare, unless_open, wipe_marked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from runner.hosts.inventory import Census
    from runner.hosts.operations import Hands
    from runner.hosts.reasons import Refused
    from runner.language.hosts import DeclaredDisk


class WornOut(BadInput):
    """What is to be written is more than tonight's budget of a disk has left."""


@dataclass(frozen=True, slots=True)
class Loan:
    """To which run disks are lent, and what its user asked for."""

    run: str
    matrix: str
    folder: Path
    #: Of this machine: its records and the ledger.
    state: Path
    #: Named with --destroy, or in `destroy:` of the host.
    destroy: frozenset[str]
    #: Bytes that will be written to each disk at most, as far as that is known.
    ahead: int = 0
    #: UUIDs of what the run makes on them.
    marks: Callable[[Sequence[Held]], Iterable[str]] = lambda _: ()
    #: What the disks are called where the run's scripts run, in their order; empty if as they are here.
    inside: tuple[str, ...] = ()
    #: Of the machine that has the disks.
    boot: str = ""
    #: Of the host that has them, and how it is reached.
    hands: Hands = HERE
    reach: str = "local"
    #: The disks of that host share nothing: others may be measured meanwhile.
    apart: bool = False


#: Who has the lock of this name measures disks of the host, whichever these are.
_ANY_DISK = "any disk"


@contextmanager
def measured_alone(hands: Hands, run: str, reach: str) -> Iterator[None]:
    """Disks of one host may share a controller: two runs that measure some of them would measure each other."""
    lock, holder = hands.lock(_ANY_DISK, run)
    if lock is None:
        where = "this host" if reach == "local" else reach
        raise BadInput(
            f"disks of {where} are being measured already, by {holder}",
            resolution="wait for it; or if its disks share neither controller nor bus, say so of the host in "
            "hosts.yaml: `shares: nothing`",
        )
    try:
        yield
    finally:
        lock.close()


@contextmanager
def lent(
    claims: Sequence[DeclaredDisk],
    ask: Callable[[], Census],
    loan: Loan,
    now: Callable[[], datetime],
    say: Callable[[str], None],
    stays: Callable[[str], None] | None = None,
) -> Iterator[tuple[Held, ...]]:
    """Disks that are the run's alone, or an error before anything was written on any of them.

    `stays` is told, instead of `say`, of what cannot be given back.
    """
    known = ours(loan.state, loan.run, loan.reach)
    with (
        nullcontext() if loan.apart else measured_alone(loan.hands, loan.run, loan.reach),
        held(claims, ask, ours=known, purpose=loan.matrix, hands=loan.hands) as disks,
    ):
        say(asked_for([Judged(one.claim, one.node, ()) for one in disks], loan.destroy, ()))
        if unseen := loan.hands.unseen():
            say(f"only root sees whether {unseen} write on these disks without asking to be alone with them")
        _unless_worn_out(disks, loan, now())
        unless_open(disks)
        _with_controllers(disks)
        stays = stays or say
        marks, mine = tuple(sorted(loan.marks(disks))), list[Held]()
        try:
            for one, inside in zip(disks, loan.inside or ("",) * len(disks), strict=True):
                hand(loan.state, _record(one, loan, now(), marks, inside))
                mine.append(one)  # from here on it may be written, and is given back
                prepare(one, loan.run)
            yield disks
        finally:
            try:
                for line in _back(mine, frozenset(marks), ask, loan, now()):
                    stays(line)
            except MatrixError as error:  # what went wrong before is what matters; the records still tell of the disks
                stays(f"the disks stay with the run, for `matrix clean`: {error.brief}")


def _unless_worn_out(disks: Sequence[Held], loan: Loan, now: datetime) -> None:
    known, night = ledger(loan.state), night_of(now)
    told = [worn_out(known, one.claim, one.node.identity, night, loan.ahead) for one in disks]
    if any(told):
        raise WornOut(
            "a disk's budget of bytes for tonight is too small; nothing was written",
            details="\n".join(f"  {one}" for one in told if one),
            resolution="run less of it, run it tomorrow, or raise `wear:` of the disk in hosts.yaml",
        )


def _with_controllers(disks: Sequence[Held]) -> None:
    """Have it noted with each disk which controller goes with it; DisksRefused if one cannot."""
    judged = [judged_whole(Judged(one.claim, one.node, ())) for one in disks]
    if any(one.refusals for one in judged):
        raise DisksRefused(judged)
    for one in disks:
        one.controller = controller_of(one.node).address if one.claim.whole else ""


def _record(one: Held, loan: Loan, now: datetime, marks: tuple[str, ...], inside: str) -> Handed:
    return Handed(
        disk=one.claim.id,
        identity=one.node.identity,
        reach=loan.reach,
        size=one.node.size,
        run=loan.run,
        folder=str(loan.folder.absolute()),
        marks=marks,
        inside=inside,
        since=now.isoformat(),
        written=one.node.written,
        boot=loan.boot,
        controller=one.controller,
    )


def _back(
    disks: Sequence[Held], marks: frozenset[str], ask: Callable[[], Census], loan: Loan, now: datetime
) -> Iterator[str]:
    """Count what was written to each, and label those as free that nothing is left on."""
    census = ask()
    found = [(one, census.by_number(one.node.dev)) for one in disks]
    # After a boot of a host far away, numbers are other disks'.
    written = {node.identity: node.written for one, node in found if node and node.identity == one.node.identity}
    count(loan.state, loan.run, written, loan.boot, night_of(now))
    for one in disks:
        mine = Ours(loan.run, marks, frozenset({one.node.identity}))
        if why := _kept(one, mine, census, ask):
            yield f"{one.claim.id} stays with the run, for `matrix clean`: {why}"
        else:
            strike_out(loan.state, one.node.identity, loan.reach)


def _kept(one: Held, mine: Ours, census: Census, ask: Callable[[], Census]) -> str:
    """Give it back, or say why it cannot be: one that died keeps none of the others."""
    try:
        why = judged(census, one.claim, mine).refusals
        if not why:
            one.take_again()
            why = returned(one, mine, census, ask)
    except DisksRefused as refused:
        why = refused.refusals
    except HarnessBroken as error:
        return error.brief
    return "; ".join(map(str, why))


def returned(one: Held, mine: Ours, census: Census, ask: Callable[[], Census]) -> tuple[Refused, ...]:
    """Label a disk as free that nothing stands on and that carries nothing but our marks, which go; or why not."""
    node = census.by_number(one.node.dev)
    if node and node.signatures:
        wipe_marked(one, node.signatures, mine)
        if why := judged(ask(), one.claim, replace(mine, marks=frozenset())).refusals:
            return why
    give_back(one, mine.run)
    return ()
