"""What a newcomer may write by mistake, and every message that comes of it in one file to read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

import matrix_runner
from matrix_runner.base.errors import BadInput
from matrix_runner.language.hints import PATTERNS, as_name
from matrix_runner.space.load import parse

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

RIGHT = """\
name: first
disks: {count: 4, size: 1GiB}
layouts:
  raid5: [md: {level: 5, chunk: 64KiB}]
  raid10: [md: {level: 10, layout: f2}, fs: {type: ext4}]
tune:
  readahead: [default, 4MiB]
workloads:
  seq: {rw: read, bs: 1MiB, direct: false, runtime: 10s}
  rnd: {rw: randwrite, bs: 4KiB, iodepth: 16, runtime: 10s}
repeat: 3
"""

#: Each is one thing put wrong in the matrix above.
MISTAKES = [
    ("name: first", "name: größe"),
    ("name: first", "name: my first test"),
    ("name: first", "name: 4disks"),
    ("name: first\n", ""),
    ("name: first", "nmae: first"),
    ("disks: {count: 4, size: 1GiB}", "disks: 4"),
    ("size: 1GiB", "size: 4"),
    ("size: 1GiB", "size: 1G"),
    ("size: 1GiB", "size: 1 gb"),
    ("count: 4, ", ""),
    ("count: 4", "count: four"),
    ("count: 4", "count: '4'"),
    ("disks: {count: 4, size: 1GiB}", "disks: [sda, sdb]"),
    ("disks: {count: 4, size: 1GiB}", "disks: /dev/sdb"),
    ("[md: {level: 5, chunk: 64KiB}]", "raid5"),
    ("[md: {level: 5, chunk: 64KiB}]", "[raid5]"),
    ("[md: {level: 5, chunk: 64KiB}]", "md: {level: 5}"),
    ("[md: {level: 5, chunk: 64KiB}]", "{md: {level: 5, chunk: 64KiB}}"),
    ("[md: {level: 5, chunk: 64KiB}]", "5"),
    ("chunk: 64KiB", "chunk: 100KiB"),
    ("chunk: 64KiB", "chunk: 64"),
    ("chunk: 64KiB", "chunk: 64K"),
    ("chunk: 64KiB", "chunk_size: 64KiB"),
    ("level: 5,", "level: raid7,"),
    ("level: 5,", "level: striped,"),
    ("level: 5, ", ""),
    ("  raid5: [", "  räid5: ["),
    ("layouts:\n", "layouts: raid5\n"),
    ("layouts:\n", "layout:\n"),
    ("[md: {level: 5, chunk: 64KiB}]", "[mdadm: {level: 5}]"),
    ("[md: {level: 5, chunk: 64KiB}]", "\n    - md:\n        level: 5\n        chunk 64KiB"),
    ("[md: {level: 5, chunk: 64KiB}]", "\n    - md:\n      level: 5"),
    ("[md: {level: 5, chunk: 64KiB}]", "\n\t- md: {level: 5}"),
    ("[md: {level: 5, chunk: 64KiB}]", "[md: {level: 5, chunk: 64KiB]"),
    ("fs: {type: ext4}", "fs: ext5"),
    ("fs: {type: ext4}", "ext4"),
    ("fs: {type: ext4}", "fs: {type: ntfs}"),
    ("readahead: [default, 4MiB]", "readahead: 4096"),
    ("readahead: [default, 4MiB]", "read_ahead_kb: 4096"),
    ("readahead: [default, 4MiB]", "scheduler: deadline"),
    ("tune:\n  readahead: [default, 4MiB]", "tune: readahead"),
    ("readahead: [default, 4MiB]", "readahead: [default 4MiB]"),
    ("rw: read,", "rw: sequential,"),
    ("rw: read,", ""),
    ("rw: read,", "rw:read,"),
    ("bs: 1MiB", "bs: 1M"),
    ("bs: 1MiB", "bs: 1"),
    ("iodepth: 16", "iodepth: many"),
    ("iodepth: 16", "iodepth: 0"),
    ("iodepth: 16", "iodepth: 1,16"),
    ("iodepth: 16", "qd: 16"),
    ("direct: false", "direct: no"),
    ("direct: false", "direct: 0"),
    ("runtime: 10s", "runtime: 10"),
    ("runtime: 10s", "runtime: 10sec"),
    ("  seq: {", "seq: {"),
    ("  rnd:", "   rnd:"),
    ("  seq: {rw: read, bs: 1MiB, direct: false, runtime: 10s}", "  seq: randread"),
    ("workloads:", "worklaods:"),
    ("workloads:\n", "workloads: seq\n"),
    ("repeat: 3", "repeat: three"),
    ("repeat: 3", "repeat:"),
    ("repeat: 3", "repeat: 3\nexclude: layout=raid5"),
    ("repeat: 3", "repeat: 3\nexclude: {layout: raid5}"),
    ("repeat: 3", "repeat: 3\nonly: [raid5]"),
    ("repeat: 3", "repeat: 3\nonly: [{layout: raid6}]"),
    ("repeat: 3", "repeat: 3\nmachine: debian-12"),
    ("repeat: 3", "repeat: 3\nmachine: {memory: 2}"),
    ("repeat: 3", "repeat: 3\nguidelines: parity.yaml"),
    ("repeat: 3", "repeat: 3\nguidelines: [{id: a}]"),
    ("repeat: 3", "repeat: 3\nrepeat: 4"),
    ("repeat: 3", "repeat: 3\nfaults: [disk 0 dies]"),
    ("repeat: 3", "repeat: 3\nbus_limit: 100MB/s"),
    ("repeat: 3", "repeat: 3\nmonitor: yes please"),
    ("level: 5,", "level: 6, devices: 9,"),
    ("repeat: 3", "repeat: 3\nguidelines: [{id: a, bound: {metric: read.bandwidth, at_least: 1}}]"),
    (
        "level: 5, chunk: 64KiB}]\n",
        "level: 6, devices: 9}]\nguidelines: [{id: a, bound: {metric: read.bw, where: {layout: raid50}, at_least: 1MB/s}}]\n",
    ),
]


class _Text(SingleFileSnapshotExtension):
    """One file of text, to be read by people."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


def _message(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        parse("first.yaml", text)
    assert caught.value.resolution
    return f"{caught.value.brief}\n{caught.value.details}\n→ {caught.value.resolution}\n"


def test_every_mistake_of_a_newcomer_has_a_message_to_act_on(snapshot: SnapshotAssertion) -> None:
    parse("first.yaml", RIGHT)
    messages = []
    for right, wrong in MISTAKES:
        assert right in RIGHT, right
        messages.append(_message(RIGHT.replace(right, wrong, 1)))
    whole = "\n".join(messages)
    assert "^[" not in whole, "a message shows a regular expression"
    assert whole == snapshot(extension_class=_Text)


@pytest.mark.parametrize(
    ("right", "wrong", "value"),
    [
        ("disks: {count: 4, size: 1GiB, model: {kind: ideal}}", "disks: @", "4"),
        ("[md: {level: 5, chunk: 64KiB}]", "@", "raid6"),
        ("[md: {level: 5, chunk: 64KiB}]", "@", "xfs"),
        ("[md: {level: 5, chunk: 64KiB}]", "@", "fast"),
        ("{type: ext4}", "@", "ext5"),
        ("{rw: read, bs: 1MiB, direct: false, runtime: 10s}", "@", "fast"),
        ("\n  readahead: [default, 4MiB]", " @", "fast"),
        ("repeat: 3", "exclude: @", "raid5"),
        ("repeat: 3", "only: [@]", "raid5"),
        ("repeat: 3", "machine: @", "4"),
        ("repeat: 3", "bus_limit: @", "4"),
        ("repeat: 3", "faults: @", "dies"),
        ("repeat: 3", "needs: @", "ssd"),
    ],
)
def test_the_advice_of_messages_is_correct(right: str, wrong: str, value: str) -> None:
    modelled = RIGHT.replace("1GiB}", "1GiB, model: {kind: ideal}}")
    assert right in modelled
    broken = modelled.replace(right, wrong, 1)
    shown = _message(broken.replace("@", value)).partition("write `")[2].partition("`")[0]
    parse("first.yaml", broken.replace("@", shown))


@pytest.mark.parametrize(
    ("text", "name"),
    [("größe", "groesse"), ("Schlüssel 1", "Schluessel-1"), ("àé", "ae"), ("4k", ""), ("磁盘", ""), ("a/b", "a-b")],
)
def test_the_nearest_name_is_shown(text: str, name: str) -> None:
    assert as_name(text) == name


def test_no_pattern_of_the_language_is_shown_to_a_user() -> None:
    package = Path(matrix_runner.__file__).parent
    sources = [file.read_text() for room in ("language", "layers") for file in (package / room).rglob("*.py")]
    patterns = {found for text in sources for found in re.findall(r'pattern=r"(.*?)"[,)]', text)}
    assert len(patterns) > 5
    assert patterns <= PATTERNS.keys()
