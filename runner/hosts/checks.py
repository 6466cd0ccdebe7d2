"""Why a disk is not used: reasons by name, with what was seen. Pure, and asked twice: before and after opening."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from runner.hosts.in_use import in_use, twins
from runner.hosts.inventory import SCSI_DISKS
from runner.hosts.own_work import NOTHING, plain_wwn
from runner.hosts.reasons import Refused, Why
from runner.hosts.signatures import foreign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.hosts.inventory import Census, Node
    from runner.hosts.own_work import Ours
    from runner.language.hosts import DeclaredDisk


@dataclass(frozen=True, slots=True)
class Judged:
    """A disk that somebody allowed, and what speaks against it."""

    claim: DeclaredDisk
    #: None if it is not there.
    node: Node | None
    refusals: tuple[Refused, ...]

    @property
    def usable(self) -> bool:
        """Nothing speaks against it."""
        return self.node is not None and not self.refusals


def judged(census: Census, claim: DeclaredDisk, ours: Ours = NOTHING, purpose: str | None = None) -> Judged:
    """Everything that speaks against using this disk, for a matrix of this name."""
    node, refusals = _found(census, claim, ours)
    if node is not None:
        refusals += (
            *_not_it(census, node, claim),
            *_unfit(census, node),
            *in_use(census, node),
            *(() if node.partition else foreign(node, claim, ours)),
        )
    return Judged(claim, node, (*refusals, *_not_for(claim, purpose)))


def judged_all(
    census: Census, claims: tuple[DeclaredDisk, ...], ours: Ours = NOTHING, purpose: str | None = None
) -> tuple[Judged, ...]:
    """Several at once, of which no two may be one and the same."""
    one_by_one = [judged(census, claim, ours, purpose) for claim in claims]
    return tuple(
        Judged(one.claim, one.node, (*one.refusals, *_same(one, [other for other in one_by_one if other is not one])))
        for one in one_by_one
    )


def unclaimed(census: Census, node: Node, claims: tuple[DeclaredDisk, ...]) -> tuple[Refused, ...]:
    """Why a disk that is there is not used: nobody allowed it, and whatever else there is to say."""
    names = census.names_of(node)
    if any(claim.id in names for claim in claims):
        return ()
    shown = ", ".join(names) or "it has no stable name"
    return (
        Refused(Why.NOT_NAMED, f"no disk of hosts.yaml is called so: {shown}"),
        *_unfit(census, node),
        *in_use(census, node),
    )


def _found(census: Census, claim: DeclaredDisk, ours: Ours) -> tuple[Node | None, tuple[Refused, ...]]:
    """The one device that the stable name leads to."""
    names = [name for name in census.names if name.name == claim.id]
    if not names and (run := dict(ours.away).get(claim.id)):
        return None, (Refused(Why.LEFT_OVER, f"{claim.id} is away with its controller, which the run {run} has"),)
    if not names:
        return None, (Refused(Why.NOT_THERE, f"nothing is called {claim.id}{_where_it_is(census, claim)}"),)
    if len({name.dev for name in names}) > 1:
        return None, (Refused(Why.AMBIGUOUS, " and ".join(f"{one.target} is called {one.name}" for one in names)),)
    (name, *_) = names
    if not name.kind:
        return None, (Refused(Why.NOT_THERE, f"{claim.id} leads to {name.target or 'nowhere'}, where nothing is"),)
    if not name.dev:
        return None, (Refused(Why.NO_BLOCK_DEVICE, f"{claim.id} leads to {name.target}, a {name.kind}"),)
    if (node := census.by_number(name.dev)) is None:
        return None, (Refused(Why.NOT_THERE, f"{name.target} is device {name.dev}, which this kernel does not have"),)
    return node, ()


def _where_it_is(census: Census, claim: DeclaredDisk) -> str:
    """The disk may be there under another name."""
    found = [node for node in census.disks if _is_it(node, claim)]
    return "; " + ", ".join(f"a disk with its serial number is {node.path}" for node in found) if found else ""


def _is_it(node: Node, claim: DeclaredDisk) -> bool:
    return (not claim.serial or node.serial == claim.serial) and (
        not claim.wwn or plain_wwn(node.wwn) == plain_wwn(claim.wwn)
    )


def _not_it(census: Census, node: Node, claim: DeclaredDisk) -> Iterator[Refused]:
    """Not the disk that was meant."""
    if not _is_it(node, claim) and (others := [one for one in census.disks if one is not node and _is_it(one, claim)]):
        where = ", ".join(one.path for one in others)
        yield Refused(Why.ELSEWHERE, f"{claim.id} leads to {node.path}, but what was declared is {where}")
    for what, why, declared, found in (
        ("serial number", Why.WRONG_SERIAL, claim.serial, node.serial),
        ("WWN", Why.WRONG_WWN, plain_wwn(claim.wwn), plain_wwn(node.wwn)),
    ):
        if declared and declared != found:
            yield Refused(
                why, f"{node.path} has the {what} {found}, not {declared}" if found else f"{node.path} tells no {what}"
            )
    if not (claim.serial or claim.wwn):
        yield Refused(Why.WRONG_SERIAL, "neither a serial number nor a WWN was declared, so anything could be it")
    if node.size != claim.size and not node.partition:
        yield Refused(Why.WRONG_SIZE, f"{node.path} has {node.size} bytes, not {claim.size}")


def _unfit(census: Census, node: Node) -> Iterator[Refused]:
    """Nothing to be written on at all, or not the whole of something."""
    if node.partition:
        whole = next((disk for disk, parts in census.parts.items() if node.name in parts), "another disk")
        yield Refused(Why.PARTITION, f"{node.path} is a partition of {whole}; disks are used whole")
    elif not node.is_disk:
        yield Refused(
            Why.NO_DISK, f"{node.path} is made of other devices ({node.mapping or node.array_state or 'by the kernel'})"
        )
    if node.scsi_type not in SCSI_DISKS or node.name.startswith("sr"):
        yield Refused(Why.OPTICAL, f"{node.path} is a device of SCSI type {node.scsi_type or 5}, not a disk")
    if node.removable:
        yield Refused(Why.REMOVABLE, f"the medium of {node.path} can be changed by hand")
    if node.read_only:
        yield Refused(Why.READ_ONLY, f"{node.path} cannot be written")
    if not node.size:
        yield Refused(Why.NO_SIZE, f"{node.path} has no bytes")
    for twin in twins(census, node):
        same = f"the file {node.backing}" if node.backing else f"the identity {node.identity}"
        yield Refused(Why.TWIN, f"{twin.path} has {same} too: writing to one of them is writing to both")


def _same(one: Judged, others: list[Judged]) -> Iterator[Refused]:
    for other in others:
        if one.node is not None and other.node is not None and one.node.dev == other.node.dev:
            yield Refused(Why.TWICE, f"{other.claim.id} is {one.node.path} as well")


def _not_for(claim: DeclaredDisk, purpose: str | None) -> Iterator[Refused]:
    if purpose is not None and claim.purposes and not any(fnmatchcase(purpose, one) for one in claim.purposes):
        yield Refused(Why.NOT_FOR_THIS, f"it is for {', '.join(claim.purposes)}, not for {purpose}")
