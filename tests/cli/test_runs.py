"""`matrix runs` and `matrix status`: what an observer sees of runs, beside real processes that are at them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.files import InUse
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.records.run_folder import load, run_folders
from tests.records import past
from tests.support.forked import Forked
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from tests.support.command import Said

ROOT = Path(__file__).parents[2]
Call = Callable[..., "Said"]
#: Says so and reads a line, once the trial after so many is begun.
PAUSED = """\
import sys
from matrix_runner.cli import main
from matrix_runner.records.journal import Journal
begin = Journal.begin
def begun(journal, *words):
    begin(journal, *words)
    if len(journal.recorded_identities()) == {trials}:
        print("stopped", file=sys.stderr, flush=True)
        sys.stdin.readline()
Journal.begin = begun
main()
"""
BROKEN = Trial("c1", 1, Outcome.BROKEN, "the guest panicked", started="2026-03-04T05:06:01.000+00:00")


@contextmanager
def at_work(place: Path, trials: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A `matrix run` on the dry machine that has recorded so many trials, and has begun the next one."""
    (place / "small.yaml").write_text(SMALL.replace("repeat: 2", "repeat: 5"))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    arguments = ["run", "--on", "dry", *words, "small.yaml"]
    with Forked(arguments, code=PAUSED.format(trials=trials), cwd=place, text=True, **pipes) as process:
        try:
            assert process.stderr is not None
            assert any(line == "stopped\n" for line in process.stderr)
            yield process
        finally:
            process.kill()


def listed(call: Call, *words: str) -> dict[str, dict[str, object]]:
    said = call("runs", "--json", *words)
    assert said.status == 0
    return {one["run"]: one for one in json.loads(said.out)["runs"]}


def of_this_kind(results: Path) -> None:
    past.recorded(results, past.TRIALS[:2], 1, exit=0)
    past.recorded(results, past.TRIALS, 2, exit=3, matrix="nightly")
    past.recorded(results, [past.TRIALS[0]], 3, finished=False)
    past.recorded(results, [], 4, finished=False)


def test_the_help_has_examples(call: Call) -> None:
    for command in ("runs", "status"):
        said = call(command, "--help")
        assert said.status == 0
        assert f"  matrix {command} " in said.out


def test_an_empty_folder_of_runs(call: Call) -> None:
    said = call("runs")
    assert (said.status, said.out) == (0, "there is no run below results/; `matrix run MATRIX` starts one\n")
    assert json.loads(call("runs", "--json").out) == {"runs": [], "left_out": 0, "notes": []}
    said = call("status")
    assert (said.status, said.out) == (1, "no run is running below results/; the folder has no runs\n")
    assert json.loads(call("status", "--json").out) == {"running": False, "runs": []}


def test_the_list_has_the_latest_first_with_state_and_cells(call: Call, tmp_path: Path) -> None:
    of_this_kind(tmp_path / "results")
    found = listed(call)
    assert list(found) == ["run-4", "run-3", "run-2", "run-1"]
    assert [one["state"] for one in found.values()] == ["interrupted", "interrupted", "broken", "finished"]
    assert [(one["cells"], one["cells_measured"], one["cells_broken"]) for one in found.values()] == [
        *((2, 0, 0), (2, 1, 0), (2, 2, 1), (2, 2, 0))
    ]
    assert found["run-2"]["trials"] == {"measured": 2, "broken": 1}
    shown = call("runs").out
    assert "2, 1 broken" in next(line for line in shown.splitlines() if "run-2" in line)
    assert "1 of 2" in next(line for line in shown.splitlines() if "run-3" in line)


def test_the_list_of_one_matrix_counts_the_runs_left_out(call: Call, tmp_path: Path) -> None:
    of_this_kind(tmp_path / "results")
    assert list(listed(call, "nightly")) == ["run-2"]
    assert list(listed(call, "night*", "run-1")) == ["run-2", "run-1"]
    shown = call("runs", "--rows", "3").out
    assert "run-1" not in shown
    assert "1 more; `--rows` shows more" in shown
    said = call("runs", "nothing")
    assert said.status == 2
    assert "there is no run of 'nothing'" in said.err
    assert "there are runs of sweep, nightly" in said.err


def test_the_list_counts_verdicts(call: Call, tmp_path: Path) -> None:
    folder = past.recorded(tmp_path / "results", past.TRIALS[:2], 1, exit=1)
    head, rows = "guideline,verdict,synthetic", ("a,holds,false", "b,fails,false", "b,fails,false", "c,holds,false")
    (folder.path / "verdicts.csv").write_text("\n".join((head, *rows)) + "\n")
    assert listed(call)["run-1"]["verdicts"] == {"holds": 2, "fails": 1}
    assert "2 holds, 1 fails" in call("runs").out
    folder.update_manifest(synthetic=True)
    assert listed(call)["run-1"]["verdicts"] == {}


def test_the_list_skips_other_folders(call: Call, tmp_path: Path) -> None:
    results = tmp_path / "results"
    of_this_kind(results)
    (results / "plots").mkdir()
    for name, text in (("torn", "{"), ("odd", '{"matrix": 1}')):
        (results / name).mkdir()
        (results / name / "manifest.json").write_text(text)
    (results / "run-2" / "journal.sqlite").write_bytes(b"no database at all" * 100)
    (results / "run-3" / "journal.sqlite").unlink()
    said = call("runs", "--json")
    document = json.loads(said.out)
    assert [(one["run"], one["cells"]) for one in document["runs"]] == [
        *(("run-4", 2), ("run-3", 0), ("run-2", None), ("run-1", 2))
    ]
    damaged, journal = document["notes"]
    assert damaged.startswith("not listed, as it cannot be read: odd: its manifest is damaged")
    assert "torn" in damaged
    assert "run-2/journal.sqlite" in journal
    assert call("runs").err.count("note: ") == 2


def test_the_list_has_runs_that_only_the_store_knows(call: Call, tmp_path: Path) -> None:
    results = tmp_path / "results"
    of_this_kind(results)
    assert call("results").status == 0
    (results / "run-3").rename(tmp_path / "away-3")
    (results / "run-2").rename(tmp_path / "away-2")
    found = listed(call)
    assert [(one["state"], one["folder"]) for one in found.values()] == [
        ("interrupted", "results/run-4"),
        ("unfinished", None),
        ("gone", None),
        ("finished", "results/run-1"),
    ]
    assert (found["run-2"]["cells"], found["run-2"]["cells_broken"]) == (2, 1)
    (results / "store.db").write_bytes(b"damaged" * 1000)
    said = call("runs")
    assert said.status == 0
    assert "runs without a folder are not listed" in said.err
    assert call("runs", "--store", "results/store.db").status == 2
    assert call("runs", "--store", "absent.db").status == 2


@pytest.mark.parametrize("columns", [60, 80, 110])
def test_the_list_fits_the_terminal(columns: int, tmp_path: Path) -> None:
    from tests.support.terminal import Terminal

    of_this_kind(tmp_path / "results")
    for words in (("runs",), ("status",)):
        with Terminal(["matrix", *words], columns=columns, cwd=tmp_path) as screen:
            assert screen.wait() in {0, 1}
            assert "interrupted" in screen.transcript
            assert "run-4" in screen.transcript
            box = [line for line in screen.transcript.splitlines() if line.startswith(("│", "┃"))]
            assert all(line.endswith(("│", "┃")) for line in box)


PATH = {"PYTHONPATH": str(ROOT / "runner")}


def test_a_run_is_watched_while_it_writes(call: Call, tmp_path: Path) -> None:
    with at_work(tmp_path, 7) as process:
        said = call("status")
        assert said.status == 0, said.out + said.err
        facts = dict(line.split(maxsplit=1) for line in said.out.splitlines()[1:])
        assert facts["state"] == "running"
        assert facts["process"].startswith(f"{process.pid} on ")
        assert facts["trials"] == "7 of 20: 7 measured"
        assert "trial 2, for " in facts["now"]
        assert ": measured" in facts["last"]
        assert " trials a " in facts["left"] or "a trial" in facts["left"]
        document = json.loads(call("status", "--json").out)
        assert document["running"] is True
        (one,) = document["runs"]
        assert (one["pid"], one["planned"], one["trials"], one["cells"]) == (process.pid, 20, {"measured": 7}, 4)
        assert [now["trial"] for now in one["now"]] == [2]
        assert one["seconds_left"] > 0
        assert listed(call)[one["run"]]["state"] == "running"
        assert call("status", one["run"]).status == 0
        process.communicate("\n")
    assert process.returncode == 0
    said = call("status")
    assert (said.status, said.out.splitlines()[0]) == (1, "no run is running below results/; the last run:")
    assert listed(call)[one["run"]]["state"] == "finished"
    assert call("status", one["run"]).status == 1


def test_a_killed_run_is_interrupted_and_the_same_command_continues_it(call: Call, tmp_path: Path) -> None:
    with at_work(tmp_path, 3) as process:
        process.kill()
        process.wait()
        said = call("status")
        assert said.status == 1
        assert "state    interrupted" in said.out
        assert "trials   3 of 20: 3 measured" in said.out
        assert "`matrix run` with the same matrix and options continues it" in said.out
        (run,) = listed(call).values()
        assert run["state"] == "interrupted"
    with at_work(tmp_path, 3) as process:
        (one,) = json.loads(call("status", "--json").out)["runs"]
        assert (one["pid"], one["trials"]) == (process.pid, {"measured": 3})
        assert len(one["now"]) == 1, "what the killed process was at is not measured now"
        assert one["seconds_a_trial"] is None, "this process has not recorded a trial"
        assert one["seconds_left"] > 0, "its estimate is known"


def test_watching_a_run_writes_no_file(call: Call, tmp_path: Path) -> None:
    with at_work(tmp_path, 3):
        (folder,) = run_folders(tmp_path / "results")
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if not path.name.endswith("-shm")}
        assert call("status").status == 0
        assert listed(call)[folder.name]["state"] == "running"
        assert before == {path: path.stat().st_mtime_ns for path in before}
        assert {path for path in folder.rglob("*") if not path.name.endswith("-shm")} == before.keys()


def test_a_run_starts_although_observers_look_at_its_lock(tmp_path: Path) -> None:
    """Each look holds the lock of a killed run for an instant."""
    folder = past.recorded(tmp_path / "results", [], 1, finished=False)
    (folder.path / ".lock").write_text("1 on lab1\n")
    look = "import pathlib, sys; from matrix_runner.records.observe import find_holder\n"
    loop = "print('looking', flush=True)\nwhile True: find_holder(pathlib.Path(sys.argv[1]))"
    argv = [sys.executable, "-c", look + loop, str(folder.path)]
    with subprocess.Popen(argv, env={**os.environ, **PATH}, stdout=subprocess.PIPE, text=True) as observer:
        assert observer.stdout is not None
        assert observer.stdout.readline() == "looking\n"
        try:
            for _ in range(50):
                (folder.path / ".lock").write_text("1 on lab1\n")
                with folder.locked():
                    pass
        finally:
            observer.kill()


def test_a_running_run_names_its_process(tmp_path: Path) -> None:
    folder = past.recorded(tmp_path / "results", [], 1, finished=False)
    with (
        folder.locked(),
        pytest.raises(InUse, match=rf"in use by process {os.getpid()} on "),
        load(folder.path).locked(),
    ):
        pass


def test_latest_is_the_last_run_with_results(call: Call, tmp_path: Path) -> None:
    results = tmp_path / "results"
    past.recorded(results, past.TRIALS[:2], 1)
    past.recorded(results, past.TRIALS[:2], 2)
    past.recorded(results, [BROKEN], 3)
    past.recorded(results, [], 4, finished=False)
    told = "note: run-4 is later, but has no results yet; name it to see it\n"
    said = call("results", "latest", "--format", "csv")
    assert (said.status, said.err) == (0, told)
    assert {line.split(",")[0] for line in said.out.splitlines()[1:]} == {"run-2"}
    said = call("results", "latest~1", "--format", "csv")
    assert {line.split(",")[0] for line in said.out.splitlines()[1:]} == {"run-1"}
    assert "run-2" in call("results", "sweep").out
    said = call("compare", "latest~1", "latest")
    assert (said.status, said.err) == (0, told)
    said = call("report", "latest")
    assert (said.status, said.err) == (0, told)
    assert "run-2/" in said.out
    assert "the guest panicked" in call("results", "run-3").out


def test_latest_is_synthetic_only_without_measured_runs(call: Call, tmp_path: Path) -> None:
    results = tmp_path / "results"
    past.recorded(results, [], 1, finished=False)
    assert "no results yet: run-1" in call("results", "latest").err
    past.recorded(results, past.TRIALS[:2], 2, machine="dry", synthetic=True)
    past.recorded(results, [], 3, finished=False)
    for command in (("results", "latest"), ("report", "latest")):
        said = call(*command)
        assert "run-3 is later, but has no results yet" in said.err
        assert "run-2" in said.out
    past.recorded(results, past.TRIALS[:2], 4)
    past.recorded(results, past.TRIALS[:2], 5, machine="dry", synthetic=True)
    said = call("report", "latest")
    assert "run-5 is later, but synthetic" in said.err
    assert "run-4/" in said.out
