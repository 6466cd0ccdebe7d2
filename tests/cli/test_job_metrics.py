"""Figures of one job as metrics: in guidelines, and in what is asked of many runs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.pages.write import load_run_data
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.command import Said

    Call = Callable[..., Said]

MATRIX = """\
name: mixed
disks: {count: 2, size: 64MiB}
repeat: 3
layouts: {raw: [disk], pair: [md: {level: 0, chunk: [16KiB, 64KiB]}]}
workloads:
  both: {jobs: {reader: {rw: randread, bs: 4KiB}, writer: {rw: randrw, bs: 64KiB}}, runtime: 1s}
  plain: {rw: randread, bs: 4KiB, runtime: 1s}
guidelines:
  - {id: quick, bound: {metric: reader.read.lat_p99, where: {workload: both}, at_most: 1h}}
  - id: alike
    ratio: {metric: writer.total.bw, of: {chunk: 16KiB}, to: {chunk: 64KiB}, within: 50%}
"""


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def ran(call: Call, tmp_path: Path) -> Said:
    (tmp_path / "mixed.yaml").write_text(MATRIX)
    said = call("run", "--on", "dry", "mixed.yaml")
    assert said.status == 0
    return said


def folder(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "results").glob("mixed-*")
    return found


def test_programs_get_the_figures_of_each_job(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mixed.yaml").write_text(MATRIX)
    lines = [json.loads(line) for line in call("run", "--json", "--on", "dry", "mixed.yaml").out.splitlines()]
    both, plain = (
        next(one for one in lines if one["event"] == "trial" and one["name"].endswith(name))
        for name in ("both", "plain")
    )
    assert "jobs" not in plain
    assert {name: sorted(one) for name, one in both["jobs"].items()} == {
        "reader": ["read_bw", "read_iops"],
        "writer": ["read_bw", "read_iops", "write_bw", "write_iops"],
    }
    found = json.loads(call("results", "latest", "--format", "json").out)["rows"]
    assert [one["reader.read_bw"] for one in found if one["workload"] == "plain"] == [None] * 3
    of_both = [one for one in found if one["workload"] == "both"]
    assert all(one["writer.write_iops"] > one["writer.write_iops_low"] > 0 for one in of_both)
    assert not any("reader.write" in name for name in of_both[0])
    (trial, *_) = json.loads(call("results", "latest", "--trials", "--format", "json", "--only", "workload=both").out)[
        "rows"
    ]
    assert trial["reader.read_iops"] > 0
    assert "reader" not in call("results", "latest").out


@pytest.mark.parametrize(
    ("metric", "amount"),
    {"reader.write.bw": "1MB/s", "trim.iops": "1 IOPS", "writer.trim.lat_p99": "1ms"}.items(),
)
def test_a_guideline_about_a_direction_that_no_job_has_is_refused(
    call: Call, tmp_path: Path, metric: str, amount: str
) -> None:
    claim = f"  - {{id: beyond, bound: {{metric: {metric}, where: {{workload: both}}, at_least: {amount}}}}}\n"
    (tmp_path / "mixed.yaml").write_text(MATRIX + claim)
    said = call("validate", "mixed.yaml")
    assert said.status == 2
    assert f"no cells of this matrix can decide it: its cells have no {metric}" in said.err


def test_a_group_of_jobs_has_the_directions_of_all(call: Call, tmp_path: Path) -> None:
    (tmp_path / "db.fio").write_text(
        "[global]\nruntime=1\ntime_based\nbs=4k\ngroup_reporting\n[reader]\nrw=read\n[writer]\nrw=write\n"
        "[other]\nstonewall\nrw=randread\n"
    )
    matrix = MATRIX.partition("workloads:")[0] + "workloads: {db: {job: db.fio}}\nguidelines:\n"
    for metric, status in (("reader.write.bw", 0), ("write.bw", 0), ("trim.bw", 2)):
        claim = f"  - {{id: one, bound: {{metric: {metric}, at_least: 1MB/s}}}}\n"
        (tmp_path / "db.yaml").write_text(matrix + claim)
        assert call("validate", "db.yaml").status == status, metric


def test_guidelines_judge_one_job(ran: Said, call: Call, tmp_path: Path) -> None:
    found = rows((folder(tmp_path) / "verdicts.csv").read_text())
    assert {row["verdict"] for row in found} == {"holds"}
    assert {row["metric"] for row in found} == {"writer.total.bw", "reader.read.lat_p99"}
    assert "guidelines: 2 hold" in ran.out
    assert rows(call("guidelines", "check", "latest", "--format", "csv").out) == found


def test_the_store_has_the_estimates_of_the_report(ran: Said, call: Call, tmp_path: Path) -> None:
    run = load(folder(tmp_path))
    with Journal.open(run.journal) as journal:
        summaries = {one.cell.id: one for one in load_run_data(run, journal, over=True).summaries}
    names = (
        "writer.read_lat_p99",
        "reader.read_iops",
        "reader.read.lat_p99",
        "writer.write_bw",
        "writer.total.iops",
        "reader.write_bw",
    )
    words = [word for name in names for word in ("--metric", name)]
    found = rows(call("results", "latest", *words, "--format", "csv").out)
    assert len(found) == len(summaries) == 6
    for row in found:
        jobs = summaries[row["cell"]].jobs
        assert bool(jobs) == ("both" in row["name"])
        for column in (
            "writer.read_lat_p99",
            "reader.read_iops",
            "reader.read_lat_p99",
            "writer.write_bw",
            "writer.total_iops",
        ):
            job, name = column.split(".")
            estimate = jobs[job][name] if jobs else None
            assert row[column] == (f"{estimate.mean}" if estimate else "")
            assert row[f"{column}_low"] == (f"{estimate.bounds[0]}" if estimate and estimate.interval else "")
        assert row["reader.write_bw"] == ""


def test_compare_history_and_recommend_take_figures_of_a_job(ran: Said, call: Call) -> None:
    words = ("--metric", "writer.write_bw", "--metric", "reader.read_lat_p99", "--format", "csv")
    compared = rows(call("compare", "--by", "chunk", "16KiB", "64KiB", "latest", *words).out)
    assert [row["metric"] for row in compared] == ["writer.write_bw", "reader.read_lat_p99"]
    assert all(float(row["a"]) > 0 for row in compared)
    history = rows(call("history", "--only", "workload=both", *words).out)
    assert {(row["figure"], row["trials"]) for row in history} == {
        ("writer.write_bw", "3"),
        ("reader.read_lat_p99", "3"),
    }
    trials = rows(call("results", "latest", "--trials", *words).out)
    assert sum(bool(row["writer.write_bw"]) for row in trials) == 9
    said = call("recommend", "latest", "--for", "workload=both", "--metric", "reader.read_iops")
    assert "reader.read.iops" in said.out
    pivot = call("results", "latest", "--pivot", "chunk", "--metric", "reader.read_bw").out
    assert "MB/s" in pivot


def test_a_wrong_figure_of_a_job_is_refused_with_the_jobs_that_there_are(ran: Said, call: Call) -> None:
    for words in ("compare latest latest", "history --only workload=both", "results latest", "recommend latest"):
        said = call(*words.split(), "--metric", "raeder.read_iops")
        assert said.status == 2
        assert "these runs have no job 'raeder'" in said.err
        assert "their jobs are reader, writer" in said.err
    for metric in ("reader.iowait", "reader.", ".read_bw", "reader.read", "reader.read_bw.x"):
        said = call("results", "latest", "--metric", metric)
        assert said.status == 2
        assert f"there is no figure '{metric}'" in said.err


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("raeder.read.iops", "this matrix has no job 'raeder'; the jobs of its workloads are reader, writer"),
        ("reader.read.p99", "there is no such metric; did you mean reader.read.lat_p99?"),
        ("reader.read_iops", "there is no such metric; did you mean reader.read.iops?"),
        ("read_iops", "there is no such metric; did you mean read.iops?"),
        ("reader.cpu.iowait", "there is no such metric"),
    ],
)
def test_a_wrong_metric_of_a_job_is_refused_with_its_line(call: Call, tmp_path: Path, metric: str, why: str) -> None:
    (tmp_path / "mixed.yaml").write_text(MATRIX.replace("reader.read.lat_p99", metric).replace("1h", "9 IOPS"))
    said = call("validate", "mixed.yaml")
    assert said.status == 2
    assert "mixed.yaml:9:33: " in said.err
    assert why in said.err


def test_a_guideline_about_cells_without_the_job_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mixed.yaml").write_text(MATRIX.replace("workload: both", "workload: plain"))
    said = call("validate", "mixed.yaml")
    assert "no cells of this matrix can decide it: its cells have no reader.read.lat_p99" in said.err


def test_a_shared_guideline_about_another_job_is_only_noted(call: Call, tmp_path: Path) -> None:
    shared = "- {id: other, bound: {metric: backup.read.bw, at_least: 1MB/s}}\n"
    (tmp_path / "shared.yaml").write_text(shared)
    (tmp_path / "mixed.yaml").write_text(f"{MATRIX}  - shared.yaml\n")
    said = call("validate", "mixed.yaml")
    assert said.status == 0
    assert "guideline other is not tested: this matrix has no job 'backup'" in said.out


@pytest.mark.usefixtures("ran")
def test_very_many_jobs_have_no_columns_each(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store has a limit of columns."""
    monkeypatch.setattr("matrix_runner.cli.results._MOST_JOBS", 1)
    shown = call("results", "latest", "--format", "csv")
    (first, *_) = rows(shown.out)
    assert {name.partition(".")[0] for name in first if name.endswith("_bw") and "." in name} == {"reader"}
    assert "note: figures of the first 1 of 2 jobs" in shown.err
