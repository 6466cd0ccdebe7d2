"""A hundred thousand trials in the shared store: what `results`, `compare` and `history` take to answer.

    python -m bench.history [--store postgresql://…] [--runs 100]

The runs are of 200 cells, five times each, as if every night had left one; their folders are there with manifests, so
that looking for what the store lacks is in the figures. Every command is a process of its own, from its start to its
last line, in turn with one that only imports two libraries, which nothing of ours can be quicker than.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.sides import require_difference
from matrix_runner.records.address import address_of
from matrix_runner.records.environment import Host
from matrix_runner.records.record import CellRow, Outcome, Reading, Trial
from matrix_runner.records.run_folder import Manifest, create, state_of
from matrix_runner.records.store import SharedStore, run_row
from matrix_runner.records.tables import runs as runs_table
from matrix_runner.records.tables import sealed
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.work.fio.output import Direction, Figures

if TYPE_CHECKING:
    from collections.abc import Iterator

CELLS, ROUNDS, REPEATS = 200, 5, 3
#: Of many cells at once every change of level is looked for, which takes thousands of random orders a cell.
COMMANDS = (
    ("results latest", ("results", "latest")),
    ("results (all runs, as a table)", ("results",)),
    ("results --only (2 of 200 cells), csv", ("results", "--only", "chunk=7KiB", "--format", "csv")),
    ("results latest --pivot", ("results", "latest", "--pivot", "chunk")),
    ("results (all runs), csv", ("results", "--format", "csv", "--metric", "read_bw")),
    ("compare latest~1 latest", ("compare", "latest~1", "latest")),
    ("compare --by host", ("compare", "--by", "host", "lab0", "lab1")),
    ("history CELL", ("history", "raid5/chunk=7KiB/seq/rw=read", "--metric", "read_bw")),
    ("history --only (2 cells)", ("history", "--only", "chunk=7KiB")),
    ("results latest, percentiles", ("results", "latest", "--metric", "read_lat_p99", "--metric", "read_lat_p999")),
    ("compare latest~1 latest, percentile", ("compare", "latest~1", "latest", "--metric", "read_lat_p99")),
    ("history CELL, percentile", ("history", "raid5/chunk=7KiB/seq/rw=read", "--metric", "read_lat_p99")),
)


def cells() -> list[CellRow]:
    found = []
    for number in range(CELLS):
        chunk, rw = f"{number // 2 + 1}KiB", ("read", "write")[number % 2]
        axes = {"layout": "raid5", "md.chunk": chunk, "workload": "seq", "workload.rw": rw, "workload.bs": "1MiB"}
        found.append(CellRow(f"{number:016x}", f"raid5/chunk={chunk}/seq/rw={rw}", axes))
    return found


#: Some 300 bins each, as a few seconds of random work leave them; ever the same ones, as packing them takes long.
HISTOGRAMS = tuple(
    Histogram.of({1_000_000 + 16_384 * (first + step): 1 + (step * step + first) % 397 for step in range(300)})
    for first in range(20)
)


def direction(bw: float) -> Direction:
    times = (5e6, 4e6, 8e6, 8.5e6, 9e6, 9.5e6, 9.9e6, 1e7)
    return Direction(bw, bw / 2**20, int(bw), int(bw / 2**20), *times, latencies=HISTOGRAMS[int(bw) % 20])


def trials(known: list[CellRow], chance: random.Random, night: int) -> Iterator[tuple[CellRow, Trial]]:
    """The host has its mood each night, and half way it became faster."""
    mood = chance.gauss(1, 0.01) * (1.1 if night > 50 else 1.0)
    readings = tuple(Reading(f"md0/setting_{index}", "64", "64") for index in range(6))
    for cell in known:
        for round_number in range(1, ROUNDS + 1):
            side = direction(1e8 * mood * chance.gauss(1, 0.02))
            figures = Figures(side, None, 1, 2, 3, 0) if cell.name.endswith("read") else Figures(None, side, 1, 2, 3, 0)
            notes = {"kernel": "6.1.0-28-amd64", "resync": "assume-clean"}
            started = f"2026-01-01T05:06:{round_number:02}.000+00:00"
            folder = f"cells/{cell.name}/trial-{round_number}"
            yield (
                cell,
                Trial(cell.id, round_number, Outcome.MEASURED, "", started, 1.5, 1, figures, readings, notes, folder),
            )


def fill(store: SharedStore, results: Path, runs: int) -> None:
    """As a run feeds it, but a whole run in one transaction: feeding is not what is measured here."""
    known, chance = cells(), random.Random(7)  # noqa: S311 - a repeatable sample, not a secret
    for night in range(runs):
        folder = create(results, manifest(night), f"nightly-{night:04}")
        found = list(trials(known, chance, night))
        with store._transaction(immediate=True) as connection:
            connection.execute(store._upserts[runs_table], sealed(runs_table, run_row(folder, state_of(folder.path))))
            store._put(connection, folder.manifest.id, known, [trial for _, trial in found])


def manifest(night: int) -> Manifest:
    mitigations = {f"flaw_{number}": "Mitigation: some" for number in range(20)}
    host = Host(
        kernel="6.1.0", cpu="some", cores=2, memory=1 << 32, hostname=f"lab{night % 2}", mitigations=mitigations
    )
    day = time.strftime("%Y-%m-%d", time.gmtime(1767225600 + night * 86400))
    return Manifest(
        id=f"{night:016x}",
        matrix="nightly",
        fingerprint="f",
        machine="qemu",
        synthetic=False,
        seed=1,
        command=("matrix", "run"),
        text="name: nightly\n" * 50,
        host=host,
        started=f"{day}T01:00:00+00:00",
        planned=CELLS * ROUNDS,
        finished=True,
    )


def seconds(argv: list[str], place: Path, environment: dict[str, str]) -> tuple[float, str]:
    """Return the time, and the output."""
    began = time.perf_counter()
    done = subprocess.run(argv, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return time.perf_counter() - began, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.history", description=__doc__)
    parser.add_argument("--store", help="an empty database; a file in a temporary folder if not given")
    parser.add_argument("--runs", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        told = asked.store or str(place / "store.db")
        address = address_of(told, place)
        with SharedStore.open(address) as store:
            fill(store, place / "results", asked.runs)
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[1] / "runner"),
            "MATRIX_STORE": told,
        }
        if address.file:
            print(f"{asked.runs * CELLS * ROUNDS:,} trials, {address.file.stat().st_size / 1e6:,.0f} MB")
        bare = [sys.executable, "-c", "import sqlalchemy, click"]
        outputs = []
        for label, arguments in (("importing two libraries", None), *COMMANDS):
            argv = bare if arguments is None else [sys.executable, "-m", "matrix_runner.cli", *arguments]
            took, (*_, output) = zip(*(seconds(argv, place, environment) for _ in range(REPEATS)), strict=True)
            print(f"{label:<40} {median(took):5.2f} s  (median of {REPEATS}; slowest {max(took):.2f} s)", flush=True)
            outputs.append(output)
            require_difference("output", *outputs)


if __name__ == "__main__":
    main()
