"""Files that are made to cost much: matrices, job files, hosts files, imports and damaged journals."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from bench.fuzz_parsers import fio_output_of
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.records.tables import IN_JOURNAL
from matrix_runner.work.fio import output as fio_output
from tests.support.sealing import reseal

_MIB = 1 << 20
_HEAD = "name: m\ndisks: {count: 4, size: 1TiB}\n"
_LAYOUTS = "layouts: {a: [md: {level: 5}]}\n"
_WORKLOADS = "workloads: {w: {rw: read, bs: 4KiB}}\n"


def _list(values: Iterable[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _map(pairs: Iterable[tuple[object, object]]) -> str:
    return f"{{{', '.join(f'{key}: {value}' for key, value in pairs)}}}"


def _cells(chunks: int, readaheads: int, depths: int, layer: str = "md") -> str:
    """Return a matrix of chunks × readaheads × depths cells, on files or on a device."""
    chunk = _list(f"{4 * (n + 1)}KiB" for n in range(chunks))
    top = ", fs: {type: ext4}" if layer == "fs" else ""
    stack = f"[md: {{level: 0, chunk: {chunk}}}{top}]"
    tune = f"tune: {{readahead: {_list(f'{4 * n}KiB' for n in range(1, readaheads + 1))}}}\n"
    work = f"workloads: {{w: {{rw: randread, iodepth: {_list(range(1, depths + 1))}}}}}\n"
    return f"{_HEAD}layouts: {{a: {stack}}}\n{tune}{work}"


def _ten(names: Iterable[str]) -> str:
    return _map((name, _list(range(1, 11))) for name in names)


def _fill(line: str, head: str, indent: str = "") -> str:
    """Repeat a numbered line up to the largest size of a matrix."""
    lines, size, number = [head], len(head), 0
    while (size := size + len(one := f"{indent}{line.format(n=number)}\n")) <= _MIB:
        lines.append(one)
        number += 1
    return "".join(lines)


def _lines(head: str, line: str, count: int) -> str:
    return "\n".join([head, *(line.format(n=number) for number in range(1, count + 1)), ""])


_SMALL = _HEAD + _LAYOUTS + _WORKLOADS
_FAULTY = _SMALL.replace("1TiB", "1TiB, model: ideal")
_GUIDELINE = "- {{id: g{n}, claim: a, best: {{metric: write.bw, along: tune.readahead, is: 4KiB}}}}"
_AHEAD = f"{_HEAD}{_LAYOUTS}{_WORKLOADS}".replace("rw: read", "rw: write") + "tune: {readahead: [4KiB, 8KiB]}\n"
_DEPTHS = f"workloads: {{w: {{rw: read, iodepth: {_list(range(1, 101))}}}}}\n"
_FIO = _ten(["nice", "thinktime", "thinktime_blocks", "rate_iops"]).replace("nice: [1, 2", "nice: [0, 11")
_DIES = "[{{disk: 0, kind: dies, at: {n}s}}]"

Files = Mapping[str, str]


def _with_jobs(job: str, work: str = "{job: j.fio}", layouts: str = _LAYOUTS, **others: str) -> Files:
    return {"m.yaml": f"{_HEAD}{layouts}workloads: {{w: {work}}}\n", "j.fio": job, **others}


def _jobs(count: int, options: int = 0) -> str:
    return "".join(f"[j{n}]\nrw=read\nsize=1m\n" + "nice=0\n" * options for n in range(count))


def _job_map(jobs: int, depths: int) -> str:
    return _map((f"j{n}", f"{{iodepth: {_list(range(1, depths + 1)) if n == 0 else 1}}}") for n in range(jobs))


def _including(names: str, line: str) -> Files:
    """Return files of which each includes the next many times."""
    return {name: line.format(following) * 200 for name, following in pairwise(names)}


MATRICES: dict[str, Callable[[], str | Files]] = {
    "six axes of ten": lambda: (
        f"{_HEAD}{_LAYOUTS}workloads: {{w: {{rw: read, iodepth: {_list(range(1, 11))}, numjobs: {_list(range(1, 11))},"
        f" fio: {_ten(['thinktime', 'thinktime_blocks', 'rate_iops', 'startdelay'])}}}}}\n"
    ),
    "10^7 cells, many workloads": lambda: _cells(10, 100, 10_000),
    "10^7 cells, many tunables": lambda: _cells(10, 10_000, 100),
    "10^7 cells, many stacks": lambda: _cells(5000, 10, 200),
    "10^7 cells, in files": lambda: _cells(10, 1000, 1000, "fs"),
    "10^6 cells": lambda: _cells(10, 100, 1000),
    "2·10^5 cells": lambda: _cells(10, 20, 1000),
    "5,000 layouts": lambda: (
        f"{_HEAD}layouts: {_map((f'l{n}', f'[md: {{level: 0, chunk: {n + 1}MiB}}]') for n in range(5000))}\n{_DEPTHS}"
    ),
    "5,000 equal layouts": lambda: f"{_HEAD}layouts: {_map((f'l{n}', '[disk]') for n in range(5000))}\n{_DEPTHS}",
    "49,000 duplicates": lambda: (
        f"{_HEAD}{_LAYOUTS}workloads: {{w: {{rw: read, iodepth: {_list(['1', '2'] * 24_500)}}}}}\n"
    ),
    "9,900 equal workloads": lambda: (
        f"{_HEAD}{_LAYOUTS}workloads: {_map((f'w{n}', '{rw: read}') for n in range(9_900))}\n"
    ),
    "10,000 fio options": lambda: (
        f"{_HEAD}{_LAYOUTS}workloads: {{w: {{rw: read, fio: {_map((f'o{n}', n) for n in range(10_000))}}}}}\n"
    ),
    "10,000 fio jobs": lambda: f"{_HEAD}{_LAYOUTS}workloads: {{w: {{rw: read, fio: {_FIO}}}}}\n",
    "10,000 refused fio jobs": lambda: (
        f"{_HEAD}{_LAYOUTS}workloads: {_map((f'w{n}', f'{{rw: read, fio: {{bad{n}: 1}}}}') for n in range(5000))}\n"
    ),
    "deep YAML": lambda: f"{_SMALL}a: {'[' * 500_000}{']' * 500_000}\n",
    "60 deep, 40,000 values": lambda: f"{_SMALL}a: {_list(['[' * 58 + ']' * 58] * 680)}\n",
    "aliases": lambda: "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} {_list([f'*a{n - 1}'] * 50)}\n" for n in range(1, 60)),
    "a long string": lambda: f"{_SMALL}description: {'x' * 1_000_000}\n",
    "a long name": lambda: _SMALL.replace("name: m", f"name: {'x' * 1_000_000}"),
    "a long key": lambda: f"{_SMALL}? {'x' * 1_000_000}\n: 1\n",
    "one long line of errors": lambda: f"{{name: x, {', '.join(f'key{n}: 1' for n in range(20_000))}}}",
    "1 MiB of guidelines": lambda: _fill(_GUIDELINE, f"{_SMALL}guidelines:\n"),
    "3,500 guidelines": lambda: _lines(f"{_AHEAD}guidelines:", _GUIDELINE, 3_500),
    "guidelines × cells": lambda: _lines(f"{_cells(10, 100, 10)}guidelines:", _GUIDELINE, 80),
    "guidelines × values": lambda: _lines(
        f"{_cells(1, 1, 9_000)}guidelines:",
        "- {{id: g{n}, claim: a, best: {{metric: read.iops, along: workload.iodepth, is: 64}}}}",
        10,
    ),
    "8,000 rules": lambda: _lines(f"{_AHEAD}exclude:", "- {{layout: a, tune.readahead: 4KiB}}", 8_000),
    "8,000 useless rules": lambda: _lines(f"{_AHEAD}exclude:", "- {{layout: a, tune.readahead: {n}KiB}}", 8_000),
    "rules × cells": lambda: _lines(f"{_cells(10, 100, 100)}only:", "- {{iodepth: {n}}}", 90),
    "rules that exclude all": lambda: _cells(10, 1000, 1000) + "exclude: [{md.level: 0}]\n",
    "1 MiB of rules": lambda: _fill("- {{layout: a, bs: {n}KiB}}", f"{_SMALL}exclude:\n"),
    "1 MiB of faults": lambda: _fill(f"f{{n}}: {_DIES}", f"{_FAULTY}faults:\n", "  "),
    "4,000 sets of faults": lambda: _lines(f"{_FAULTY}faults:", f"  f{{n}}: {_DIES}", 4000),
    "1 MiB of comments": lambda: _fill("# {n}", _SMALL),
    "1 MiB of empty lines": lambda: _SMALL + "\n" * 1_000_000,
    "1 MiB of quotes": lambda: f'{_SMALL}description: "{chr(92)}n{"x" * 100_000}\n{"y " * 400_000}"\n',
    "1 MiB of controls": lambda: _SMALL + "\x1b[31m" * 200_000,
    "an open bracket": lambda: f"{_SMALL}a: [{'x, ' * 300_000}",
    "a long number": lambda: f"{_SMALL}seed: {'9' * 1_000_000}\n",
    "a long size": lambda: _SMALL.replace("1TiB", f"{'9' * 1_000_000}TiB"),
    "a long fraction": lambda: _SMALL.replace("1TiB", f"0.{'9' * 1_000_000}TiB"),
    "a long time": lambda: _SMALL.replace("bs: 4KiB", f"runtime: {'9' * 1_000_000}s"),
    "tags": lambda: _fill("- !!python/object/apply:os.system [{n}]", f"{_SMALL}a:\n"),
    "many documents": lambda: _SMALL + "--- {}\n" * 100_000,
    "a 1 MiB job file": lambda: _with_jobs(_jobs(40_000)),
    "a job of 19,000 options": lambda: _with_jobs(_jobs(1, 19_000)),
    "1,000 jobs, 15 variants": lambda: _with_jobs(
        _jobs(1000, 15), f"{{job: j.fio, set: {{nice: {_list(range(15))}}}}}"
    ),
    "1,000 jobs, 1,000 stacks": lambda: _with_jobs(
        _jobs(1000),
        layouts=f"layouts: {_map((f'l{n}', f'[md: {{level: 0, chunk: {n + 1}MiB}}]') for n in range(999))}\n",
    ),
    "10,000 keys of `set`": lambda: _with_jobs(
        _jobs(40), f"{{job: j.fio, set: {_map((f'option{n}', 1) for n in range(10_000))}}}"
    ),
    "wrong job lines": lambda: _with_jobs("[a]\n" + "exec_prerun=x\n" * 19_000),
    "jobs that include jobs": lambda: _with_jobs(
        "[a]\ninclude b\n", **_including("bcdefghi", "include {}\n"), i="nice=0\n"
    ),
    "a `jobs:` map of 100": lambda: f"{_HEAD}{_LAYOUTS}workloads: {{w: {{rw: read, jobs: {_job_map(100, 490)}}}}}\n",
    "a `jobs:` map of 9,000": lambda: f"{_HEAD}{_LAYOUTS}workloads: {{w: {{rw: read, jobs: {_job_map(9000, 1)}}}}}\n",
    "layouts that use layouts": lambda: {
        "m.yaml": f"{_HEAD}layouts: {{a: [use: l.yaml#b]}}\n{_WORKLOADS}",
        "l.yaml": "layouts:\n  h: [disk]\n"
        + "".join(f"  {name}: [{line}]\n" for name, line in _including("bcdefgh", "use: l.yaml#{}, ").items()),
    },
    "uses of no layout": lambda: {
        "m.yaml": f"{_HEAD}layouts: {_map((f'l{n}', f'[use: l.yaml#x{n}]') for n in range(5000))}\n{_WORKLOADS}",
        "l.yaml": f"layouts: {_map((f'layout{n}', '[disk]') for n in range(5000))}\n",
    },
    "disk models of 1 MiB": lambda: {
        "m.yaml": f"name: m\ndisks: {_list(['{count: 1, size: 1GiB, model: d.yaml}'] * 2000)}\n{_LAYOUTS}{_WORKLOADS}",
        "d.yaml": f"{{kind: hdd, a: {_list(range(40_000))}}}\n",
    },
}
MATRIX_COMMANDS: dict[str, tuple[str, ...]] = {
    "validate": ("validate", "m.yaml"),
    "plan": ("plan", "--on", "dry", "m.yaml"),
    "cells": ("plan", "--on", "dry", "--cells", "m.yaml"),
    "json": ("plan", "--on", "dry", "--format", "json", "m.yaml"),
    "render": ("render", "m.yaml", "--to", "out"),
    "one": ("render", "m.yaml", "no such cell"),
    "run": ("run", "--on", "dry", "--json", "m.yaml"),
    "guidelines": ("guidelines", "list", "m.yaml"),
}


def _hosts(disk: str) -> Callable[[Path], None]:
    return lambda folder: _write(folder / "hosts.yaml", _fill(disk, "hosts:\n  lab1:\n    disks:\n", "      "))


def _write(file: Path, text: str) -> None:
    file.write_text(text)


def _import(job: str, size: int = 63 * _MIB) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        with (folder / "fio.json").open("w") as file:
            file.write('{"fio version": "fio-3.39", "jobs": [')
            file.writelines(f"{', ' * bool(n)}{job.replace('NUMBER', str(n))}" for n in range(size // (len(job) + 8)))
            file.write("]}")

    return write


def _job(name: str) -> str:
    """Return a job of fio's output, with another name or other options."""
    (job,) = json.loads(fio_output_of("fio-3.39-libaio.json"))["jobs"]
    job["read"] |= {"io_bytes": 4096, "bw_bytes": 4096, "iops": 1.0, "total_ios": 1, "runtime": 1000}
    return json.dumps({**job, "jobname": name, "job options": {"rw": "read", "iodepth": "NUMBER"}})


def _journal(damage: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return what writes a run of 10,000 trials in 1,000 cells, and damages its journal."""

    def write(folder: Path) -> None:
        (folder / "m.yaml").write_text(_SMALL)
        words = ("run", "--on", "dry", "--quiet", "m.yaml")
        subprocess.run([sys.executable, "-m", "matrix_runner.cli", *words], cwd=folder, check=True, capture_output=True)
        (file,) = folder.glob("results/*/journal.sqlite")
        figures = fio_output.parse(fio_output_of("fio-3.39-libaio.json"))
        with Journal.existing(file) as journal:
            journal.add_cells(CellRow(f"{n:016x}", f"a/read{n}", {"layout": "a"}) for n in range(1000))
            journal.record(Trial(f"{0:016x}", 1, Outcome.MEASURED, "", "2026-01-01", 1.5, 1, figures))
        _repeat_trials(file, f"{0:016x}")
        damage(file)
        file.parent.rename(folder / "run")

    return write


def _repeat_trials(file: Path, cell: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        names = [
            row[1] for row in connection.execute("PRAGMA table_info(trials)") if row[1] not in {"id", "cell", "round"}
        ]
        columns, values = (", ".join(f'{table}"{name}"' for name in names) for table in ("", "trials."))
        connection.execute(
            f"INSERT INTO trials (cell, round, {columns}) SELECT cells.id, rounds.n, {values} FROM trials, cells, "  # noqa: S608
            "(WITH RECURSIVE r(n) AS (SELECT 12 UNION ALL SELECT n + 1 FROM r WHERE n < 21) SELECT n FROM r) AS rounds "
            "WHERE trials.cell = ?",
            (cell,),
        )
        reseal(connection, IN_JOURNAL.trials)


def _flip(file: Path) -> None:
    content, draw = bytearray(file.read_bytes()), random.Random(1)  # noqa: S311 - repeatable
    for _ in range(2000):
        content[draw.randrange(4096, len(content))] = draw.randrange(256)
    file.write_bytes(content)


def _lose_roots(file: Path) -> None:
    content = bytearray(file.read_bytes())
    with closing(sqlite3.connect(file)) as connection:
        pages = [page for (page,) in connection.execute("SELECT rootpage FROM sqlite_master WHERE type = 'table'")]
    for page in pages:
        content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    file.write_bytes(content)


def _grow(file: Path) -> None:
    with file.open("rb+") as opened:
        opened.truncate(1 << 36)


_IMPORT = ("import", "--axis", "layout=a", "fio.json")
#: Other files: what writes them, and the command that reads them.
OTHERS: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "1 MiB of disks in hosts.yaml": (
        _hosts("- {{id: ata-{n}, serial: x, size: 1TB}}"),
        ("disks", "--hosts", "hosts.yaml", "--host", "lab1"),
    ),
    "9,900 hosts": (
        lambda folder: _write(folder / "hosts.yaml", _lines("hosts:", "  h{n}: {{reach: ssh:h{n}}}", 9_900)),
        ("disks", "--hosts", "hosts.yaml", "--host", "nowhere"),
    ),
    "an import of 1 MiB": (_import(_job("jNUMBER"), _MIB), _IMPORT),
    "an import of 63 MiB": (_import(_job("jNUMBER")), _IMPORT),
    "an import of one job name": (_import(_job("j")), _IMPORT),
    "an import of small values": (_import("NUMBER"), _IMPORT),
    "a deep import": (lambda folder: _write(folder / "fio.json", '{"a":' * 8_000_000), _IMPORT),
    "a long number to import": (lambda folder: _write(folder / "fio.json", f'{{"jobs": {"9" * 60_000_000}}}'), _IMPORT),
    "a journal with flipped bytes": (_journal(_flip), ("salvage", "run")),
    "a journal without roots": (_journal(_lose_roots), ("salvage", "run")),
    "a journal of 64 GiB": (_journal(_grow), ("salvage", "run")),
    "an undamaged journal": (_journal(lambda _: None), ("report", "run")),
}


def write_matrix(folder: Path, kind: str) -> None:
    files = MATRICES[kind]()
    for name, text in ({"m.yaml": files} if isinstance(files, str) else files).items():
        (folder / name).write_text(text)
