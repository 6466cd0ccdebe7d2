"""Names in texts that are passed on."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.text import Pseudonyms


def test_the_summary_counts_names() -> None:
    names = Pseudonyms({})
    assert names.summary == "no name was found"
    names.replace("from 10.0.0.1 to 10.0.0.2, 10.0.0.1 and mail anna@corp.example")
    assert names.summary == "2 addresses, 1 host"


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("on shelf-12 and SHELF-12.", "on host-1 and host-1."),
        ("host=ab, label fab", "host=host-1, label fab"),
        ("serial WD-WCC4N0123456 at sda", "serial disk-1 at sda"),
        ("/dev/disk/by-id/ata-WDC_WD40-00_WD-1 of", "/dev/disk/by-id/disk-1 of"),
        ("--destroy wwn-0x5000c500a1b2c3d4,wwn-0x5000c500a1b2c3d5", "--destroy disk-1,disk-2"),
        ("scsi-SATA_ST4000_Z30ABC", "disk-1"),
        ("nvme-eui.0025385b71b00001", "disk-1"),
        ("mail anna@corp.example", "mail host-1"),
        ("tls://lab7:8786 and postgresql://eva@db/matrix", "tls://host-1 and postgresql://host-2/matrix"),
        ("at 192.168.7.20 and fe80::1ff:fe23:4567:890a", "at address-1 and address-2"),
        ("52:54:00:12:34:56", "address-1"),
        ("db7.corp.internal", "host-1"),
        ("*.example.com, ..a.example.org, -x.lan and a..b.example.net", "*.host-1, ..host-2, host-3 and a..host-4"),
        ("-anna@corp.example, .eve@b.example", "host-1, host-2"),
        ("in /home/eva/runs/x.yaml: bad", "in path-1: bad"),
        ("in /srv/a, again /srv/a, and /srv/b", "in path-1, again path-1, and path-2"),
        ("root=UUID=0a1b2c3d-0001-0002-0003-0123456789ab", "root=UUID=uuid-1"),
        ("--on ssh:nas4 --x", "--on ssh:host-1 --x"),
        ("eva wrote it, in primeval times", "user-1 wrote it, in primeval times"),
    ],
)
def test_names_are_replaced(text: str, replaced: str) -> None:
    known = {"host": ["shelf-12", "ab"], "disk": ["WD-WCC4N0123456"], "user": ["eva"], "path": []}
    assert Pseudonyms(known).replace(text) == replaced


@pytest.mark.parametrize("word", ["1.", "a.b.", "x-", "ata-a", "a@", "/a", "10.0.0.1.", "ab", "://a:"])
def test_a_line_of_a_megabyte_takes_no_hours(word: str) -> None:
    """A hostile journal made `bug-report` hang: from each place in a word, a pattern read it to its end."""
    known = {"host": ["shelf-12", "ab"], "disk": ["WD-WCC4N0123456"], "user": ["eva"], "path": []}
    assert "shelf-12" not in Pseudonyms(known).replace(f"{word * 200_000} shelf-12")


def test_many_names_take_no_hours() -> None:
    names = Pseudonyms({})
    assert names.replace(" ".join(f"10.{n % 200}.{n // 200 % 200}.{n // 40_000}" for n in range(100_000)))
    assert names.counts == {"address": 100_000}


@pytest.mark.parametrize(
    "text",
    [
        "raid5/chunk=64KiB/rw=read 12 MB/s",
        "/dev/md0, /sys/block/sda/queue, /etc/fstab, /usr/bin/fio",
        "2026-11-29T08:01:40.621Z INFO    ended with 0 after 0.164 s: fio --parse-only -",
        "fio-3.33, kernel 6.12.48, 0:0:0:0, 127.0.0.1, version 0.2.0.dev1972+g01d5f441d567",
        "cells/raid5/trial-1/lost-1.log",
        "read/write, 1 / 2, debian-13, localhost",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert Pseudonyms({"host": ["debian", "localhost", ""], "user": ["root"]}).replace(text) == text


@given(st.lists(st.text("abc.*+(-\\", min_size=5, max_size=9), min_size=1, max_size=5), st.text("abc.*+(-\\ \n"))
def test_no_known_name_stays(names: list[str], around: str) -> None:
    text = around.join(["", *names, *names, ""])
    left = Pseudonyms({"host": names}).replace(text)
    for name in names:
        assert name.lower() not in re.sub(r"(host|disk|path|address)-\d+", "\n\n", left.lower())


def test_a_pseudonym_is_the_same_in_all_texts() -> None:
    names = Pseudonyms({"path": ["/data/my runs"]})
    assert names.replace("below '/data/my runs/night'") == "below 'path-1'"
    assert names.replace("/data/my runs/night or /data/my runs") == "path-1 or path-2"
    assert names.counts == {"path": 2}


def test_thousands_of_known_names_take_no_hours() -> None:
    """A pattern with one alternative for each of 1,000 hosts took a second for each line."""
    hosts = [f"node-{number:05}" for number in range(5_000)]
    names = Pseudonyms(
        {"host": [*hosts, "n", "ab", "ab-cdef", "Host" + "x" * 300, "a" * 99, "İstanbul-1"], "user": ["nodes"]}
    )
    text = "2026-11-29T08:01:40.621Z INFO    ended with 0 after 0.164 s: fio --parse-only -\n" * 2_000
    assert names.replace(text) == text
    found = "node-04999, NODE-00000x, nodes, nodesx, ab, abx, ab-cdef, host" + "x" * 300 + " at İstanbul-1"
    assert names.replace(found) == "host-1, host-2x, user-1, nodesx, host-3, abx, host-4, host-5 at host-6"


def test_a_path_ends_before_an_escaped_end_of_a_line() -> None:
    names = Pseudonyms({"path": ["/srv/acme"]})
    assert names.replace('"notes in /srv/acme/b\\n# see\\ndisks: 1"') == '"notes in path-1\\n# see\\ndisks: 1"'
    assert names.replace("in /srv/acme/b\n") == "in path-1\n"
