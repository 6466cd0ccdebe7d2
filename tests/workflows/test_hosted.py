"""The workflows on runners of GitHub: their steps, with a recorder instead of the tests and the run."""

from __future__ import annotations

import os
import re
import tomllib
from typing import TYPE_CHECKING, Any

from tests.support.top import TOP
from tests.workflows.emulator import Job, environment, loaded
from tests.workflows.expressions import as_text, expanded

if TYPE_CHECKING:
    from tests.workflows.checkouts import Recorder

ON_PUSH = loaded(TOP / ".github/workflows/push.yml")["jobs"]
PUSH = ON_PUSH["virtual-disks"]
AT_NIGHT = loaded(TOP / ".github/workflows/exhaustive.yml")["jobs"]
EXHAUSTIVE = AT_NIGHT["every-layer"]
CASES: list[tuple[dict[str, Any], dict[str, str], list[str]]] = [
    (PUSH, {}, ["test"]),
    *(
        (EXHAUSTIVE, {"tests": text}, ["test", *text.split()])
        for text in ("-m exhaustive --ignore tests/fuzz", "-m exhaustive -n 4 --dist worksteal tests/fuzz")
    ),
    (EXHAUSTIVE, {"tests": "-n 4 --dist worksteal"}, ["test", "-n", "4", "--dist", "worksteal"]),
    (
        ON_PUSH["python"],
        {},
        ["test", "-n", "4", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "not vm and not exhaustive"],
    ),
]


def test_the_tests_run_and_a_failed_test_fails_the_job(recorder: Recorder) -> None:
    for job, given, words in CASES:
        known = {"matrix": given}
        env = {name: as_text(expanded(value, known)) for name, value in job.get("env", {}).items()}
        scripts = [step for step in job["steps"] if "run" in step]
        for status, state in (("0", "success"), ("1", "failure")):
            (recorder.temp / "calls").unlink(missing_ok=True)
            done = Job(
                recorder.checkout, recorder.temp, {}, environment(recorder.temp, **env, TEST_STATUS=status), known
            )
            done.run(scripts)
            assert (done.status, recorder.calls()) == (state, [words])
    assert EXHAUSTIVE["strategy"]["matrix"]["tests"] == [given["tests"] for _, given, _ in CASES[1:4]]


def test_the_oldest_and_the_newest_python_of_the_package_run_the_tests() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    found = [re.search(r":: (3\.\d+)$", text) for text in project["classifiers"]]
    versions = [match[1] for match in found if match]
    assert ON_PUSH["python"]["strategy"]["matrix"]["version"] == [versions[0], versions[-1]]
    assert project["requires-python"] == f">={versions[0]}"


def test_scripts_of_jobs_are_programs() -> None:
    for job in (ON_PUSH["locks"], AT_NIGHT["lowest-versions"]):
        script, *_ = job["steps"][-1]["run"].split()
        assert os.access(TOP / script, os.X_OK)


def test_the_action_has_the_inputs_that_a_push_sets() -> None:
    (given,) = [step["with"] for step in PUSH["steps"] if step.get("uses") == "./"]
    assert (TOP / given["matrix"]).is_file()
    assert set(given) <= set(loaded(TOP / "action.yml")["inputs"])
