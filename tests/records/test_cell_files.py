"""The scripts and outputs of cells in folders."""

from __future__ import annotations

import os
import resource
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.records.cell_files import CellFolders


def test_a_cell_has_a_folder_of_its_hierarchical_name() -> None:
    run = CellFolders(Path("results/run"))
    name = "parity/level=5,chunk=64KiB/seqread/bs=1MiB"
    assert run.cell(name) == Path("results/run/cells/parity/level=5,chunk=64KiB/seqread/bs=1MiB")


@pytest.mark.parametrize(
    "name", ["", "/", "/etc", "a//b", "a/", "..", "a/../b", ".", "a/./b", "a b", "a\\b", "ä", "a\n", "x" * 256, "a\0b"]
)
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="cannot name a folder"):
        CellFolders(Path("run")).cell(name)


def test_a_cell_keeps_its_scripts_and_a_trial_its_outputs(tmp_path: Path) -> None:
    run = CellFolders(tmp_path)
    kept = run.put("single/seqread", 3, {"1-set-up.sh": "true\n"}, {"fio.json": "{}\r\n\udcff"})
    assert kept == "cells/single/seqread/trial-3"
    assert (tmp_path / kept / "fio.json").read_bytes() == b"{}\r\n?", "as it came, but never unreadable"
    assert (run.cell("single/seqread") / "1-set-up.sh").read_bytes() == b"true\n"


def test_a_script_that_changed_between_trials_is_kept_with_its_trial(tmp_path: Path) -> None:
    run = CellFolders(tmp_path)
    run.put("single", 1, {"1-set-up.sh": "true\n", "2-tune.sh": "a\n"}, {})
    kept = run.put("single", 2, {"1-set-up.sh": "false\n", "2-tune.sh": "a\n"}, {})
    assert (run.cell("single") / "1-set-up.sh").read_text() == "true\n"
    assert {path.name: path.read_text() for path in (tmp_path / kept).iterdir()} == {"1-set-up.sh": "false\n"}


def test_a_later_attempt_adds_to_the_folder_of_its_trial(tmp_path: Path) -> None:
    run = CellFolders(tmp_path)
    run.put("single/seqread", 1, {}, {"lost-1.log": "gone"})
    kept = run.put("single/seqread", 1, {}, {"fio.json": "{}"})
    assert sorted(path.name for path in (tmp_path / kept).iterdir()) == ["fio.json", "lost-1.log"]


@pytest.mark.parametrize("name", ["../manifest.json", "a/b", "", ".."])
def test_a_file_of_a_trial_cannot_lie_elsewhere(tmp_path: Path, name: str) -> None:
    run = CellFolders(tmp_path)
    with pytest.raises(BadInput, match="cannot name"):
        run.put("single/seqread", 1, {name: "x"}, {})
    assert not list(tmp_path.rglob("manifest.json"))


@given(st.text(alphabet="a.=/~ \0", max_size=12))
def test_no_name_leads_out_of_the_cells(name: str) -> None:
    run = CellFolders(Path("run"))
    try:
        path = run.cell(name)
    except BadInput:
        return
    assert os.path.normpath(path) == str(path)
    assert PurePosixPath(path).is_relative_to("run/cells")
    assert path != Path("run/cells")


def test_a_script_that_was_cut_short_is_not_taken_for_that_of_an_earlier_trial(tmp_path: Path) -> None:
    run = CellFolders(tmp_path)
    cell, script = run.cell("single"), {"3-verify.sh": "true\nfalse\n"}
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, most))
    try:
        with pytest.raises(HarnessBroken, match="limit of a file's size"):
            run.put("single", 1, script, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
    assert [path.name for path in cell.iterdir()] == ["trial-1"]
    run.put("single", 1, script, {})
    assert (cell / "3-verify.sh").read_text() == "true\nfalse\n"
    assert list((cell / "trial-1").iterdir()) == []


def test_a_script_that_a_host_left_empty_is_put_right(tmp_path: Path) -> None:
    run = CellFolders(tmp_path)
    run.put("single", 1, {"3-verify.sh": ""}, {})
    run.put("single", 2, {"3-verify.sh": "false\n"}, {})
    assert (run.cell("single") / "3-verify.sh").read_text() == "false\n"


def test_another_attempt_clears_what_a_kill_left_of_the_one_before(tmp_path: Path) -> None:
    run = CellFolders(tmp_path)
    run.put("single", 1, {"1-set-up.sh": "true\n"}, {})
    left = [run.cell("single") / ".2-tune.sh.new", run.cell("single") / "trial-1" / ".fio.json.new"]
    for path in left:
        path.write_text("{")
    run.put("single", 2, {}, {})
    assert all(path.exists() for path in left), "another trial has nothing to do with it"
    run.put("single", 1, {"1-set-up.sh": "true\n"}, {})
    assert not any(path.exists() for path in left)
