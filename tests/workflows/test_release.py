"""A release by the emulator: its notes, and its jobs up to the uploads."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.support.top import TOP
from tests.workflows.emulator import Job, environment, loaded

CHANGELOG = """\
# Changelog

## [Unreleased]

- later

## [1.2.0] - 2026-01-01

### Added

- this one

## [1.1.0] - 2025-01-01

- earlier
"""


@pytest.mark.parametrize(
    ("tag", "status", "notes"),
    [("v1.2.0", 0, "### Added\n\n- this one"), ("v1.1.0", 0, "- earlier"), ("v1.2", 1, ""), ("v1.3.0", 1, "")],
)
def test_notes_are_the_part_of_the_version(tmp_path: Path, tag: str, status: int, notes: str) -> None:
    steps = YAML(typ="safe").load(TOP / ".github/workflows/release.yml")["jobs"]["build"]["steps"]
    (script,) = [step["run"] for step in steps if "notes.md" in step.get("run", "")]
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env={"TAG": tag, "PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == status
    assert (tmp_path / "notes.md").read_text().strip() == notes


RELEASE = loaded(TOP / ".github/workflows/release.yml")["jobs"]
#: Instead of programs that reach other hosts: the release, and the registry of images.
STUB = '#!/bin/bash\nprintf "%s\\0" "${0##*/}" "$@" >>"$HOME/calls"\necho >>"$HOME/calls"\ncat >>"$HOME/input"\n'
_OF_THE_INDEX = ("PIP_", "SSL_", "REQUESTS_", "CURL_")


@pytest.fixture
def stubs(temp: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    (temp / "bin").mkdir()
    for name in ("gh", "sudo"):
        (temp / "bin" / name).write_text(STUB)
        (temp / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{temp / 'bin'}:{os.environ['PATH']}")
    return lambda: [line.split("\0")[:-1] for line in (temp / "calls").read_text().splitlines()]


def job_of(name: str, checkout: Path, temp: Path, *steps: str, **env: str) -> Job:
    known = {"github": {"ref_name": "v9.9.9", "token": "secret", "actor": "me", "repository": "Lab/Matrix"}}
    job = Job(checkout, temp, {}, environment(temp, GITHUB_REPOSITORY="Lab/Matrix", **env), known)
    job.run([step for step in RELEASE[name]["steps"] if not steps or step.get("name") in steps])
    return job


@pytest.mark.exhaustive
def test_a_tag_is_built_and_tried_up_to_the_upload(
    tmp_path: Path, temp: Path, stubs: Callable[[], list[list[str]]]
) -> None:
    checkout = tmp_path / "checkout"
    git = ["git", "-C", str(checkout), "-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(TOP), str(checkout)], check=True)
    text = (checkout / "CHANGELOG.md").read_text()
    (checkout / "CHANGELOG.md").write_text(text.replace("## [Unreleased]\n", "## [9.9.9] - 2030-01-01\n", 1))
    subprocess.run([*git, "commit", "-qam", "docs: release 9.9.9"], check=True)
    subprocess.run([*git, "tag", "-a", "-m", "9.9.9", "v9.9.9"], check=True)
    index = {name: value for name, value in os.environ.items() if name.startswith(_OF_THE_INDEX)}
    built = job_of("build", checkout, temp, **index)
    assert built.status == "success", built.log
    assert [given["path"].split() for uses, given in built.used if uses.startswith("actions/upload-artifact@")] == [
        ["dist/"],
        ["notes.md", "matrix.cdx.json"],
    ]
    (wheel,) = (checkout / "dist").glob("*.whl")
    assert wheel.name == "matrix_runner-9.9.9-py3-none-any.whl"
    packages = json.loads((checkout / "matrix.cdx.json").read_text())["components"]
    assert {"click", "pydantic", "SQLAlchemy"} <= {one["name"] for one in packages}
    (checkout / "notes").mkdir()  # as download-artifact does
    for name in ("notes.md", "matrix.cdx.json"):
        (checkout / name).rename(checkout / "notes" / name)
    released = job_of("release", checkout, temp)
    assert released.status == "success", released.log
    ((program, *words),) = stubs()
    assert (program, words[:3]) == ("gh", ["release", "create", "v9.9.9"])
    files = words[3 : words.index("--repo")]
    assert {Path(one).suffix for one in files} == {".whl", ".gz", ".json"}
    assert all((checkout / one).is_file() for one in [*files, words[words.index("--notes-file") + 1]])
    assert "secret" not in built.log + released.log


def test_an_image_is_pushed_by_its_version_without_a_token_in_the_arguments(
    tmp_path: Path, temp: Path, stubs: Callable[[], list[list[str]]]
) -> None:
    pushed = job_of("image", tmp_path, temp, "Push it")
    assert pushed.status == "success", pushed.log
    login, *pushes = stubs()
    assert login == ["sudo", "podman", "login", "ghcr.io", "--username", "me", "--password-stdin"]
    assert (temp / "input").read_text().startswith("secret")
    assert [one[-1] for one in pushes] == [f"docker://ghcr.io/lab/matrix:{tag}" for tag in ("9.9.9", "latest")]


def test_only_jobs_that_publish_may() -> None:
    allowed = {
        name: {key for key, value in job["permissions"].items() if value == "write"} for name, job in RELEASE.items()
    }
    assert allowed == {
        "build": set(),
        "release": {"contents", "id-token", "attestations"},
        "pypi": {"id-token"},
        "image": {"packages"},
    }
    assert [step["uses"].partition("@")[0] for step in RELEASE["pypi"]["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
