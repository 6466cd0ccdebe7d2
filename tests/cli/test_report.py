"""`matrix report`: where it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.support.command import Call


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_reports_of_a_folder_that_cannot_be_written(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = past.recorded(tmp_path / "results", [past.measured("c1", 1, 1e8)], 1, exit=0).path
    with monkeypatch.context() as patched:
        patched.setattr("os.access", lambda path, _: path != run)  # root may write everywhere
        said = call("report", str(run))
    assert (said.status, said.err) == (
        2,
        f"matrix: {run} cannot be written\n→ write the reports to another folder: `--to FOLDER`\n",
    )
    before = files(run)
    said = call("report", "run-1", "--to", "reports")
    assert said.status == 0
    assert "reports/: report.html, explore.html, " in said.out
    assert "under results/run-1/cells/" in said.out
    assert {"report.html", "explore.html", "trials.csv", "junit.xml"} <= files(tmp_path / "reports")
    assert files(run) == before
    assert "<script src" not in (tmp_path / "reports/explore.html").read_text(), "it needs no other file"


def test_reports_of_several_runs_go_to_folders(tmp_path: Path, call: Call) -> None:
    for number in (1, 2):
        past.recorded(tmp_path / "results", [past.measured("c1", 1, 1e8)], number, exit=0)
    assert call("report", "run-1", "run-2", "--to", "reports").status == 0
    assert {path.name for path in (tmp_path / "reports").iterdir()} == {"run-1", "run-2"}


def test_an_earlier_run_is_named_as_elsewhere(tmp_path: Path, call: Call) -> None:
    for number in (1, 2, 3):
        past.recorded(tmp_path / "results", [past.measured("c1", 1, 1e8)], number, exit=0)
    other: dict[str, Any] = {"matrix": "other", "machine": "dry", "synthetic": True}
    past.recorded(tmp_path / "results", [past.measured("c1", 1, 1e8)], 4, exit=0, **other)
    for word, name in (("latest~1", "run-2"), ("sweep~2", "run-1"), ("latest", "run-3"), ("other", "run-4")):
        assert f"results/{name}/: report.html" in call("report", word).out
    for word, name in (("latest", "run-4"), ("sweep~1", "run-2")):  # with results or without
        assert f": {name}, " in call("bug-report", word).out
    said = call("report", "sweep~3")
    assert (said.status, "sweep~3 is not the folder of a run" in said.err) == (2, True)
