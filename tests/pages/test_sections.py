"""The tables of jobs: a row for each direction of a job, with the same estimates as for cells."""

from __future__ import annotations

import io
import re
from dataclasses import replace

from rich.console import Console

from matrix_runner.pages.html import page
from matrix_runner.pages.sections import job_grid, job_sheet
from matrix_runner.pages.table import Sheet, fit
from matrix_runner.records.record import TrialFacts
from tests.pages import samples
from tests.pages.samples import RUN, direction, measured
from tests.support.begun_runs import manifest
from tests.support.report_files import tree


def text_of(sheet: Sheet | None, width: int = 200) -> str:
    assert sheet
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None)
    for part in fit(sheet, width):
        console.print(part)
    return file.getvalue()


def test_a_job_has_the_estimates_of_a_cell_with_the_same_trials() -> None:
    alone = replace(
        samples.JOBS, trials=[measured("c2", n, direction(4e5 * f, 4096)) for n, f in ((1, 1), (2, 1.1), (3, 0.9))]
    )
    assert samples.JOBS.summaries[0].jobs["reader"] == alone.summaries[0].figures
    assert set(samples.JOBS.summaries[0].jobs) == {"reader", "writer"}


def test_the_terminal_has_a_row_for_each_direction_of_a_job() -> None:
    head, *rows = [
        line for line in text_of(job_sheet(samples.JOBS.summaries)).splitlines() if "│" in line or "┃" in line
    ]
    assert "requests" in head
    columns = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    assert columns[0][:6] == ["single/oltp", "reader", "read", "97.7 IOPS", "0.40 MB/s", "25 %"]
    assert columns[0][6] == "4.00 ms"
    assert columns[1][1:6] == ["writer", "write", "191 IOPS", "200 MB/s", "0 %"]
    assert "writer" in text_of(job_sheet(samples.JOBS.summaries), 60)


def test_cells_with_one_job_have_no_table() -> None:
    assert job_sheet(RUN.summaries) is None
    assert job_grid([("x", one) for one in RUN.summaries], rows=9) is None


def test_the_page_has_a_table_of_jobs_with_intervals() -> None:
    text = page(samples.JOBS, manifest(), "run").decode()
    tree(samples.JOBS)
    _, _, table = text.partition("Jobs of")
    assert re.findall('"number">([^<]*)<', table)[8:10] == ["97.7 IOPS", "73.4 to 122 IOPS"]
    assert "writer" in table
    assert 'href="jobs.csv"' in text
    assert "Jobs of" not in page(RUN, manifest(), "run").decode()


def test_rows_that_are_left_out_are_counted() -> None:
    named = [("x", samples.JOBS.summaries[0])]
    grid = job_grid(named, rows=1)
    assert grid
    assert len(grid.rows) == 1
    assert grid.notes == ("1 more rows are left out; jobs.csv has the trials of all jobs",)
    assert "1 more rows in report.html" in text_of(job_sheet(samples.JOBS.summaries, rows=1))
    assert samples.SEQ.name not in text_of(job_sheet(samples.JOBS.summaries))


def test_the_processor_time_of_a_request_stands_beside_rates_and_says_if_it_is_emulated() -> None:
    assert "processor time of a request" not in page(RUN, manifest(), "run").decode()
    facts = TrialFacts(cpu_per_io=2_000.0, switches_per_io=1.25, ipis_per_io=0.0)
    trials = [replace(one, facts=facts) for one in RUN.trials]
    counted = replace(RUN, trials=trials)
    text = page(counted, manifest(), "run").decode()
    assert "processor time of a request</th>" in text
    assert "interrupts between processors</th>" in text
    assert "2.00 µs" in text
    assert "1.25 per request" in text
    assert "0.00 per request" in text
    assert "processor time of the host" not in text, "the machine has no host beneath"
    beneath = [replace(one, facts=replace(facts, host_cpu_per_io=7_000.0)) for one in RUN.trials]
    text = page(replace(RUN, trials=beneath), manifest(), "run").decode()
    assert "processor time of the host</th>" in text
    assert "7.00 µs" in text
    assert "processor time of a request (emulated)" in page(replace(counted, emulated=True), manifest(), "run").decode()
