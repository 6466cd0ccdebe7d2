"""The reasons to refuse a disk, with advice, and the content that is one of them. checks.py has the checks."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from matrix_runner.hosts.inventory import Node, Signature
from matrix_runner.language.hosts import DeclaredDisk

_WIPE = "check what it is; if it is not needed, add `wipe: allowed` to the disk in hosts.yaml"
_IN_USE = "it is in use, and matrix does not end that; choose another disk"
_LOOK = "compare hosts.yaml with the output of `matrix disks`"
_OTHER = "choose another disk"


class Reason(StrEnum):
    advice: str

    def __new__(cls, name: str, advice: str) -> Self:
        reason = str.__new__(cls, name)
        reason._value_, reason.advice = name, advice
        return reason

    # The kind of device.
    NOT_NAMED = "not named", "to allow it, add it to hosts.yaml with the values that `matrix disks` shows"
    NOT_THERE = "not there", _LOOK
    AMBIGUOUS = "ambiguous", _LOOK
    NO_BLOCK_DEVICE = "no block device", _LOOK
    PARTITION = "partition", _LOOK
    NO_DISK = "no disk", _LOOK
    OPTICAL = "optical", _LOOK
    REMOVABLE = "removable", _OTHER
    READ_ONLY = "read-only", _OTHER
    NO_SIZE = "no size", _OTHER
    # The wrong disk.
    ELSEWHERE = "elsewhere", _LOOK
    WRONG_SERIAL = "wrong serial", _LOOK
    WRONG_WWN = "wrong WWN", _LOOK
    WRONG_SIZE = "wrong size", _LOOK
    TWIN = "twin", "keep one path to the disk and remove the other"
    TWICE = "twice", "name each disk once"
    NOT_FOR_THIS = "not for this", "add the matrix to `for:` of the disk, or choose another disk"
    # In use.
    BOOT_DISK = "boot disk", _IN_USE
    MOUNTED = "mounted", _IN_USE
    SWAP_ACTIVE = "swap in use", _IN_USE
    MD_ACTIVE = "md array", _IN_USE
    LVM_ACTIVE = "LVM volume", _IN_USE
    CRYPT_OPEN = "crypt mapping", _IN_USE
    MULTIPATH = "multipath", _IN_USE
    MAPPED = "mapped", _IN_USE
    BCACHE_ACTIVE = "bcache in use", _IN_USE
    HELD = "held", _IN_USE
    # Content.
    PARTITION_TABLE = "partition table", _WIPE
    RAID_MEMBER = "RAID superblock", _WIPE
    LVM_LABEL = "LVM label", _WIPE
    LUKS = "LUKS header", _WIPE
    ZFS = "zfs label", _WIPE
    BCACHE = "bcache superblock", _WIPE
    SWAP = "swap signature", _WIPE
    FILE_SYSTEM = "file system", _WIPE
    UNKNOWN_DATA = "unknown data", _WIPE
    FOREIGN_LABEL = "label of another disk", _WIPE
    LEFT_OVER = "left over", "if that run has ended, `matrix clean` takes apart what it left"
    UNREADABLE = "unreadable", "only root can read disks; if you are root, check the disk for errors"
    # Found while locking and opening.
    BUSY = "busy", "stop what has it open, or choose another disk"
    LOCKED = "locked", "wait until that run ends"
    CHANGED = "changed", "find out what changes the disks of this host, then try again"
    CONTROLLER = (
        "controller",
        "remove the obstacle, or `vfio:` of the disk in hosts.yaml: then QEMU emulates the controller",
    )


@dataclass(frozen=True, slots=True)
class Refusal:
    reason: Reason
    evidence: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.evidence}"


_TABLES = ("gpt", "dos", "PMBR", "atari", "bsd", "sun", "sgi", "mac", "solaris_x86", "unixware", "ultrix")
_SIGNATURES = {
    **dict.fromkeys(_TABLES, Reason.PARTITION_TABLE),
    **dict.fromkeys(("LVM2_member", "LVM1_member"), Reason.LVM_LABEL),
    "crypto_LUKS": Reason.LUKS,
    "zfs_member": Reason.ZFS,
    "bcache": Reason.BCACHE,
    **dict.fromkeys(("swap", "swsuspend"), Reason.SWAP),
    "mpath_member": Reason.MULTIPATH,
}


@dataclass(frozen=True, slots=True)
class OwnMarks:
    run: str = ""  # the current run; its own lease of a disk is no obstacle
    marks: frozenset[str] = frozenset()  # UUIDs of what our runs made (arrays, groups, file systems, tables)
    #: Identities of disks that it leased and did not release: unrecognised bytes on them are its own.
    recorded: frozenset[str] = frozenset()
    #: Identities of disks that other runs did not release, with the run.
    others: frozenset[tuple[str, str]] = frozenset()
    #: Names of disks that went with their controllers, so that the host does not see them, with the run.
    detached: frozenset[tuple[str, str]] = frozenset()


NO_MARKS = OwnMarks()


def plain_mark(text: str) -> str:
    """Return only letters and digits: mdadm, mkfs and blkid each format a UUID in another way."""
    return "".join(char for char in text.lower() if char.isalnum())


def plain_wwn(wwn: str) -> str:
    """Return only the number: `naa.5000...`, `0x5000...` and `5000...` are equal."""
    return wwn.lower().removeprefix("naa.").removeprefix("eui.").removeprefix("nvme.").removeprefix("0x")


def foreign_content(node: Node, declared: DeclaredDisk, ours: OwnMarks) -> Iterator[Refusal]:
    if node.unreadable:
        yield Refusal(Reason.UNREADABLE, node.unreadable)
        return
    others = sorted(_other_runs(node, ours))
    if others:
        # Most likely the content of that run, so there is no advice to wipe; a user recognises own content by this.
        what = f"; on it is {', '.join(map(str, node.signatures))}" if node.signatures else ""
        for run in others:
            yield Refusal(Reason.LEFT_OVER, f"{node.path} is leased to the run {run}, which did not release it{what}")
        return
    if declared.wipe or declared.only_read:
        return
    by_kind: dict[Reason, list[Signature]] = defaultdict(list)
    for one in node.signatures:
        if not is_marked(one, ours):
            by_kind[reason_for(one)].append(one)
    since = f" (written since the run {node.label.run} had the disk)" if node.label else ""
    for why, found in by_kind.items():
        yield Refusal(why, f"{node.path} has {', '.join(map(str, found))}{since}")
    if not node.signatures:
        yield from _unknown_data(node, ours)


def is_marked(signature: Signature, ours: OwnMarks) -> bool:
    """Compare UUIDs, and labels where mkfs takes no UUID."""
    marks = {plain_mark(mark) for mark in ours.marks}
    return any(plain_mark(text) in marks for text in (signature.uuid, signature.label) if text)


def _other_runs(node: Node, ours: OwnMarks) -> set[str]:
    runs = {run for identity, run in ours.others if identity == node.identity}
    if node.label and node.label.state == "held" and _is_labelled(node):
        runs.add(node.label.run)
    return runs - {ours.run}


def reason_for(signature: Signature) -> Reason:
    other = Reason.RAID_MEMBER if signature.type.endswith("raid_member") else Reason.FILE_SYSTEM
    return _SIGNATURES.get(signature.type, other)


def _unknown_data(node: Node, ours: OwnMarks) -> Iterator[Refusal]:
    """Yield refusals for unrecognised bytes: an encrypted disk without a header, a database, or what fio left.

    A mirror copies the label of one disk to the others, so a copied label of this run on a disk of this run is its own.
    """
    is_own = node.label and node.label.run == ours.run and node.identity in ours.recorded
    if node.label and not _is_labelled(node) and not is_own:
        said = f"it has serial number {node.label.serial}, but {node.path} has {node.serial}"
        yield Refusal(Reason.FOREIGN_LABEL, f"a matrix label was copied here from another disk: {said}")
    elif node.filled and not node.label and node.identity not in ours.recorded:
        seen = f"{node.filled} non-zero bytes in the eight places that were read"
        yield Refusal(Reason.UNKNOWN_DATA, f"{node.path} has {seen}, no recognised content and no matrix label")
    elif node.filled is None:
        yield Refusal(Reason.UNREADABLE, f"the content of {node.path} could not be read")


def _is_labelled(node: Node) -> bool:
    return node.label is not None and node.label.serial == (node.wwn or node.serial)
