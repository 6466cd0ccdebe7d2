"""What is said below the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from matrix_runner.base.errors import Exit
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.session.finish import Ending, exit_code
from tests.pages.samples import RUN, SEQ, direction, measured


def lines(content: RunData) -> str:
    return "\n".join(Ending(Path("results/x"), content, (), len(content.trials), Exit.ALL_MEASURED).lines())


@pytest.mark.parametrize(
    ("step", "said"), [(0.97, "rates fell by 14 % (14 % to 14 %)"), (1.02, "rates rose by 10 % (")]
)
def test_drift_is_reported_with_its_size(step: float, said: str) -> None:
    trials = [measured("c1", round_number, direction(2e8 * step**round_number, 1 << 20)) for round_number in range(6)]
    assert f"from the first round to the last, {said}" in lines(RunData("m", "qemu", False, [SEQ], trials))


def test_a_drift_of_one_per_cent_is_not_mentioned() -> None:
    trials = [measured("c1", round_number, direction(2e8 * 0.998**round_number, 1 << 20)) for round_number in range(6)]
    assert "rates fell" not in lines(RunData("m", "qemu", False, [SEQ], trials))


def drifting(first: int, second: int, until: float | None = None) -> str:
    """What is said of two cells with so many trials each, of which every round is 2 % faster than the one before."""
    trials = [
        measured(cell.id, round_number, direction(2e8 * 1.02**round_number, 1 << 20))
        for cell, count in ((SEQ, first), (OTHER, second))
        for round_number in range(count)
    ]
    return lines(RunData("m", "qemu", False, [SEQ, OTHER], trials, until=until))


def test_cells_that_stopped_early_are_mentioned_only_where_there_are_any() -> None:
    assert "cells that stopped early" in drifting(8, 6, until=0.05)
    for alike in (drifting(8, 8, until=0.05), drifting(8, 7)):
        assert "rates rose by" in alike
        assert "stopped early" not in alike
        assert "comparisons of cells stay valid" in alike


def test_steady_cells_have_no_note_on_drift() -> None:
    trials = [
        measured("c1", round_number, direction(2e8 + (-1) ** round_number * 1e6, 1 << 20)) for round_number in range(6)
    ]
    assert "first round" not in lines(RunData("m", "qemu", False, [SEQ], trials))
    assert "first round" not in lines(RUN)


OTHER = CellRow("c9", "other", {})
SKIPPED = Trial("c1", 1, Outcome.SKIPPED, "this kernel has no raid0")


@pytest.mark.parametrize(("also", "end"), [((), Exit.BROKEN), ((measured("c1", 2, None),), Exit.ALL_MEASURED)])
def test_skipped_trials_alone_are_no_success(also: tuple[Trial, ...], end: Exit) -> None:
    assert exit_code(RunData("m", "qemu", False, [SEQ], (SKIPPED, *also))) is end


def test_a_run_without_measured_trials_has_its_reason() -> None:
    content = RunData("m", "qemu", False, [SEQ], [SKIPPED, SKIPPED])
    assert "no trial was measured: this kernel has no raid0\n" in lines(content)
    assert "no trial" not in lines(RUN)
    assert Ending(Path("x"), content, (), 9, Exit.INTERRUPTED, finished=False).failure == ""
