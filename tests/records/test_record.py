"""The table of outcomes, where one more line is enough for an outcome; the parts of the name of a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.record import COUNTED, UNMEASURED, WORST, CellRow, Kind, Outcome, outcome_of_cell
from tests.support.added import run_with_lines

if TYPE_CHECKING:
    from pathlib import Path

_LAST_LINE = '    SKIPPED = "skipped", _'
_SCRIPT = """
import csv, json
from dataclasses import replace
from click.testing import CliRunner
from matrix_runner.cli.results import command
from matrix_runner.pages.csv_files import SUMMARY
from matrix_runner.pages.csv_files import summary_csv
from matrix_runner.pages.junit import junit
from matrix_runner.pages.terminal import table
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.records.versions import views_of
from matrix_runner.session.finish import exit_code
from tests.pages.samples import RUN

run = replace(RUN, trials=[*RUN.trials, Trial("c3", 1, Outcome("stuck"), "why")])
alone = replace(run, trials=[*RUN.trials[:3], run.trials[-1]])
head, *rows = csv.reader(summary_csv(run))
print(json.dumps({
    "summary": dict(zip(head, rows[2], strict=True)),
    "junit": [junit(run).decode().count("<error"), junit(run, 0).decode().count('type="stuck"')],
    "errors": junit(alone).decode().split('errors="')[1].split('"')[0],
    "exit": exit_code(alone),
    "concerns": [one.title for one in run.concerns],
    "terminal": [row[-1] for row in table(run).rows],
    "help": CliRunner().invoke(command, ["--help"]).output,
    "views": sum("stuck" in text for text in views_of(runs=False).values()),
    "again": Outcome("stuck").about.again,
}))
"""


def test_each_place_knows_an_added_outcome(tmp_path: Path) -> None:
    line = '    STUCK = "stuck", _About(kind=Kind.ERROR, rank=2, again=True, meaning="fio made no progress.")\n'
    found = run_with_lines(tmp_path, _SCRIPT, ("records/record.py", _LAST_LINE, line))
    summary = found["summary"]
    assert [summary[one] for one in ("measured", "broken", "stuck", "skipped")] == ["0", "0", "1", "0"]
    assert (summary["reason"], summary["machine"]) == ("why", "qemu")
    assert (found["junit"], found["errors"], found["exit"]) == ([2, 1], "1", 3)
    assert "Stuck" in found["concerns"]
    assert "stuck: why" in found["terminal"]
    assert "stuck" in found["help"]
    assert found["views"] > 0
    assert found["again"]


@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_has_one_kind_and_a_rank_of_its_own(outcome: Outcome) -> None:
    assert [outcome.counts, outcome.is_failure, outcome.is_error, outcome.is_skipped].count(True) == 1
    assert (outcome in COUNTED) is not (outcome in UNMEASURED)
    assert (outcome in WORST) is (outcome.kind in {Kind.FAILURE, Kind.ERROR})
    assert (outcome.kind.exit != 0) is (outcome in WORST)
    others = dict.fromkeys(Outcome, 1)
    assert outcome_of_cell({outcome: 1}) is outcome
    assert outcome_of_cell(others) is WORST[0]


@pytest.mark.parametrize(
    ("name", "axes", "parts"),
    [
        ("striped/chunk=1/tuned/read/bs=4", {"workload": "read"}, ("striped/chunk=1/tuned", "read/bs=4")),
        ("read/read", {"workload": "read"}, ("read", "read")),
        ("striped/other/bs=4", {}, ("striped", "other/bs=4")),
        ("single", {"workload": "x"}, ("single", "")),
    ],
)
def test_a_name_has_a_setting_and_a_work(name: str, axes: dict[str, str], parts: tuple[str, str]) -> None:
    cell = CellRow("c1", name, axes)
    assert (cell.setting, cell.work) == parts


def test_layout_and_workload_are_axes_or_parts_of_the_name() -> None:
    named = CellRow("c1", "a/b/c", {"layout": "raid", "workload": "random"})
    assert (named.layout, named.workload) == ("raid", "random")
    plain = CellRow("c1", "a/b/c", {})
    assert (plain.layout, plain.workload) == ("a", "b/c")
