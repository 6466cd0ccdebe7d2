"""Expanding and planning many cells, against a bare loop that builds one pydantic model per combination.

    python -m bench.expand [--cells 100000]

Each side runs in a process of its own, so that its peak memory is its own. Then the commands `plan` and `validate` on
100,000 cells of 10,000 workloads, against the expansion alone: processor time with that of fio.
"""

from __future__ import annotations

import argparse
import itertools
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from bench.sides import require_difference
from matrix_runner.decide.estimate import Pace, estimate
from matrix_runner.decide.plan import Plan
from matrix_runner.space.load import parse
from matrix_runner.space.select import select
from matrix_runner.space.space import expand

LEVELS, CHUNKS = [0, 5, 6, 10], [f"{4 << power}KiB" for power in range(10)]
READAHEADS = [f"{4 * number}KiB" for number in range(1, 26)]
KINDS, SIZES = ["read", "write", "randread", "randwrite", "rw"], ["4KiB", "16KiB", "64KiB", "256KiB"]


class Bare(BaseModel):
    model_config = ConfigDict(frozen=True)
    level: int
    chunk: str
    readahead: str
    rw: str
    bs: str
    iodepth: int


def depths(cells: int) -> list[int]:
    return list(range(1, cells // (len(LEVELS) * len(CHUNKS) * len(READAHEADS) * len(KINDS) * len(SIZES)) + 1))


def text_of(cells: int) -> str:
    return f"""\
name: bench
disks: {{count: 4, size: 1GiB}}
layouts: {{p: [md: {{level: {LEVELS}, chunk: [{", ".join(CHUNKS)}]}}]}}
tune: {{readahead: [{", ".join(READAHEADS)}]}}
workloads: {{w: {{rw: [{", ".join(KINDS)}], bs: [{", ".join(SIZES)}], iodepth: {depths(cells)}}}}}
"""


def ours(cells: int) -> tuple[int, object]:
    """Return the number of cells, and one of them."""
    space = parse("bench", text_of(cells)).space
    count = estimate(Plan(select(space), space.matrix.repeat, 1), Pace()).cells
    return count, next(iter(space.cells()))


#: 100,000 cells: 10 stacks and 10,000 workloads.
MANY_WORKLOADS = f"""\
name: bench
disks: {{count: 4, size: 1GiB}}
layouts: {{p: [md: {{level: [0, 5], chunk: [{", ".join(CHUNKS[:5])}]}}]}}
workloads: {{w: {{rw: [{", ".join(KINDS)}], bs: [{", ".join(SIZES)}], iodepth: {list(range(1, 501))}}}}}
"""
ONE_CELL = "{name: bench, disks: {count: 1, size: 1GiB}, layouts: {p: [disk]}, workloads: {w: {rw: read}}}"


def processor_time(command: list[str]) -> tuple[float, str]:
    """Return the seconds of processor of a command and all programs that it starts, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def cells_in(output: str) -> str:
    """Return the number of cells that `validate` or `plan` prints."""
    return "".join(re.findall(r"([0-9,]+) cells?\b|\bcells +([0-9,]+)", output)[0])


def expansion_time(text: str) -> float:
    matrix = parse("bench", text).space.matrix
    began = time.process_time()
    assert expand(matrix)[0].count() == 100_000
    return time.process_time() - began


def commands() -> None:
    alone = expansion_time(MANY_WORKLOADS)
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "bench.yaml", Path(folder) / "small.yaml"
        path.write_text(MANY_WORKLOADS)
        small.write_text(ONE_CELL)
        for name in ("validate", "plan"):
            command = ["-m", "matrix_runner.cli", name]
            (many, of_many), (one, of_one) = (processor_time([*command, str(file)]) for file in (path, small))
            require_difference("number of cells", *map(cells_in, (of_many, of_one)))
            taken = many - one
            print(f"{name}, 10,000 workloads: {taken:.2f} s beyond one cell, ratio to expand {taken / alone:.2f}")


def bare(cells: int) -> tuple[int, object]:
    count, last = 0, None
    for level, chunk, readahead, rw, bs, iodepth in itertools.product(
        LEVELS, CHUNKS, READAHEADS, KINDS, SIZES, depths(cells)
    ):
        last = Bare(level=level, chunk=chunk, readahead=readahead, rw=rw, bs=bs, iodepth=iodepth)
        count += 1
    return count, last


def measured(side: str, cells: int) -> tuple[float, float, int, str]:
    """Return seconds of processor, peak MB, how many cells and their kind, from a process that does only this."""
    command = [sys.executable, "-m", "bench.expand", "--side", side, "--cells", str(cells)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(said[0]), float(said[1]), int(said[2]), said[3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--side", choices=["ours", "bare"])
    asked = parser.parse_args()
    if asked.side:
        began = time.process_time()
        count, one = (ours if asked.side == "ours" else bare)(asked.cells[0])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(time.process_time() - began, peak, count, type(one).__name__)
        return
    for cells in asked.cells:
        mine, loop = measured("ours", cells), measured("bare", cells)
        assert mine[2] == loop[2] == cells
        require_difference("kind of cell", mine[3], loop[3])
        print(f"{cells:>9,} cells expanded and planned  {mine[0]:6.2f} s  peak {mine[1]:4.0f} MB")
        print(f"          one pydantic model each       {loop[0]:6.2f} s  ratio {mine[0] / loop[0]:.2f}")
    commands()


if __name__ == "__main__":
    main()
