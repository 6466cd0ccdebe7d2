"""Cells and trials of a run folder as columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner import open_run
from matrix_runner.base.errors import BadInput
from matrix_runner.pages.frames import Frame
from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path


def test_cells_and_trials_of_a_run(tmp_path: Path) -> None:
    trials = [past.measured("c1", number, 1e8 + number * 1e6) for number in (1, 2, 3)]
    run = open_run(str(past.recorded(tmp_path, [*trials, past.measured("c2", 1, 5e7, 4e7)]).path))
    assert run.manifest.matrix == "sweep"
    assert run.trials["name"] == ["raid5/chunk=64KiB/seq"] * 3 + ["raid5/chunk=16KiB/oltp"]
    assert run.trials["round"] == [1, 2, 3, 1]
    assert run.trials["read_bw"] == [101e6, 102e6, 103e6, 5e7]
    assert run.trials["write_bw"] == [None, None, None, 4e7]
    assert run.trials["md.chunk"] == ["64KiB"] * 3 + ["16KiB"]
    assert run.cells["trials"] == [3, 1]
    assert run.cells["outcome"] == ["measured", "measured"]
    assert run.cells["read_bw"] == [102e6, 5e7]
    low, high = run.cells["read_bw_low"], run.cells["read_bw_high"]
    assert 99e6 < low[0] < 100e6 < 104e6 < high[0] < 105e6
    assert (low[1], high[1]) == (None, None), "one trial has no interval"
    for frame in (run.cells, run.trials):
        assert len({len(column) for column in frame.values()}) == 1


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not the folder of a run"):
        open_run(tmp_path)


def test_pandas_is_used_if_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pandas:
        DataFrame = staticmethod(dict[str, Any])

    monkeypatch.setitem(sys.modules, "pandas", Pandas)
    assert Frame(a=[1]).to_pandas() == {"a": [1]}
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(BadInput, match="pandas is not installed"):
        Frame(a=[1]).to_pandas()
