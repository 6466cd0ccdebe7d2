"""A study as a user meets it: at the end of its run, and of runs that are over."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest

from matrix_runner.pages.study import BEGIN, END, END_STATE, STATE
from matrix_runner.records.environment import Requested
from matrix_runner.records.record import CellRow
from matrix_runner.space.basis import MEASURED, basis_of
from tests.records import past
from tests.support.matrices import SMALL, space

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.command import Said

    Call = Callable[..., Said]

PUBLISHED = """\
source: somebody
tables:
  - id: chunks
    metric: read.bw
    unit: MB/s
    where: {rw: read}
    base: {chunk: 16KiB}
    rows:
      - {where: {chunk: 16KiB}, value: 100}
      - {where: {chunk: 64KiB}, value: 200, why: a kernel of 2007}
"""
CELLS = tuple(
    CellRow(
        name,
        f"raid5/chunk={chunk}/work",
        {"layout": "raid5", "md.chunk": chunk, "workload": "work", "workload.rw": "read"},
    )
    for name, chunk in (("c1", "16KiB"), ("c2", "64KiB"))
)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "studies" / "small"
    folder.mkdir(parents=True)
    (folder / "matrix.yaml").write_text(SMALL)
    (folder / "published.yaml").write_text(PUBLISHED)
    return folder


def measured(tmp_path: Path, times: float, number: int = 1, **changes: object) -> None:
    trials = [
        past.measured(cell, round_number, 1e8 * (1 + round_number / 1000) * (times if cell == "c2" else 1))
        for cell in ("c1", "c2")
        for round_number in (1, 2, 3)
    ]
    past.recorded(tmp_path / "results", trials, number, CELLS, matrix="small", **changes)


def ran(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "results").glob("small-dry-*")
    return found


def test_a_run_of_a_study_ends_with_the_number_of_met_figures(call: Call, study: Path, tmp_path: Path) -> None:
    said = call("run", "--on", "dry", str(study))
    assert said.status == 0
    assert (
        "published: 0 of 1 published ratios met within 15 % (1 not met); 0 of the 1 that the source can tell; the figures are"
        in said.out
    )
    folder = ran(tmp_path)
    assert (folder / "published.yaml").read_text() == PUBLISHED
    assert (folder / "published.md").read_text().startswith("Synthetic, from the dry machine")
    _, row = csv.DictReader(io.StringIO((folder / "published.csv").read_text()))
    assert (row["published_ratio"], row["synthetic"]) == ("2.0", "true")


def test_json_has_it_in_the_last_event(call: Call, study: Path) -> None:
    said = call("run", "--on", "dry", "--json", str(study))
    (end,) = [row for row in map(json.loads, said.out.splitlines()) if row["event"] == "end"]
    assert end["published"] == {"not met": 1}


def test_other_matrices_have_no_published_figures(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "published.yaml").write_text(PUBLISHED)
    assert "published" not in call("run", "--on", "dry", "small.yaml").out
    assert not (ran(tmp_path) / "published.md").exists()


def test_a_second_report_is_identical(call: Call, study: Path, tmp_path: Path) -> None:
    call("run", "--on", "dry", str(study))
    files = [ran(tmp_path) / name for name in ("published.md", "published.csv")]
    before = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    (study / "published.yaml").unlink()
    assert call("report", str(ran(tmp_path))).status == 0
    assert [file.read_bytes() for file in files] == before


def test_errors_in_published_figures_are_refused_before_the_run(call: Call, study: Path, tmp_path: Path) -> None:
    (study / "published.yaml").write_text(PUBLISHED.replace("chunk: 64KiB", "chunk: 63KiB"))
    said = call("run", "--on", "dry", str(study))
    assert said.status == 2
    assert "published.yaml:10:25: no cell has md.chunk=63KiB" in said.err
    assert not (tmp_path / "results").exists()


def test_validate_checks_published_figures(call: Call, study: Path) -> None:
    assert call("validate", str(study)).status == 0
    (study / "published.yaml").write_text(PUBLISHED.replace("metric: read.bw", "metric: raed.bw"))
    said = call("validate", str(study))
    assert said.status == 2
    assert "published.yaml:4:13: 'raed.bw': there is no such metric" in said.err


def test_a_file_of_published_figures_is_no_matrix(call: Call, study: Path) -> None:
    said = call("validate", str(study / "published.yaml"))
    assert said.status == 2
    assert "this file has the published figures of a study; its matrix is beside it" in said.err


def test_a_study_is_compared_with_its_latest_finished_run(call: Call, study: Path, tmp_path: Path) -> None:
    measured(tmp_path, 2.0, 1)
    measured(tmp_path, 1.0, 2)
    measured(tmp_path, 2.0, 3, finished=False)
    measured(tmp_path, 2.0, 4, synthetic=True, machine="dry")
    said = call("study", str(study))
    assert said.status == 0
    assert "0 of 1 published ratios met within 15 % (1 not met)" in said.out
    assert "chunks: chunk=64KiB: a kernel of 2007" in said.out
    assert "1 of 1 published ratios met" in call("study", str(study), "--run", "run-1").out


@pytest.mark.parametrize("part", [Requested(only=("rw=read",)), Requested(race=())])
def test_a_study_uses_a_part_of_its_matrix_and_a_race(call: Call, study: Path, tmp_path: Path, part: Requested) -> None:
    measured(tmp_path, 1.0, 1)
    measured(tmp_path, 2.0, 2, requested=part, steered=part.race is not None, excluded="a race chose its cells")
    assert "1 of 1 published ratios met" in call("study", str(study)).out


def test_a_run_of_an_older_matrix_is_refused(call: Call, study: Path, tmp_path: Path) -> None:
    """Its cells are others on the same axes: no run would have all that a claim is about."""
    now = [cell for cell in space(SMALL).cells() if cell.axes["workload.rw"] == "read"]
    trials = [past.measured(cell.id, round_number, 1e8 + round_number) for cell in now for round_number in (1, 2, 3)]
    rows = [CellRow(cell.id, cell.name, dict(cell.axes)) for cell in now]
    measured(tmp_path, 2.0, 1)
    past.recorded(tmp_path / "results", trials, 2, rows, matrix="small")
    said = call("study", str(study), "--run", "run-1", "--run", "run-2")
    assert said.status == 2
    assert "some of these runs share no cell with the current matrix" in said.err
    assert "- run-1 has no cell of it" in said.err
    assert "run-2" not in said.err
    for alone in ("run-1", "run-2"):
        assert call("study", str(study), "--run", alone).status == 0
    measured(tmp_path, 2.0, 3)
    both = call("study", str(study), "--run", "run-1,run-3")
    assert both.status == 0
    assert "1 of 1 published ratios met" in both.out


def test_a_run_of_another_matrix_is_left_out_with_a_note(call: Call, study: Path, tmp_path: Path) -> None:
    measured(tmp_path, 2.0, 1)
    past.recorded(tmp_path / "results", [], 2, CELLS, matrix="other")
    said = call("study", str(study), "--run", "run-*")
    assert said.status == 0
    assert "note: run-2 left out: its matrix other belongs to no given study" in said.err
    assert "run-1 is" not in said.err


def test_several_studies_are_counted_together(call: Call, study: Path, tmp_path: Path) -> None:
    measured(tmp_path, 2.0)
    said = call("study", str(study), str(study / "matrix.yaml"))
    assert "all of them: 2 of 2 published ratios met within 15 %" in said.out
    rows = json.loads(call("study", str(study), str(study), "--format", "json").out)["rows"]
    assert [row["verdict"] for row in rows] == [None, "met"] * 2


def test_an_unmeasured_study_does_not_stop_the_others(call: Call, study: Path, tmp_path: Path) -> None:
    measured(tmp_path, 2.0)
    other = tmp_path / "studies" / "other"
    other.mkdir()
    (other / "matrix.yaml").write_text(SMALL.replace("name: small", "name: other"))
    (other / "published.yaml").write_text(PUBLISHED)
    said = call("study", str(other), str(study), "--page")
    assert said.status == 0
    assert f"note: no finished, measured run of {other}; left out" in said.err
    assert (study / "README.md").exists()
    assert not (other / "README.md").exists()


def test_a_page_is_written_and_updated(call: Call, study: Path, tmp_path: Path) -> None:
    measured(tmp_path, 2.0)
    page = study / "README.md"
    assert call("study", str(study), "--page").status == 0
    assert "| chunk=64KiB | 200 MB/s | 200 MB/s | 2.00\u00d7 | 2.00\u00d7 |" in page.read_text()
    page.write_text(f"my words\n{BEGIN}{END}\nmore of them\n")
    assert call("study", str(study), "--page").status == 0
    first = page.read_text()
    assert first.startswith("my words\n")
    assert first.endswith("more of them\n")
    assert "Measured by the run `run-1` (qemu, Linux 6.1.0), begun 2026-03-01: 6 trials of 2 cells." in first
    assert call("study", str(study), "--page").status == 0
    assert page.read_text() == first


def test_a_page_refuses_synthetic_figures(call: Call, study: Path, tmp_path: Path) -> None:
    measured(tmp_path, 2.0, synthetic=True, machine="dry")
    said = call("study", str(study), "--page", "--run", "run-1")
    assert said.status == 2
    assert "--page needs measured figures, and these are synthetic" in said.err
    assert not (study / "README.md").exists()


def test_a_study_without_a_run_suggests_a_command(call: Call, study: Path, tmp_path: Path) -> None:
    measured(tmp_path, 2.0, finished=False)
    said = call("study", str(study))
    assert said.status == 2
    assert f"no finished, measured run of {study}" in said.err
    assert f"`matrix run {study}` measures it" in said.err
    past.recorded(tmp_path / "results", [], 2, CELLS, matrix="other")
    assert f"no named run belongs to {study}" in call("study", str(study), "--run", "run-2").err


def test_a_matrix_without_published_figures_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    said = call("study", "small.yaml")
    assert said.status == 2
    assert "small.yaml is no study: there is no published.yaml beside it" in said.err


def test_a_page_with_the_digests_of_today_is_up_to_date(call: Call, study: Path, tmp_path: Path) -> None:
    now = basis_of(space(SMALL).matrix)
    measured(tmp_path, 2.0, digests=now.model_dump())
    assert call("study", str(study), "--page").status == 0
    said = call("study", str(study), "--check")
    assert (said.status, said.out) == (0, "0 of 1 study is out of date\n")
    assert f"{STATE}{END_STATE}" in (study / "README.md").read_text()


def test_a_study_of_other_physics_is_listed_and_its_page_says_so(call: Call, study: Path, tmp_path: Path) -> None:
    old = basis_of(space(SMALL).matrix).model_copy(update={"physics": "of last week"})
    measured(tmp_path, 2.0, digests=old.model_dump())
    call("study", str(study), "--page")
    page = study / "README.md"
    assert "**Out of date: measured with other physics.**" in page.read_text()
    said = call("study", str(study), "--check", "--format", "csv")
    assert said.status == 1
    assert f"{study},run-1,2026-03-01,physics" in said.out
    before = page.read_text()
    record = study / MEASURED
    record.write_text(record.read_text().replace("of last week", basis_of(space(SMALL).matrix).physics))
    assert call("study", str(study), "--check", "--page").status == 0
    assert "Out of date" not in page.read_text()
    record.write_text(record.read_text().replace(basis_of(space(SMALL).matrix).physics, "of last week"))
    assert call("study", str(study), "--check", "--page").status == 1
    assert page.read_text() == before


def test_a_page_without_a_record_is_the_oldest(call: Call, study: Path, tmp_path: Path) -> None:
    measured(tmp_path, 2.0)
    call("study", str(study), "--page")
    other = tmp_path / "studies" / "other"
    other.mkdir()
    (other / "matrix.yaml").write_text(SMALL)
    (other / "published.yaml").write_text(PUBLISHED)
    said = call("study", str(study), str(other), "--check", "--oldest")
    assert (said.status, said.out) == (1, f"{other}\n")
    assert call("study", str(other), "--check").out.count(" physics ") == 1
    assert not (other / "README.md").exists()


def test_a_foreign_record_of_a_page_is_refused(call: Call, study: Path) -> None:
    (study / MEASURED).write_text("{}x")
    said = call("study", str(study), "--check")
    assert said.status == 2
    assert "is not what `matrix study --page` writes" in said.err


def test_oldest_needs_check_which_takes_no_runs(call: Call, study: Path) -> None:
    assert "--oldest needs --check" in call("study", str(study), "--oldest").err
    assert "use one of the two" in call("study", str(study), "--check", "--run", "latest").err
