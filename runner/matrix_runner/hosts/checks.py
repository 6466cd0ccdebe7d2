"""The checks that refuse a physical disk before and after it is opened, and the list of a host's disks.

Other modules refuse as well: reasons.py disks with foreign content, exclusive.py busy disks, vfio.py disks for virtual
machines, lease.py worn or unconfirmed ones (the limit of writes is in disk_ledger.py), and session/disk_lease.py disks
that do not fit the matrix.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from matrix_runner.base import process
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.findings import few
from matrix_runner.hosts.agent.connection import Connection
from matrix_runner.hosts.inventory import SCSI_DISKS, Census, Node, parse_census
from matrix_runner.hosts.reasons import NO_MARKS, OwnMarks, Reason, Refusal, foreign_content, plain_wwn
from matrix_runner.language.hosts import DeclaredDisk
from matrix_runner.records.environment import Smart, parse_report

SYSTEM = {"/", "/boot", "/boot/efi", "/boot/firmware", "/efi", "/usr", "/var", "/etc"}
_MAPPINGS = {"LVM-": Reason.LVM_ACTIVE, "CRYPT-": Reason.CRYPT_OPEN, "mpath-": Reason.MULTIPATH}


def find_uses(census: Census, node: Node) -> Iterator[Refusal]:
    for chain in _stacks_on(census, node):
        top = chain[-1]
        words = " → ".join(one.name for one in chain)
        if len(chain) > 1 and not top.partition:
            why = next((why for prefix, why in _MAPPINGS.items() if top.mapping_uuid.startswith(prefix)), Reason.MAPPED)
            if not (top.mapping or top.name.startswith("dm-")):
                built = Reason.BCACHE_ACTIVE if top.name.startswith("bcache") else Reason.HELD
                why = Reason.MD_ACTIVE if top.array_state or top.name.startswith("md") else built
            yield Refusal(why, f"{words}{f' ({top.mapping})' if top.mapping else ''}")
        if top.bcache and top.bcache != "no cache":
            yield Refusal(Reason.BCACHE_ACTIVE, f"{words}: {top.bcache}")
        yield from _mount_uses(census, top, words)
        if top.dev in census.swaps:
            yield Refusal(Reason.SWAP_ACTIVE, f"{words} is used as swap")


def _mount_uses(census: Census, node: Node, words: str) -> Iterator[Refusal]:
    paths = {node.path, f"/dev/mapper/{node.mapping}" if node.mapping else node.path}
    mounts = [one for one in census.mounts if one.dev == node.dev or one.source in paths]
    if points := [mount.point for mount in mounts]:
        why = Reason.BOOT_DISK if SYSTEM & set(points) else Reason.MOUNTED
        yield Refusal(why, f"{words} is mounted at {few(points, 3)}")
    # The list of mounts names only one of several devices of a btrfs.
    elif node.name in census.btrfs:
        yield Refusal(Reason.MOUNTED, f"{words} is a device of the mounted btrfs {census.btrfs[node.name]}")


def _stacks_on(census: Census, node: Node) -> Iterator[tuple[Node, ...]]:
    ahead: deque[tuple[Node, ...]] = deque([(node,)])
    seen = {node.name}
    while ahead:
        chain = ahead.popleft()
        yield chain
        name, path = chain[-1].name, chain[-1].path
        # The kernel keeps no list of loop devices on a device.
        loops = (other.name for other in census.nodes.values() if other.backing == path)
        for above in (*census.parts.get(name, ()), *census.holders.get(name, ()), *loops):
            if above not in seen and above in census.nodes:
                seen.add(above)
                ahead.append((*chain, census.nodes[above]))


@dataclass(frozen=True, slots=True)
class DiskCheck:
    declared: DeclaredDisk
    node: Node | None
    refusals: tuple[Refusal, ...]

    @property
    def usable(self) -> bool:
        return self.node is not None and not self.refusals


def check_disk(
    census: Census, declared: DeclaredDisk, ours: OwnMarks = NO_MARKS, purpose: str | None = None
) -> DiskCheck:
    node, refusals = _find_node(census, declared, ours)
    if node is not None:
        refusals += (
            *_mismatches(census, node, declared),
            *_unsuitable(census, node),
            *find_uses(census, node),
            *(() if node.partition else foreign_content(node, declared, ours)),
        )
    if purpose is not None and declared.purposes and not any(fnmatchcase(purpose, one) for one in declared.purposes):
        wrong = Refusal(Reason.NOT_FOR_THIS, f"it is for {', '.join(declared.purposes)}, not for {purpose}")
        refusals = (*refusals, wrong)
    return DiskCheck(declared, node, refusals)


def check_disks(
    census: Census, declarations: tuple[DeclaredDisk, ...], ours: OwnMarks = NO_MARKS, purpose: str | None = None
) -> tuple[DiskCheck, ...]:
    checks = [check_disk(census, declared, ours, purpose) for declared in declarations]
    return tuple(replace(one, refusals=(*one.refusals, *_duplicates(one, checks))) for one in checks)


def _duplicates(one: DiskCheck, checks: list[DiskCheck]) -> Iterator[Refusal]:
    for other in checks:
        if other is not one and one.node and other.node and other.node.dev == one.node.dev:
            yield Refusal(Reason.TWICE, f"{other.declared.id} is {one.node.path} as well")


def check_undeclared(census: Census, node: Node, declarations: tuple[DeclaredDisk, ...]) -> tuple[Refusal, ...]:
    names = census.names_of(node)
    if any(declared.id in names for declared in declarations):
        return ()
    shown = ", ".join(names) or "it has no stable name"
    return (
        Refusal(Reason.NOT_NAMED, f"hosts.yaml does not list it: {shown}"),
        *_unsuitable(census, node),
        *find_uses(census, node),
    )


def _find_node(census: Census, declared: DeclaredDisk, ours: OwnMarks) -> tuple[Node | None, tuple[Refusal, ...]]:
    names = [name for name in census.names if name.name == declared.id]
    name = names[0] if names else None
    if not name and (run := dict(ours.detached).get(declared.id)):
        why, evidence = Reason.LEFT_OVER, f"{declared.id} went with its controller to the run {run}"
    elif not name:
        found = [f"a disk with its serial number is {one.path}" for one in census.disks if _matches(one, declared)]
        why, evidence = Reason.NOT_THERE, f"no device is called {declared.id}{'; ' if found else ''}{', '.join(found)}"
    elif len({name.dev for name in names}) > 1:
        why, evidence = Reason.AMBIGUOUS, " and ".join(f"{one.target} is called {one.name}" for one in names)
    elif not name.kind:
        why, evidence = Reason.NOT_THERE, f"{declared.id} leads to {name.target or 'nowhere'}, which does not exist"
    elif not name.dev:
        why, evidence = Reason.NO_BLOCK_DEVICE, f"{declared.id} leads to {name.target}, a {name.kind}"
    elif node := census.by_number(name.dev):
        return node, ()
    else:
        why, evidence = Reason.NOT_THERE, f"{name.target} is device {name.dev}, which this kernel does not have"
    return None, (Refusal(why, evidence),)


def _matches(node: Node, declared: DeclaredDisk) -> bool:
    return (not declared.serial or node.serial == declared.serial) and (
        not declared.wwn or plain_wwn(node.wwn) == plain_wwn(declared.wwn)
    )


def _mismatches(census: Census, node: Node, declared: DeclaredDisk) -> Iterator[Refusal]:
    if not _matches(node, declared) and (
        others := [one for one in census.disks if one is not node and _matches(one, declared)]
    ):
        where = ", ".join(one.path for one in others)
        yield Refusal(Reason.ELSEWHERE, f"{declared.id} leads to {node.path}, but the declared disk is {where}")
    for what, reason, expected, found in (
        ("serial number", Reason.WRONG_SERIAL, declared.serial, node.serial),
        ("WWN", Reason.WRONG_WWN, plain_wwn(declared.wwn), plain_wwn(node.wwn)),
    ):
        if expected and expected != found:
            yield Refusal(
                reason,
                f"{node.path} has the {what} {found}, not {expected}" if found else f"{node.path} reports no {what}",
            )
    if not (declared.serial or declared.wwn):
        yield Refusal(Reason.WRONG_SERIAL, "no serial number and no WWN was declared, so it cannot be identified")
    if node.size != declared.size and not node.partition:
        yield Refusal(Reason.WRONG_SIZE, f"{node.path} has {node.size} bytes, not {declared.size}")


def _unsuitable(census: Census, node: Node) -> Iterator[Refusal]:
    if node.partition:
        whole = next((disk for disk, parts in census.parts.items() if node.name in parts), "another disk")
        yield Refusal(Reason.PARTITION, f"{node.path} is a partition of {whole}; disks are used whole")
    elif not node.is_disk:
        yield Refusal(
            Reason.NO_DISK,
            f"{node.path} is made of other devices ({node.mapping or node.array_state or 'by the kernel'})",
        )
    if node.scsi_type not in SCSI_DISKS or node.name.startswith("sr"):
        yield Refusal(Reason.OPTICAL, f"{node.path} is a device of SCSI type {node.scsi_type or 5}, not a disk")
    if node.removable:
        yield Refusal(Reason.REMOVABLE, f"{node.path} has a removable medium")
    if node.read_only:
        yield Refusal(Reason.READ_ONLY, f"{node.path} is read-only")
    if not node.size:
        yield Refusal(Reason.NO_SIZE, f"{node.path} has size 0")
    # Two paths lead to one disk, or two loop devices to one file.
    for other in census.disks:
        same_wwn = bool(node.wwn) and other.wwn == node.wwn
        same_serial = not node.wwn and bool(node.serial) and (other.serial, other.model) == (node.serial, node.model)
        is_same = same_wwn or (same_serial and other.size == node.size)
        if other.name != node.name and (is_same or (node.backing and other.backing == node.backing)):
            same = f"the file {node.backing}" if node.backing else f"the identity {node.identity}"
            yield Refusal(Reason.TWIN, f"{other.path} has {same} too: writing to one of them is writing to both")


PATIENCE = 300.0


def take_census(connection: Connection | None, script: str) -> Census:
    return parse_census(run_query(connection, script))


def query_health(connection: Connection | None, script: str) -> dict[str, Smart]:
    """Return the health that each disk reports, by path; empty if the host cannot report it."""
    with suppress(HarnessBroken):
        return parse_report(run_query(connection, script))
    return {}


def run_query(connection: Connection | None, script: str) -> str:
    if connection is None:
        answer = process.run(["bash", "-c", script], timeout=PATIENCE, takes_ctrl_c=False)
    else:
        answer = connection.query(script, PATIENCE)
    if answer.returncode:
        raise HarnessBroken(
            f"{connection.name if connection else 'this host'} cannot list its disks",
            details=answer.stderr[-2000:].strip() or f"the inventory script ended with status {answer.returncode}",
            resolution="`matrix doctor` shows what is missing",
        )
    return answer.stdout


@dataclass(frozen=True, slots=True)
class ListedDisk:
    path: str
    names: tuple[str, ...]
    size: int
    kind: str
    model: str
    serial: str
    wwn: str
    declared: str
    usable: bool
    refusals: tuple[Refusal, ...]
    firmware: str = ""
    link: str = ""
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
        link=node.link,
    )
