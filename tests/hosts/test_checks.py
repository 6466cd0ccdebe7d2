"""What no trap can be built of without the hardware: judged as the kernel would tell of it."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from matrix_runner.hosts.checks import check_disk, list_disks
from matrix_runner.hosts.inventory import Census, Mount, Node, Signature, StableName
from matrix_runner.hosts.reasons import Reason, reason_for
from matrix_runner.language.hosts import DeclaredDisk

DISK = Node("sda", "8:0", 1 << 40, serial="ZC11", wwn="naa.5000c500a1", model="ST4000", filled=0)
NAME = StableName("wwn-0x5000c500a1", "8:0", "/dev/sda")
CLAIM = DeclaredDisk("wwn-0x5000c500a1", 1 << 40, serial="ZC11", wwn="0x5000C500A1")


def census(*nodes: Node, holders: dict[str, tuple[str, ...]] | None = None, mounts: tuple[Mount, ...] = ()) -> Census:
    return Census(
        MappingProxyType({node.name: node for node in nodes}),
        MappingProxyType({"sda": tuple(node.name for node in nodes if node.partition)}),
        MappingProxyType(holders or {}),
        (NAME,),
        mounts,
    )


def reasons(found: Census, claim: DeclaredDisk = CLAIM) -> list[str]:
    return [str(one) for one in check_disk(found, claim).refusals]


def test_an_empty_disk_has_no_refusal() -> None:
    assert reasons(census(DISK)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scsi_type": "5"}, "optical: /dev/sda is a device of SCSI type 5, not a disk"),
        ({"removable": True}, "removable: /dev/sda has a removable medium"),
        ({"bcache": "clean"}, "bcache in use: sda: clean"),
        ({"wwn": ""}, "wrong WWN: /dev/sda reports no WWN"),
        ({"unreadable": "I/O error"}, "unreadable: I/O error"),
        ({"filled": None}, "unreadable: the content of /dev/sda could not be read"),
    ],
)
def test_each_state_of_a_disk_has_its_refusal(changes: dict[str, object], said: str) -> None:
    assert said in reasons(census(replace(DISK, **changes)))  # type: ignore[arg-type]


def test_a_second_path_to_it_is_a_twin_and_a_map_above_both_is_multipath() -> None:
    path, mapped = (
        replace(DISK, name="sdb", dev="8:16"),
        Node("dm-0", "253:0", 1, mapping="mpatha", mapping_uuid="mpath-1"),
    )
    found = census(DISK, path, mapped, holders={"sda": ("dm-0",), "sdb": ("dm-0",)})
    assert reasons(found) == [
        "twin: /dev/sdb has the identity naa.5000c500a1 too: writing to one of them is writing to both",
        "multipath: sda → dm-0 (mpatha)",
    ]


def test_equal_serial_numbers_are_distinguished_by_size_and_wwn() -> None:
    bare = replace(DISK, wwn="")
    claim = replace(CLAIM, wwn="")
    assert reasons(census(bare, replace(bare, name="sdb", dev="8:16", size=1 << 30)), claim) == []
    assert len(reasons(census(bare, replace(bare, name="sdb", dev="8:16")), claim)) == 1
    assert reasons(census(DISK, replace(DISK, name="sdb", dev="8:16", wwn="naa.5000c500a2"))) == []


def test_uses_are_found_through_partitions_and_holders() -> None:
    part = Node("sda1", "8:1", 5, partition=True)
    array = Node("md0", "9:0", 5, array_state="clean")
    volume = Node("dm-0", "253:0", 5, mapping="vg-root", mapping_uuid="LVM-1")
    mounts = (Mount("253:0", "/dev/mapper/vg-root", "/", "ext4"), Mount("0:50", "/dev/mapper/vg-root", "/srv", "btrfs"))
    found = census(DISK, part, array, volume, holders={"sda1": ("md0",), "md0": ("dm-0",)}, mounts=mounts)
    assert reasons(found) == [
        "md array: sda → sda1 → md0",
        "LVM volume: sda → sda1 → md0 → dm-0 (vg-root)",
        "boot disk: sda → sda1 → md0 → dm-0 is mounted at /, /srv",
    ]
    assert reasons(found, replace(CLAIM, wipe=True)) == reasons(found)


def test_holders_in_a_ring_have_an_end() -> None:
    mapped = Node("dm-0", "253:0", 5, mapping="odd")
    assert len(reasons(census(DISK, mapped, holders={"sda": ("dm-0",), "dm-0": ("dm-0", "sda")}))) == 1


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("promise_fasttrack_raid_member", Reason.RAID_MEMBER),
        ("mpath_member", Reason.MULTIPATH),
        ("LVM1_member", Reason.LVM_LABEL),
        ("PMBR", Reason.PARTITION_TABLE),
        ("ocfs2", Reason.FILE_SYSTEM),
        ("anything new", Reason.FILE_SYSTEM),
    ],
)
def test_known_and_unknown_signatures_are_refused(kind: str, why: Reason) -> None:
    assert reason_for(Signature(kind)) is why


def test_the_list_has_what_is_there_and_what_should_be() -> None:
    other = Node("sdb", "8:16", 5, serial="X", rotational=True)
    gone = DeclaredDisk("wwn-gone", 7, serial="Y")
    found = list_disks(census(DISK, other, Node("md0", "9:0", 5, array_state="clean")), (CLAIM, gone))
    assert [(one.path, one.declared, one.usable) for one in found] == [
        ("/dev/sda", "wwn-0x5000c500a1", True),
        ("", "wwn-gone", False),
        ("/dev/sdb", "", False),
    ]
    assert [str(one) for one in found[2].refusals] == ["not named: hosts.yaml does not list it: it has no stable name"]
