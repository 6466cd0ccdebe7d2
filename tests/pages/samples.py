"""Recorded runs, small and strange."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.write import rendered
from matrix_runner.records.record import Attempt, CellRow, Outcome, Reading, Trial
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.work.fio.output import Direction, Figures
from tests.records import strategies
from tests.support.facts import noted

SEQ = CellRow(
    "c1",
    "parity/level=5,chunk=64KiB/seqread/bs=1MiB",
    {"layout": "parity", "md.level": "5", "md.chunk": "64KiB", "workload": "seqread", "workload.bs": "1MiB"},
)
RAND = CellRow("c2", "single/oltp", {"layout": "single", "workload": "oltp", "tune.ncq_depth": "31"})
UNTRIED = CellRow("c3", "single/never", {"layout": "single", "workload": "never"})


def render_reports(content: RunData) -> dict[str, bytes]:
    return {name: b"".join(parts) for name, parts in rendered(content)}


#: A hundred requests, of which 99 took at most 9 ms.
LATENCIES = Histogram.of({4_000_000: 60, 8_000_000: 30, 8_500_000: 5, 9_000_000: 4, 10_000_000: 1})


def direction(bw: float, request: int, p99: float | None = 9e6, latencies: Histogram | None = LATENCIES) -> Direction:
    ios = int(bw / request)
    return Direction(bw, bw / request, int(bw), ios, 5e6, 4e6, 8e6, 8.5e6, p99, 9.5e6, 9.9e6, 1e7, latencies=latencies)


def measured(cell: str, round_number: int, read: Direction | None, write: Direction | None = None) -> Trial:
    return Trial(
        cell,
        round_number,
        Outcome.MEASURED,
        started=f"2026-03-04T05:06:0{round_number}+00:00",
        seconds=1.23456,
        figures=Figures(read, write, 1.0, 3.5, 4.5, 0),
        readings=(Reading("md0/chunk_size", "65536", "65536"), Reading("sda/rotational", None, "1")),
        **noted({"sync": "assume-clean"}),
        folder=f"cells/x/trial-{round_number}",
    )


TRIALS = (
    measured("c1", 2, direction(220e6, 1 << 20)),
    measured("c1", 1, direction(200e6, 1 << 20)),
    measured("c2", 1, direction(4e5, 4096), direction(3.8e5, 4096)),
    Trial("c2", 2, Outcome.BROKEN, "the guest panicked", attempts=2, seconds=7.0),
    Trial("c2", 3, Outcome.SKIPPED, "quarantined: the guest panicked"),
)
ATTEMPTS = (Attempt("c2", 2, 1, "", "lost", "old"), Attempt("c2", 2, 2, "", "lost", "\x1b[31mKernel panic\x1b[0m\x00"))
RUN = RunData("sweep", "qemu", False, (SEQ, RAND, UNTRIED), TRIALS, ATTEMPTS)
SYNTHETIC = RunData("sweep", "dry", True, (SEQ, RAND, UNTRIED), TRIALS, ATTEMPTS)


def two_jobs(round_number: int, factor: float = 1.0) -> Trial:
    reader = measured("c2", round_number, direction(4e5 * factor, 4096)).figures
    writer = measured("c2", round_number, None, direction(2e8, 1 << 20)).figures
    whole = measured("c2", round_number, direction(4e5 * factor, 4096), direction(2e8, 1 << 20))
    assert reader
    assert writer
    assert whole.figures
    return replace(whole, figures=replace(whole.figures, jobs={"reader": reader, "writer": writer}))


#: A reader and a writer at the same time.
JOBS = RunData("m", "qemu", False, [RAND], [two_jobs(1), two_jobs(2, 1.1), two_jobs(3, 0.9)])


def mixed(cell: str = "c2", rounds: int = 4) -> list[Trial]:
    """Trials whose split into reads and writes differs by a quarter, and whose total hardly does."""
    found = []
    for round_number in range(1, rounds + 1):
        total, share = 10e6 * (1 + 0.002 * (round_number % 2)), 0.5 + 0.12 * (-1) ** round_number
        found.append(measured(cell, round_number, direction(total * share, 4096), direction(total * (1 - share), 4096)))
    return found


@st.composite
def runs(draw: st.DrawFn) -> RunData:
    """Any run the store could hold, with the nastiest strings hypothesis can think of."""
    # SQLite ends some texts at a NUL, and no id has one.
    rows = strategies.cell_rows.filter(lambda cell: "\0" not in cell.id)
    cells = draw(st.lists(rows, unique_by=lambda cell: cell.id, min_size=1, max_size=3))
    ids = st.sampled_from([cell.id for cell in cells])
    one = strategies.trials(ids, st.integers(1, 5))
    trials = draw(st.lists(one, unique_by=lambda trial: (trial.cell, trial.round), max_size=5))
    attempts = [Attempt(trial.cell, trial.round, 1, "", "lost", draw(strategies.texts)) for trial in trials[:2]]
    return RunData(draw(strategies.texts), draw(strategies.texts), draw(st.booleans()), cells, trials, attempts)
