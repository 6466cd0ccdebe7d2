"""The names of all reasons for which a disk is not used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Why(StrEnum):
    """Named as a user sees them; what to do about each is in `ADVICE`."""

    # What it is.
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
    # Whether it is the one.
    ELSEWHERE = "elsewhere"
    WRONG_SERIAL = "wrong serial"
    WRONG_WWN = "wrong WWN"
    WRONG_SIZE = "wrong size"
    TWIN = "twin"
    TWICE = "twice"
    NOT_FOR_THIS = "not for this"
    # What stands on it.
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
    # What is written on it.
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
    # What happened when it was to be taken.
    BUSY = "busy"
    LOCKED = "locked"
    CHANGED = "changed"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Refused:
    """One reason, and what was seen of it."""

    why: Why
    evidence: str

    def __str__(self) -> str:
        return f"{self.why}: {self.evidence}"


_WIPE = "look what it is; if nobody needs it, add `wipe: allowed` to the disk in hosts.yaml"
_IN_USE = "it is in use, and nothing here will end that; choose another disk"
_LOOK = "compare hosts.yaml with what `matrix disks` shows of this machine"

#: What to do about each.
ADVICE = {
    Why.NOT_NAMED: "to let it be used, add it to hosts.yaml; `matrix disks` shows all that has to stand there",
    Why.TWICE: "name each disk once",
    Why.TWIN: "use one path to it, and take the other away",
    Why.LEFT_OVER: "if that run is over, `matrix clean` takes apart what it left",
    Why.LOCKED: "wait until that run ends",
    Why.BUSY: "end what has it open, or choose another disk",
    Why.CONTROLLER: "see to it, or take `vfio:` away from the disk in hosts.yaml: then QEMU plays its controller",
    Why.CHANGED: "look who changes disks of this machine, then try again",
    Why.NOT_FOR_THIS: "add the matrix to `for:` of the disk, or choose another disk",
    **dict.fromkeys(
        [Why.NOT_THERE, Why.AMBIGUOUS, Why.NO_BLOCK_DEVICE, Why.PARTITION, Why.NO_DISK, Why.OPTICAL], _LOOK
    ),
    **dict.fromkeys([Why.REMOVABLE, Why.READ_ONLY, Why.NO_SIZE], "choose another disk"),
    **dict.fromkeys([Why.ELSEWHERE, Why.WRONG_SERIAL, Why.WRONG_WWN, Why.WRONG_SIZE], _LOOK),
    **dict.fromkeys(
        [Why.BOOT_DISK, Why.MOUNTED, Why.SWAP_ACTIVE, Why.MD_ACTIVE, Why.LVM_ACTIVE, Why.CRYPT_OPEN, Why.MULTIPATH],
        _IN_USE,
    ),
    **dict.fromkeys([Why.MAPPED, Why.BCACHE_ACTIVE, Why.HELD], _IN_USE),
    **dict.fromkeys(
        [Why.PARTITION_TABLE, Why.RAID_MEMBER, Why.LVM_LABEL, Why.LUKS, Why.ZFS, Why.BCACHE, Why.SWAP], _WIPE
    ),
    **dict.fromkeys([Why.FILE_SYSTEM, Why.UNKNOWN_DATA, Why.FOREIGN_LABEL], _WIPE),
    Why.UNREADABLE: "only root may read disks; if you are root, look whether the disk is broken",
}
