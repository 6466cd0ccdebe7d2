"""Jobs of nightly.yml by the emulator: what GitHub would know of them, and which lines of their logs it would obey."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.top import TOP
from tests.workflows.emulator import Job, environment, loaded

if TYPE_CHECKING:
    from pathlib import Path

_WORKFLOW = loaded(TOP / ".github/workflows/nightly.yml")
NIGHTLY = _WORKFLOW["jobs"]["night"]
#: What the form sends if the user changes nothing.
FORM = {name: one.get("default", "") for name, one in _WORKFLOW["on"]["workflow_dispatch"]["inputs"].items()}
_GITHUB = {
    "repository": "lab/matrix",
    "ref": "refs/heads/main",
    "ref_name": "main",
    "event": {"repository": {"default_branch": "main"}},
}


def contexts(event: str = "workflow_dispatch", **more: Any) -> dict[str, Any]:
    return {
        "github": {**_GITHUB, "event_name": event},
        "vars": {"HARDWARE_REPOSITORY": "lab/matrix"},
        "matrix": {"shard": ""},
        "strategy": {"job-index": 0},
        "job": {"status": "success"},
        "inputs": {},
        **more,
    }


def night(checkout: Path, temp: Path, inputs: dict[str, str], shard: str = "", **env: str) -> Job:
    """Run a night that a user started by hand."""
    known = contexts(matrix={"shard": shard})
    job = Job(checkout, temp, {"machine": "dry", **inputs}, environment(temp, **env), known)
    (temp / "summary").unlink(missing_ok=True)
    job.run(NIGHTLY["steps"])
    return job


def action(checkout: Path, temp: Path, inputs: dict[str, str], **env: str) -> Job:
    """Run a job of another project, which uses the action alone."""
    job = Job(checkout, temp, {}, environment(temp, **env), contexts())
    (temp / "summary").unlink(missing_ok=True)
    job.run([{"uses": "./", "with": {"matrix": "small.yaml", "machine": "dry", **inputs}}])
    return job


def uploads(job: Job) -> list[dict[str, Any]]:
    return [given for uses, given in job.used if uses.startswith("actions/upload-artifact@")]


def obeyed(log: str) -> list[str]:
    """Return the lines that GitHub's runner would take for commands."""
    commands, until = [], ""
    for line in log.splitlines():
        if until:
            until = until * (line != f"::{until}::")
        elif line.startswith("::stop-commands::"):
            until = line.removeprefix("::stop-commands::")
        elif line.startswith("::"):
            commands.append(line)
    assert not until, "commands were never allowed again"
    return commands
