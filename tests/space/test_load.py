import copy
import json
import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from matrix_runner.base.errors import BadInput
from matrix_runner.base.findings import Flaw
from matrix_runner.language.matrix import Matrix
from matrix_runner.language.yaml_source import UnreadableError, read
from matrix_runner.space.includes import validated
from matrix_runner.space.load import BadMatrix, parse
from matrix_runner.space.select import values_of
from matrix_runner.space.space import Space
from tests.support.matrices import SMALL, SWEEP
from tests.support.mistakes import errors

#: Nine lists of nine aliases each: a few hundred bytes that would unfold to 9⁹ values.
BOMB = "k0: &k0 [1]\n" + "".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]\n" for n in range(1, 10))


def test_weights_are_of_known_workloads() -> None:
    assert errors(f"{SMALL}for: {{works: 2}}\n") == [
        f"{SMALL.count(chr(10)) + 1}:14: there is no workload works; did you mean work?"
    ]


@pytest.mark.parametrize("weight", [".inf", ".nan", "1e308", "0"])
def test_weights_are_finite_and_positive(weight: str) -> None:
    (error,) = errors(f"{SMALL}for: {{work: {weight}}}\n")
    assert "must be" in error


def test_malformed_parts_come_first_with_a_note_on_later_checks() -> None:
    text = """\
name: broken
disks: {count: 3, size: 1GiB}
layouts:
  parity: [md: {level: [5, 6], chnk: 64KiB}]
workloads:
  read: {rw: read, bs: [64KiB, 64k]}
guidelines:
  - {id: one, best: {metric: reed.bw, along: md.chunk, is: 64KiB}}
"""
    assert errors(text) == [
        "4:32: unknown key 'chnk'; did you mean chunk?",
        "6:32: '64k': no size unit 'k' is known; did you mean 64KiB or 64KB?",
        "8:30: 'reed.bw': there is no such metric; did you mean read.bw or rebuild.bw?",
    ]
    with pytest.raises(BadMatrix, match="3 errors") as caught:
        parse("m.yaml", text)
    assert "the rest is checked after that" in caught.value.resolution
    right = text.replace("chnk", "chunk").replace("64k]", "64KiB]").replace("reed", "read")
    assert errors(right) == ["4:28: RAID 6 needs at least 4 disks; 3 disks are declared"]


PARTS = """\
name: parts
disks: {count: 4, size: 1GiB}
layouts:
  wrong: [md: {levl: 5}]
  odd: [md: {level: 5, chunk: 100KiB}]
  good: [md: {level: 5, chunk: 64KiB}]
workloads:
  kind: {rw: raed}
  large: {rw: read, size: 100GiB}
  small: {rw: read, bs: 1000B}
guidelines: [{id: x, bond: 3}]
"""
_WRONG = "4:16: unknown key 'levl'; did you mean level?"
_CHUNK = "5:31: a chunk must be a power of two and at least 4KiB; the nearest is 64KiB or 128KiB"
_LARGE = "9:27: does not fit on good: 100GiB are needed, and there are at most 3066MiB"
_SMALL = "10:25: direct I/O needs whole sectors of 512B, and 1KB is not"


def test_one_pass_reports_the_impossible_parts_that_do_not_depend_on_malformed_ones() -> None:
    found = errors(PARTS)
    assert [found[at] for at in (0, 1, 3, 4)] == [_WRONG, _CHUNK, _LARGE, _SMALL]
    assert len(found) == 6


@pytest.mark.parametrize(
    "change",
    [
        ("size: 1GiB}", "size: 1GiB, modle: x}"),  # the disks decide what fits
        ("guidelines:", "only: [{layout: wrong}]\nguidelines:"),  # leaves the other layouts out
        ("  odd: [md: {level: 5, chunk: 100KiB}]\n  good: [md: {level: 5, chunk: 64KiB}]\n", ""),
    ],
)
def test_parts_that_depend_on_malformed_ones_wait(change: tuple[str, str]) -> None:
    found = errors(PARTS.replace(*change))
    assert not any("chunk must" in one or "does not fit" in one or "sectors" in one for one in found), found


def test_malformed_workloads_and_lists_do_not_hide_impossible_layouts() -> None:
    alone = PARTS.replace("levl", "level").replace(
        "  large: {rw: read, size: 100GiB}\n  small: {rw: read, bs: 1000B}\n", ""
    )
    assert [one.partition(" is not")[0] for one in errors(alone) if not one.startswith("9")] == [_CHUNK, "8:14: 'raed'"]
    found = errors(PARTS.replace("[md: {levl: 5}]", "[[md: {level: 5}]]"))
    assert _CHUNK in found
    assert any("a map is needed here" in one for one in found)


IMPOSSIBLE = """\
name: bad
machine: {kernel: ./nothere}
disks: {count: 3, size: 1GiB}
layouts:
  six: [md: {level: 6, devices: 3, chunk: 48KiB}, fs: {type: ext4}]
  five: [md: {level: 5, chunk: 64KiB}]
tune: {readahead: 1MiB, nr_requests: 64}
workloads:
  odd: {rw: write, bs: 64KiB, direct: false, fio: {frobnicate: 1}}
exclude:
  - {level: 77}
  - {bs: [13XB, 7KiB], layout: no}
  - {fs.type: ext4, type: ext4, md.level: 6, md.chunk: 48KiB}
  - {nr_requests: 65, workload: evn}
only: [{layuot: five}, {readahead: 1MiB}]
guidelines:
  - {id: one, best: {metric: read.bw, along: bs, where: {layout: nowhere}, is: 5KiB}}
  - {id: other, bound: {metric: read.bw, where: {fs.typ: ext4}, at_least: 1MB/s}}
"""


def test_everything_impossible_comes_in_one_pass_with_rules_and_guidelines() -> None:
    """What an impossible layout declares can still be named; of guidelines it is not asked whether cells decide them."""

    def ask(space: Space) -> list[Flaw]:
        assert len(space.workloads) == 1
        return [
            Flaw(("workloads", "odd", "fio"), "fio refuses it"),
            Flaw(("guidelines", 1, "bound"), "no cells of this matrix can decide it"),
        ]

    assert [one.partition(";")[0] for one in errors(IMPOSSIBLE, ask)] == [
        "5:33: RAID 6 needs at least 4 devices, not 3",
        "5:43: a chunk must be a power of two and at least 4KiB",
        "9:46: fio refuses it",
        "11:13: no cell has md.level=77",
        "12:6: no cell has workload.bs=13XB",
        "12:6: no cell has workload.bs=7KiB",
        "12:32: no cell has layout=no",
        "13:21: 'fs.type' and 'type' are the same axis",
        "14:19: no cell has tune.nr_requests=65",
        "14:33: no cell has workload=evn",
        "15:9: unknown axis 'layuot'",
        "17:66: no cell has layout=nowhere",
        "17:80: no cell has workload.bs=5KiB",
        "18:50: unknown axis 'fs.typ'",
    ]


#: Each is one thing put wrong in a matrix that holds.
MISTAKES = [
    ("count: 4", "count: four", "'four' is not a whole number"),
    ("count: 4", "count: 0", "'0': must be at least 1"),
    ("size: 1GiB", "size: 4KiB", "'4KiB': must be at least 16MiB"),
    ("size: 1GiB", "size: 900TiB", "'900TiB': must be less than 16TiB"),
    ("runtime: 1s}\n  oltp", "runtime: 0s}\n  oltp", "'0s': must be at least 1ms"),
    ("bs: [64KiB, 1MiB]", "blocksize: 64KiB", "unknown key 'blocksize'; did you mean bs?"),
    ("stripe_cache_size: [256, 16384]", "stripe_cache_size: [256, 32768]", "'32768': 32768 pages for each of 4 devices of parity/level=5,chunk=64KiB are 512MiB, too much for a machine with 512MiB of memory; write machine: {memory: 1GiB}"),
    ("size: 1GiB", "size: 1024", "'1024': no unit; did you mean 1KiB, which is the same in bytes, or 1024KiB?"),
    ("bus: sata", "bus: stata", "'stata' is not one of virtio, scsi, sata or nvme; did you mean sata?"),
    ("[disk]", "[dsk]", "unknown layer 'dsk'; did you mean disk or disks?"),
    ("[disk]", "[bcachefs]", "unknown layer 'bcachefs'; the file systems are ext2, ext3, ext4, xfs, btrfs, f2fs"),
    ("[disk]", "[]", "this list is empty; write at least one item"),
    ("[disk]", "[disk: {number: 4}]", "there is no disk 4: 4 are declared, counted from 0"),
    ("[disk]", "[disk, md: {level: 5}]", "RAID 5 needs at least 2 disks; `disk` selects 1 disk"),
    ("level: 0", "level: 7", "'7' is not one of linear, 0, 1, 4, 5, 6 or 10"),
    ("level: 0, ", "", "'level' is missing"),
    ("layout: [n2, f2, o2]", "layout: [n2, x2]", "'x2': no layout; RAID 10 has n2, f2, o2 and their like"),
    ("readahead: [default, 32MiB]", "readahead: [default, 5000B]", "'5000B': readahead is a multiple of 4KiB in the kernel"),
    ("stripe_cache_size: [256, 16384]", "md: {stripe_cache_size: 32768}", "'32768': 32768 pages for each of 4 devices"),
    ("stripe_cache_size: [256, 16384]", "stripe_cache_size: [256, 7]", "'7': write a whole number from 17 to 32768, or default"),
    ("ncq_depth: [1, 31]", "ncq_depth: [1, 64]", "'64': sata takes a queue depth from 1 to 32"),
    ("ncq_depth: [1, 31]", "ncq_depht: 1", "unknown key 'ncq_depht'; did you mean ncq_depth?"),
    ("readahead: [default, 32MiB]", "readahead: [default, 65536]", "'65536': no unit; write 65536KiB if it comes from read_ahead_kb, or 32MiB if it comes from blockdev --setra"),
    ("level: 0, ", "level: 0, readahead: 4MiB, ", "'readahead' is a tunable; write `tune: {md: {readahead: 4MiB}}`"),
    ("level: [5, 6], ", "level: [5, 6], stripe_cache_size: [256, 4096], ", "'stripe_cache_size' is a tunable; write `tune: {stripe_cache_size: [256, 4096]}`"),
    ("level: 0, ", "level: 0, scheduler: none, ", "'scheduler' is a tunable; write `tune: {scheduler: none}`"),
    ("[disk]", "[disk: {rotational: true}]", "'rotational' is a tunable; write `tune: {disk: {rotational: true}}`"),
    ("[disk]", "[disk, readahead: 4MiB]", "'readahead' is a tunable; write `tune: {readahead: 4MiB}`"),
    ("repeat: 2", "repeat: 2\nreadahead: 4MiB", "'readahead' is a tunable; write `tune: {readahead: 4MiB}`"),
    ("repeat: 2", "repeat: 2\nvm: {swappiness: 1}", "'vm' is a tunable; write `tune: {vm: {swappiness: 1}}`"),
    ("  ncq_depth", "  dirty_ratio: 5\n  ncq_depth", "'dirty_ratio' is a tunable; write `tune: {vm: {dirty_ratio: 5}}`"),
    ("  ncq_depth", "  read_expire: [100, 500]\n  ncq_depth", "'read_expire' is a tunable; write `tune: {iosched: {read_expire: [100, 500]}}`"),
    ("  ncq_depth", "  md: {scheduler: none}\n  ncq_depth", "md has no 'scheduler'; write `tune: {scheduler: none}`"),
    ("rw: read,", "rw: read, nr_requests: 64,", "'nr_requests' is a tunable; write `tune: {nr_requests: 64}`"),
    ("rw: read,", 'rw: "read:64k",', "'read:64k': write rw: read, skip: 64KiB"),
    ("rw: read,", 'rw: "randread:8",', "'randread:8': random work has a new offset for each request; write randread"),
    ("rw: read,", "rw: randread, skip: 64KiB,", "'skip' has no effect: rw=randread does not go in order"),
    ("rw: read,", "rw: read, skip: 1000B,", "direct I/O needs whole sectors of 512B, and 1KB is not"),
    ("rw: read,", "rw: read, skip: 4GiB,", "4GiB after requests of 64KiB lead beyond the region of 1GiB"),
    ("[disk]", "[md: {level: 1}, disk]", "`disk` is only possible as the lowest layer, on disks; below it are arrays; remove it to use all of them, or write `pick: {number: 1}` for one"),
    ("[disk]", "[lvm: {groups: 2}, disks: {count: 1}]", "`disks` is only possible as the lowest layer, on disks; below it are volumes"),
    ("[disk]", "[partition: {from: 50%, to: 40%}]", "the partition of a device of 1GiB is empty: between 512MiB and 409MiB; its end must be after its start"),
    ("[disk]", "[md: {level: 6, state: {degraded: 3}}]", "RAID 6 cannot lose 3 disks: on 4 devices it can lose 2; write state: {degraded: 2}"),
    ("[disk]", "[md: {level: 5, state: {degraded: 2}}]", "RAID 5 cannot lose 2 disks: on 4 devices it can lose 1; write state: degraded"),
    ("level: [5, 6]", "level: 5, ppl: internal", "'internal': write true or false; only `bitmap` has values such as internal"),
    ("level: [5, 6]", "level: 5, journal: true", "'true': write the number of journal devices, from the last: 0 or 1"),
    ("level: [5, 6]", "level: 5, journal: internal", "'internal': write the number of journal devices, from the last: 0 or 1"),
    ("iodepth: 8", "iodepth: '8'", "'8' is not a whole number; quotes make it a text"),
    ("rw: read,", "rw: reed,", "'reed' is not one of read, write, randread, randwrite, rw, randrw, trim or randtrim; did you mean read?"),
    ("rw: read,", "rw: read, rwmixread: 40,", "'rwmixread' has no effect: rw=read does not mix reads and writes"),
    ("rw: read,", "rw: read, size: 40GiB,", "does not fit on single, striped/chunk=64KiB, striped/chunk=256KiB, striped/chunk=1MiB, parity/level=5,chunk=64KiB and 6 more: 40GiB are needed, and there are at most 1GiB"),
    ("rw: read,", "rw: read, offset: 99%, size: 10%,", "10% after an offset of 99%: only 1% are left"),
    ("rw: read,", "rw: read, offset: 100%,", "no space is left after 100% of a device"),
    ("disks: {", "disks: {model: st33206, ", "there is no disk model 'st33206'; did you mean st3320620as?"),
    ("disks: {", "disks: {model: {kind: hdd, rmp: 7200, outer: 9MB/s}, ", "unknown key 'rmp'; did you mean rpm?"),
    ("disks: {", "disks: {model: {kind: hdd}, ", "`outer` is missing: the rate of the first zone"),
    ("disks: {", "disks: {model: {kind: hdd, outer: 78}, ", "'78': not a rate; write it like 50MiB/s"),
    ("disks: {", "disks: {model: {kind: hdd, outer: 9MB/s, seek: {track: 1ms, full: 9ms, trakc: 1ms}}, ", "unknown key 'trakc'; did you mean track?"),
    ("disks: {", "disks: {model: {kind: hdd, zones: [{to: 50%, rate: 9MB/s}]}, ", "each `to` is larger than the one before, and the last is 100%"),
    ("disks: {", "disks: {model: {kind: volume, iops: 80, burst: {iops: 70, credits: 5s}}, ", "a burst of 70 IOPS is not more than 80"),
    ("repeat: 2", "repeat: 2\nbus_limit: {pci: {disks: [9], bandwidth: 133MB/s}}", "there is no disk 9; they are numbered from 0 to 3"),
    ("repeat: 2", "repeat: 2\nbus_limit: {pci: {disks: [0], bandwidth: 133MB/s}}", "disk 0 has no model, so its rate cannot be limited"),
    ("rw: read,", "rw: read, ioengine: libaoi,", "'libaoi' is not one of libaio, io_uring, posixaio, sync, psync, vsync, pvsync, pvsync2, splice, mmap or io_uring_cmd; did you mean libaio?"),
    ("rw: read,", "rw: read, ioengine: [libaio, filecreate],", "'filecreate': this engine does no I/O, so its figures would not depend on `rw` and `bs`"),
    ("rw: read,", "rw: read, ioengine: 'null',", "'null': this engine does no I/O"),
    ("rw: read,", "rw: read, ioengine: net,", "'net': this engine does not use the disks or files of a layout"),
    ("rw: read,", "rw: read, ioengine: sg,", "'sg': this engine bypasses all layers and needs SCSI disks"),
    ("rw: read,", "rw: read, ioengine: 'external:/tmp/x.so',", "'external:/tmp/x.so': this engine runs unknown code"),
    ("rw: read, bs: [64KiB, 1MiB], iodepth: 8,", "rw: read, ioengine: mmap,", "mmap always uses the page cache; add `direct: false`"),
    ("rw: read,", "rw: read, fio: {filename: /dev/sda},", "`filename` is not allowed in the fio: map: fio uses the top of the layout"),
    ("runtime: 1s}\n  oltp", "size: 1MiB, fio: {rate: 1}}\n  oltp", "with `rate`, 1MiB take 291 hours; write `runtime:`, or less `size:` or `io_size`"),
    ("rw: read,", "rw: read, fio: {nrfiles: 9223372036854775808},", "this number is too large"),
    ("rw: read,", "rw: read, fsync: 9223372036854775808,", "'9223372036854775808': must be at most 2147483647"),
    ("rw: read,", "rw: read, fsync: 4294967295,", "'4294967295': must be at most 2147483647"),
    ("rw: read,", f"rw: read, skip: {'9' * 310}KiB,", "too large a number"),
    ("rw: read,", f"rw: read, skip: {'9' * 18}KiB,", "the size is too large; the limit is 8 EiB"),
    ("rw: read,", f"rw: read, size: {'9' * 310}x memory,", "too large a number"),
    ("rw: read,", f"rw: read, ramp: {'9' * 310}s,", "too large a number"),
    ("rw: read,", f"rw: read, offset: {'9' * 310}%,", "too large a number"),
    ("level: [5, 6]", "level: [5, 6], spare: 18446744073709551616", "this number is too large"),
    ("repeat: 2", "repeat: 2\nseed: -9223372036854775809", "this number is too large"),
    ("repeat: 2", f"repeat: 2\nonly: [{{bs: {'9' * 310}k}}]", "no cell has workload.bs=999"),
    ("repeat: 2", f"repeat: 2\nonly: [{{bs: '{'9' * 5000}'}}]", "no cell has workload.bs=999"),
    ("rw: read,", "rw: read, fio: {iodepth: 3},", "`iodepth` is a key of the workload; write `iodepth:` outside of `fio:`"),
    ("seqread: {rw: read, bs: [64KiB, 1MiB], iodepth: 8,", f"seqread: {{jobs: {{{', '.join(f'j{n}: {{bs: 4KiB}}' for n in range(101))}}}, rw: read,", "this map has 101 items; at most 100"),
    ("rw: read,", "rw: read, fio: {thinktime: '${HOME}'},", "fio replaces `$` and a name by a value of its environment"),
    ("rw: read,", "rw: read, fio: {thinktime: [1, '2 * $ncpus']},", "fio replaces `$` and a name by a value of its"),
    ("rw: read,", 'rw: read, fio: {zonemode: "a\\nb=c"},', "control characters and line breaks cannot be written into a fio job"),
    ("rw: read,", "rw: read, fio: {buffered: 1},", "`buffered` is not allowed in the fio: map: write `direct: false`"),
    ("rw: read,", "rw: read, fio: {bsrange: 4k-8k},", "`bs:` and `bsrange` both set the size of requests; write one of them"),
    ("rw: read,", "rw: read, fio: {bssplit: 4k/50},", "`bs:` and `bssplit` both set the size of requests"),
    ("rw: read,", "rw: read, fio: {rwmixwrite: 3},", "`rwmixwrite` has no effect: rw=read does not mix reads and writes"),
    ("rw: read,", "rw: read, fio: {timeout: 3},", "`timeout` is not allowed in the fio: map: write `runtime:` or `size:`"),
    ("rw: read,", "rw: read, fio: {io_size: 1g},", "`io_size` has no effect with `runtime:`, which ends the workload; remove one of them"),
    ("rw: read,", "rw: read, fio: {write_iops_log: x},", "`write_iops_log` is not allowed in the fio: map: matrix collects the results"),
    ("rw: read,", "rw: read, fio: {ioscheduler: none},", "`ioscheduler` is not allowed in the fio: map: write `scheduler:` below `tune:`"),
    ("rw: read,", "rw: read, fio: {opendir: /},", "`opendir` is not allowed in the fio: map: fio uses the top of the layout"),
    ("rw: read,", "rw: read, fio: {read_iolog: log},", "`read_iolog` is not allowed in the fio: map: a trace is a workload of its own; write `replay:`"),
    ("rw: read,", "rw: read, fio: {write_iolog: /etc/passwd},", "`write_iolog` is not allowed in the fio: map: fio must write only to the top"),
    ("rw: read,", "rw: read, fio: {allow_mounted_write: 1},", "`allow_mounted_write` is not allowed in the fio: map: fio must never write to a mounted device"),
    ("rw: read,", "rw: read, fio: {include: more.fio},", "`include` is not allowed in the fio: map: the matrix holds the whole job"),
    ("rw: read,", "rw: read, fio: {iomem: 'mmap:/etc/passwd'},", "`iomem` cannot name a file: fio must not keep its buffers in files"),
    ("rw: read,", "rw: read, fio: {mem: 'mmaphuge:/x'},", "`mem` cannot name a file: fio must not keep its buffers in files"),
    ("rw: read,", f"rw: read, fio: {{description: {'x' * 8179}exec_prerun=reboot}},", "too long for one line of a fio job; use at most 1000"),
    ("rw: read,", "rw: read, fio: {fileoffset: 1g},", "`fileoffset` is not allowed in the fio: map: write `offset:`"),
    ("rw: read,", "rw: read, fio: {nr_files: 3},", "`nr_files` is not allowed in the fio: map: write `files:`"),
    ("rw: read,", "rw: read, fio: {name: other},", "`name` is not allowed in the fio: map: cells with files of the same shape share them"),
    ("rw: read,", "rw: read, fio: {file_append: 1},", "`file_append` is not allowed in the fio: map: files exist before"),
    ("rw: read,", "rw: read, fio: {fill_fs: 1},", "`fill_fs` is not allowed in the fio: map: write `runtime:` or `size:`"),
    ("rw: read,", "rw: read, fio: {unified_rw_reporting: both},", "`unified_rw_reporting` is not allowed in the fio: map: matrix collects the results"),
    ("rw: read,", "rw: read, fio: {stats: 0},", "`stats` is not allowed in the fio: map: matrix collects the results"),
    ("rw: read,", "rw: read, fio: {clat_percentiles: 1},", "`clat_percentiles` is not allowed in the fio: map: matrix collects the results"),
    ("rw: read,", "rw: read, fio: {lat_percentiles: 1},", "`lat_percentiles` is not allowed in the fio: map: matrix collects the results"),
    ("rw: read,", "rw: read, fio: {fallocate: none},", "`fallocate` is not allowed in the fio: map: files exist before"),
    ("rw: read,", "rw: read, fio: {output-format: json},", "'output-format': an option has small letters, digits and _"),
    ("repeat: 2", 'repeat: 2\nmachine: {kernel: "x\\n touch PWNED #"}', "'x\\n touch PWNED #': neither the name of a kernel nor a path"),
    ("repeat: 2", 'repeat: 2\nmachine: {kernel: [debian-12, "\\e[31m"]}', "'\\x1b[31m': neither the name of a kernel nor a path"),
    ("repeat: 2", "repeat: 2\nmachine: {kernel: [debian-12, ' ']}", "neither the name of a kernel nor a path"),
    ("repeat: 2", "repeat: 2\nmachine: {cmdline: console=ttyS1}", "'console=ttyS1': the virtual machine sets console itself"),
    ("repeat: 2", "repeat: 2\nmachine: {cmdline: matrix.disks=1}", "'matrix.disks=1': the virtual machine sets matrix.disks itself"),
    ("repeat: 2", "repeat: 2\nmachine: {cmdline: default nosmt}", "write parameters of the kernel, separated by one space"),
    ("repeat: 2", "repeat: 2\nmachine: {cmdline: [default, '$(id)']}", "write parameters of the kernel, separated by one space"),
    ("repeat: 2", "repeat: 2\nmachine: {kernel: debian-99}", "'debian-99': no such kernel; did you mean debian-12 or debian-13? The path of a bzImage has a slash"),
    ("repeat: 2", "repeat: 2\nmachine: {kernel: [debian-12, bzImage]}", "'bzImage': no such kernel; known are debian-12, debian-12-backports, debian-13, debian-13-backports. The path of a bzImage has a slash, like ./bzImage"),
    ("repeat: 2", "repeat: 3x", "'3x': neither a whole number, like `repeat: 3`, nor a map, like `repeat: {min: 3, max: 20, until: 5%}`; did you mean 3?"),
    ("repeat: 2", "repeat: '5'", "until: 5%}`; did you mean 5?"),
    ("repeat: 2", "repeat: thrice", "'thrice': neither a whole number, like `repeat: 3`, nor a map"),
    ("repeat: 2", "repeat: [3]", "neither a whole number, like `repeat: 3`, nor a map"),
    ("repeat: 2", "repeat: {min: 3x}", ":15: '3x' is not a whole number"),
    ("repeat: 2", "repeat: {min: 2, max: 4}", "without `until` it is open when 2 repeats are enough: add `until: 5%`"),
    ("repeat: 2", "repeat: {min: 3, max: 3, until: 5%}", "`until` has no effect because min and max are both 3"),
    ("repeat: 2", "repeat: {min: 30, until: 5%}", "`until` has no effect because min and max are both 30"),
    ("repeat: 2", "repeat: {max: 1, until: 5%}", "`until` needs at least two repeats"),
    ("iodepth: 8", "iodepth: []", "an empty list is an axis without values, so there would be no cells"),
    ("iodepth: 8", "iodepth: [8, null]", "this value is empty; write a value or remove the key"),
    ("repeat: 2", "repeat: {min: 5, max: 2}", "min (5) is more than max (2)"),
    ("repeat: 2", "repeat: often", "'often': neither a whole number"),
    ("repeat: 2", "repeat: 2\nonly: [{layout: paritty}]", "no cell has layout=paritty; did you mean parity?"),
    ("repeat: 2", "repeat: 2\nexclude: [{bz: 4KiB}]", "unknown axis 'bz'; known are"),
    ("repeat: 2", "repeat: 2\nexclude: [{layout: far, bs: 5KiB}]", "no cell has workload.bs=5KiB; did you mean"),
    ("name: sweep", "name: sweep\nguidlines: []", "unknown key 'guidlines'; did you mean guidelines?"),
]  # fmt: skip


@given(st.data())
def test_two_mistakes_of_a_kind_are_found_together(data: st.DataObject) -> None:
    """Neither hides the other; what is malformed comes before what is impossible."""
    one, other = data.draw(st.sampled_from(MISTAKES))[:2], data.draw(st.sampled_from(MISTAKES))[:2]
    first, second = SWEEP.replace(*one, 1), SWEEP.replace(*other, 1)
    both = first.replace(*other, 1)
    assume(both == second.replace(*one, 1) and first != both != second)
    assume(_readable(both))
    malformed = [_places(text) for text in (first, second) if _malformed(text)]
    if malformed:
        assert _places(both) >= set.union(*malformed)


#: A matrix with all that rules may name, some of it implied by programs.
RULED = """\
name: ruled
machine: {kernel: [debian-12, debian-13]}
disks: [{count: 2, size: 1GiB, bus: sata, model: {kind: ideal}}, {count: 2, size: 1GiB, bus: sata, model: {kind: ideal}}]
bus_limit: {pci: {disks: [0, 3], bandwidth: 133MB/s}}
faults: {none: [], slow: [{disk: 3, at: 1s, kind: slow, times: 10}]}
layouts:
  parity: [md: {level: [raid5, 6], chunk: [64KiB, 256KiB], bitmap: internal}, fs: {type: [ext4, xfs]}]
  thin: [lvm: {type: thin, chunk: 64KiB}, fs: {type: btrfs, data: [raid0, single]}]
tune: {readahead: [default, 32MiB], scheduler: [none, bfq], sysfs: {queue/iostats: [0, 1]}}
workloads:
  work: {rw: [randrw, readwrite], bs: [4KiB, 16KiB], rwmixread: 70, runtime: 10s, steady: {within: 5%, over: 3s}, fio: {norandommap: [0, 1]}}
  copy: {preset: [dd-read, dd-write], size: 256MiB}
  bonnie: {preset: bonnie, phase: [seeks, write], size: 256MiB}
"""
_SLIPS = [
    ("tune:", "tuen:"), ("faults:", "fautls:"), ("machine:", "machin:"), ("kernel:", "kernal:"), ("model: {kind: ideal}}, {", "modle: {kind: ideal}}, {"),
    ("debian-13]", "debian-31]"), ("{count: 2, size: 1GiB, bus: sata, model: {kind: ideal}}]", "{count: 2, sise: 1GiB, model: {kind: ideal}}]"),
    ("{count: 2, size: 1GiB, bus: sata, model: {kind: ideal}}]", "3]"), ("model: {kind: ideal}}]", "model: {kind: hdd, outer: x}}]"),
    ("count: 2", "count: x"), ("size: 1GiB", "size: 1Gib"), ("raid5, 6", "raid5, 15"), ("chunk: [64KiB", "chunk: [64Kib"),
    ("chunk: 64KiB", "chunk: 64Kib"), ("level:", "levl:"), ("bitmap: internal", "bitmap: inernal"), ("[ext4, xfs]", "[ext4, xsf]"),
    ("type: thin", "type: thinn"), ("type: btrfs", "type: btrf"), ("[raid0, single]", "[raid0, sngle]"), ("readahead: [default", "readahead: [defaul"),
    ("[none, bfq]", "[none, bfqq]"), ("queue/iostats: [0", "queue/iostats: [null"), ("rw: [randrw", "rw: [randrww"), ("bs: [4KiB", "bs: [4Kib"),
    ("runtime: 10s", "runtime: 1x"), ("over: 3s", "ovr: 3s"), ("norandommap: [0", "norandommap: [null"), ("[dd-read, dd-write]", "[dd-read, dd-wirte]"),
    ("preset: bonnie", "preset: bonie"), ("[seeks, write]", "[seeks, wrte]"), ("disk: 3", "disk: x"), ("bandwidth: 133MB/s", "bandwidth: 133"),
    ("workloads:", "wrkloads:"), ("layouts:", "layuots:"), ("disks: [{", "dsks: [{"), ("name: ruled\n", ""),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), _SLIPS)
def test_one_mistake_causes_no_other_errors(old: str, new: str) -> None:
    """A rule for every value of every axis: none of these is called wrong beside what is malformed."""
    values = values_of(parse("m.yaml", RULED).space)
    rules = [f"{{{json.dumps(axis)}: {json.dumps(value)}}}" for axis, of in values.items() for value in sorted(of)]
    assert old in RULED
    text = f"{RULED.replace(old, new, 1)}exclude: [{', '.join(rules)}]\n"
    _, malformed = validated(read("m.yaml", text), Matrix)
    assert {one.partition(": ")[2] for one in errors(text)} == {flaw.message for flaw in malformed}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("chunk: [64KiB, 256KiB], bitmap", "chunk: [64KiB, 257KiB], bitmap"),
        ("[raid5, 6]", "[raid5, 6], devices: 9"),
        ("type: thin, chunk: 64KiB", "type: thin, chunk: 65KiB"),
        ("rwmixread: 70,", "rwmixread: 70, size: 40GiB,"),
    ],
)
def test_axes_of_an_impossible_layout_can_be_named(old: str, new: str) -> None:
    values = values_of(parse("m.yaml", RULED).space)
    rules = [
        f"{{{json.dumps(axis)}: {json.dumps(value)}}}"
        for axis, of in values.items()
        for value in sorted(of)
        if value not in old
    ]
    assert old in RULED
    told = errors(f"{RULED.replace(old, new, 1)}only: [{', '.join(rules)}]\n")
    assert not [one for one in told if "no cell has" in one or "unknown axis" in one]


def _readable(text: str) -> bool:
    try:
        read("m.yaml", text)
    except UnreadableError:
        return False
    return True


def _malformed(text: str) -> bool:
    source = read("m.yaml", text)
    return bool(validated(source, Matrix)[1]) or "no disk model is called" in str(errors(text))


def _places(text: str) -> set[str]:
    """The messages without what is only right beside it."""
    said = {one.partition(": ")[2] for one in errors(text)}
    return {re.sub(r"(known are|did you mean).*", "", one) for one in said}


def test_a_malformed_item_does_not_hide_the_others() -> None:
    text = SWEEP.replace("count: 4, size: 1GiB", "count: 0, sise: 1GiB")
    text += "exclude: [{layout: nope}, 3, {bs: {}}]\nmachine: {kernel: [debian-12, debian-99, ./nope]}\n"
    assert [one.partition(";")[0] for one in errors(text)] == [
        "2:16: '0': must be at least 1",
        "2:19: unknown key 'sise'",
        "16:27: '3' is not a map",
        "16:31: '{}' is neither a value nor a list of values",
        "17:31: 'debian-99': no such kernel",
    ]


def test_duplicate_keys_are_reported_with_other_mistakes() -> None:
    text = SWEEP.replace("repeat: 2", "repeat: 2x\nrepeat: 3\nname: b").replace("bs: [64KiB, 1MiB]", "bs: 4KiB, bs: 8k")
    told = errors(text)
    assert [one.partition(", like")[0] for one in told] == [
        "13:33: the key 'bs' occurs twice, first in line 13; keep one of them",
        "15:9: '2x': neither a whole number",
        "16:1: the key 'repeat' occurs twice, first in line 15; keep one of them",
        "17:1: the key 'name' occurs twice, first in line 1; keep one of them",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [("raid0:", "1:"), ("work:", "rw: 5\n  work:"), ("bs: 4KiB", "fio: {1: 2}, bs: 4KiB"), ("repeat: 2", "true: x")],
)
def test_keys_that_are_no_text_hide_no_mistake(old: str, new: str) -> None:
    told = errors(SMALL.replace(old, new, 1) + "exclude: [3]\n")
    assert any("'3' is not a map" in one for one in told)


def test_a_misspelt_required_key_is_one_mistake() -> None:
    text = SMALL.replace("disks:", "disk:").replace("layouts:", "layout:").replace("workloads:", "workload:")
    assert [one.partition(";")[0] for one in errors(text)] == [
        "2:1: unknown key 'disk'",
        "3:1: unknown key 'layout'",
        "5:1: unknown key 'workload'",
    ]


def test_a_list_of_names_is_shown_as_the_map_that_it_should_be() -> None:
    text = SMALL.replace("  raid5: [", "  - raid5: [")
    assert errors(text) == [
        "3:1: a map is needed here, not a list; write `{raid5: [{md: {level: 5, chunk: [16KiB, 64KiB]}}]}`"
    ]


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("md: {level: 5, chunk: [16KiB, 64KiB]}", "md: 5", "'5' is not a map; write `{level: 5}`"),
        ("64KiB]}]", "64KiB]}, fs: ext4]", "'ext4' is not a map; write `{type: ext4}`"),
        (
            "{rw: [read, randwrite], bs: 4KiB, runtime: 1s}",
            "randwrite",
            "'randwrite' is not a map; write `{rw: randwrite}`",
        ),
        ("{count: 4, size: 64MiB}", "4", "'4' is not a map; write `{count: 4, size: 1GiB}`"),
    ],
)
def test_a_value_by_itself_is_shown_in_the_map_that_it_belongs_in(right: str, wrong: str, said: str) -> None:
    assert right in SMALL
    assert [one.partition(": ")[2] for one in errors(SMALL.replace(right, wrong))] == [said]


def test_layers_on_impossible_ones_are_checked_on_their_own() -> None:
    text = SMALL.replace("{level: 5,", "{level: 10, groups: 3,").replace(
        "]}]", "]}, fs: {type: xfs, block_size: 8KiB}]"
    )
    assert [one.partition(": ")[2] for one in errors(text)] == [
        "4 disks are declared: they do not make 3 equal groups",
        "the kernel takes no blocks larger than a page of memory, which is 4KiB",
    ]
    # An impossible array of four may well be the only thing that a RAID 6 could not stand on.
    text = SMALL.replace("{level: 5,", "{level: 10, groups: 3,").replace("]}]", "]}, md: {level: 6}]")
    assert len(errors(text)) == 1


def test_options_that_are_not_for_the_fio_map_are_malformed() -> None:
    told = errors(SMALL.replace("bs: 4KiB", "fio: {iodpth: 4, filename: [x, y], bs: 8KiB}"))
    assert [one.partition("`")[2].partition("`")[0] for one in told] == ["filename", "filename", "bs"]


def test_wrong_nesting_is_reported() -> None:
    text = SMALL.replace("raid5: [md: {level: 5, chunk: [16KiB, 64KiB]}]", "raid5:\n    - md:\n      level: 5")
    assert "6:7: unknown layer 'level'; it is a key of `md:`: indent it deeper than that" in errors(text)
    text = SMALL.replace("workloads:\n  work: {", "  workloads:\n    work: {")
    assert "5:3: 'workloads' is indented into `layouts`; begin it in the same column as `layouts`" in errors(text)
    text = SMALL.replace("raid5: [md: {level: 5, chunk: [16KiB, 64KiB]}]", "disks: {md: {level: 5}}")
    (told,) = [one for one in errors(text) if "a list is needed here, not a map" in one]
    assert told.endswith("write `[md: {level: 5}]`"), "a layout may be called like a section"


def test_values_without_brackets_are_no_keys() -> None:
    text = SMALL.replace("bs: 4KiB", "iodepth: 1, 4")
    assert errors(text) == ["6:45: '4' cannot be a key; write several values of one key in brackets, like [4, …]"]


def test_an_empty_condition_is_one_mistake() -> None:
    told = errors(SMALL + "exclude: [{layout: }, {layout: {a: b}}]\n")
    assert [one.partition(": ")[2] for one in told] == [
        "this value is empty; a value or a list of values is needed",
        "'{a: b}' is neither a value nor a list of values",
    ]


@pytest.mark.parametrize("file", ['"a\\0b.yaml"', "missing.yaml", "."])
def test_an_impossible_file_is_reported_with_its_place(file: str) -> None:
    text = SMALL.replace(
        "raid5: [", f'raid5: [use: {file[:-1]}#x", ' if file.endswith('"') else f"raid5: [use: {file}#x, "
    )
    assert errors(text)[0].startswith("4:")


@pytest.mark.parametrize("layouts", ["3", "[a]", "{}", "text"])
def test_values_that_are_no_layouts_are_reported(layouts: str) -> None:
    with pytest.raises(BadInput):
        parse("m.yaml", f"layouts: {layouts}\n")


def test_unusable_files_do_not_hide_malformed_parts() -> None:
    text = """\
name: broken
disks: {count: 3, size: 1GiB, model: st33206}
layouts:
  parity: [md: {level: 6}]
  used: [use: there-is-none.yaml#far]
  also: [use: there-is-none.yaml#near, fs: {type: ext5}]
workloads:
  read: {rw: read, bs: 64k}
exclude: [{layout: used}]
guidelines: [nor-is-this.yaml]
"""
    assert [one.partition(";")[0] for one in errors(text)] == [
        "2:38: there is no disk model 'st33206'",
        "5:15: there is no file there-is-none.yaml",
        "6:51: 'ext5' is not one of ext2, ext3, ext4, xfs, btrfs or f2fs",
        "8:24: '64k': no size unit 'k' is known",
        "10:14: there is no file nor-is-this.yaml",
    ]


def test_a_key_without_a_value_is_reported_at_its_place() -> None:
    said = errors("name: broken\ndisks: {count: 2, size: 1GiB}\nlayouts:\nworkloads: {w: {rw: read}}\nrepeat:\n")
    assert said[0] == "3:1: this value is empty; a map is needed"
    assert said[1].startswith("5:1: this value is empty: neither a whole number")


@pytest.mark.parametrize("old", ["level: 0", "bus: sata"])
def test_an_axis_without_a_value_is_reported_at_its_place(old: str) -> None:
    said = errors(SWEEP.replace(old, f"{old.partition(':')[0]}: ", 1))
    assert "this value is empty" in said[0]
    assert "None" not in said[0]


def test_more_memory_lets_a_large_stripe_cache_be() -> None:
    text = SWEEP.replace("[256, 16384]", "[256, 32768]") + "machine: {memory: 1GiB}\n"
    assert parse("m.yaml", text).space.count()


def test_clearing_of_devices_for_mmap_is_mentioned() -> None:
    def notes(rw: str, engine: str, layout: str = "disk") -> list[str]:
        work = f"{{rw: {rw}, bs: [4KiB, 8KiB], ioengine: {engine}, direct: false, runtime: 1s}}"
        text = f"name: m\ndisks: {{count: 1, size: 1GiB}}\nlayouts: {{a: [{layout}]}}\nworkloads: {{w: {work}}}\n"
        return [note for note in parse("m.yaml", text).space.notes if "mmap" in note]

    (told,) = notes("randwrite", "mmap")
    assert told.startswith("workload w: before mmap writes to a device, fio overwrites")
    assert not notes("randread", "mmap")
    assert not notes("randwrite", "psync")
    assert not notes("randwrite", "mmap", "fs: {type: ext4}")


def test_an_empty_file_is_called_one() -> None:
    assert errors("") == ["1:1: the file is empty; `matrix init` writes a matrix as a start"]


def test_all_unknown_layers_of_a_layout_are_reported() -> None:
    text = SWEEP.replace("[disk]", "[{dsk: {}}, {mdd: {}}]")
    assert [error.partition(";")[0] for error in errors(text)] == [
        "4:14: unknown layer 'dsk'",
        "4:25: unknown layer 'mdd'",
    ]


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES)
def test_every_mistake_has_its_place_and_its_cure(old: str, new: str, said: str) -> None:
    assert old in SWEEP
    found = errors(SWEEP.replace(old, new, 1))
    matching = [one for one in found if said in one]
    assert matching, found
    line = int(matching[0].split(":")[0])
    changed = SWEEP.replace(old, new, 1).splitlines()[line - 1]
    assert any(part in changed for part in new.split("\n")), (line, changed)
    assert len(found) == 1, found


def test_only_unused_axes_are_errors() -> None:
    assert errors(SWEEP.replace("bus: sata", "bus: virtio")) == [
        "11:3: 'ncq_depth' has no effect: disks on virtio have no queue depth to set; use `bus: sata` or `bus: scsi`"
    ]
    notes = parse("m.yaml", SWEEP).space.notes
    idle, unfelt = notes
    assert idle == "stripe_cache_size is not an axis for single, striped, far: it has no RAID 4, 5 or 6"
    assert unfelt.startswith("readahead has no effect on any workload: it acts on buffered reads only")


def test_an_error_shows_the_line_with_a_mark_under_the_place() -> None:
    with pytest.raises(BadMatrix) as caught:
        parse("m.yaml", SWEEP.replace("rw: read", "rw: reed"))
    message, line, mark = caught.value.details.split("\n")
    assert message.startswith("m.yaml:13:17: ")
    assert line[mark.index("^") :].startswith("reed")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [", "the file ends here, within brackets"),
        ("repeat: 0x" + "F" * 5000, "this number is too large"),
        ("a: &x [*x]", "more than 50,000 values"),
        (BOMB, "more than 50,000 values"),
        ("x" * (1 << 21), "larger than 1 MiB"),
        ('name: a\ndescription: "\\ud800"', "m.yaml:2:14: half of a surrogate pair is not a character"),
        ("!!python/object:os.system {}", "could not determine a constructor"),
    ],
)  # fmt: skip
def test_invalid_and_hostile_yaml_is_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=r"not valid YAML") as caught:
        parse("m.yaml", text)
    assert said in caught.value.details


@pytest.mark.parametrize("text", ["", "42", "- a", "text"])
def test_a_matrix_that_is_no_map_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse("m.yaml", text)


@given(st.data())
def test_no_damage_to_a_matrix_gets_past_without_a_place(data: st.DataObject) -> None:
    """Whatever happens to a file, the answer is a space or located errors; never a traceback."""
    at = data.draw(st.integers(0, len(SWEEP)))
    cut = data.draw(st.integers(0, 12))
    text = SWEEP[:at] + data.draw(st.text(max_size=6)) + SWEEP[at + cut :]
    assert re.search(r"^$|m\.yaml:\d+:\d+: \S", _complaint(text))


#: What may stand in any place by mistake.
NONSENSE: tuple[object, ...] = (
    None,
    [],
    {},
    [None],
    [[]],
    [{}],
    {"a": 1},
    {"kind": "hdd"},
    [1, 2],
    7,
    -1,
    2**70,
    1e308,
    True,
    "",
    "x",
    "5%",
    "use: x",
)


@given(st.lists(st.tuples(st.integers(0), st.sampled_from(NONSENSE)), min_size=1, max_size=4))
def test_nonsense_in_any_place_is_reported(changes: list[tuple[int, object]]) -> None:
    data = read("m.yaml", RULED).data
    for number, nonsense in changes:
        places = [*_steps(data)]
        around, step = places[number % len(places)]
        around[step] = copy.deepcopy(nonsense)
    text = StringIO()
    YAML(typ="safe").dump(data, text)
    assert re.search(r"^$|m\.yaml:\d+:\d+: \S", _complaint(text.getvalue()))


def _steps(data: Any) -> Iterator[tuple[Any, Any]]:
    for step, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield data, step
        yield from _steps(value)


def _complaint(text: str) -> str:
    try:
        parse("m.yaml", text)
    except BadInput as error:
        return error.details
    return ""


@given(st.integers(4, 24), st.lists(st.integers(17, 32768), min_size=1, max_size=3))
def test_the_memory_that_is_advised_is_enough(disks: int, pages: list[int]) -> None:
    text = SWEEP.replace("count: 4", f"count: {disks}").replace("[256, 16384]", str(pages))
    advised = set(re.findall(r"machine: \{memory: \w+\}", _complaint(text)))
    assert len(advised) <= 1
    for remedy in advised:
        assert _complaint(f"{text}{remedy}\n") == ""
