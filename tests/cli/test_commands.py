"""The command as a user types it, on the dry machine."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from matrix_runner.pages.terminal_text import duration, volume
from matrix_runner.records.run_folder import run_folders
from tests.support import forked
from tests.support.command import Call, Matrix
from tests.support.forked import Forked
from tests.support.matrices import SMALL

ROOT = Path(__file__).parents[2]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_an_unknown_command_is_bad_input(matrix: Matrix) -> None:
    result = matrix("rnu", "small.yaml")
    assert result.returncode == 2
    assert "did you mean run?" in result.stderr


def test_unused_objects_are_looked_for_as_usual_after_the_start() -> None:
    code = (
        "import gc; from matrix_runner.__main__ import _collect_later; usual = gc.get_threshold(); _collect_later(); "
        "assert gc.get_threshold() != usual; kept = [[] for _ in range(300_000)]; "
        "assert (gc.get_threshold(), gc.callbacks) == (usual, [])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_filters_that_leave_no_cell_are_named(matrix: Matrix, tmp_path: Path) -> None:
    text = (tmp_path / "small.yaml").read_text()
    (tmp_path / "none.yaml").write_text(text + "exclude: [{layout: raid5}]\n")
    assert "none.yaml: no cell is left after `exclude:`\n" in matrix("plan", "none.yaml").stderr
    both = matrix("plan", "none.yaml", "--only", "layout=raid5").stderr
    assert "none.yaml: no cell is left after --only and `exclude:`\n" in both


def test_the_dry_machine_accepts_repeated_job_options(matrix: Matrix, tmp_path: Path) -> None:
    """More partitions than stand in one line of it; and an option that it has as well where there are many files."""
    (tmp_path / "many.yaml").write_text("""\
name: many
disks: {count: 1, size: 1GiB}
layouts:
  parts: [partition: {count: 33}]
  files: [fs: {type: ext4}]
workloads:
  work: {rw: read, runtime: 1s, size: 16MiB, files: 600, fio: {openfiles: 100}}
repeat: 1
""")
    result = matrix("run", "--on", "dry", "many.yaml")
    assert result.returncode == 0, result.stderr


def test_an_unknown_axis_lists_the_known_ones(matrix: Matrix) -> None:
    refused = matrix("plan", "small.yaml", "--only", "chnk=16KiB")
    assert refused.returncode == 2
    axes = refused.stderr.partition("the axes of this matrix are ")[2]
    assert {"layout", "md.level", "md.chunk", "workload", "workload.rw"} <= set(axes.strip().split(", "))


def test_binary_files_and_empty_folder_names_are_refused(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"name: \xff")
    result = matrix("validate", "binary.yaml")
    assert result.returncode == 2
    assert "binary.yaml: this is not a UTF-8 text" in result.stderr
    result = matrix("run", "--on", "dry", "--results", "", "small.yaml")
    assert result.returncode == 2
    assert "the name of the folder is empty" in result.stderr


def test_a_study_is_named_by_its_folder(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study/matrix.yaml").write_text(SMALL)
    for command in ("plan", "validate"):
        named, whole = matrix(command, "study"), matrix(command, "study/matrix.yaml")
        assert (named.returncode, named.stdout) == (0, whole.stdout)


def test_only_accepts_any_spelling_of_a_size(matrix: Matrix) -> None:
    for size in ("4096", "4KiB", "4096B"):
        assert "cells  4" in matrix("plan", "small.yaml", "--only", f"bs={size}").stdout
    assert matrix("plan", "small.yaml", "--only", "bs=4097").returncode == 2
    told = matrix("plan", "small.yaml", "--only", "bs=4097,layuot=raid5").stderr
    assert "no cell has workload.bs=4097; " in told
    assert "and unknown axis 'layuot'; did you mean layout?" in told
    assert "any of them" in " ".join(matrix("plan", "--help").stdout.split())


def test_an_empty_selection_is_bad_input(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text(SMALL + "exclude: [{layout: raid5}]\n")
    result = matrix("run", "--on", "dry", "none.yaml")
    assert result.returncode == 2
    assert "no cell is left" in result.stderr
    assert "none.yaml:8:1: exclude:" in result.stderr
    assert not (tmp_path / "results").exists()


def test_run_writes_the_files_that_it_lists(matrix: Matrix, tmp_path: Path) -> None:
    result = matrix("run", "--on", "dry", "small.yaml")
    assert result.returncode == 0, result.stderr
    (folder,) = run_folders(tmp_path / "results")
    assert f"results/{folder.name}/" in result.stdout
    trials = rows(folder / "trials.csv")
    assert len(trials) == 8
    assert {row["synthetic"] for row in trials} == {"true"}
    assert {row["outcome"] for row in trials} == {"measured"}
    assert len(rows(folder / "summary.csv")) == 4
    assert "synthetic, from the dry machine" in (folder / "junit.xml").read_text()
    assert "synthetic" in result.stdout
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["synthetic"] is True
    assert manifest["finished"] is True
    assert manifest["text"] == SMALL


def test_reports_have_versions_by_kernel_and_the_declared_confidence(matrix: Matrix, tmp_path: Path) -> None:
    text = SMALL.replace("repeat: 2", "repeat: {min: 2, max: 3, until: 1%, confidence: 80%}")
    (tmp_path / "two.yaml").write_text(text + "machine: {kernel: [debian-12, debian-13]}\n")
    result = matrix("run", "--on", "dry", "two.yaml")
    assert result.returncode == 0, result.stderr
    assert "80 % confidence" in result.stdout
    (folder,) = run_folders(tmp_path / "results")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["versions"] == {"debian-12": {"fio": "synthetic"}, "debian-13": {"fio": "synthetic"}}
    assert {row["confidence"] for row in rows(folder / "summary.csv")} == {"0.8"}
    assert "[[PROPERTY|kernel=debian-13]]" in (folder / "junit.xml").read_text()


def test_a_kernel_that_contradicts_the_matrix_is_refused(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(SMALL + "machine: {kernel: [debian-12, debian-13]}\n")
    result = matrix("run", "--on", "dry", "--kernel", "debian-13", "two.yaml")
    assert result.returncode == 2
    assert "--only 'kernel=debian-13'" in result.stderr
    assert not (tmp_path / "results").exists()


def test_a_finished_run_stays_and_a_new_one_starts(matrix: Matrix, tmp_path: Path) -> None:
    matrix("run", "--on", "dry", "small.yaml")
    matrix("run", "--on", "dry", "small.yaml")
    assert len(run_folders(tmp_path / "results")) == 2


def test_a_run_killed_at_many_moments_ends_with_exactly_the_planned_trials(tmp_path: Path) -> None:
    """The very process, killed for real, each time a little further on."""
    (tmp_path / "small.yaml").write_text(SMALL.replace("repeat: 2", "repeat: 5"))
    arguments = ["run", "--on", "dry", "small.yaml"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    for trials in range(0, 20, 4):
        with Forked(arguments, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _, line in zip(range(trials // 4 + 2), process.stdout, strict=False):
                assert line
            process.send_signal(signal.SIGKILL)
    result = forked.run(arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (folder,) = run_folders(tmp_path / "results")
    trials_found = rows(folder / "trials.csv")
    assert len(trials_found) == len({(row["cell"], row["trial"]) for row in trials_found}) == 20


def test_a_second_process_on_a_run_is_refused_with_the_first(matrix: Matrix, tmp_path: Path) -> None:
    matrix("run", "--on", "dry", "small.yaml")
    (folder,) = run_folders(tmp_path / "results")
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"finished": true', '"finished": false'))
    holder = (
        "import pathlib, sys\n"
        "from matrix_runner.records.run_folder import load\n"
        "with load(pathlib.Path(sys.argv[1])).locked():\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with Forked([str(folder)], code=holder, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        result = matrix("run", "--on", "dry", "small.yaml")
        process.communicate()
    assert result.returncode == 2
    assert f"is in use by process {process.pid}" in result.stderr


def test_format_of_times_and_volumes() -> None:
    assert [duration(seconds) for seconds in (0.4, 12, 200, 3720)] == ["0 s", "12 s", "3 min 20 s", "1 h 02 min"]
    assert [volume(count) for count in (0, 999, 1500, 2 * 10**9, 3 * 10**12)] == [
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "2 GB",
        "3 TB",
    ]


def test_a_path_without_sbin_hides_no_program(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    call("--help")
    assert shutil.which("ldconfig")
