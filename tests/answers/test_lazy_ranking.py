"""Rankings that measure the cells of one workload at a time: the same, with few figures in memory."""

from __future__ import annotations

from dataclasses import replace

from matrix_runner.answers.cell_figures import Measured, measured_cell
from matrix_runner.answers.ranking import COLUMNS, rank_stacks
from tests.answers.rankings import run

STACKS = {
    stack: {f"random/rw={rw}": speed for rw in ("randread", "randwrite")}
    for stack, speed in (("raid5", 160.0), ("stripe", 324.0))
}


def test_figures_are_read_one_workload_at_a_time() -> None:
    recorded = run(STACKS, noise=0.003)
    whole = [measured_cell("", one, recorded.by_cell[one.id], recorded.rule, COLUMNS) for one in recorded.cells]
    known = {one.cell.id: one for one in whole}
    asked: list[str] = []

    def measure(one: Measured) -> Measured:
        assert not one.columns
        asked.append(one.cell.axes["workload.rw"])
        return known[one.cell.id]

    assert rank_stacks([replace(one, columns={}) for one in whole], measure=measure) == rank_stacks(whole)
    assert asked == sorted(asked), "no workload is asked for again after the next one"
    assert rank_stacks(whole) == recorded.rankings
