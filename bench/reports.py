"""Ten thousand recorded trials into JUnit and both CSV files, against a bare loop that writes as many rows.

    python -m bench.reports [TRIALS]

Twice: of trials that read, as nearly all of the shipped matrices do one of the two, and of trials that read and write,
which have twice the figures and twice the histograms. The bare loop writes the same number of CSV rows (33 columns)
with csv.writer and of test cases (with one text each of the same length) with ElementTree, from constants: no journal,
no statistics. Both run in this process, in turn. Then the files for people, the answer and the page, in the time that
they take beside them: the figures of all cells are known by then.
"""

from __future__ import annotations

import csv
import io
import random
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Tree

import orjson
import sqlalchemy as sa

from bench.sides import require_difference
from matrix_runner.pages.answer import full_answer
from matrix_runner.pages.html import page
from matrix_runner.pages.run_data import without_gc
from matrix_runner.pages.write import load_run_data, rendered
from matrix_runner.records.environment import Host
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Outcome, Reading, Trial
from matrix_runner.records.rows import driver_row_of, readings_row
from matrix_runner.records.run_folder import Manifest, RunFolder
from matrix_runner.records.tables import IN_JOURNAL
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.work.fio.output import Direction, Figures

if TYPE_CHECKING:
    from collections.abc import Callable

    from matrix_runner.pages.run_data import RunData

PER_CELL = 3
ROUNDS = 5
MANIFEST = Manifest(
        id="bench",
    matrix="bench", fingerprint="", machine="qemu", synthetic=False, seed=1, command=(), text="",
    host=Host(kernel="", cpu="", cores=1, memory=1), started="2026-01-01T00:00:00+00:00", planned=10_000,
)  # fmt: skip


def cell(number: int) -> CellRow:
    axes = {"layout": "striped", "md.chunk": f"{number}KiB", "workload": "seqread", "workload.bs": "1MiB"}
    return CellRow(f"{number:016x}", f"striped/chunk={number}KiB/seqread/bs=1MiB", axes)


def histogram(chance: random.Random) -> Histogram:
    """Some 300 bins, as a few seconds of random work leave them."""
    first = chance.randrange(20)
    bins = {1_000_000 + 16_384 * (first + step): 1 + int(chance.expovariate(0.01)) for step in range(300)}
    return Histogram.of(bins)


def trial(number: int, chance: random.Random, *, writes: bool) -> Trial:
    def direction() -> Direction:
        rate, mean, p50, p90, p95, p99, p999, p9999, longest = (chance.random() * 1e7 for _ in range(9))
        times = (mean, p50, p90, p95, p99, p999, p9999, longest)
        return Direction(rate * 100, rate / 100, 10**9, 1000, *times, latencies=histogram(chance))

    return Trial(
        f"{number // PER_CELL:016x}",
        number % PER_CELL + 1,
        Outcome.MEASURED,
        started="2026-03-04T05:06:07+00:00",
        seconds=1.5,
        figures=Figures(direction(), direction() if writes else None, 1.0, 2.0, 3.0, 0),
        readings=tuple(Reading(f"md0/setting_{index}", "64", "64") for index in range(6)),
        notes={"sync": "assume-clean"},
        folder=f"cells/striped/chunk={number // PER_CELL}KiB/seqread/bs=1MiB/trial-{number % PER_CELL + 1}",
    )


def fill(path: Path, trials: int, *, writes: bool) -> None:
    """A journal of so many trials, written in one go: recording is not what is measured here."""
    chance = random.Random(7)  # noqa: S311 - a repeatable sample, not a secret
    with Journal.open(path) as journal:
        journal.add_cells(cell(number) for number in range(trials // PER_CELL + 1))
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        rows = [driver_row_of(trial(number, chance, writes=writes)) for number in range(trials)]
        connection.execute(sa.insert(IN_JOURNAL.trials), [{**row, "notes": orjson.loads(row["notes"])} for row in rows])
        connection.execute(
            sa.text("INSERT INTO readings VALUES (:digest, :content)"),
            readings_row(trial(0, chance, writes=writes).readings),
        )
    engine.dispose()


@without_gc()
def ours(path: Path) -> tuple[RunData, bytes]:
    with Journal.existing(path) as journal:
        content = load_run_data(RunFolder(path.parent, MANIFEST), journal, over=True)
    written = {name: b"".join(parts) for name, parts in islice(rendered(content), 3)}
    assert written.keys() == {"trials.csv", "summary.csv", "junit.xml"}
    return content, written["junit.xml"]


def answer(content: RunData) -> str:
    return full_answer(content.rankings, synthetic=False, over=True)


def people(content: RunData) -> bytes:
    return page(content, MANIFEST, "bench")


def bare(trials: int) -> bytes:
    table = io.StringIO()
    writer = csv.writer(table)
    for _ in range(trials):
        writer.writerow(["some text"] * 11 + [12345678.901] * 22)
    for _ in range(trials // PER_CELL + 1):
        writer.writerow(["some text"] * 11 + [12345678.901] * 32)
    root = Tree.Element("testsuites")
    for _ in range(trials // PER_CELL + 1):
        suite = Tree.SubElement(root, "testsuite", name="some text")
        for _ in range(PER_CELL):
            case = Tree.SubElement(suite, "testcase", name="some text", classname="some text", time="1.5")
            Tree.SubElement(case, "system-out").text = "x" * 900
    return bytes(Tree.tostring(root, encoding="utf-8"))


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def told(kind: str, trials: int, *, writes: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        fill(path, trials, writes=writes)
        pairs = [(seconds(lambda: ours(path)), seconds(lambda: bare(trials))) for _ in range(ROUNDS)]
        content, junit = ours(path)
        require_difference("JUnit", junit[:1000], bare(trials)[:1000])
        answers = seconds(lambda: answer(content))
        pages = [seconds(lambda: people(content)) for _ in range(ROUNDS)]
    mine, theirs = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    print(f"{trials} trials, {kind}")
    print(f"  journal -> JUnit + both CSV         {mine:.2f} s  (median of {ROUNDS}; first {pairs[0][0]:.2f} s)")
    print(f"  bare csv.writer + ElementTree loop  {theirs:.2f} s  (ratio {mine / theirs:.1f})")
    print(f"  answer.txt beside them              {answers:.2f} s")
    print(f"  report.html beside them             {median(pages):.2f} s  (first {pages[0]:.2f} s)")


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    told("which read", trials, writes=False)
    told("which read and write", trials, writes=True)


if __name__ == "__main__":
    main()
