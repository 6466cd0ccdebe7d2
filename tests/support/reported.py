"""A run whose report has every kind of section, and texts that need much room."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from matrix_runner.pages.run_data import Past, RunData
from matrix_runner.pages.study import section
from matrix_runner.records.record import HOST_LIMITED, CellRow, Outcome, Trial
from matrix_runner.records.usage import Usage
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.work.fio.output import table_by_position
from tests.pages.samples import direction, measured
from tests.support.facts import noted
from tests.support.studies import MISSED
from tests.support.verdicts import ALL

LAYOUTS = ("raid0", "raid5", "raid10-far-over-four-disks-with-a-bitmap")
CHUNKS, DEPTHS = ("64KiB", "512KiB", "1MiB"), ("1", "8", "64")
GIB = 1 << 30
_ROUNDS = (1, 2, 3)


def _random() -> list[CellRow]:
    return [
        CellRow(
            f"{layout}-{chunk}-{depth}",
            f"{layout}/chunk={chunk}/random/iodepth={depth}",
            {"layout": layout, "md.chunk": chunk, "workload": "random", "workload.iodepth": depth},
        )
        for layout, chunk, depth in product(LAYOUTS, CHUNKS, DEPTHS)
    ]


def _wide() -> list[CellRow]:
    sizes = [f"{4 * 2**power}KiB" for power in range(14)]
    return [
        CellRow(
            f"wide-{chunk}-{bs}",
            f"raid0/wide/{chunk}/{bs}",
            {"layout": "raid0", "workload": "wide", "x": chunk, "y": bs},
        )
        for chunk, bs in product(sizes, sizes)
    ]


def _mixed() -> list[CellRow]:
    axes = {"workload": "a-reader-beside-a-writer"}
    return [
        CellRow(f"mixed-{layout}", f"{layout}/a-reader-beside-a-writer", {"layout": layout, **axes})
        for layout in LAYOUTS
    ]


def _two_jobs(cell: CellRow, round_number: int) -> Trial:
    reads, writes = direction(4e5 * round_number, 4096), direction(2e8, 1 << 20)
    whole = measured(cell.id, round_number, reads, writes)
    alone = (measured(cell.id, round_number, *one).figures for one in ((reads, None), (None, writes)))
    jobs = {name: one for name, one in zip(("reader", "writer"), alone, strict=True) if one}
    assert whole.figures
    return replace(whole, figures=replace(whole.figures, jobs=jobs))


def _usage() -> Usage:
    rates = {f"disk{disk}": tuple((at / 2, 1e6 * at * disk) for at in range(20)) for disk in range(1, 5)}
    busy = {disk: tuple((at, rate / 1e8) for at, rate in course) for disk, course in rates.items()}
    processors = dict.fromkeys(("iowait", "kernel", "programs"), ((5.0, 0.4), (10.0, 0.2)))
    return Usage(rates, busy, processors, {name: tuple((at, 1e6) for at in range(10)) for name in ("stack", *rates)})


def run_data() -> RunData:
    random, mixed, wide = _random(), _mixed(), _wide()
    whole = CellRow("whole", "disk/whole", {"layout": "disk", "workload": "whole", "workload.profile": "position"})
    zones = table_by_position("".join(f"{at * GIB}\t{GIB}\t0\t{(at + 1) * 10_000}\n" for at in range(4)))
    trials = [
        measured(
            cell.id, number, direction(4e5 * at * (1 + number / 100), 4096, latencies=Histogram.of({300_000 * at: 100}))
        )
        for at, cell in enumerate(random, start=1)
        for number in _ROUNDS
    ]
    trials += [_two_jobs(cell, number) for cell in mixed for number in _ROUNDS]
    trials += [measured(cell.id, 1, direction(4e8 + 2e7 * at, 4096)) for at, cell in enumerate(wide)]
    trials += [measured(whole.id, number, direction(1e8, 1 << 20)) for number in _ROUNDS]
    trials[0] = Trial(random[0].id, 1, Outcome.BROKEN, "set-up failed: mdadm: /dev/disk/by-id/" + "x" * 60)
    trials[1] = replace(
        trials[1], **noted({HOST_LIMITED: "late by 3 ms", "bottleneck": "disks: each busy for at least 97%"})
    )
    return RunData(
        "sweep",
        "qemu",
        False,
        [*random, *mixed, whole, *wide],
        trials,
        over=True,
        judgements=ALL,
        courses={whole.id: {1: zones}},
        usage={f"{layout}-64KiB-8": _usage() for layout in LAYOUTS},
        history={cell.id: [Past("2026-03-01", 2e5), Past("2026-03-02", 3e5)] for cell in mixed},
        added=(section("Somebody, 1999", MISSED, [], ""),),
    )
