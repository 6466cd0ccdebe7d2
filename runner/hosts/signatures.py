"""What is written on a disk, and whether it is somebody's."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from runner.hosts.own_work import plain_mark
from runner.hosts.reasons import Refused, Why

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.hosts.inventory import Node, Signature
    from runner.hosts.own_work import Ours
    from runner.language.hosts import DeclaredDisk

_TABLES = {"gpt", "dos", "PMBR", "atari", "bsd", "sun", "sgi", "mac", "solaris_x86", "unixware", "ultrix"}
_OTHERS = {
    "LVM2_member": Why.LVM_LABEL,
    "LVM1_member": Why.LVM_LABEL,
    "crypto_LUKS": Why.LUKS,
    "zfs_member": Why.ZFS,
    "bcache": Why.BCACHE,
    "swap": Why.SWAP,
    "swsuspend": Why.SWAP,
    "mpath_member": Why.MULTIPATH,
}


def foreign(node: Node, claim: DeclaredDisk, ours: Ours) -> Iterator[Refused]:
    """What on it is not ours, unless it may be wiped."""
    if node.unreadable:
        yield Refused(Why.UNREADABLE, node.unreadable)
        return
    others = sorted(_others(node, ours))
    if others:
        # Most likely of theirs, and nothing to be told to wipe; whoever wrote it himself knows it by this.
        what = f"; on it is {', '.join(map(str, node.signatures))}" if node.signatures else ""
        for run in others:
            yield Refused(Why.LEFT_OVER, f"{node.path} was handed to the run {run}, which did not give it back{what}")
        return
    if claim.wipe:
        return
    by_kind: dict[Why, list[Signature]] = defaultdict(list)
    for one in node.signatures:
        if not marked(one, ours):
            by_kind[kind_of(one)].append(one)
    since = f" (written since the run {node.label.run} had the disk)" if node.label else ""
    for why, found in by_kind.items():
        yield Refused(why, f"{node.path} has {', '.join(map(str, found))}{since}")
    if not node.signatures:
        yield from _unknown(node, ours)


def marked(signature: Signature, ours: Ours) -> bool:
    """It is of something that we made: by its UUID, or by its label where mkfs takes no UUID."""
    marks = {plain_mark(mark) for mark in ours.marks}
    return any(plain_mark(text) in marks for text in (signature.uuid, signature.label) if text)


def _others(node: Node, ours: Ours) -> set[str]:
    """Runs that still have it, by our records and by its label."""
    runs = {run for identity, run in ours.others if identity == node.identity}
    if node.label and node.label.state == "held" and _is_labelled(node):
        runs.add(node.label.run)
    return runs - {ours.run}


def kind_of(signature: Signature) -> Why:
    """The reason that a signature is."""
    kind = signature.type
    if kind in _TABLES:
        return Why.PARTITION_TABLE
    return _OTHERS.get(kind, Why.RAID_MEMBER if kind.endswith("raid_member") else Why.FILE_SYSTEM)


def _unknown(node: Node, ours: Ours) -> Iterator[Refused]:
    """Bytes that nothing recognises: a cipher without a header, a database, or what fio left."""
    if node.label and not _is_labelled(node):
        said = f"it says serial number {node.label.serial}, but {node.path} has {node.serial}"
        yield Refused(Why.FOREIGN_LABEL, f"our label was copied here from another disk: {said}")
    elif node.filled and not node.label and node.identity not in ours.recorded:
        seen = f"{node.filled} bytes that are not zero where eight places were looked at"
        yield Refused(Why.UNKNOWN_DATA, f"{node.path} has {seen}, nothing that is recognised, and no label of ours")
    elif node.filled is None:
        yield Refused(Why.UNREADABLE, f"nobody could look what is on {node.path}")


def _is_labelled(node: Node) -> bool:
    """The label was written for this disk."""
    return node.label is not None and node.label.serial == (node.wwn or node.serial)
