"""Expanding and planning many cells, against a bare loop that builds one pydantic model per combination.

    python -m bench.expand [--cells 100000]

Each side runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import time

from pydantic import BaseModel, ConfigDict

from runner.engine.estimate import Pace, estimate
from runner.engine.plan import Plan
from runner.space.load import parse
from runner.space.select import select

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


def ours(cells: int) -> int:
    text = f"""\
name: bench
disks: {{count: 4, size: 1GiB}}
layouts: {{p: [md: {{level: {LEVELS}, chunk: [{", ".join(CHUNKS)}]}}]}}
tune: {{readahead: [{", ".join(READAHEADS)}]}}
workloads: {{w: {{rw: [{", ".join(KINDS)}], bs: [{", ".join(SIZES)}], iodepth: {depths(cells)}}}}}
"""
    space = parse("bench", text).space
    return estimate(Plan(select(space), space.matrix.repeat, 1), Pace()).cells


def bare(cells: int) -> int:
    count = 0
    for level, chunk, readahead, rw, bs, iodepth in itertools.product(
        LEVELS, CHUNKS, READAHEADS, KINDS, SIZES, depths(cells)
    ):
        Bare(level=level, chunk=chunk, readahead=readahead, rw=rw, bs=bs, iodepth=iodepth)
        count += 1
    return count


def measured(side: str, cells: int) -> tuple[float, float, int]:
    """Seconds, peak MB and how many, from a process that does only this."""
    command = [sys.executable, "-m", "bench.expand", "--side", side, "--cells", str(cells)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(said[0]), float(said[1]), int(said[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--side", choices=["ours", "bare"])
    asked = parser.parse_args()
    if asked.side:
        began = time.perf_counter()
        count = (ours if asked.side == "ours" else bare)(asked.cells[0])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(time.perf_counter() - began, peak, count)
        return
    for cells in asked.cells:
        mine, loop = measured("ours", cells), measured("bare", cells)
        assert mine[2] == loop[2] == cells
        print(f"{cells:>9,} cells expanded and planned  {mine[0]:6.2f} s  peak {mine[1]:4.0f} MB")
        print(f"          one pydantic model each       {loop[0]:6.2f} s  ratio {mine[0] / loop[0]:.2f}")


if __name__ == "__main__":
    main()
