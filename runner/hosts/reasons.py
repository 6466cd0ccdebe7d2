"""The reasons for which a disk is refused, and the advice for each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    # The kind of device.
    NOT_NAMED = "not named"
    NOT_THERE = "not there"
    AMBIGUOUS = "ambiguous"
    NO_BLOCK_DEVICE = "no block device"
    PARTITION = "partition"
    NO_DISK = "no disk"
    OPTICAL = "optical"
    REMOVABLE = "removable"
    READ_ONLY = "read-only"
    NO_SIZE = "no size"
    # The wrong disk.
    ELSEWHERE = "elsewhere"
    WRONG_SERIAL = "wrong serial"
    WRONG_WWN = "wrong WWN"
    WRONG_SIZE = "wrong size"
    TWIN = "twin"
    TWICE = "twice"
    NOT_FOR_THIS = "not for this"
    # In use.
    BOOT_DISK = "boot disk"
    MOUNTED = "mounted"
    SWAP_ACTIVE = "swap in use"
    MD_ACTIVE = "md array"
    LVM_ACTIVE = "LVM volume"
    CRYPT_OPEN = "crypt mapping"
    MULTIPATH = "multipath"
    MAPPED = "mapped"
    BCACHE_ACTIVE = "bcache in use"
    HELD = "held"
    # Content.
    PARTITION_TABLE = "partition table"
    RAID_MEMBER = "RAID superblock"
    LVM_LABEL = "LVM label"
    LUKS = "LUKS header"
    ZFS = "zfs label"
    BCACHE = "bcache superblock"
    SWAP = "swap signature"
    FILE_SYSTEM = "file system"
    UNKNOWN_DATA = "unknown data"
    FOREIGN_LABEL = "label of another disk"
    LEFT_OVER = "left over"
    UNREADABLE = "unreadable"
    # Found while locking and opening.
    BUSY = "busy"
    LOCKED = "locked"
    CHANGED = "changed"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason and its evidence."""

    reason: Reason
    evidence: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.evidence}"


_WIPE = "check what it is; if it is not needed, add `wipe: allowed` to the disk in hosts.yaml"
_IN_USE = "it is in use, and matrix does not end that; choose another disk"
_LOOK = "compare hosts.yaml with the output of `matrix disks`"

#: Advice for each reason.
ADVICE = {
    Reason.NOT_NAMED: "to allow it, add it to hosts.yaml with the values that `matrix disks` shows",
    Reason.TWICE: "name each disk once",
    Reason.TWIN: "keep one path to the disk and remove the other",
    Reason.LEFT_OVER: "if that run has ended, `matrix clean` takes apart what it left",
    Reason.LOCKED: "wait until that run ends",
    Reason.BUSY: "stop what has it open, or choose another disk",
    Reason.CONTROLLER: "remove the obstacle, or `vfio:` of the disk in hosts.yaml: then QEMU emulates the controller",
    Reason.CHANGED: "find out what changes the disks of this host, then try again",
    Reason.NOT_FOR_THIS: "add the matrix to `for:` of the disk, or choose another disk",
    **dict.fromkeys(
        [Reason.NOT_THERE, Reason.AMBIGUOUS, Reason.NO_BLOCK_DEVICE, Reason.PARTITION, Reason.NO_DISK, Reason.OPTICAL],
        _LOOK,
    ),
    **dict.fromkeys([Reason.REMOVABLE, Reason.READ_ONLY, Reason.NO_SIZE], "choose another disk"),
    **dict.fromkeys([Reason.ELSEWHERE, Reason.WRONG_SERIAL, Reason.WRONG_WWN, Reason.WRONG_SIZE], _LOOK),
    **dict.fromkeys(
        [
            Reason.BOOT_DISK,
            Reason.MOUNTED,
            Reason.SWAP_ACTIVE,
            Reason.MD_ACTIVE,
            Reason.LVM_ACTIVE,
            Reason.CRYPT_OPEN,
            Reason.MULTIPATH,
        ],
        _IN_USE,
    ),
    **dict.fromkeys([Reason.MAPPED, Reason.BCACHE_ACTIVE, Reason.HELD], _IN_USE),
    **dict.fromkeys(
        [
            Reason.PARTITION_TABLE,
            Reason.RAID_MEMBER,
            Reason.LVM_LABEL,
            Reason.LUKS,
            Reason.ZFS,
            Reason.BCACHE,
            Reason.SWAP,
        ],
        _WIPE,
    ),
    **dict.fromkeys([Reason.FILE_SYSTEM, Reason.UNKNOWN_DATA, Reason.FOREIGN_LABEL], _WIPE),
    Reason.UNREADABLE: "only root can read disks; if you are root, check the disk for errors",
}
