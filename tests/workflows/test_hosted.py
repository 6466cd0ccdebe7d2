"""What hosted machines do: the very steps of those workflows, but for the tests and the run that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.top import TOP
from tests.workflows.emulator import Job, environment, loaded
from tests.workflows.expressions import as_text, expanded

if TYPE_CHECKING:
    from pathlib import Path

PUSH = loaded(TOP / ".github/workflows/push.yml")["jobs"]["virtual-disks"]
EXHAUSTIVE = loaded(TOP / ".github/workflows/exhaustive.yml")["jobs"]["every-layer"]
CASES = [
    (PUSH, {}, ["test"]),
    (EXHAUSTIVE, {"tests": "-m exhaustive"}, ["test", "-m", "exhaustive"]),
    (EXHAUSTIVE, {"tests": "-n 4 --dist worksteal"}, ["test", "-n", "4", "--dist", "worksteal"]),
]


def carried_out(job: dict[str, Any], given: dict[str, str], checkout: Path, temp: Path, **env: str) -> Job:
    """Its own steps, without those that are actions."""
    known = {"matrix": given}
    words = {name: as_text(expanded(value, known)) for name, value in job.get("env", {}).items()}
    done = Job(checkout, temp, {}, environment(temp, **words, **env), known)
    done.run([step for step in job["steps"] if "run" in step])
    return done


@pytest.mark.parametrize(("job", "given", "words"), CASES)
def test_the_tests_that_are_asked_for_are_run(
    checkout: Path, temp: Path, job: dict[str, Any], given: dict[str, str], words: list[str]
) -> None:
    assert carried_out(job, given, checkout, temp).status == "success"
    assert (temp / "tested").read_text().split("\n") == [*words, ""]


@pytest.mark.parametrize(("job", "given", "words"), CASES)
def test_a_test_that_fails_fails_the_job(
    checkout: Path, temp: Path, job: dict[str, Any], given: dict[str, str], words: list[str]
) -> None:
    assert carried_out(job, given, checkout, temp, TEST_STATUS="1").status == "failure", words


def test_every_part_of_the_exhaustive_tests_is_one_of_these_cases() -> None:
    assert EXHAUSTIVE["strategy"]["matrix"]["tests"] == [given["tests"] for _, given, _ in CASES[1:]]


def test_what_the_action_is_given_is_there() -> None:
    (given,) = [step["with"] for step in PUSH["steps"] if step.get("uses") == "./"]
    assert (TOP / given["matrix"]).is_file()
    assert set(given) <= set(loaded(TOP / "action.yml")["inputs"])
