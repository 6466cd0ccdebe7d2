"""Queries to a host, and the list of its disks with the reasons why each may not be used."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.hosts.checks import check_disks, check_undeclared
from runner.hosts.inventory import parse_census
from runner.hosts.reasons import NO_MARKS
from runner.results.disk_health import parse_report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.hosts.agent.connection import Connection
    from runner.hosts.checks import DiskCheck
    from runner.hosts.inventory import Census, Node
    from runner.hosts.reasons import OwnMarks, Refusal
    from runner.language.hosts import DeclaredDisk
    from runner.results.disk_health import Smart

PATIENCE = 300.0


def local_census(script: str) -> Census:
    return take_census(None, script)


def take_census(connection: Connection | None, script: str) -> Census:
    return parse_census(run_query(connection, script))


def query_health(connection: Connection | None, script: str) -> dict[str, Smart]:
    """Return the health that each disk reports, by path; empty if the host cannot report it."""
    with suppress(HarnessBroken):
        return parse_report(run_query(connection, script))
    return {}


def run_query(connection: Connection | None, script: str) -> str:
    if connection is None:
        answer = process.run(["bash", "-c", script], timeout=PATIENCE)
    else:
        answer = connection.query(script, PATIENCE)
    if answer.returncode:
        raise HarnessBroken(
            f"{connection.name if connection else 'this machine'} cannot list its disks",
            details=answer.stderr[-2000:].strip() or f"the inventory script ended with status {answer.returncode}",
            resolution="`matrix doctor` shows what is missing",
        )
    return answer.stdout


@dataclass(frozen=True, slots=True)
class ListedDisk:
    #: Empty if the disk is missing.
    path: str
    names: tuple[str, ...]
    size: int
    kind: str
    model: str
    serial: str
    wwn: str
    #: Its name in hosts.yaml; empty if it is not declared.
    declared: str
    usable: bool
    refusals: tuple[Refusal, ...]
    firmware: str = ""
    health: Smart | None = None


def list_disks(
    census: Census,
    declarations: tuple[DeclaredDisk, ...],
    ours: OwnMarks = NO_MARKS,
    healths: Mapping[str, Smart] | None = None,
) -> tuple[ListedDisk, ...]:
    checks = check_disks(census, declarations, ours)
    declared = (
        _listed_disk(census, one.node, one.declared.id, one.refusals) if one.node else _missing_disk(one)
        for one in checks
    )
    present = {one.node.dev for one in checks if one.node}
    others = (node for node in census.disks if node.dev not in present)
    undeclared = (_listed_disk(census, node, "", check_undeclared(census, node, declarations)) for node in others)
    return tuple(replace(one, health=(healths or {}).get(one.path)) for one in (*declared, *undeclared))


def _missing_disk(check: DiskCheck) -> ListedDisk:
    disk = check.declared
    return ListedDisk(
        "", (disk.id,), disk.size, "", "", disk.serial, disk.wwn, disk.id, usable=False, refusals=check.refusals
    )


def _listed_disk(census: Census, node: Node, declared: str, refusals: tuple[Refusal, ...]) -> ListedDisk:
    kind = "loop" if node.backing else "nvme" if node.name.startswith("nvme") else "hdd" if node.rotational else "ssd"
    return ListedDisk(
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
