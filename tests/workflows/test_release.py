"""The release takes its notes from the changelog."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from ruamel.yaml import YAML

from tests.support.top import TOP

if TYPE_CHECKING:
    from pathlib import Path

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
