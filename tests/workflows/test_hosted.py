"""The workflows on runners of GitHub: their steps, with a recorder instead of the tests and the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.top import TOP
from tests.workflows.emulator import Job, environment, loaded
from tests.workflows.expressions import as_text, expanded

if TYPE_CHECKING:
    from tests.workflows.checkouts import Recorder

PUSH = loaded(TOP / ".github/workflows/push.yml")["jobs"]["virtual-disks"]
EXHAUSTIVE = loaded(TOP / ".github/workflows/exhaustive.yml")["jobs"]["every-layer"]
CASES: list[tuple[dict[str, Any], dict[str, str], list[str]]] = [
    (PUSH, {}, ["test"]),
    (EXHAUSTIVE, {"tests": "-m exhaustive"}, ["test", "-m", "exhaustive"]),
    (EXHAUSTIVE, {"tests": "-n 4 --dist worksteal"}, ["test", "-n", "4", "--dist", "worksteal"]),
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
    assert EXHAUSTIVE["strategy"]["matrix"]["tests"] == [given["tests"] for _, given, _ in CASES[1:]]


def test_the_action_has_the_inputs_that_a_push_sets() -> None:
    (given,) = [step["with"] for step in PUSH["steps"] if step.get("uses") == "./"]
    assert (TOP / given["matrix"]).is_file()
    assert set(given) <= set(loaded(TOP / "action.yml")["inputs"])
