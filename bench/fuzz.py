"""Mutate files and outputs that others write, and parse them: each is understood, or refused by a named error.

    python -m bench.fuzz --minutes 60 --inputs 1000000

It prints the counts of inputs, refusals and tracebacks, the slowest input and the longest message, by parser. Inputs
that end in a traceback are kept in `tests/data/crashers/`, where the tests parse them again.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import re
import resource
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

from runner.analysis.fio_import import parse_groups
from runner.base.errors import BadInput, HarnessBroken, MatrixError
from runner.engine.trial_result import mismatch, notes_of, readings_of, split_other_settings
from runner.hosts.inventory import parse_census
from runner.results import disk_health
from runner.results.counters import observe_use, split_counters
from runner.results.fio_output import table_by_position, table_by_sample, table_by_time
from runner.results.journal import Journal
from runner.results.record import CellRow, Outcome, Trial
from runner.results.salvage import salvage
from runner.space.declared_files import load_guidelines, parse_lab
from runner.space.load import parse
from runner.space.select import select

ROOT = Path(__file__).parents[1]
CRASHERS = ROOT / "tests/data/crashers"
_TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)
_POOL = (
    *("0", "1", "-1", "2", "31", "1e999", "9" * 25, "-9223372036854775809", "0.5", "nan", ".inf", "0x10", "1_000", "²"),
    *("null", "true", "~", "''", '""', "[]", "{}", "[1, 2]", "{a: b}", "[[]]", "2001-01-01", "!!binary a", "!!set {a}"),
    *(
        "default",
        "1KiB",
        "64KiB",
        "1PiB",
        "5%",
        "100%",
        "-5%",
        "1s",
        "1h",
        "sda",
        "/",
        "..",
        "*a",
        "&a",
        "<<",
        "? ",
        "- ",
    ),
    *(
        "\x00",
        "\x1b[31m",
        "\u202e",
        "\ud800",
        "\u2028",
        "\x85",
        "é",
        "\t",
        "\n",
        "\r",
        ": ",
        ", ",
        "#",
        "'",
        '"',
        "|",
        ">",
    ),
    *("[", "]", "{", "}", "=", "\\", "%", "a" * 300, "[" * 70, "layouts", "workloads", "use", "md", "name", "disks"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 10**30, 0.5, -0.5, 1e308, "", "x", "1", "\x1b[31m", "²"),
    *([], [0], {}, {"a": 1}, [[]], "9" * 5000, {"N": 5}, {"1": "2"}),
)


def _mutate_text(text: str, draw: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        at = draw.randrange(len(tokens) + 1)
        match draw.randrange(6):
            case 0:
                tokens[at : at + 1] = [draw.choice(_POOL)]
            case 1:
                tokens[at:at] = [draw.choice(_POOL)]
            case 2:
                tokens[at : at + draw.choice((1, 2, 10))] = []
            case 3:
                end = at + draw.choice((1, 5, 30))
                tokens[at:at] = tokens[at:end]
            case 4 if tokens:
                tokens[at : at + 1] = [draw.choice(tokens)]
            case _:
                tokens[at:] = tokens[at:][::-1] if draw.randrange(20) == 0 else tokens[at:]
    return "".join(tokens)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield node, key
        yield from _places(node[key])


def _mutate_json(text: str, draw: random.Random) -> str:
    if draw.randrange(4) == 0:
        return _mutate_text(text, draw)
    whole = json.loads(text)
    for _ in range(draw.choice((1, 1, 2, 4))):
        places = list(_places(whole))
        if not places:
            break
        node, key = draw.choice(places)
        if draw.randrange(4):
            node[key] = copy.deepcopy(draw.choice(_VALUES))
        else:
            del node[key]
    return json.dumps(whole, indent=2)


@dataclass(frozen=True)
class Parser:
    seeds: tuple[Any, ...]
    parse: Callable[[Any], object]
    mutate: Callable[[Any, random.Random], Any] = _mutate_text


def _matrix(text: str) -> None:
    space = parse(str(ROOT / "matrix/fuzzed.yaml"), text).space
    select(space).notes()


def _fio(text: str) -> None:
    parse_groups(text, "fio.json")


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
    disk_health.parse(text)


def _guidelines(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "g.yaml"
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        load_guidelines(file)


def _journal(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "journal.sqlite"
        file.write_bytes(content)
        try:
            with Journal.existing(file) as journal:
                journal.cells()
                list(journal.trials())
                journal.mean_times()
                journal.attempts()
        except MatrixError:
            salvage(file)
            raise


def _flip(content: bytes, draw: random.Random) -> bytes:
    flipped = bytearray(content)
    for _ in range(draw.choice((1, 4, 40))):
        flipped[draw.randrange(len(flipped))] = draw.randrange(256)
    return bytes(flipped)


def _written_journal() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "journal.sqlite"
        with Journal.open(file, synthetic=True) as journal:
            journal.add_cells(CellRow(f"{n:016x}", f"raid5/read{n}", {"layout": "raid5"}) for n in range(20))
            for n in range(40):
                journal.record(Trial(f"{n % 20:016x}", n // 20 + 1, Outcome.BROKEN, "why", "2026-01-01", 1.5))
        sqlite3.connect(file).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
        return file.read_bytes()


_SMALL = parse(
    "small", "name: s\ndisks: {count: 2, size: 1GiB}\nlayouts: {a: [disk]}\nworkloads: {r: {rw: read}}\n"
).space
_WORK = _SMALL.workloads[0][0].value
_HOSTS = """\
hosts:
  lab1:
    reach: ssh:root@lab1
    destroy: [ata-ST4000_1]
    disks:
      - {id: ata-ST4000_1, serial: X1, size: 4TB, kind: hdd, tags: [fast], for: [nas*], wipe: allowed}
      - {id: nvme-A, serial: X2, size: 1TB, kind: nvme, vfio: true}
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


def parsers() -> dict[str, Parser]:
    matrices = [*sorted((ROOT / "matrix").glob("*.yaml")), *sorted((ROOT / "matrix/starters").glob("*.yaml"))]
    texts = tuple(path.read_text() for path in matrices if path.name != "hosts.yaml")
    fio = tuple(
        text[text.index("{") :]
        for text in (path.read_text() for path in sorted((ROOT / "tests/data").glob("fio*.json")))
    )
    table = '{"table": [{"id": 5, "value": 1}]}'
    smart = f'{{"model_name": "a", "smart_status": {{"passed": true}}, "ata_smart_attributes": {table}}}'
    guidelines = tuple(path.read_text() for path in sorted((ROOT / "matrix/guidelines").glob("*.yaml")))
    return {
        "matrix": Parser(texts, _matrix),
        "hosts": Parser((_HOSTS,), lambda text: parse_lab("hosts.yaml", text)),
        "guidelines": Parser(guidelines, _guidelines),
        "fio": Parser(fio, _fio, _mutate_json),
        "guest": Parser((_GUEST,), _guest),
        "smart": Parser((smart,), _smart, _mutate_json),
        "census": Parser((_CENSUS,), lambda text: parse_census(f"{text}\nend\n")),
        "journal": Parser((_written_journal(),), _journal, _flip),
    }


@dataclass
class Tally:
    inputs: int = 0
    refusals: int = 0
    tracebacks: int = 0
    slowest: float = 0.0
    longest: int = 0
    crashes: dict[str, str] = field(default_factory=dict)  # the last line of a traceback to its input's file


def attack(name: str, parser: Parser, seed: int, tally: Tally | None = None) -> Tally:
    """Parse one mutated input. Only named errors count as refusals."""
    tally = tally or Tally()
    draw = random.Random(f"{name}/{seed}")  # noqa: S311 - repeatable
    given = parser.mutate(draw.choice(parser.seeds), draw)
    began = time.perf_counter()
    tally.inputs += 1
    try:
        parser.parse(given)
    except (BadInput, HarnessBroken) as error:
        tally.refusals += 1
        tally.longest = max(tally.longest, len(f"{error.brief}{error.details}{error.resolution}"))
    except Exception:  # noqa: BLE001 - every other one is what we look for
        tally.tracebacks += 1
        lines = traceback.format_exc().rstrip().splitlines()
        where = next((line.strip() for line in reversed(lines) if "/runner/" in line), "")
        tally.crashes.setdefault(f"{lines[-1].partition(':')[0]} at {where}", keep(name, given))
    tally.slowest = max(tally.slowest, time.perf_counter() - began)
    return tally


def keep(name: str, given: str | bytes) -> str:
    content = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else given
    CRASHERS.mkdir(parents=True, exist_ok=True)
    file = CRASHERS / f"{name}-{blake2b(content, digest_size=6).hexdigest()}"
    file.write_bytes(content)
    return file.name


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=2.0)
    options.add_argument("--inputs", type=int, default=sys.maxsize)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", default="")
    asked = options.parse_args()
    known = {name: parser for name, parser in parsers().items() if asked.only in {"", name}}
    tallies = {name: Tally() for name in known}
    end = time.monotonic() + asked.minutes * 60
    for seed in count(asked.seed):
        for name, parser in known.items():
            attack(name, parser, seed, tallies[name])
        if time.monotonic() > end or sum(one.inputs for one in tallies.values()) >= asked.inputs:
            break
    print(f"{'parser':>10} {'inputs':>9} {'refused':>9} {'tracebacks':>10} {'slowest':>9} {'longest':>8}")
    for name, one in tallies.items():
        row = f"{name:>10} {one.inputs:>9,} {one.refusals:>9,} {one.tracebacks:>10,}"
        print(f"{row} {one.slowest:>7.2f} s {one.longest:>8,}")
        for crash, file in one.crashes.items():
            print(f"           {crash}: {file}")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
    sys.exit(1 if any(one.tracebacks for one in tallies.values()) else 0)


if __name__ == "__main__":
    main()
