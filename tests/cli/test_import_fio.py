"""`matrix import` of folders: every result of fio below them, with axes from the names of the folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.cli.import_fio import LAYOUTS
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import runs

if TYPE_CHECKING:
    from tests.support.command import Call

GROUPED = (Path(__file__).parents[1] / "data" / "fio-psync-grouped.json").read_text()


def put(path: Path, seconds: int = 0) -> Path:
    """Write a result that differs from others by its time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(GROUPED.replace('"timestamp" : 1795246946', f'"timestamp" : {1795246946 + seconds}', 1))
    assert seconds == 0 or path.read_text() != GROUPED
    return path


def axes_of(results: Path) -> list[dict[str, str]]:
    (run,) = runs(results)
    with Journal.existing(run.journal) as journal:
        return [{name: text for name, text in cell.axes.items() if "workload" not in name} for cell in journal.cells()]


@pytest.mark.parametrize(
    ("layout", "folders", "axes"),
    [
        ("plain", (), {}),
        ("plain", ("a", "b"), {"folder": "a/b"}),
        ("fio-plot", (), {}),
        ("fio-plot", ("mx200",), {"drive": "mx200"}),
        ("fio-plot", ("hp", "mx200"), {"host": "hp", "drive": "mx200"}),
        ("fio-plot", ("hp", "raid", "mx200"), {"host": "hp", "drive": "raid/mx200"}),
        ("bench-fio", ("sdb", "4k"), {"drive": "sdb"}),
    ],
)
def test_folders_become_axes(layout: str, folders: tuple[str, ...], axes: dict[str, str]) -> None:
    assert LAYOUTS[layout](folders) == axes


def test_all_results_below_a_folder_are_one_run(call: Call, tmp_path: Path) -> None:
    put(tmp_path / "data/hp/mx200/randread-1-1.json")
    put(tmp_path / "data/hp/860pro/no-rule.json", 1)
    (tmp_path / "data/hp/notes.json").write_text('{"of": "another program"}')
    (tmp_path / "data/hp/readme.txt").write_text("no JSON")
    end = call("import", str(tmp_path / "data"), "--layout", "fio-plot", "--axis", "lab=two")
    assert end.status == 0, end.err
    assert "2 trials of 2 cells" in end.out
    assert "notes.json: fio's JSON has no job, neither in `jobs` nor in `client_stats`: skipped" in end.err
    wanted = [{"lab": "two", "host": "hp", "drive": drive} for drive in ("860pro", "mx200")]
    assert sorted(axes_of(tmp_path / "results"), key=lambda one: one["drive"]) == wanted


def test_too_large_files_of_a_folder_are_left_out(call: Call, tmp_path: Path) -> None:
    put(tmp_path / "data/good.json")
    with (tmp_path / "data/large.json").open("wb") as large:
        large.truncate(2**30)
    end = call("import", str(tmp_path / "data"))
    assert end.status == 0, end.err
    assert "large.json: cannot be read: skipped" in end.err
    assert "1 trial of 1 cell" in end.out
    (tmp_path / "data/good.json").unlink()
    end = call("import", str(tmp_path / "data"))
    assert end.status == 2
    assert "there is no JSON of fio below" in end.err


def test_a_file_that_is_named_must_be_a_result(call: Call, tmp_path: Path) -> None:
    put(tmp_path / "data/good.json")
    bad = tmp_path / "data/bad.json"
    bad.write_text("{}")
    end = call("import", str(bad), str(tmp_path / "data"))
    assert end.status == 2
    assert "bad.json: fio's JSON has no job" in end.err
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("text", "why"), [(None, "there is no file NAME.json below"), ("{}", "there is no JSON of fio")]
)
def test_a_folder_without_a_result_is_refused(text: str | None, why: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    if text:
        (tmp_path / "data/other.json").write_text(text)
    end = call("import", str(tmp_path / "data"))
    assert end.status == 2
    assert why in end.err
