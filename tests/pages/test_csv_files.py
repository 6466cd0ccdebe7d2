from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from docs.generate import columns
from matrix_runner.answers.axes import names_of
from matrix_runner.base.text import without_formula
from matrix_runner.pages import csv_files
from matrix_runner.pages.csv_files import summary_csv, trials_csv
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import CellRow, Outcome, Trial, TrialFacts
from tests.pages import samples
from tests.pages.samples import RUN, SYNTHETIC, direction, measured

if TYPE_CHECKING:
    from collections.abc import Iterable

README = Path(__file__).parents[2] / "docs" / "reference" / "files.md"


def read(lines: Iterable[str]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(lines), newline=""), strict=True))


def test_one_row_per_trial_by_cell_and_round() -> None:
    rows = read(trials_csv(RUN))
    assert [(row["cell"], row["trial"], row["outcome"]) for row in rows] == [
        ("c1", "1", "measured"),
        ("c1", "2", "measured"),
        ("c2", "1", "measured"),
        ("c2", "2", "broken"),
        ("c2", "3", "skipped"),
    ]


def test_a_measured_trial_has_its_figures() -> None:
    row = read(trials_csv(RUN))[2]
    assert (row["read_bw"], row["write_bw"]) == ("400000.0", "380000.0")
    assert float(row["read_iops"]) == 4e5 / 4096
    assert (row["read_lat_mean"], row["read_lat_p99"], row["write_lat_max"]) == ("5000000.0", "9000000.0", "10000000.0")
    assert (row["read_ios"], row["write_ios"], row["notes"]) == ("97", "92", "sync: assume-clean")
    assert (row["read_bytes"], row["write_bytes"]) == ("400000", "380000")
    assert (row["runtime"], row["cpu_usr"], row["cpu_sys"], row["errors"]) == ("1.0", "3.5", "4.5", "0")
    assert (row["seconds"], row["attempts"], row["folder"]) == ("1.23456", "1", "cells/x/trial-1")
    assert (row["machine"], row["synthetic"], row["reason"]) == ("qemu", "false", "")


def test_costs_of_a_request_have_all_their_digits() -> None:
    facts = TrialFacts(lost=0.25, lost_idle=0.12345, cpu_per_io=2000.0, switches_per_io=0.0005, host_cpu_per_io=7000.0)
    row = read(trials_csv(replace(RUN, trials=[replace(RUN.trials[0], facts=facts)])))[0]
    assert (row["lost"], row["lost_idle"], row["lost_late"]) == ("0.250", "0.123", "")
    assert (row["cpu_per_io"], row["switches_per_io"], row["ipis_per_io"]) == ("2000.0", "0.0005", "")
    assert row["host_cpu_per_io"] == "7000.0"


def test_missing_values_are_empty_not_zero() -> None:
    read_only, broken = read(trials_csv(RUN))[0], read(trials_csv(RUN))[3]
    assert {read_only[name] for name in read_only if name.startswith("write_")} == {""}
    assert {broken[column.name] for column in csv_files.TRIAL_FIGURES} == {""}
    assert (broken["reason"], broken["attempts"]) == ("the guest panicked", "2")


def test_axes_are_columns_in_the_order_they_are_first_seen() -> None:
    first, other = read(trials_csv(RUN))[0], read(trials_csv(RUN))[2]
    axes = [name for name in first if name in {**samples.SEQ.axes, **samples.RAND.axes}]
    assert axes == ["layout", "md.level", "md.chunk", "workload", "workload.bs", "tune.ncq_depth"]
    assert (first["md.chunk"], first["tune.ncq_depth"]) == ("64KiB", "")
    assert (other["md.chunk"], other["tune.ncq_depth"]) == ("", "31")


def test_an_axis_cannot_hide_a_column() -> None:
    run = RunData("m", "qemu", False, [CellRow("c", "n", {"machine": "axis"})], [Trial("c", 1, Outcome.SKIPPED)])
    row = read(trials_csv(run))[0]
    assert (row["machine"], row["axis.machine"]) == ("qemu", "axis")


def test_a_cell_has_one_row_with_its_doubt() -> None:
    rows = read(summary_csv(RUN))
    assert [row["cell"] for row in rows] == ["c1", "c2", "c3"]
    assert float(rows[0]["read_bw"]) == 210e6
    assert float(rows[0]["read_bw_low"]) < 210e6 < float(rows[0]["read_bw_high"])
    assert float(rows[0]["read_bw_rel"]) == pytest.approx(0.605, abs=1e-3)
    assert (rows[0]["confidence"], rows[0]["write_bw"]) == ("0.95", "")
    assert (rows[1]["write_bw"], rows[1]["write_bw_low"]) == ("380000.0", "")
    assert (rows[1]["measured"], rows[1]["broken"], rows[1]["skipped"]) == ("1", "1", "1")
    assert rows[1]["reason"] == "the guest panicked; quarantined: the guest panicked"
    assert (rows[2]["measured"], rows[2]["read_bw"]) == ("0", "")


def test_the_fewest_requests_of_a_cell_are_reported() -> None:
    trials = [
        measured("c1", 1, direction(1e6, 4096)),
        measured("c1", 2, direction(1e6, 1 << 20), direction(3e6, 1 << 20)),
    ]
    rows = read(summary_csv(RunData("m", "qemu", False, [samples.SEQ, samples.UNTRIED], trials)))
    assert [row["least_ios"] for row in rows] == ["0", ""]


def test_lower_bounds_are_never_negative() -> None:
    trials = [measured("c1", 1, direction(1e6, 4096)), measured("c1", 2, direction(100e6, 4096))]
    row = read(summary_csv(RunData("m", "qemu", False, [samples.SEQ], trials)))[0]
    assert (row["read_bw_low"], row["read_iops_low"]) == ("0.0", "0.0")
    assert float(row["read_bw_rel"]) > 1


@pytest.mark.parametrize(
    ("until", "most", "reached", "stopped"),
    [
        (1.1, 5, "true", "precise"),
        (0.7, 5, "false", "unfinished"),
        (0.7, 2, "false", "max"),
        (None, 2, "", "fixed"),
        (None, 3, "", "unfinished"),
    ],
)
def test_the_summary_states_whether_until_is_reached(
    until: float | None, most: int, reached: str, stopped: str
) -> None:
    seq, _, untried = read(summary_csv(replace(RUN, until=until, most=most)))
    assert (seq["until"], seq["reached"]) == ("" if until is None else str(until), reached)
    assert (seq["stopped"], untried["reached"], untried["stopped"]) == (stopped, "", "unfinished")


def test_two_states_are_reported_with_their_values() -> None:
    rates = (100e6, 200e6, 101e6, 99e6, 201e6, 199e6, 100e6, 100e6)
    trials = [
        measured("c1", round_number, direction(rate, 1 << 20), direction(5e6, 4096))
        for round_number, rate in enumerate(rates)
    ]
    (row,) = read(summary_csv(RunData("m", "qemu", False, [samples.SEQ], trials)))
    assert row["states"] == "read_bw: 5 around 100000000, 3 around 200000000"
    assert {row["states"] for row in read(summary_csv(RUN))} == {""}


def test_slow_phases_of_few_trials_are_states_of_p99() -> None:
    """Bandwidth hardly shows them."""
    p99s = (1e6, 1.01e6, 9e6, 1e6, 0.99e6, 1e6, 9.1e6, 1e6, 1.02e6)
    trials = [
        measured("c1", round_number, replace(direction(100e6, 1 << 20), lat_p99=p99))
        for round_number, p99 in enumerate(p99s)
    ]
    (row,) = read(summary_csv(RunData("m", "qemu", False, [samples.SEQ], trials)))
    assert row["states"] == "read_lat_p99: 7 around 1002857, 2 around 9050000"
    (row,) = read(summary_csv(RunData("m", "qemu", False, [samples.SEQ], trials[:7])))
    assert not row["states"]


def test_a_run_without_a_maximum_had_its_largest_count() -> None:
    assert [row["stopped"] for row in read(summary_csv(RUN))] == ["unfinished", "fixed", "unfinished"]


def test_the_confidence_can_be_chosen() -> None:
    narrow, wide = (read(summary_csv(replace(RUN, confidence=confidence)))[0] for confidence in (0.5, 0.99))
    assert float(narrow["read_bw_rel"]) < float(wide["read_bw_rel"])
    assert (narrow["confidence"], wide["confidence"]) == ("0.5", "0.99")


@pytest.mark.parametrize("table", [trials_csv, summary_csv])
def test_synthetic_numbers_say_so_in_every_row(table: object) -> None:
    assert callable(table)
    rows = read(table(SYNTHETIC))
    assert {(row["machine"], row["synthetic"]) for row in rows} == {("dry", "true")}


def test_columns_are_those_that_are_documented() -> None:
    for lines, documented in ((trials_csv(RUN), csv_files.TRIALS), (summary_csv(RUN), csv_files.SUMMARY)):
        axes = names_of(one.axes for one in RUN.cells)
        names = [name for column in documented for name in (axes if column is csv_files.AXES else [column.name])]
        assert next(lines).rstrip("\n").split(",") == names
        assert all(column.meaning for column in documented)


@pytest.mark.parametrize("documented", [csv_files.TRIALS, csv_files.SUMMARY, csv_files.FOUND])
def test_the_readme_of_the_results_shows_these_tables(documented: tuple[csv_files.Column, ...]) -> None:
    assert columns(documented) in README.read_text()


@given(samples.runs())
def test_any_text_survives_the_way_through_csv(run: RunData) -> None:
    rows = read(trials_csv(run))
    names = {cell.id: cell.name for cell in run.cells}
    found = {(row["cell"], int(row["trial"])): row for row in rows}
    assert len(rows) == len(found) == len(run.trials)
    for trial in run.trials:
        row = found[without_formula(trial.cell), trial.round]
        texts = (names[trial.cell], trial.reason, run.machine, trial.started, trial.folder)
        assert [row[name] for name in ("name", "reason", "machine", "started", "folder")] == [
            *map(without_formula, texts)
        ]
        assert float(row["seconds"]) == trial.seconds
        if trial.figures and trial.figures.read:
            assert float(row["read_bw"]) == trial.figures.read.bw


@given(samples.runs())
def test_the_summary_of_any_run_can_be_read(run: RunData) -> None:
    assert [row["cell"] for row in read(summary_csv(run))] == [without_formula(cell.id) for cell in run.cells]
