"""A matrix as tests: what a user of pytest expects of its items."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
import scipy.special  # noqa: F401 - here, as what a session inside of another one imports is forgotten after it
import sqlalchemy.dialects.sqlite  # noqa: F401

from matrix_runner.base.errors import BadInput
from matrix_runner.machines import dry
from matrix_runner.machines.base import Step, StepResult
from matrix_runner.machines.dry import plausible
from matrix_runner.pages import verdicts  # noqa: F401
from matrix_runner.records.run_folder import load
from matrix_runner.session import finish, selected_matrix  # noqa: F401
from matrix_runner.session.run_request import RunRequest
from tests.support.matrices import SMALL
from tests.support.top import TOP as ROOT

GUIDELINES = """\
guidelines:
  - {id: alike, claim: chunks hardly matter, ratio: {metric: read.bw, of: {chunk: 16KiB}, to: {chunk: 64KiB}, within: 50%}}
  - {id: quick, claim: it is quick, bound: {metric: read.bw, at_least: 900MB/s}}
"""


@pytest.fixture
def matrix(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(ROOT)
    pytester.makeini("[pytest]\n")
    path = pytester.path / "small.yaml"
    path.write_text(SMALL.replace("repeat: 2", "repeat: 4") + GUIDELINES)
    return path


def run(pytester: pytest.Pytester, *words: str) -> pytest.RunResult:
    quiet = ("-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:asyncio")
    # As this very checkout has it, whatever is installed beside.
    ours = ("-p", "no:matrix", "-p", "matrix_runner.pytest_plugin")
    return pytester.runpytest_inprocess(*ours, *quiet, "--matrix-on", "dry", "-rA", *words)


def runs(pytester: pytest.Pytester) -> list[str]:
    return [path.name for path in (pytester.path / "results").iterdir() if path.is_dir()]


def test_cells_and_guidelines_are_items(pytester: pytest.Pytester, matrix: Path) -> None:
    done = run(pytester, "small.yaml", "--collect-only", "-q")
    done.stdout.fnmatch_lines(["small.yaml::raid5/chunk=16KiB/work/rw=read", "small.yaml::quick"])
    assert not (pytester.path / "results").exists()


def test_each_cell_is_measured_once_and_synthetic_runs_decide_no_guideline(
    pytester: pytest.Pytester, matrix: Path
) -> None:
    done = run(pytester, "small.yaml")
    done.assert_outcomes(passed=4, skipped=2)
    done.stdout.fnmatch_lines(["*synthetic: fails*"])
    (folder,) = runs(pytester)
    assert {path.name for path in (pytester.path / "results" / folder).iterdir()} >= {"journal.sqlite", "verdicts.csv"}


def test_only_selected_cells_are_measured(pytester: pytest.Pytester, matrix: Path) -> None:
    run(pytester, "small.yaml", "-k", "16KiB and read").assert_outcomes(passed=1, deselected=3 + 2)
    (folder,) = runs(pytester)
    assert len((pytester.path / "results" / folder / "trials.csv").read_text().splitlines()) == 1 + 4


def test_a_selected_guideline_measures_its_cells(pytester: pytest.Pytester, matrix: Path) -> None:
    run(pytester, "small.yaml", "-k", "alike").assert_outcomes(skipped=1, deselected=5)
    (folder,) = runs(pytester)
    text = (pytester.path / "results" / folder / "trials.csv").read_text()
    assert {line.split(",")[1].partition("/")[0] for line in text.splitlines()[1:]} <= {"raid5", '"raid5'}


def test_a_node_id_selects_a_cell(pytester: pytest.Pytester, matrix: Path) -> None:
    run(pytester, "small.yaml::quick").assert_outcomes(skipped=1)


def test_a_factor_of_slow_motion_is_chosen_first(pytester: pytest.Pytester, matrix: Path) -> None:
    matrix.write_text(matrix.read_text().replace("size: 64MiB", "size: 64MiB, model: nas-7200, slow: auto"))
    run(pytester, "small.yaml", "-k", "16KiB and read").assert_outcomes(passed=1, deselected=5)
    (folder,) = runs(pytester)
    assert load(pytester.path / "results" / folder).manifest.slow == 1


def test_figures_are_in_the_report(pytester: pytest.Pytester, matrix: Path) -> None:
    run(pytester, "small.yaml", "--junitxml", "out.xml")
    cases = ElementTree.parse(pytester.path / "out.xml").getroot().iter("testcase")  # noqa: S314 - we wrote it
    found = {str(case.get("name")): [str(one.get("name")) for one in case.iter("property")] for case in cases}
    assert "read_bw" in found["raid5/chunk=16KiB/work/rw=read"]
    assert "verdict" in found["quick"]


def test_a_matrix_with_errors_is_an_error_with_its_place(pytester: pytest.Pytester, matrix: Path) -> None:
    matrix.write_text(matrix.read_text().replace("level: 5", "levl: 5"))
    done = run(pytester, "small.yaml")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*small.yaml:4:*unknown key 'levl'; did you mean level?*"])


def test_only_named_yaml_files_are_collected(pytester: pytest.Pytester, matrix: Path) -> None:
    assert run(pytester, ".").ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize(
    ("synthetic", "outcome"), [(False, {"passed": 5, "failed": 1}), (True, {"passed": 4, "skipped": 2})]
)
def test_only_what_was_measured_can_fail(
    pytester: pytest.Pytester, matrix: Path, monkeypatch: pytest.MonkeyPatch, synthetic: bool, outcome: dict[str, int]
) -> None:
    """As if the dry machine were a real one."""
    manifest = RunRequest.manifest
    monkeypatch.setattr(RunRequest, "manifest", lambda self: manifest(self).model_copy(update={"synthetic": synthetic}))
    done = run(pytester, "small.yaml")
    done.assert_outcomes(**outcome)
    if not synthetic:
        done.stdout.fnmatch_lines(["*it is quick: read.bw 1* MB/s*wanted at least 900 MB/s*"])


def test_a_broken_trial_is_an_error_and_no_failure(
    pytester: pytest.Pytester, matrix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(step: Step, slow: int) -> StepResult:
        return StepResult(step.name, 1, "no", 0.0) if step.name == "measure" else plausible(step, slow)

    monkeypatch.setattr(dry, "plausible", broken)
    done = run(pytester, "small.yaml")
    done.assert_outcomes(errors=4, skipped=2)
    done.stdout.fnmatch_lines(["*raid5/chunk=16KiB/work/rw=read: *no*", "*results/small-pytest-*"])
    assert "_pytest/" not in done.stdout.str(), "it is nothing of pytest's"


def test_exitfirst_stops_at_the_first_broken_cell(
    pytester: pytest.Pytester, matrix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(step: Step, slow: int) -> StepResult:
        writes = step.name == "measure" and "rw=randwrite" in step.files["job.fio"]
        return StepResult(step.name, 1, "no", 0.0) if writes else plausible(step, slow)

    monkeypatch.setattr(dry, "plausible", broken)
    run(pytester, "small.yaml", "-x").assert_outcomes(passed=1, errors=1)
    (folder,) = runs(pytester)
    assert len((pytester.path / "results" / folder / "trials.csv").read_text().splitlines()) == 1 + 4 * 4


def test_exitfirst_stops_at_the_first_failed_guideline(
    pytester: pytest.Pytester, matrix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = RunRequest.manifest
    monkeypatch.setattr(RunRequest, "manifest", lambda self: manifest(self).model_copy(update={"synthetic": False}))
    alike, quick = GUIDELINES.splitlines()[1:]
    matrix.write_text(matrix.read_text().replace(f"{alike}\n{quick}", f"{quick}\n{alike}"))
    run(pytester, "small.yaml", "-x").assert_outcomes(passed=4, failed=1)
    run(pytester, "small.yaml").assert_outcomes(passed=5, failed=1)


@pytest.mark.parametrize("why", [BadInput("no such machine here"), ValueError("a mistake of ours")])
def test_a_refused_run_is_not_repeated_for_each_item(
    pytester: pytest.Pytester, matrix: Path, monkeypatch: pytest.MonkeyPatch, why: Exception
) -> None:
    calls: list[object] = []

    def refuses(*asked: object) -> None:
        calls.append(asked)
        raise why

    monkeypatch.setattr(selected_matrix, "check_machine", refuses)
    done = run(pytester, "small.yaml")
    done.assert_outcomes(errors=6)
    assert len(calls) == 1
    said = done.stdout.str().partition("short test summary")[0].split("_ ERROR at setup of ")[1:]
    assert len(said) == 6
    assert all(str(why) in one for one in said)
    ours = isinstance(why, BadInput)
    # A programming error has a traceback, which does not grow; an error for the user has none.
    assert {one.count(">           raise self._result") for one in said} == {0 if ours else 1}
    assert {"_pytest" in one for one in said} == {not ours}


def test_a_cell_that_missed_the_steady_state_is_skipped(
    pytester: pytest.Pytester, matrix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def restless(step: Step, slow: int) -> StepResult:
        said = plausible(step, slow)
        reads = step.name == "measure" and "rw=read" in step.files["job.fio"]
        return replace(said, output=said.output.replace('"attained":1', '"attained":0')) if reads else said

    monkeypatch.setattr(dry, "plausible", restless)
    steady = "runtime: 8s, steady: {within: 5%, over: 2s}"
    matrix.write_text(matrix.read_text().replace("runtime: 1s", steady))
    done = run(pytester, "small.yaml")
    done.assert_outcomes(passed=2, skipped=2 + 2)
    done.stdout.fnmatch_lines(["*all 4 trials missed the wanted steady state*"])


def test_last_failed_measures_only_failures_again(
    pytester: pytest.Pytester, matrix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = RunRequest.manifest
    monkeypatch.setattr(RunRequest, "manifest", lambda self: manifest(self).model_copy(update={"synthetic": False}))
    run(pytester, "small.yaml")
    run(pytester, "small.yaml", "--lf").assert_outcomes(failed=1)


def test_pytest_finds_it_in_an_environment_that_bootstrap_made() -> None:
    """A user names no plugin."""
    if not Path(sys.prefix, ".ready-test").exists():
        pytest.skip("this environment is of somebody else's making")
    collect = (sys.executable, "-m", "pytest", "matrix/chunk-sweep.yaml", "--matrix-on", "dry", "--collect-only", "-q")
    plain = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # it may have -v
    done = subprocess.run(collect, cwd=ROOT, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "matrix/chunk-sweep.yaml::raid0/chunk=" in done.stdout


@pytest.mark.skipif(find_spec("xdist") is None, reason="without pytest-xdist in this environment")
def test_workers_share_one_run_and_one_report(pytester: pytest.Pytester, matrix: Path) -> None:
    """In processes of its own, as users have it: each worker has some of the items, and one has them measured."""
    quiet = ("-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    plugins = ("-p", "xdist", "-p", "matrix_runner.pytest_plugin")
    command = (sys.executable, "-m", "pytest", *plugins, *quiet, "-n", "2", "--matrix-on", "dry", "-v", "-rA")
    # Without what the environment has installed: of two checkouts it could be the other one.
    ours = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT / "runner")}
    done = subprocess.run(
        [*command, "--junitxml", "junit.xml", "small.yaml"],
        cwd=pytester.path,
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.split("]")[0] for line in done.stdout.splitlines() if line.startswith("[gw")} == {"[gw0", "[gw1"}
    (folder,) = runs(pytester)
    assert len((pytester.path / "results" / folder / "trials.csv").read_text().splitlines()) == 1 + 4 * 4
    suite = ElementTree.parse(pytester.path / "junit.xml").getroot().find("testsuite")  # noqa: S314 - ours
    assert suite is not None
    assert {kind: suite.get(kind) for kind in ("tests", "errors", "failures", "skipped")} == {
        "tests": "6",
        "errors": "0",
        "failures": "0",
        "skipped": "2",
    }
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert set(cases) == {
        *(f"raid5/chunk={chunk}/work/rw={rw}" for chunk in ("16KiB", "64KiB") for rw in ("read", "randwrite")),
        *("alike", "quick"),
    }
    for name in ("alike", "quick"):
        assert cases[name].find("skipped") is not None
    for cell in cases.keys() - {"alike", "quick"}:
        figures = {one.get("name") for one in cases[cell].iter("property")}
        assert figures >= ({"read_bw"} if cell and cell.endswith("=read") else {"write_bw"})


def test_a_folder_of_runs_that_cannot_be_made_is_named(pytester: pytest.Pytester, matrix: Path) -> None:
    words = ("-p", "no:matrix", "-p", "matrix_runner.pytest_plugin", "-p", "no:asyncio", "--matrix-on", "dry")
    done = pytester.runpytest_subprocess(*words, "small.yaml", "--matrix-results", "small.yaml")
    done.stdout.fnmatch_lines(["*small.yaml cannot be opened*"])
    done.stdout.no_fnmatch_line("*FileExistsError*")
