"""Work that waits for fsync or fdatasync: answers and tables have the latency of its syncs beside its rate."""

from __future__ import annotations

from matrix_runner.pages.answer import as_objects, full_answer, summarize_rankings
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.work.fio.output import Direction, Figures


def side(iops: float, syncs: dict[int, int]) -> Direction:
    count = sum(syncs.values())
    histogram = Histogram.of(syncs)
    return Direction(iops * 2300, iops, count * 2300, count, 1e6, *(None,) * 6, 1e6, histogram)


def run(stacks: dict[str, tuple[float, dict[int, int]]]) -> RunData:
    """Return a run of stacks by rate and syncs, which are counts by ns; the rate varies in its five rounds."""
    axes = {"workload": "log", "workload.rw": "write"}
    cells = [CellRow(name, f"{name}/log", {"layout": name, **axes}) for name in stacks]
    trials = [
        Trial(
            cell.id,
            number,
            Outcome.MEASURED,
            figures=Figures(
                *(None, side(iops * (1 + number / 500), {1000: 10_000}), 1.0, 1.0, 1.0, 0), sync=side(iops, syncs)
            ),
        )
        for cell, (iops, syncs) in zip(cells, stacks.values(), strict=True)
        for number in range(1, 6)
    ]
    return RunData("m", "qemu", False, cells, trials)


BAD = run({"xfs": (5000, {100_000: 9_000, 19_922_944: 1_000}), "ext4": (4000, {100_000: 10_000})})


def test_the_whole_answer_has_the_latency_of_syncs() -> None:
    text = full_answer(BAD.rankings, BAD.decision, synthetic=False, over=True)
    table, _, ranking = text.partition("The stacks of each workload")
    assert "5,030 IOPS 1.000×, sync p99 19.9 ms" in table
    assert "4,024 IOPS, sync p99 100 µs" in ranking
    assert "99 % of the fsyncs and fdatasyncs" in ranking


def test_the_short_answer_has_the_latency_of_syncs() -> None:
    short = summarize_rankings(BAD.rankings, synthetic=False, over=True)
    assert short is not None
    assert "sync\u00a0p99\u00a019.9\u00a0ms" in short.groups[0].heading.text
    assert any("fdatasync" in note for note in short.notes)


def test_a_stack_with_quicker_syncs_is_not_beaten() -> None:
    same = run({"xfs": (5000, {100_000: 10_000}), "ext4": (4000, {100_000: 10_000})})
    beaten = [[one.beaten for one in found.decision.choices] for found in (BAD, same) if found.decision]
    assert beaten == [[False, False], [False, True]]


def test_programs_read_the_latency_of_syncs() -> None:
    assert "'sync_lat_p99': 19922944.0" in str(as_objects(BAD.rankings))


def test_a_few_syncs_have_no_percentile() -> None:
    """As of `end_fsync`, which syncs once."""
    few = run({"xfs": (5000, {19_922_944: 1}), "ext4": (4000, {19_922_944: 1})})
    assert "sync" not in full_answer(few.rankings, few.decision, synthetic=False, over=True)
