"""Runs that were recorded: folders with manifest and journal, as `matrix run` leaves them."""

from __future__ import annotations

from sqlite3 import Connection
from typing import TYPE_CHECKING

import sqlalchemy as sa

from matrix_runner.records.environment import Host
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Outcome, Reading, Trial
from matrix_runner.records.run_folder import Manifest, RunFolder, create
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.work.fio.output import Direction, Figures
from tests.support.facts import noted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

READ = CellRow(
    "c1", "raid5/chunk=64KiB/seq", {"layout": "raid5", "md.chunk": "64KiB", "workload": "seq", "workload.bs": "1MiB"}
)
MIXED = CellRow("c2", "raid5/chunk=16KiB/oltp", {"layout": "raid5", "md.chunk": "16KiB", "workload": "oltp"})


#: A hundred requests, of which 99 took at most 9 ms.
LATENCIES = Histogram.of({4_000_000: 60, 8_000_000: 30, 8_500_000: 5, 9_000_000: 4, 10_000_000: 1})


def direction(bw: float, iops: float | None = None, latencies: Histogram | None = LATENCIES) -> Direction:
    ios = int(bw / 4096)
    return Direction(
        bw, iops or bw / 4096, int(bw), ios, 5e6, 4e6, 8e6, 8.5e6, 9e6, 9.5e6, 9.9e6, 1e7, latencies=latencies
    )


def measured(
    cell: str, round_number: int, read: float | None, write: float | None = None, kernel: str = "6.1.0"
) -> Trial:
    return Trial(
        cell,
        round_number,
        Outcome.MEASURED,
        started=f"2026-03-04T05:06:{round_number:02}.000+00:00",
        seconds=1.25,
        figures=Figures(
            direction(read) if read is not None else None, direction(write) if write is not None else None, 1, 3, 4, 0
        ),
        readings=(Reading("md.chunk", "65536", "65536"), Reading("disk0.rotational", None, "1")),
        **noted({"kernel": kernel}),
        folder=f"cells/{cell}/trial-{round_number}",
    )


def manifest(number: int = 1, **changes: object) -> Manifest:
    values: dict[str, object] = {
        "id": f"run{number}",
        "matrix": "sweep",
        "fingerprint": "f1",
        "machine": "qemu",
        "synthetic": False,
        "seed": 7,
        "command": ("matrix", "run", "sweep.yaml"),
        "text": "name: sweep\n",
        "versions": {"6.1.0": {"fio": "3.33"}},
        "host": Host(kernel="6.1.0", cpu="some cpu", cores=2, memory=4 << 30, hostname="lab1"),
        "started": f"2026-03-{number:02}T05:06:07+00:00",
        "planned": 4,
        "finished": True,
    }
    return Manifest.model_validate(values | changes)


def recorded(
    results: Path,
    trials: Iterable[Trial],
    number: int = 1,
    cells: Iterable[CellRow] = (READ, MIXED),
    **changes: object,
) -> RunFolder:
    folder = create(results, manifest(number, **changes), f"run-{number}")
    with Journal.open(folder.journal, run=folder.manifest.id) as journal, journal.together():
        journal.add_cells(cells)
        for trial in trials:
            journal.record(trial)
    return folder


def drop_views(connection: Connection | sa.Connection) -> None:
    for name in ("v_cells", "v_trials"):
        statement = f"drop view {name}"
        connection.execute(statement) if isinstance(connection, Connection) else connection.execute(sa.text(statement))


TRIALS = (measured("c1", 1, 2e8), measured("c2", 1, 4e5, 3e5), Trial("c1", 2, Outcome.BROKEN, "a NUL \0 said"))
