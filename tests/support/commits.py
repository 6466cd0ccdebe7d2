"""A git repository whose commits have a state each."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def repository(folder: Path, states: Sequence[str]) -> Path:
    """Make a repository with a commit for each state, in the file `state`; the third one also changes `other`."""
    folder.mkdir(parents=True)
    _git(folder, "init", "-q")
    for number, state in enumerate(states):
        (folder / "state").write_text(f"{state}\n")
        (folder / "number").write_text(str(number))
        if number == 2:
            (folder / "other").write_text(state)
        _git(folder, "add", ".")
        commit(folder, f"commit {number} {state}")
    return folder


def commit(folder: Path, title: str) -> None:
    _git(folder, "commit", "-q", "--allow-empty", "--allow-empty-message", "-m", title)


def _git(folder: Path, *words: str) -> None:
    env = {
        "PATH": "/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
        **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }  # fmt: skip
    subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True)
