"""All disks of a machine, each with whether it may be used and why not: what `matrix disks` shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.hosts.checks import judged_all, unclaimed
from runner.hosts.own_work import NOTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.hosts.inventory import Census, Node
    from runner.hosts.own_work import Ours
    from runner.hosts.reasons import Refused
    from runner.language.hosts import DeclaredDisk
    from runner.results.disk_health import Smart


@dataclass(frozen=True, slots=True)
class Listed:
    """One disk that is there, or that was declared and is not."""

    #: Empty if it is not there.
    path: str
    names: tuple[str, ...]
    size: int
    kind: str
    model: str
    serial: str
    wwn: str
    #: By which name hosts.yaml declares it; empty if it does not.
    declared: str
    usable: bool
    refusals: tuple[Refused, ...]
    firmware: str = ""
    #: What it says of its own health; None if nobody asked it.
    health: Smart | None = None


def listing(
    census: Census, claims: tuple[DeclaredDisk, ...], ours: Ours = NOTHING, healths: Mapping[str, Smart] | None = None
) -> tuple[Listed, ...]:
    """Those that were declared first, then all others that are there."""
    judged = judged_all(census, claims, ours)
    declared = [
        _listed(census, one.node, one.claim.id, one.refusals)
        if one.node
        else Listed(
            "",
            (one.claim.id,),
            one.claim.size,
            "",
            "",
            one.claim.serial,
            one.claim.wwn,
            one.claim.id,
            False,
            one.refusals,
        )
        for one in judged
    ]
    there = {one.node.dev for one in judged if one.node}
    others = [node for node in census.disks if node.dev not in there]
    found = (*declared, *(_listed(census, node, "", unclaimed(census, node, claims)) for node in others))
    return tuple(replace(one, health=(healths or {}).get(one.path)) for one in found)


def _listed(census: Census, node: Node, declared: str, refusals: tuple[Refused, ...]) -> Listed:
    kind = "loop" if node.backing else "nvme" if node.name.startswith("nvme") else "hdd" if node.rotational else "ssd"
    return Listed(
        path=node.path,
        names=census.names_of(node),
        size=node.size,
        kind=kind,
        model=node.model,
        serial=node.serial,
        wwn=node.wwn,
        declared=declared,
        usable=bool(declared) and not refusals,
        refusals=refusals,
        firmware=node.firmware,
    )
