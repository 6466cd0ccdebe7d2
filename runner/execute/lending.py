"""Disks that exist, lent to a run: held, labelled, used, and given back.

Nothing is written before every one of them was judged, and its end was asked for.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from runner.disks.real.hold import LOCKS, DisksRefused, held
from runner.disks.real.intent import asked_for
from runner.disks.real.refusals import Judged
from runner.disks.real.wear import grown, night_of, worn_out
from runner.disks.real.work import give_back, prepare
from runner.errors import BadInput
from runner.execute.leftovers import clean
from runner.store.lab import Handed, hand, ledger, ours, strike_out, wore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from runner.disks.real.census import Census, Node
    from runner.disks.real.claims import Claim
    from runner.disks.real.hold import Held


class WornOut(BadInput):
    """More would be written to a disk than is allowed for one night."""


@dataclass(frozen=True, slots=True)
class Loan:
    """Which disks a run wants, and what for."""

    claims: tuple[Claim, ...]
    matrix: str
    run: str
    folder: Path
    #: Disks whose end was asked for on the command line, and for good.
    destroy: Collection[str]
    standing: Collection[str]
    #: Bytes that the run is going to write to a disk at least.
    ahead: int = 0


@contextmanager
def lent(
    loan: Loan, ask: Callable[[], Census], state: Path, tell: Callable[[str], None], locks: Path = LOCKS
) -> Iterator[tuple[Node, ...]]:
    """Have these disks for a run, as the devices that they are now; raises what speaks against it, or was not asked."""
    _clear(loan, ask, state, tell, locks)
    had: tuple[Node, ...] = ()
    try:
        with held(loan.claims, ask, ours=ours(state, loan.run), purpose=loan.matrix, locks=locks) as disks:
            _check_wear(loan, disks, state)
            tell(asked_for([Judged(one.claim, one.node, ()) for one in disks], loan.destroy, loan.standing))
            had = tuple(one.node for one in disks)
            for disk in disks:
                _hand_over(disk, loan, state)
            yield had
    finally:
        if had:
            _take_back(loan, had, ask, state, tell, locks)


def _clear(loan: Loan, ask: Callable[[], Census], state: Path, tell: Callable[[str], None], locks: Path) -> None:
    """An earlier process of this very run may have been killed: what it left is in the way of this one."""
    for found in clean(state, ask, locks, only=loan.run):
        tell(f"{found.disk}: {found.left or 'what an earlier process of this run left on it is gone'}")


def _check_wear(loan: Loan, disks: Sequence[Held], state: Path) -> None:
    known, night = ledger(state), night_of(datetime.now(UTC))
    found = [worn_out(known, one.claim, one.node.identity, night, loan.ahead) for one in disks]
    if why := "\n".join(filter(None, found)):
        raise WornOut(
            "more would be written than these disks are allowed in one night",
            details=why,
            resolution="wait for the next noon, run less (--only, --bytes-budget), or raise `wear:` in hosts.yaml",
        )


def _hand_over(disk: Held, loan: Loan, state: Path) -> None:
    """Written down first, so that whoever is killed in between has only said too much."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    node = disk.node
    hand(
        state,
        Handed(
            disk=disk.claim.id,
            identity=node.identity,
            size=node.size,
            run=loan.run,
            folder=str(loan.folder.absolute()),
            since=since,
        ),
    )
    prepare(disk, loan.run)
    disk.let_go()


def _take_back(
    loan: Loan, had: Sequence[Node], ask: Callable[[], Census], state: Path, tell: Callable[[str], None], locks: Path
) -> None:
    """Count what was written, and label what is bare again as free; what is not is left with the run, and told."""
    after = ask()
    written = [(node.identity, grown(node.written, now.written)) for node in had if (now := after.by_number(node.dev))]
    wore(state, written, night_of(datetime.now(UTC)))
    for claim, node in zip(loan.claims, had, strict=True):
        try:
            with ExitStack() as stack:
                (again,) = stack.enter_context(held([claim], ask, ours=ours(state, loan.run), locks=locks))
                give_back(again, loan.run)
                strike_out(state, node.identity)
        except DisksRefused as refused:
            why = "; ".join(map(str, refused.refusals))
            tell(f"{claim.id} stays with this run, as something is on it still ({why}); `matrix clean` looks again")
