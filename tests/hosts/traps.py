"""The collection: disks that nobody may lose, each built for real, each refused for its own reason.

A trap is a few lines of bash that make one out of an empty disk. They see DISK and OTHER (two disks), NAMES and NAME (the
folder of stable names, and the one by which DISK is declared), and WORK (an empty folder). Those of loop devices are built on
the host, where one may; all others, and those whose tools the host lacks, inside a virtual machine (`tests/vm/test_traps.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from matrix_runner import hosts
from matrix_runner.hosts import inventory
from matrix_runner.hosts.inventory import Label
from matrix_runner.hosts.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from matrix_runner.hosts.inventory import State
    from matrix_runner.language.hosts import DeclaredDisk


VM = frozenset({"vm"})
HOST = frozenset({"host"})
ANYWHERE = VM | HOST


@dataclass(frozen=True)
class Trap:
    name: str
    reason: Reason
    #: Words that the evidence has to have.
    evidence: str
    build: str = ""
    tools: tuple[str, ...] = ()
    #: Takes apart what has to be before the disk can be emptied.
    undo: str = ""
    #: What is declared of it, where that is what is wrong.
    declared: Callable[[DeclaredDisk], DeclaredDisk] = lambda claim: claim
    #: Where it can be built: loop devices of a host, a virtual machine with md, device mapper and all tools.
    on: frozenset[str] = ANYWHERE
    #: Allowing to wipe the disk would be an answer to it.
    cured_by_wiping: bool = False


#: Tools by the way that they are called.
EXT4 = 'mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$DISK"'
MOUNT = 'mkdir -p "$WORK/at" && mount "$1" "$WORK/at" && sync -f "$WORK/at"'
UMOUNT = 'umount "$WORK/at"'
#: A partition without a table, as the kernel is told of one; where the tool for that is missing, one with a table.
PART = """\
if command -v addpart >/dev/null; then addpart "$DISK" 1 2048 65536; else echo 1M,32M | sfdisk --quiet "$DISK"; fi
part=$DISK; [[ $DISK != *[0-9] ]] || part+=p; part+=1"""
#: A process with its own mounts, of a test beside this one, can keep the partition busy until it ends.
UNPART = (
    "if command -v delpart >/dev/null; then "
    'for try in {1..50}; do if delpart "$DISK" 1; then break; fi; sleep 0.1; done; fi'
)
PAIR = 'mdadm --create /dev/md/trap --run --quiet --level=1 --raid-devices=2 --assume-clean "$DISK" "$OTHER"'
#: What md notes down of an array comes a moment after the last write.
CALM = "until grep -q clean /sys/class/block/md*/md/array_state; do :; done"
STOP = "mdadm --stop --quiet /dev/md/trap"
LUKS = "printf secret | cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file=- --type"
LVM = "lvm"
#: Zfs writes its labels four times, and into each a ring of 128 uberblocks.
ZFS = """\
for at in 0 262144; do
  for slot in 128 129 130 131 132; do
    printf '\\x0c\\xb1\\xba\\x00\\x00\\x00\\x00\\x00' | dd of="$DISK" bs=1 seek=$((at + slot * 1024)) conv=notrunc status=none
  done
done"""


def at(offset: int, content: str) -> str:
    """Bytes at a place of the disk; a negative one counts from the end."""
    place = str(offset) if offset >= 0 else f'$(($(blockdev --getsize64 "$DISK") - {-offset}))'
    return f"printf '{content}' | dd of=\"$DISK\" bs=1 seek={place} conv=notrunc status=none"


def labelled(state: State, serial: str = "") -> str:
    """Our label, as a run left it; what it says of the serial number is true if nothing else is told."""
    return f"LABEL {state} {serial}\n"


def script(trap: Trap, serial: str) -> str:
    """What builds it, on a disk of this serial number."""
    return re.sub(r"LABEL (\w+) (.*)\n", lambda found: _label(found[1], found[2] or serial), trap.build)


def _label(state: str, serial: str) -> str:
    block = inventory.encode_label(Label("20260101-1", "a-disk", serial, "held" if state == "held" else "free")).rstrip(
        b"\0"
    )
    return f"printf '%s' '{block.decode()}' | dd of=\"$DISK\" bs={hosts.LABEL_BYTES} seek={hosts.LABEL_BLOCK} conv=notrunc status=none\n"


def table(kind: str) -> str:
    return f'printf "label: {kind}\\n,16M\\n" | sfdisk --quiet --no-reread "$DISK"'


def member(metadata: str) -> Trap:
    return Trap(
        f"stopped md member, metadata {metadata}",
        Reason.RAID_MEMBER,
        "linux_raid_member",
        f"{PAIR} --metadata={metadata}; {STOP}",
        ("mdadm",),
        on=VM,
        cured_by_wiping=True,
    )


def running(metadata: str) -> Trap:
    return Trap(
        f"running md member, metadata {metadata}",
        Reason.MD_ACTIVE,
        "→ md",
        f"{PAIR} --metadata={metadata}",
        ("mdadm",),
        STOP,
        on=VM,
    )


def written(
    name: str,
    evidence: str,
    build: str,
    *tools: str,
    reason: Reason = Reason.FILE_SYSTEM,
    on: frozenset[str] = ANYWHERE,
) -> Trap:
    """Something on the disk that is recognised."""
    return Trap(name, reason, evidence, build, tools, on=on, cured_by_wiping=True)


IN_USE = [
    Trap("mounted", Reason.MOUNTED, "is mounted at", f'{EXT4}; set -- "$DISK"; {MOUNT}', ("mkfs.ext4",), UMOUNT),
    Trap(
        "mounted read-only",
        Reason.MOUNTED,
        "is mounted at",
        f'{EXT4}; mkdir -p "$WORK/at"; mount -o ro "$DISK" "$WORK/at"',
        ("mkfs.ext4",),
        UMOUNT,
    ),
    Trap(
        "a partition of it mounted",
        Reason.MOUNTED,
        "is mounted at",
        f'{PART}; mkfs.ext4 -q -F "$part"; mkdir "$WORK/at"; mount -o ro "$part" "$WORK/at"',
        ("mkfs.ext4", "addpart"),
        f"{UMOUNT}; {UNPART}",
    ),
    Trap(
        "mounted at a place whose name breaks lines",
        Reason.MOUNTED,
        "is mounted at",
        f"{EXT4}; odd=$WORK/a$'\\xe2\\x80\\xa8\\xc2\\x85\\r\\f\\x1c\\n'b; "
        'mkdir "$odd"; mount "$DISK" "$odd"; sync -f "$odd"',
        ("mkfs.ext4",),
        'umount "$WORK"/a*b',
        on=HOST,
    ),
    Trap(
        "mounted elsewhere by a bind mount alone",
        Reason.MOUNTED,
        "/bound",
        f'{EXT4}; set -- "$DISK"; {MOUNT}; mkdir "$WORK/bound"; mount --bind "$WORK/at" "$WORK/bound"; {UMOUNT}',
        ("mkfs.ext4",),
        'umount "$WORK/bound"',
    ),
    Trap(
        "mounted in another mount namespace only",
        Reason.MOUNTED,
        "is mounted at",
        f"""{EXT4}
mkdir -p "$WORK/at"
mkfifo "$WORK/up" "$WORK/down"
unshare --mount --propagation private bash -c \\
  'mount "$1" "$2/at" && sync -f "$2/at"; echo up >"$2/up"; read -r <"$2/down"' bash "$DISK" "$WORK" </dev/null >/dev/null 2>&1 3>&- &
read -r <"$WORK/up\"""",
        ("mkfs.ext4", "unshare"),
        'echo down >"$WORK/down"; until ! grep -q "^[^ ]* [^ ]* $(cat "/sys/class/block/${DISK##*/}/dev") " /proc/[0-9]*/mountinfo 2>/dev/null; do :; done',
    ),
    Trap(
        "a file system's log on it, the rest elsewhere",
        Reason.FILE_SYSTEM,
        "jbd",
        'mke2fs -q -F -O journal_dev "$DISK"',
        ("mke2fs",),
        cured_by_wiping=True,
    ),
    Trap(
        "swapped to",
        Reason.SWAP_ACTIVE,
        "is used as swap",
        'mkswap -q "$DISK"; swapon "$DISK"',
        ("mkswap",),
        'swapoff "$DISK"',
        on=VM,
    ),
    Trap(
        "a partition of it swapped to",
        Reason.SWAP_ACTIVE,
        "is used as swap",
        f'{PART}; mkswap -q "$part"; swapon "$part"',
        ("mkswap", "addpart"),
        f'swapoff "$part"; {UNPART}',
        on=VM,
    ),
    *map(running, ("0.90", "1.0", "1.1", "1.2")),
    Trap(
        "in an array that never started",
        Reason.MD_ACTIVE,
        "→ md",
        f'{PAIR}; {STOP}; mdadm --incremental --quiet "$DISK" || :',
        ("mdadm",),
        'for one in /dev/md?*; do mdadm --stop --quiet "$one" || :; done',
        on=VM,
    ),
    Trap(
        "an array's spare",
        Reason.MD_ACTIVE,
        "→ md",
        'mdadm --create /dev/md/trap --run --quiet --level=1 --raid-devices=1 --force --spare-devices=1 --assume-clean "$OTHER" "$DISK"',
        ("mdadm",),
        STOP,
        on=VM,
    ),
    Trap(
        "a volume of its group is active",
        Reason.LVM_ACTIVE,
        "(trap-one)",
        f'{LVM} vgcreate -q trap "$DISK"; {LVM} lvcreate -q -Zn -l 4 -n one trap',
        ("lvm",),
        f"{LVM} vgremove -q -f trap",
        on=VM,
    ),
    Trap(
        "below a volume that is mounted, three floors up",
        Reason.MOUNTED,
        "is mounted at",
        f"{PAIR}; {LVM} vgcreate -q trap /dev/md/trap; {LVM} lvcreate -q -Zn -l 8 -n one trap; "
        f'mkfs.ext4 -q /dev/mapper/trap-one; mkdir "$WORK/at"; mount -o ro /dev/mapper/trap-one "$WORK/at"; {CALM}',
        ("mdadm", "lvm"),
        f"{UMOUNT}; {LVM} vgremove -q -f trap; {STOP}",
        on=VM,
    ),
    Trap(
        "the boot disk, two floors below /boot",
        Reason.BOOT_DISK,
        "is mounted at /boot",
        f'{PAIR} --metadata=1.0; echo 1M,32M | sfdisk --quiet /dev/md/trap; part=$(echo "$(readlink -f /dev/md/trap)"p1); '
        f'mkfs.ext4 -q "$part"; mkdir -p /boot; mount -o ro "$part" /boot; {CALM}',
        ("mdadm", "sfdisk"),
        f"umount /boot; {STOP}",
        on=VM,
    ),
    Trap(
        "LUKS, open",
        Reason.CRYPT_OPEN,
        "(trap)",
        f'{LUKS} luks2 "$DISK"; printf secret | cryptsetup open --key-file=- "$DISK" trap',
        ("cryptsetup",),
        "cryptsetup close trap",
        on=VM,
    ),
    Trap(
        "plain dm-crypt, open",
        Reason.CRYPT_OPEN,
        "(trap)",
        'printf secret | cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 256 --hash sha256 "$DISK" trap',
        ("cryptsetup",),
        "cryptsetup close trap",
        on=VM,
    ),
    Trap(
        "a linear mapping on its second half",
        Reason.MAPPED,
        "(trap)",
        'dmsetup create trap --table "0 2048 linear $DISK 4096"',
        ("dmsetup",),
        "dmsetup remove trap",
        on=VM,
    ),
    Trap(
        "a path of a multipath map",
        Reason.MULTIPATH,
        "(trap)",
        'dmsetup create trap --uuid mpath-3600trap --table "0 $(blockdev --getsz "$DISK") multipath 0 0 1 1 service-time 0 1 2 $DISK 1 1"',
        ("dmsetup",),
        "dmsetup remove trap",
        on=VM,
    ),
    Trap(
        "the second device of a mounted btrfs",
        Reason.MOUNTED,
        "mounted btrfs",
        f'mkfs.btrfs -q -f -d single -m raid1 "$OTHER" "$DISK"; btrfs device scan "$OTHER" "$DISK" >/dev/null; set -- "$OTHER"; {MOUNT}',
        ("mkfs.btrfs",),
        UMOUNT,
        on=VM,
    ),
    Trap(
        "a loop device of it mounted",
        Reason.MOUNTED,
        "→ loop",
        f'{EXT4}; twin=$(losetup --find --show "$DISK"); set -- "$twin"; {MOUNT}',
        ("mkfs.ext4", "losetup"),
        f'{UMOUNT}; losetup --detach "$twin"',
        on=HOST,
    ),
    Trap(
        "a loop device of a part of it",
        Reason.HELD,
        "→ loop",
        'twin=$(losetup --find --show --offset 1048576 "$DISK")',
        ("losetup",),
        'losetup --detach "$twin"',
        on=HOST,
    ),
]

SIGNED = [
    written("ext2", "ext2", 'mkfs.ext2 -q -F "$DISK"', "mkfs.ext2"),
    written("ext3", "ext3", 'mkfs.ext3 -q -F "$DISK"', "mkfs.ext3"),
    written("ext4", "ext4", EXT4, "mkfs.ext4"),
    written("xfs", "xfs", 'mkfs.xfs -q -f --unsupported "$DISK"', "mkfs.xfs"),
    written("btrfs", "btrfs", 'mkfs.btrfs -q -f --mixed "$DISK"', "mkfs.btrfs"),
    written("one of several of a btrfs", "btrfs", 'mkfs.btrfs -q -f --mixed "$OTHER" "$DISK"', "mkfs.btrfs"),
    written("f2fs", "f2fs", 'mkfs.f2fs -q -f "$DISK"', "mkfs.f2fs"),
    written("vfat", "vfat", 'mkfs.vfat "$DISK" >/dev/null', "mkfs.vfat"),
    written(
        "squashfs",
        "squashfs",
        'mkdir "$WORK/in"; echo text >"$WORK/in/file"; mksquashfs "$WORK/in" "$WORK/image" -quiet -no-progress; '
        'dd if="$WORK/image" of="$DISK" conv=notrunc status=none',
        "mksquashfs",
    ),
    written("iso9660", "iso9660", at(32768, "\\001CD001\\001\\000LINUX")),
    written("VMware's", "VMFS_volume_member", at(1 << 20, "\\x0d\\xd0\\x01\\xc0")),
    written("Ceph's", "ceph_bluestore", at(0, "bluestore block device\\n")),
    written("swap, not in use", "swap", 'mkswap -q "$DISK"', "mkswap", reason=Reason.SWAP),
    written(
        "a suspended machine",
        "swsuspend",
        'mkswap -q "$DISK"; ' + at(4086, "S1SUSPEND\\x00"),
        "mkswap",
        reason=Reason.SWAP,
    ),
    written("zfs", "zfs_member", ZFS, reason=Reason.ZFS),
    *map(member, ("0.90", "1.0", "1.1", "1.2")),
    Trap(
        "member of an array of another host",
        Reason.RAID_MEMBER,
        "'elsewhere:",
        f"{PAIR} --homehost=elsewhere --name=theirs; {STOP}",
        ("mdadm",),
        on=VM,
        cured_by_wiping=True,
    ),
    written(
        "DDF, as RAID cards write it",
        "ddf_raid_member",
        f'mdadm --create /dev/md/trap --run --quiet --metadata=ddf --level=container --raid-devices=2 "$DISK" "$OTHER"; {STOP}',
        "mdadm",
        reason=Reason.RAID_MEMBER,
        on=VM,
    ),
    written(
        "IMSM, as mainboards write it",
        "isw_raid_member",
        "IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1 mdadm --create /dev/md/trap --run --quiet --metadata=imsm --level=container --raid-devices=2 "
        f'"$DISK" "$OTHER"; {STOP}',
        "mdadm",
        reason=Reason.RAID_MEMBER,
        on=VM,
    ),
    written("LVM, in no group", "LVM2_member", f'{LVM} pvcreate -q "$DISK"', "lvm", reason=Reason.LVM_LABEL),
    written(
        "LVM, in a group that is not active",
        "LVM2_member",
        # Without asking device mapper, which a host that has the tools may yet lack.
        f'{LVM} vgcreate -q trap "$DISK" "$OTHER"; {LVM} lvcreate -q --config global/activation=0 -Zn -an -l 4 -n one trap',
        "lvm",
        reason=Reason.LVM_LABEL,
    ),
    written("LUKS1, closed", "crypto_LUKS", f'{LUKS} luks1 "$DISK"', "cryptsetup", reason=Reason.LUKS),
    written("LUKS2, closed", "crypto_LUKS", f'{LUKS} luks2 "$DISK"', "cryptsetup", reason=Reason.LUKS),
    written("GPT", "gpt", table("gpt"), "sfdisk", reason=Reason.PARTITION_TABLE),
    written("MBR", "dos", table("dos"), "sfdisk", reason=Reason.PARTITION_TABLE),
    written("Sun", "sun", table("sun"), "sfdisk", reason=Reason.PARTITION_TABLE),
    written("SGI", "sgi", table("sgi"), "sfdisk", reason=Reason.PARTITION_TABLE),
    written(
        "GPT of which only the copy at the end is left",
        "gpt",
        table("gpt") + '; dd if=/dev/zero of="$DISK" bs=64K count=1 conv=notrunc status=none',
        "sfdisk",
        reason=Reason.PARTITION_TABLE,
    ),
    written(
        "hybrid: GPT and MBR at once",
        "gpt",
        table("gpt") + '; sgdisk --hybrid=1 "$DISK" >/dev/null',
        "sfdisk",
        "sgdisk",
        reason=Reason.PARTITION_TABLE,
    ),
    written(
        "an empty MBR, made by hand",
        "dos",
        at(510, "\\x55\\xaa")
        + "; "
        + at(446, "\\x80\\x00\\x01\\x00\\x83\\x00\\x01\\x00\\x00\\x08\\x00\\x00\\x00\\x10\\x00\\x00"),
        reason=Reason.PARTITION_TABLE,
    ),
    written(
        "BSD, whose label libblkid knows inside of a partition only",
        "no recognised content",
        at(512, "\\x57\\x45\\x56\\x82") + "; " + at(644, "\\x57\\x45\\x56\\x82"),
        reason=Reason.UNKNOWN_DATA,
    ),
    written(
        "Atari",
        "atari",
        at(0x1C2, "\\x00\\x02\\x00\\x00\\x01GEM\\x00\\x00\\x08\\x00\\x00\\x00\\x10\\x00"),
        reason=Reason.PARTITION_TABLE,
    ),
    written(
        "Macintosh",
        "mac",
        at(0, "ER\\x02\\x00") + "; " + at(512, "PM\\x00\\x00\\x00\\x00\\x00\\x01"),
        reason=Reason.PARTITION_TABLE,
    ),
    written(
        "a cipher without a header",
        "no recognised content",
        'head -c 4M /dev/urandom >"$DISK"',
        reason=Reason.UNKNOWN_DATA,
    ),
    written("data at its end only", "no recognised content", at(-700, "the last words"), reason=Reason.UNKNOWN_DATA),
    written(
        "an array whose superblock was erased",
        "no recognised content",
        f'{EXT4}; wipefs --quiet --all "$DISK"',
        "mkfs.ext4",
        reason=Reason.UNKNOWN_DATA,
    ),
]

LABELS = [
    written(
        "our label, and a file system made since",
        "written since the run 20260101-1",
        f'mkfs.ext2 -q -F "$DISK"\n{labelled("free")}',
        "mkfs.ext2",
    ),
    written(
        "our label, copied from another disk",
        "copied here from another disk",
        labelled("free", "another one"),
        reason=Reason.FOREIGN_LABEL,
    ),
    written(
        "a label that is not whole",
        "no matrix label",
        labelled("free") + at(hosts.LABEL_BLOCK * hosts.LABEL_BYTES + 20, "X"),
        reason=Reason.UNKNOWN_DATA,
    ),
    Trap("left over from a run that was killed", Reason.LEFT_OVER, "leased to the run 20260101-1", labelled("held")),
]


def _of(**changes: object) -> Callable[[DeclaredDisk], DeclaredDisk]:
    return lambda claim: replace(claim, **changes)  # type: ignore[arg-type]


IDENTITY = [
    Trap("another serial number", Reason.WRONG_SERIAL, "not ZC1234", declared=_of(serial="ZC1234")),
    Trap("another WWN", Reason.WRONG_WWN, "reports no WWN", declared=_of(wwn="0x5000c500a1b2c3d4")),
    Trap("another size", Reason.WRONG_SIZE, "not 4000787030016", declared=_of(size=4000787030016)),
    Trap(
        "one sector too small",
        Reason.WRONG_SIZE,
        "bytes, not",
        declared=lambda claim: replace(claim, size=claim.size + 512),
    ),
    Trap("declared by its name alone", Reason.WRONG_SERIAL, "it cannot be identified", declared=_of(serial="")),
    Trap("for other matrices", Reason.NOT_FOR_THIS, "it is for nightly-*", declared=_of(purposes=("nightly-*",))),
    Trap(
        "its name leads to another disk now",
        Reason.ELSEWHERE,
        "but the declared disk is",
        'ln -sfn "$OTHER" "$NAMES/$NAME"',
        undo='ln -sfn "$DISK" "$NAMES/$NAME"',
    ),
    Trap(
        "its name leads nowhere",
        Reason.NOT_THERE,
        "which does not exist",
        'ln -sfn /dev/gone "$NAMES/$NAME"',
        undo='ln -sfn "$DISK" "$NAMES/$NAME"',
    ),
    Trap("nothing has its name", Reason.NOT_THERE, "no device is called", declared=_of(id="wwn-0x5000c500dead")),
    Trap(
        "its name leads to itself",
        Reason.NOT_THERE,
        "which does not exist",
        'ln -sfn "$NAME" "$NAMES/$NAME"',
        undo='ln -sfn "$DISK" "$NAMES/$NAME"',
    ),
    Trap(
        "its name leads to a file",
        Reason.NO_BLOCK_DEVICE,
        "a regular",
        'truncate -s 128M "$WORK/file"; ln -sfn "$WORK/file" "$NAMES/$NAME"',
        undo='ln -sfn "$DISK" "$NAMES/$NAME"',
    ),
    Trap(
        "its name leads to /dev/null",
        Reason.NO_BLOCK_DEVICE,
        "a character special file",
        'ln -sfn /dev/null "$NAMES/$NAME"',
        undo='ln -sfn "$DISK" "$NAMES/$NAME"',
    ),
    Trap(
        "its name leads to a folder",
        Reason.NO_BLOCK_DEVICE,
        "a directory",
        'ln -sfn "$WORK" "$NAMES/$NAME"',
        undo='ln -sfn "$DISK" "$NAMES/$NAME"',
    ),
    Trap(
        "its name is a file, not a link",
        Reason.NO_BLOCK_DEVICE,
        "a regular",
        'rm "$NAMES/$NAME"; echo /dev/sda >"$NAMES/$NAME"',
        undo='rm "$NAMES/$NAME"; ln -sfn "$DISK" "$NAMES/$NAME"',
    ),
    Trap(
        "its name leads through links to another disk",
        Reason.ELSEWHERE,
        "but the declared disk is",
        'ln -s "$OTHER" "$WORK/third"; ln -s third "$WORK/second"; ln -sfn "$WORK/second" "$NAMES/$NAME"',
        undo='ln -sfn "$DISK" "$NAMES/$NAME"',
    ),
    Trap(
        "a partition instead of a disk",
        Reason.PARTITION,
        "is a partition of",
        f'{PART}; ln -sfn "$part" "$NAMES/$NAME"',
        ("addpart",),
        f'ln -sfn "$DISK" "$NAMES/$NAME"; {UNPART}',
    ),
    Trap(
        "an array instead of a disk",
        Reason.NO_DISK,
        "is made of other devices",
        f'{PAIR}; ln -sfn "$(readlink -f /dev/md/trap)" "$NAMES/$NAME"',
        ("mdadm",),
        f'ln -sfn "$DISK" "$NAMES/$NAME"; {STOP}',
        on=VM,
    ),
    Trap(
        "read-only",
        Reason.READ_ONLY,
        "is read-only",
        'blockdev --setro "$DISK"',
        undo='blockdev --setrw "$DISK"',
    ),
    Trap(
        "its file is behind another loop device, which is mounted",
        Reason.TWIN,
        "has the file",
        f'{EXT4}; twin=$(losetup --find --show "$(losetup --noheadings --output BACK-FILE "$DISK")"); set -- "$twin"; {MOUNT}',
        ("mkfs.ext4",),
        f'{UMOUNT}; losetup --detach "$twin"',
        on=HOST,
    ),
]
#: SCSI disks as the kernel itself makes them up.
SCSI = [
    Trap("a stick, which anybody may pull out", Reason.REMOVABLE, "has a removable medium", "removable=1", on=VM),
    Trap("a magneto-optical drive", Reason.OPTICAL, "SCSI type 7", "ptype=7", on=VM),
    Trap("a disk whose switch is at read-only", Reason.READ_ONLY, "is read-only", "wp=1", on=VM),
    Trap(
        "two paths to one disk, and no multipath",
        Reason.AMBIGUOUS,
        "/dev/sdb is called",
        "num_tgts=1 max_luns=1 add_host=2 vpd_use_hostno=0",
        on=VM,
    ),
]

TRAPS = [*IN_USE, *SIGNED, *LABELS, *IDENTITY]
