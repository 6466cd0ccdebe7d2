from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from matrix_runner.work.metrics import headline, is_large, sides_of
from tests.support.added import run_with_lines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("rates", "name"),
    [
        ({"read_bw": 2e8, "read_iops": 200.0}, "read_bw"),
        ({"read_bw": 4e6, "read_iops": 1000.0}, "read_iops"),
        ({"write_bw": 2e8, "write_iops": 200.0}, "write_bw"),
        ({"read_bw": 4e6, "read_iops": 1000.0, "write_bw": 2e6, "write_iops": 500.0}, "total_iops"),
        ({"read_bw": 2e8, "read_iops": 200.0, "write_bw": 1e8, "write_iops": 100.0}, "total_bw"),
        ({}, None),
    ],
)
def test_the_headline_is_the_total_of_mixed_work_in_the_unit_of_its_requests(
    rates: dict[str, float], name: str | None
) -> None:
    assert headline(rates) == name


def test_a_total_alone_makes_no_mixed_work() -> None:
    """Cells of one direction have a total, too, which equals it."""
    assert headline({"read_bw": 2e8, "read_iops": 200.0, "total_bw": 2e8, "total_iops": 200.0}) == "read_bw"
    assert sides_of({"write_bw", "total_bw"}) == ("write",)
    assert sides_of({"read_bw", "write_bw"}) == ("total", "read", "write")


def test_requests_of_64_kib_are_large_although_fio_rounds_their_bandwidth_down() -> None:
    assert is_large(64 * 1024 * 100 - 1, 100)
    assert not is_large(63.5 * 1024 * 100, 100)


_LAST_LINE, _LAST_FIELD = '    Figure("lat_max", ', "    lat_max: float | None\n"
_SCRIPT = """
import csv, json
from matrix_runner.answers.stored_samples import COMPARED, METRICS
from matrix_runner.work.metrics import KNOWN, OF_DIRECTION
from matrix_runner.pages import csv_files, explore
from matrix_runner.pages.junit import junit
from matrix_runner.records.rows import row_of
from matrix_runner.records.tables import IN_JOURNAL, IN_STORE
from matrix_runner.pages.run_data import RunData
from matrix_runner.work.fio.output import Direction, Figures
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.records.versions import views_of

side = Direction(**dict.fromkeys(OF_DIRECTION, 100) | {"lat_p75": 7.5e6})
trial = Trial("c1", 1, Outcome.MEASURED, figures=Figures(side, None, 1.0, 3.5, 4.5, 0))
run = RunData("m", "qemu", False, [CellRow("c1", "raid5/work", {"layout": "raid5", "workload": "work"})], [trial])
(head, trial), (names, summary, *_) = (
    list(csv.reader(lines)) for lines in (csv_files.trials_csv(run), csv_files.summary_csv(run))
)
print(json.dumps({
    "trial": dict(zip(head, trial, strict=True)),
    "summary": dict(zip(names, summary, strict=True)),
    "explore": dict(zip(explore.COLUMNS, explore.explored(run, "run").rows[0], strict=True))["read_lat_p75"],
    "junit": "read_lat_p75=7500000 ns" in junit(run).decode(),
    "metric": KNOWN["read.lat_p75"].more_is_better,
    "asked": ["read_lat_p75" in one for one in (METRICS, COMPARED)],
    "tables": ["sync_lat_p75" in one.c for one in (IN_JOURNAL.trials, IN_STORE.trials, IN_STORE.jobs)],
    "row": row_of(run.trials[0])["read_lat_p75"],
    "large": "read_lat_p75" in csv_files.COLUMNS,
    "views": "write_lat_p75" in views_of(runs=False)["v_cells"],
}))
"""


def test_each_place_knows_an_added_figure(tmp_path: Path) -> None:
    found = run_with_lines(
        tmp_path,
        _SCRIPT,
        ("work/metrics.py", _LAST_LINE, '    Figure("lat_p75", "ns", "its 75th percentile", "", -1, 75.0),\n'),
        ("work/fio/output.py", _LAST_FIELD, "    lat_p75: float | None\n"),
    )
    assert (found["trial"]["read_lat_p75"], found["trial"]["write_lat_p75"], found["trial"]["runtime"]) == (
        *("7500000.0", ""),
        "1.0",
    )
    assert "write_lat_p75_high" in found["summary"]
    assert (found["explore"], found["row"], found["metric"]) == (7.5e6, 7.5e6, False)
    assert found["asked"] == [True, True]
    assert found["tables"] == [True, True, True]
    assert found["junit"]
    assert found["large"]
    assert found["views"]
