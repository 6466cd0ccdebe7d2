"""The script that asks for a machine's disks, and what is made of its answer."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from matrix_runner import hosts
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts import inventory
from matrix_runner.hosts.inventory import Label, Signature, StableName, parse_census
from matrix_runner.scripts.jinja import census_script


def test_the_script_is_clean_and_quotes_where_it_looks(tmp_path: Path) -> None:
    script = tmp_path / "census.sh"
    script.write_text(census_script(by_id="/tmp/it's here; no"))
    shellcheck = Path(sys.executable).parent / "shellcheck"
    found = subprocess.run([shellcheck, "--severity=info", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
    assert "by_id='/tmp/it'\"'\"'s here; no'" in script.read_text()


def lines(*words: tuple[str, ...]) -> str:
    return "".join("\t".join(one) + "\n" for one in (*words, ("end",)))


SDA = (("node", "sda", "dev", "8:0"), ("node", "sda", "size", "2048"))


def test_a_truncated_answer_is_rejected() -> None:
    with pytest.raises(HarnessBroken, match="cut short"):
        parse_census(lines(*SDA).removesuffix("end\n"))
    with pytest.raises(HarnessBroken):
        parse_census("")


def test_facts_of_the_kernel_precede_those_of_lsblk() -> None:
    said = '{"blockdevices": [{"kname": "sda", "serial": "of udev", "wwn": "0x5000", "model": "M"}]}'
    told = ("node", "sda", "vpd_pg80", "  ZC11 ")
    node = parse_census(lines(*SDA, told, ("node", "sda", "stat", "1 0 8 0 2 0 16 0"), ("lsblk", said))).nodes["sda"]
    assert (node.serial, node.wwn, node.model) == ("ZC11", "0x5000", "M")
    assert (node.size, node.written) == (1 << 20, 16 * 512)


TCP = {
    "device/transport": "tcp",
    "device/address": "traddr=192.0.2.7,trsvcid=4420",
    "device/queue_count": "5",
    "device/sqsize": "127",
}
OVER_TCP = "NVMe over tcp, traddr=192.0.2.7,trsvcid=4420, 4 queues, depth 128"


def test_a_disk_behind_a_network_has_the_link_and_the_writes_of_its_paths() -> None:
    head = ("node", "nvme0n1", "dev", "259:1"), ("node", "nvme0n1", "stat", "0 0 0 0 0 0 0 0")
    other = ("node", "nvme0c0n11", "stat", "0 0 0 0 5 0 99 0")
    ways = [("node", f"nvme0c{number}n1", "stat", f"0 0 0 0 2 0 {16 + number} 0") for number in (0, 1)]
    links = [("node", "nvme0c1n1", key, value) for key, value in TCP.items()]
    census = parse_census(lines(*head, other, *ways, *links))
    assert [*census.nodes] == ["nvme0n1"]
    assert (census.nodes["nvme0n1"].written, census.nodes["nvme0n1"].link) == (33 * 512, OVER_TCP)


def test_only_a_disk_behind_a_network_has_a_link() -> None:
    node = ("node", "nvme0n1", "dev", "259:1")
    for transport, link in (("tcp", OVER_TCP), ("pcie", "")):
        keys = {**TCP, "device/transport": transport}
        found = parse_census(lines(node, *(("node", "nvme0n1", key, value) for key, value in keys.items())))
        assert found.nodes["nvme0n1"].link == link


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ({"wwid": "naa.5000c500a1b2c3d4"}, "wwn-0x5000c500a1b2c3d4"),
        ({"wwid": "eui.0025385b71b0a1c2"}, "nvme-eui.0025385b71b0a1c2"),
    ],
)
def test_disks_get_stable_names_without_udev(keys: dict[str, str], name: str) -> None:
    census = parse_census(lines(*SDA, *(("node", "sda", key, value) for key, value in keys.items())))
    assert census.names == (StableName(name, "8:0", "/dev/sda"),)
    known = parse_census(
        lines(*SDA, ("link", name, "8:0", "/dev/sda", "block special file"), ("node", "sda", "wwid", keys["wwid"]))
    )
    assert len(known.names) == 1


def test_signatures_of_both_programs_count() -> None:
    wipefs = '{"signatures": [{"device": "sda", "offset": "0x438", "type": "ext4", "uuid": "u-1", "label": null}]}'
    node = parse_census(
        lines(*SDA, ("wipefs", "sda", wipefs), ("blkid", "sda", "0", "TYPE=ext4 PTTYPE=dos PTUUID=u-2"))
    ).nodes["sda"]
    assert node.signatures == (Signature("ext4", "0x438", "u-1"), Signature("dos", uuid="u-2"))
    assert str(node.signatures[0]) == "ext4 at 0x438, UUID u-1"
    nothing = parse_census(lines(*SDA, ("wipefs", "sda", ""), ("blkid", "sda", "2", ""))).nodes["sda"]
    assert nothing.signatures == ()
    for status, word in (("8", "several at once"), ("4", "failed")):
        doubt = parse_census(lines(*SDA, ("wipefs", "sda", ""), ("blkid", "sda", status, "?"))).nodes["sda"]
        assert word in doubt.signatures[0].type
    assert "invalid JSON" in parse_census(lines(*SDA, ("wipefs", "sda", "{oops"))).nodes["sda"].unreadable


def test_invalid_lsblk_output_blocks_only_the_affected_disks() -> None:
    all_told = (("node", "sda", "device/serial", "S1"), ("node", "sda", "device/wwid", "naa.5"))
    for broken in (
        '{"blockdevices": [{"kname": "sda"',
        '{"blockdevices": [{"serial": "S"}]}',
        '{"blockdevices": 1}',
        "7",
    ):
        census = parse_census(lines(*SDA, *all_told, ("node", "sdb", "dev", "8:16"), ("lsblk", broken)))
        assert census.nodes["sda"].unreadable == ""
        assert census.nodes["sdb"].unreadable == f"lsblk printed invalid JSON: {broken}"


def test_a_line_ends_where_the_script_ended_it() -> None:
    odd = "/srv/a\u2028b\x85c\x0bd\x0ce\x1cf\x1dg\x1eh\u2029i"
    said = json.dumps({"blockdevices": [{"kname": "sda", "model": odd}]}, ensure_ascii=False)
    census = parse_census(lines(*SDA, ("mount", "8:0", "/dev/sda", odd, "ext4"), ("lsblk", said)))
    assert [mount.point for mount in census.mounts] == [odd]
    assert census.nodes["sda"].model == odd


def test_members_of_arrays_are_also_taken_from_mdstat() -> None:
    census = parse_census(lines(*SDA, ("mdstat", "md0 : inactive sda[1](S) sdb[0]")))
    assert census.holders["sda"] == ("md0",)


def test_a_label_is_read_as_it_was_written_and_only_whole() -> None:
    mine = Label("20260101-1", "wwn-1", "ZC11", "held")
    block = inventory.encode_label(mine)
    assert len(block) == hosts.LABEL_BYTES
    text = block.decode()
    assert inventory.decode_label(text) == mine
    assert inventory.decode_label(text.replace("ZC11", "ZC12")) is None
    assert inventory.decode_label("") is None
    with pytest.raises(ValueError, match="no label"):
        inventory.encode_label(Label("ü" * 1000, "", "", "free"))


def test_labels_of_earlier_versions_are_read_and_written_as_they_were() -> None:
    """They had no escapes."""
    content = '{"run":"20260101-1","disk":"wwn-1","serial":"ZC11","state":"free"}'
    digest = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    text, mine = f"matrix-disk 1 {digest} {content}", Label("20260101-1", "wwn-1", "ZC11", "free")
    assert inventory.decode_label(text) == mine
    assert inventory.encode_label(mine).rstrip(b"\0").decode() == text


@pytest.mark.parametrize(
    "content",
    [
        '{"run":[],"disk":"a","serial":"b","state":"held"}',
        '{"run":7,"disk":"a","serial":"b","state":"held"}',
        '{"run":"a","disk":null,"serial":"b","state":"held"}',
        '{"run":"a","disk":"a","serial":{},"state":"held"}',
        '{"run":"a","disk":"a","serial":"b","state":true}',
        '{"run":"a","disk":"a","serial":"b"}',
        '["a","b","c","held"]',
        "7",
        "[" * 2000,
    ],
)
def test_a_label_that_someone_else_wrote_is_none(content: str) -> None:
    """Its checksum has no secret: whoever hands out a disk can write one, and `matrix clean` reads it."""
    text = f"{hosts.LABEL_MAGIC} 1 {inventory._digest(content)} {content}"
    assert inventory.decode_label(text) is None
