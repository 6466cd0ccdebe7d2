"""Rules for every workflow and for the action: who starts it, its rights, its time limits, its linters."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.top import TOP
from tests.workflows.emulator import loaded
from tests.workflows.go_tools import build_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKFLOWS = sorted((TOP / ".github/workflows").glob("*.yml"))
#: A stranger can cause these events.
STRANGERS = {
    *("pull_request", "pull_request_target", "pull_request_review", "pull_request_review_comment", "issues", "fork"),
    *("issue_comment", "discussion", "discussion_comment", "workflow_run", "watch", "workflow_call"),
    "repository_dispatch",
}
#: The labels of runners of GitHub. Any other label may be that of our own runner.
HOSTED = re.compile(r"(ubuntu|windows|macos)-[\w.-]+")
SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for job in loaded(path)["jobs"].values():
            yield from ((path.name, step) for step in job["steps"])
    yield from (("action.yml", step) for step in loaded(TOP / "action.yml")["runs"]["steps"])


def triggers(workflow: dict[str, Any]) -> set[str]:
    on = workflow["on"]
    return {on} if isinstance(on, str) else set(on)


def runs_on_hardware(job: dict[str, Any]) -> bool:
    return not (isinstance(job["runs-on"], str) and HOSTED.fullmatch(job["runs-on"]))


def jobs_on_hardware() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    every = [(path.name, loaded(path)) for path in WORKFLOWS]
    return [(name, one, job) for name, one in every for job in one["jobs"].values() if runs_on_hardware(job)]


def test_the_workflows_are_found() -> None:
    assert {path.name for path in WORKFLOWS} >= {"nightly.yml", "push.yml", "exhaustive.yml"}
    assert [name for name, _, _ in jobs_on_hardware()] == ["nightly.yml"]


def test_strangers_cannot_reach_hardware_runners() -> None:
    for name, workflow, job in jobs_on_hardware():
        assert not triggers(workflow) & STRANGERS, name
        assert triggers(workflow) <= {"schedule", "workflow_dispatch"}, name
        assert "vars.HARDWARE_REPOSITORY == github.repository" in job["if"], name
        assert job["environment"] == "hardware", "a branch cannot change who may use it"


def test_scripts_contain_no_expressions() -> None:
    for name, step in steps():
        assert "${{" not in step.get("run", ""), (name, step)


def test_actions_of_other_repositories_are_pinned() -> None:
    for name, step in steps():
        uses = step.get("uses", "./")
        assert uses == "./" or PINNED.fullmatch(uses), (name, uses)


def test_no_job_runs_in_an_image_that_others_can_replace() -> None:
    jobs = [(path.name, job) for path in WORKFLOWS for job in loaded(path)["jobs"].values()]
    assert [name for name, job in jobs if job.keys() & {"container", "services"}] == []


def test_checkouts_leave_no_credentials() -> None:
    for name, step in steps():
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False, name


READING = {"contents": "read"}
#: Jobs with more rights than to read.
WRITING = {
    # Attaches files to a release, and signs what they were built from.
    "release": {"contents": "write", "id-token": "write", "attestations": "write"},
    # Publishes the package on PyPI, without a token.
    "pypi": {"id-token": "write"},
    # Pushes the container image.
    "image": {"contents": "read", "packages": "write"},
    # Deploys the documentation to GitHub Pages.
    "publish": {"pages": "write", "id-token": "write"},
}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_have_least_rights_and_a_time_limit_and_run_once_at_a_time(path: Path) -> None:
    workflow = loaded(path)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    assert workflow["concurrency"]["group"]
    for name, job in workflow["jobs"].items():
        assert job.get("permissions", READING) == WRITING.get(name, READING)
        assert 0 < job["timeout-minutes"] <= 480


def test_the_run_ends_before_the_job_is_ended() -> None:
    """The rest of the time is for reports, for the clean-up and for the artifact."""
    for path in WORKFLOWS:
        for job in loaded(path)["jobs"].values():
            for step in job["steps"]:
                if step.get("uses") == "./":
                    number, unit = step["with"]["patience"][:-1], step["with"]["patience"][-1]
                    assert int(number) * {"m": 1, "h": 60}[unit] + 10 <= job["timeout-minutes"], path.name


def test_cleaning_up_always_runs() -> None:
    *_, last = [step for step in loaded(TOP / "action.yml")["runs"]["steps"] if "clean.sh" in step.get("run", "")]
    assert last["if"] == "${{ always() && steps.prepare.outcome == 'success' }}", "or a refused input would install all"
    assert "continue-on-error" not in last


def test_scripts_pass_shellcheck() -> None:
    scripts = sorted((TOP / ".github/scripts").glob("*.sh"))
    assert scripts
    assert all(os.access(script, os.X_OK) for script in scripts)
    done = subprocess.run([SHELLCHECK, *map(str, scripts)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_workflows_pass_actionlint(tmp_path: Path) -> None:
    program = build_tool("actionlint", "github.com/rhysd/actionlint/cmd/actionlint", tmp_path)
    done = subprocess.run([program, "-shellcheck", SHELLCHECK], cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
