"""The parsers of files and outputs that others write, with small seeds, for `bench.fuzz`."""

from __future__ import annotations

import json
import sqlite3
import struct
import tempfile
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.mutations import flip_bytes, mutate_journal, mutate_json, mutate_text, mutate_tree
from matrix_runner.answers.fio_import import parse_groups
from matrix_runner.base.errors import MatrixError
from matrix_runner.carry.trial_result import mismatch, readings_of, split_other_settings
from matrix_runner.hosts.inventory import parse_census
from matrix_runner.language.hosts import Needs
from matrix_runner.language.yaml_source import Source
from matrix_runner.records import environment, run_folder
from matrix_runner.records.counters import observe_use, split_counters
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Attempt, CellRow, Outcome, Reading, Trial
from matrix_runner.records.salvage import salvage
from matrix_runner.space.declared_files import (
    AcceptedFiles,
    load_guidelines,
    matched,
    parse_lab,
    parse_listed,
    parse_published,
)
from matrix_runner.space.load import check, parse
from matrix_runner.space.select import select
from matrix_runner.work.fio import output as fio_output
from matrix_runner.work.fio.output import table_by_position, table_by_sample, table_by_time
from matrix_runner.work.replay.workload import ReplayWorkload
from matrix_runner.work.workload import notes_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from matrix_runner.space.space import Space

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests/data"


@dataclass(frozen=True)
class Parser:
    seeds: tuple[Any, ...]
    parse: Callable[[Any], object]
    mutate: Callable[[Any, random.Random], Any] = mutate_text


@cache
def _folder() -> Path:
    """Return a folder of this process, in memory where possible: no input waits for a disk."""
    memory = Path("/dev/shm")
    folder = tempfile.TemporaryDirectory(prefix="matrix-fuzz-", dir=memory if memory.is_dir() else None)
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


def _write(name: str, content: str | bytes) -> Path:
    file = _folder() / name
    file.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    return file


def _matrix(text: str) -> None:
    select(parse(str(ROOT / "matrix/fuzzed.yaml"), text).space).notes()


def _declared(data: Any) -> None:
    data = json.loads(data) if isinstance(data, str) else data  # a kept input
    select(check(Source("fuzzed.yaml", "", data, None)).space).notes()


def _job_file(text: str) -> None:
    whole = text.encode("utf-8", "replace").decode()  # as from a file of UTF-8
    select(parse("m.yaml", _WITH_JOBS, lambda _: whole).space).notes()


def _model(text: str) -> None:
    whole = text.encode("utf-8", "replace").decode()
    select(parse("m.yaml", _WITH_MODEL, lambda _: whole).space).notes()


def _trace(content: str | bytes) -> None:
    whole = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    space = parse("m.yaml", _WITH_TRACE, bytes_of=lambda _: whole).space
    for cell in space.cells():
        if isinstance(cell.work, ReplayWorkload):
            cell.work.script_files(cell.span, 1)


def _hosts(text: str) -> None:
    lab = parse_lab("hosts.yaml", text)
    matched(lab, Needs.model_validate({"disks": {"count": 1, "kind": "hdd", "tag": "fast"}}), "nas-1")


def _accepted(kind: str, text: str) -> None:
    AcceptedFiles(**{kind: parse_listed(kind, f"{kind}.yaml", text)}).check_cells(_volumes())


def _fio(text: str) -> None:
    parse_groups(text.encode("utf-8", "surrogatepass"), "fio.json")


def _guest(text: str) -> None:
    output, before, after = split_counters(text)
    readings, rest = split_other_settings(output)
    found = readings_of(readings + rest)
    mismatch(found)
    notes_of(rest)
    if use := observe_use(before, after, found, None, _WORK):
        use.files()
    table_by_position(text)
    table_by_sample(text, 4096)
    table_by_time(text, 1.0)


def _smart(text: str) -> None:
    environment.parse(text)


def _guidelines(text: str) -> None:
    load_guidelines(_write("g.yaml", text))


def _manifest(text: str) -> None:
    run_folder.load(_write("manifest.json", text).parent)


def _journal(content: bytes) -> None:
    for suffix in ("-wal", "-shm"):
        (_folder() / f"journal.sqlite{suffix}").unlink(missing_ok=True)
    file = _write("journal.sqlite", content)
    try:
        with Journal.existing(file) as journal:
            journal.cells()
            list(journal.trials())
            journal.mean_times()
            journal.attempts()
            journal.unended_attempts()
            journal.retry_counts()
            journal.troubles()
    except MatrixError:
        salvage(file)
        raise


def _written_journal() -> bytes:
    """Return a journal of few rows in small pages: half of its bytes mean something."""
    file = _folder() / "written.sqlite"
    figures = fio_output.parse(fio_output_of("fio-3.39-libaio.json"))
    readings = (Reading("md0.chunk", "65536", "65536"),)
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("PRAGMA page_size = 512; VACUUM")
    with Journal.open(file, synthetic=True) as journal:
        journal.add_cells(CellRow(f"{n:016x}", f"raid5/read{n}", {"layout": "raid5"}) for n in range(3))
        journal.record(Trial(f"{0:016x}", 1, Outcome.MEASURED, "", "2026-01-01", 1.5, 1, figures, readings, {"a": "b"}))
        journal.record(Trial(f"{1:016x}", 1, Outcome.BROKEN, "why", "2026-01-01", 1.5))
        journal.record(Trial(f"{2:016x}", 1, Outcome.SKIPPED, "no kernel"))
        journal.take_back()
        journal.record(Trial(f"{1:016x}", 1, Outcome.BROKEN, "again", "2026-01-01", 1.5))
        journal.record_lost(Attempt(f"{2:016x}", 1, 1, "2026-01-01", "lost", "tail"))
        journal.begin(f"{2:016x}", 1, 2, "boot")
        journal.record_set_up(1, "stack", 2.5)
        journal.record_trouble("2026-01-01", "trouble")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return file.read_bytes()


def fio_output_of(name: str) -> str:
    text = (DATA / name).read_text()
    return text[text.index("{") :]


_WITH_JOBS = """\
name: j
disks: {count: 2, size: 8GiB}
layouts: {a: [disk], f: [disk, fs: {type: ext4}]}
workloads: {w: {job: j.fio, set: {size: [10m, 20m]}}, m: {rw: read, jobs: {one: {bs: 4KiB}, two: {rw: write}}}}
"""
_JOBS = """\
; a comment
[global]
ioengine=libaio
direct=1
runtime=2m
bs=4k,8k
filename=/dev/sdz:/tmp/x
description=2*$ncpus
[reader]
rw=randread:8
iodepth=8
size=10%
offset=1m
numjobs=2
startdelay=1s
[writer]
stonewall
rw=randrw
rwmixread=70
bssplit=4k/50:64k/50
rate=1m,2m
nrfiles=3
filesize=1m
io_size=5m
loops=2
"""
_WITH_MODEL = (
    "name: m\ndisks: {count: 2, size: 1GiB, model: x.yaml}\nlayouts: {a: [disk]}\nworkloads: {w: {rw: randread}}\n"
)
_WITH_TRACE = """\
name: t
disks: {count: 1, size: 64MiB}
layouts: {a: [disk], f: [disk, fs: {type: ext4}]}
workloads: {w: {replay: t.log, speed: [1, 0.5]}, s: {replay: t.log, runtime: 1s, size: 32MiB}}
"""
_IOLOG = """\
fio version 3 iolog
0 /dev/sda add
0 /dev/sda open
10 /dev/sda read 4096 4096
900 /dev/sda write 100000000 65536
900 /dev/sda sync 0 0
1200 /dev/sda close
"""
_WAITING = """\
fio version 2 iolog
a open
a wait 5 0
a read 0 512
a wait 9 0
a trim 0 512
b write 512 512
"""
_BLKTRACE = b"".join(
    struct.pack("<IIQQIIIIIHH", 0x65617407, at, at * 1000000, at * 64, 4096, 1 | kind << 16, 7, 8 << 20, 0, 0, 0)
    for at, kind in enumerate((1, 2, 1, 2 | 1 << 2, 2 | 1 << 13, 1))
)
_MATRICES = (
    "name: s\ndisks: {count: 2, size: 1GiB}\nlayouts: {a: [disk]}\nworkloads: {r: {rw: read}}\n",
    """\
name: m
disks: [{count: 2, size: 1GiB, bus: sata, model: {kind: hdd, outer: 100MB/s, inner: 50MB/s}}, {count: 2, size: 2GiB}]
layouts:
  a: [md: {level: [5, 6], chunk: 64KiB}, lvm: {stripes: 1}, fs: {type: ext4}]
tune: {readahead: [default, 32MiB], md: {stripe_cache_size: 256}}
workloads: {w: {rw: randrw, rwmixread: 70, bs: [4KiB, 1MiB], iodepth: 8, runtime: 1s, ramp: 1s}}
repeat: {min: 2, max: 9, until: 5%}
exclude: [{md.level: 6, workload.bs: 4KiB}]
""",
    """\
name: f
disks: {count: 3, size: 1GiB, model: {kind: ssd, read_latency: 50us, write_latency: 9us, channels: 4, bandwidth: 1GB/s}}
bus_limit: {hba: {disks: [0, 1], bandwidth: 600MB/s}}
faults: {none: [], dies: [{disk: 1, at: 1s, kind: dies}], bad: [{disk: 0, kind: medium, start: 25%, length: 1MiB}]}
layouts: {r: [md: {level: 1, devices: 2, spare: 1}], c: [crypt: {}, integrity: {}], p: [partition: {count: 2}]}
workloads: {w: {rw: write, size: 50%, fio: {end_fsync: 1, nice: [0, 1]}}, d: {preset: dd-write}}
monitor: 1s
""",
    """\
name: g
machine: {kernel: [debian-12, debian-13], memory: 1GiB}
needs: {disks: {count: 1, kind: hdd, tag: fast, size: 1TB}}
disks: &d {count: 1, size: 4GiB}
layouts: {a: [disk, fs: {type: [xfs, btrfs]}]}
workloads: {w: {rw: read, files: 3, file_size: 4MB, steady: {within: 5%}}, i: {preset: [iozone, bonnie], new: true}}
guidelines:
  - {id: x, claim: a, best: {metric: read.bw, along: fs.type, is: xfs, where: {workload: w}}}
  - {id: y, claim: b, ratio: {metric: total.iops, of: {kernel: debian-12}, to: {kernel: debian-13}, at_most: 2x}}
only: [{layout: a}]
""",
)
_SMALL = parse("small", _MATRICES[0]).space
_WORK = _SMALL.workloads[0][0].value
_HOSTS = """\
hosts:
  lab1:
    reach: ssh:root@lab1
    destroy: [ata-ST4000_1]
    disks:
      - {id: ata-ST4000_1, serial: X1, size: 4TB, kind: hdd, tags: [fast], for: [nas*], wipe: allowed}
      - {id: nvme-A, serial: X2, size: 1TB, kind: nvme, vfio: allowed}
"""
_CPU = "cpu 1 2 3 4 5 6 7 8 9 10\nintr 5\nctxt 6\nMemAvailable: 5 kB\nDirty: 1 kB\nWriteback: 1 kB\n"
_DISK = "8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12\n"
_GUEST = (
    "reading\tdisk0.node\t-\tsda\nreading\tdisk0.scheduler\tnone\tnone\nnote\tsync\tclean\n"
    f"counted before 12.5\n{_DISK}{_CPU}counted\n0\t4096\t1\t5\n4096\t4096\t5\t9\n1\t0\t55\n"
    f"counted after 13.5\n{_DISK.replace(' 1 ', ' 9 ')}{_CPU.replace('4', '9')}counted\n"
)


_CENSUS = "\n".join(
    (
        *(
            f"node\tsda\t{key}\t{value}"
            for key, value in (("dev", "8:0"), ("size", "2048"), ("ro", "0"), ("type", "0"))
        ),
        "node\tsda\tstat\t1 0 8 0 2 0 16 0",
        "part\tsda\tsda1\nholder\tsda\tmd0\nlink\tata-x\t8:0\t/dev/sda\tb\nmount\t8:1\t/dev/sda1\t/a\\040b\text4",
        'wipefs\tsda\t{"signatures": [{"type": "ext4", "offset": "0x438"}]}\nblkid\tsda\t0\tTYPE=ext4 UUID=1',
        'lsblk\t{"blockdevices": [{"kname": "sda", "serial": "1", "children": [{"kname": "sda1"}]}]}',
        "mdstat\tmd0 : active raid1 sda[1]",
    )
)


_BASELINES = "- {matrix: small-*, host: lab1, run: nightly-1, reason: after the upgrade}\n- {run: 'a*'}\n"
_KNOWN_CHANGES = """\
- {matrix: '*', cells: {bs: 16KiB}, metric: read.iops, change: -8%, since: 2026-03-01, until: 2026-04-01, reason: x}
- {change: +12%, since: 2026-03-01, reason: y, link: 'https://example.org/1'}
"""


@cache
def _volumes() -> Space:
    return parse(str(_STUDY / "matrix.yaml"), (_STUDY / "matrix.yaml").read_text()).space


_STUDY = ROOT / "matrix/studies/throttled-volumes"
_PUBLISHED = """\
source: a
tables:
  - id: t
    title: b
    at: c
    metric: total.iops
    unit: IOPS
    where: {bs: 16KiB}
    base: {layout: one}
    rows: [{where: {layout: one}, value: 80, remark: "d"}, {where: {layout: three}, value: 241}]
"""


def _written_manifest() -> str:
    host = {"kernel": "6.1", "cpu": "x", "cores": 2, "memory": 1, "hostname": "a"}
    plain = {
        "id": "a1",
        "matrix": "m",
        "fingerprint": "f",
        "machine": "dry",
        "synthetic": True,
        "seed": 1,
        "command": ["matrix"],
    }
    boxes = [["4 disks", 4, "disks", 1], ["md", 1, "devices", 3, [[0, ""]]]]
    plain |= {"stacks": {"raid5": {"capacity": 3, "boxes": boxes}}, "finds": {"w": {"max": "iops"}}}
    more = {"text": _MATRICES[0], "used": {"a": "b"}, "versions": {"6.1": {"fio": "3"}}, "host": host, "planned": 3}
    return json.dumps({**plain, **more, "started": "2026-01-01T00:00:00+00:00"})


@cache
def parsers() -> dict[str, Parser]:
    matrices = [*sorted((ROOT / "matrix").glob("*.yaml")), *sorted((ROOT / "matrix/starters").glob("*.yaml"))]
    named = [(str(path), path.read_text()) for path in matrices if path.name != "hosts.yaml"]
    trees = [parse(name, text).source.data for name, text in (*named, *(("small", text) for text in _MATRICES))]
    fio = ("fio-3.39-libaio.json", "fio-libaio-jobs.json", "fio-psync-grouped.json")
    table = '{"table": [{"id": 5, "value": 1}]}'
    smart = f'{{"model_name": "a", "smart_status": {{"passed": true}}, "ata_smart_attributes": {table}}}'
    guidelines = tuple(path.read_text() for path in sorted((ROOT / "matrix/guidelines").glob("*.yaml")))
    return {
        "matrix": Parser(_MATRICES, _matrix),
        "declared": Parser(tuple(trees), _declared, mutate_tree),
        "jobs": Parser((_JOBS,), _job_file),
        "iolog": Parser((_IOLOG, _WAITING), _trace),
        "blktrace": Parser((_BLKTRACE,), _trace, flip_bytes),
        "hosts": Parser((_HOSTS,), _hosts),
        "model": Parser(tuple(path.read_text() for path in sorted((ROOT / "matrix/models").glob("*.yaml"))), _model),
        "guidelines": Parser(guidelines, _guidelines),
        "published": Parser((_PUBLISHED,), lambda text: parse_published("published.yaml", text, _volumes())),
        "baselines": Parser((_BASELINES,), partial(_accepted, "baselines")),
        "known-changes": Parser((_KNOWN_CHANGES,), partial(_accepted, "known_changes")),
        "fio": Parser(tuple(map(fio_output_of, fio)), _fio, mutate_json),
        "guest": Parser((_GUEST,), _guest),
        "smart": Parser((smart,), _smart, mutate_json),
        "census": Parser((_CENSUS,), lambda text: parse_census(f"{text}\nend\n")),
        "manifest": Parser((_written_manifest(),), _manifest, mutate_json),
        "journal": Parser((_written_journal(),), _journal, mutate_journal),
    }
