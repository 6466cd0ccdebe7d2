"""The page to explore 10,000 cells of ten trials each: the time to write it, and in Chromium to open it and to select.

    python -m bench.explore [CELLS]

A selection is timed from the end of a drag to the frame in which all views show it. On a busy host, the fastest one and
the processor time of the page's main thread tell more than the median.
One side: times against stated limits.
"""

from __future__ import annotations

import random
import sys
import tempfile
from itertools import islice, product
from pathlib import Path
from statistics import median
from time import process_time

from bench.reports import seconds
from docs.pictures import screenshots
from matrix_runner.pages.explore import explored, page
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.work.fio.output import Direction, Figures
from tests.support.chromium import Browser, browser
from tests.support.explored import Explorer

TRIALS = 10
TURNS, DRAGGED = 5, 15
#: A drag over each view, as parts of its width and height.
DRAGS = {
    "scatter": ((0.2, 0.2), (0.7, 0.8)),
    "heat": ((0.2, 0.1), (0.6, 0.6)),
    "distribution": ((0.1, 0.5), (0.5, 0.6)),
    "parallel": ((0.04, 0.6), (0.04, 0.9)),
}
_WATCH = """addEventListener('pointerup', () => {
    const began = performance.now();
    window.took = new Promise(done =>
        requestAnimationFrame(() => setTimeout(() => done(performance.now() - began))));
}, {capture: true})"""


def run_data(cells: int) -> RunData:
    chance = random.Random(7)  # noqa: S311 - a repeatable sample, not a secret
    chunks, sizes = ([f"{2**power}KiB" for power in range(2, top)] for top in (12, 11))
    axes = product(range(6), chunks, sizes, (1, 2, 4, 8, 16, 32, 64), ("read", "randread", "write", "randwrite"))
    rows = [
        CellRow(
            f"{number:016x}",
            f"raid{layout}/chunk={chunk}/work/rw={kind},bs={size},iodepth={depth}",
            {
                "layout": f"raid{layout}",
                "md.chunk": chunk,
                "workload": "work",
                "workload.rw": kind,
                "workload.bs": size,
                "workload.iodepth": str(depth),
            },
        )
        for number, (layout, chunk, size, depth, kind) in enumerate(islice(axes, cells))
    ]
    trials = [_trial(row, number, chance) for row in rows for number in range(1, TRIALS + 1)]
    return RunData("bench", "qemu", False, rows, trials)


def _trial(cell: CellRow, number: int, chance: random.Random) -> Trial:
    rate = chance.lognormvariate(18, 1)
    mean, p50, p90, p95, p99, p999, p9999, longest = sorted(chance.lognormvariate(15, 1) for _ in range(8))
    times = (mean, p50, p90, p95, p99, p999, p9999, longest)
    one, reads = Direction(rate, rate / 65536, 10**9, 1000, *times), "read" in cell.name
    figures = Figures(one if reads else None, None if reads else one, 1.0, 2.0, 3.0, 0)
    return Trial(cell.id, number, Outcome.MEASURED, figures=figures, folder="cells/x")


def select(explorer: Explorer, view: str) -> tuple[float, float]:
    """Return the milliseconds of a selection among all trials: of the clock, and of the processor."""
    chromium = explorer.chromium
    chromium.run("location.hash = ''")
    chromium.run("new Promise(done => setTimeout(done, 50))")
    explorer.hold(view, *DRAGS[view])
    before = _processor(chromium)
    explorer.release(view, DRAGS[view][1])
    took = float(chromium.run("window.took"))
    return took, _processor(chromium) - before


def _processor(chromium: Browser) -> float:
    found = {one["name"]: one["value"] for one in chromium.ask("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"] * 1000)


def show(chromium: Browser, path: Path) -> None:
    chromium.show_as(1400, "light")
    print(f"  opened in Chromium    {seconds(lambda: chromium.open(path.as_uri())):.2f} s")
    chromium.run(_WATCH)
    chromium.ask("Performance.enable", timeDomain="threadTicks")
    explorer = Explorer(chromium)
    for view in DRAGS:
        clock, processor = zip(*(select(explorer, view) for _ in range(DRAGGED)), strict=True)
        left = explorer.seen()["count"]
        print(
            f"  drag over {view:12}  {median(clock):4.0f} ms, the fastest of {DRAGGED} {min(clock):4.0f} ms; "
            f"{median(processor):4.0f} ms of the page's processor  ({left})"
        )


def main() -> None:
    content = run_data(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "explore.html"
        began = process_time()
        times = [seconds(lambda: path.write_bytes(page([explored(content, "bench")], "bench"))) for _ in range(TURNS)]
        processor = (process_time() - began) / TURNS
        print(f"{len(content.cells):,} cells, {len(content.trials):,} trials: {path.stat().st_size / 1e6:.1f} MB")
        print(f"  explore.html written  {median(times):.2f} s, {processor:.2f} s of the processor")
        program = screenshots.chromium()
        if program is None:
            print("  no Chromium here, so nothing is shown: `apt-get install chromium` brings it")
            return
        with browser(program, Path(folder) / "profile") as chromium:
            show(chromium, path)


if __name__ == "__main__":
    main()
