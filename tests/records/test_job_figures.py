"""The figures of each job of a trial: as fio reports them, and in journal, store, CSV and what is salvaged."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.pages.csv_files import JOBS, jobs_csv
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.records.salvage import salvage
from matrix_runner.statistics.percentile import Histogram, percentiles
from matrix_runner.work.fio.output import figures_of, merge_histograms, parse
from matrix_runner.work.metrics import PERCENTILES

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.work.fio.output import Figures

CELL = CellRow("c1", "raw/db", {"layout": "raw"}, position=1)
_JOB = """[global]
lat_percentiles=1
clat_percentiles=0
size=2m
bs=4k
[reader]
rw=randread
[writer]
rw=randwrite
numjobs=2
"""


def run_fio(job: str, folder: Path) -> tuple[str, list[dict[str, Any]]]:
    fio = shutil.which("fio") or pytest.skip("no fio")
    command = [fio, "--output-format=json+", "--output=out.json", "-"]
    subprocess.run(command, input=job, text=True, cwd=folder, check=True, capture_output=True)
    text = (folder / "out.json").read_text()
    return text, json.loads(text[text.index("{") :])["jobs"]


@pytest.fixture(scope="module")
def two_jobs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    return run_fio(_JOB, tmp_path_factory.mktemp("fio"))


@pytest.fixture(scope="module")
def figures(two_jobs: tuple[str, list[dict[str, Any]]]) -> Figures:
    return parse(two_jobs[0])


def test_each_job_has_the_figures_of_its_own_json(figures: Figures, two_jobs: tuple[str, list[dict[str, Any]]]) -> None:
    reader, *writers = two_jobs[1]
    assert list(figures.jobs) == ["reader", "writer"]
    read = figures.jobs["reader"].read
    assert read is not None
    assert figures.jobs["reader"].write is None
    assert (read.bw, read.iops, read.bytes) == (reader["read"]["bw_bytes"], reader["read"]["iops"], 2 << 20)
    assert read.lat_mean == pytest.approx(reader["read"]["lat_ns"]["mean"])
    for name, percent in PERCENTILES.items():
        ours, theirs = getattr(read, name), reader["read"]["lat_ns"]["percentile"].get(f"{percent:.6f}")
        assert ours is None or ours == pytest.approx(theirs, rel=1 / 64)
    write = figures.jobs["writer"].write
    assert write is not None
    assert write.bytes == sum(one["write"]["io_bytes"] for one in writers) == 4 << 20
    assert write.iops == pytest.approx(sum(one["write"]["iops"] for one in writers))
    assert write.lat_max == max(one["write"]["lat_ns"]["max"] for one in writers)
    assert write.latencies is not None
    assert sum(write.latencies.unpack().counts) == write.ios
    assert figures.write is not None
    assert figures.write.bytes == write.bytes


def bin_of(nanoseconds: int) -> int:
    """Return the value that fio prints for the bin of a latency: 64 bins for each power of two."""
    fine = max(0, nanoseconds.bit_length() - 7)
    return (nanoseconds >> fine << fine) + (1 << fine) // 2 if fine else nanoseconds


def test_merged_histograms_of_jobs_are_those_of_the_group_in_the_same_run(tmp_path: Path) -> None:
    """The latency logs of fio have each request of each job, beside the histogram of the group."""
    job = _JOB.replace("size=", "group_reporting\nwrite_lat_log=log\nsize=").replace("randread", "randrw")
    text, (group,) = run_fio(job, tmp_path)
    figures = parse(text)
    assert figures.jobs == {}
    for at, side in enumerate(("read", "write")):
        by_job: list[Counter[str]] = []
        for log in sorted(tmp_path.glob("log_lat.*.log")):
            rows = [[int(number) for number in line.split(",")] for line in log.read_text().splitlines()]
            by_job.append(Counter(str(bin_of(row[1])) for row in rows if row[2] == at))
        assert len(by_job) == 3
        merged = merge_histograms(by_job)
        assert merged == {int(value): count for value, count in group[side]["lat_ns"]["bins"].items()}
        found = percentiles(Histogram.of(merged).unpack(), [*PERCENTILES.values()])
        own = getattr(figures, side)
        for (name, percent), ours in zip(PERCENTILES.items(), found, strict=True):
            theirs = group[side]["lat_ns"]["percentile"][f"{percent:.6f}"]
            assert ours is None or ours == pytest.approx(theirs, rel=1 / 64)
            assert getattr(own, name) == ours


def test_the_sum_of_jobs_is_that_of_fio_in_the_same_run(tmp_path: Path) -> None:
    """A client of fio gets each job and their sum, without percentiles."""
    (tmp_path / "job.fio").write_text(_JOB)
    fio = shutil.which("fio") or pytest.skip("no fio")
    server = subprocess.Popen([fio, "--server=sock:socket"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        command = [fio, "--client=sock:socket", "--output-format=json+", "--output=out.json", "job.fio"]
        answers = (subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60) for _ in range(200))
        assert any(answer.returncode == 0 for answer in answers)  # until the server listens
    finally:
        server.terminate()
        server.wait()
    text = (tmp_path / "out.json").read_text()
    *jobs, whole = json.loads(text[text.index("{") :])["client_stats"]
    assert whole["jobname"] == "All clients"
    figures = figures_of(jobs, text)
    for side in ("read", "write"):
        ours, theirs = getattr(figures, side), whole[side]
        assert (ours.bytes, ours.ios, ours.lat_max) == (
            theirs["io_bytes"],
            theirs["total_ios"],
            theirs["lat_ns"]["max"],
        )
        assert ours.lat_mean == pytest.approx(theirs["lat_ns"]["mean"])


def trial(figures: Figures, round_number: int = 1) -> Trial:
    return Trial("c1", round_number, Outcome.MEASURED, started="2026-01-01", seconds=2.0, figures=figures, folder="x")


def test_the_journal_keeps_the_figures_of_each_job(tmp_path: Path, figures: Figures) -> None:
    path = tmp_path / "journal.sqlite"
    broken = Trial("c1", 2, Outcome.BROKEN, "still", figures=figures)
    with Journal.open(path, synthetic=False) as journal:
        journal.add_cells([CELL])
        journal.record(trial(figures))
        journal.record(broken)
    with Journal.open(path) as journal:
        assert list(journal.trials()) == [trial(figures), broken]
        assert journal.trials_of({("c1", 1)}) == [trial(figures)]
        assert journal.take_back() == [broken]
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("select round, job, position, write_bytes from jobs order by 1, 3").fetchall()
    assert rows == [(1, "reader", 0, None), (1, "writer", 1, 4 << 20)]
    found = salvage(path)
    assert found.is_whole
    assert found.trials == (trial(figures),)


def test_a_table_has_a_row_for_each_job(figures: Figures) -> None:
    content = RunData("m", "local", synthetic=False, cells=[CELL], trials=[trial(figures)])
    rows = list(csv.DictReader(jobs_csv(content).splitlines()))
    assert [(row["job"], row["cell"], row["trial"], row["write_bytes"]) for row in rows] == [
        ("reader", "c1", "1", ""),
        ("writer", "c1", "1", str(4 << 20)),
    ]
    assert {column.name for column in JOBS} - {"AXIS"} <= {*rows[0]}
    alone = RunData("m", "local", synthetic=False, cells=[CELL], trials=[trial(replace(figures, jobs={}))])
    assert jobs_csv(alone) == ""
