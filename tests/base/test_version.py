"""The version of a checkout has its commit; a cluster compares it."""

import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from matrix_runner.base import version

CODE = "runner/matrix_runner/code.py"


def git(top: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", "-C", str(top), *who, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(top: Path, text: str) -> str:
    (top / CODE).write_text(text)
    git(top, "add", ".")
    git(top, "commit", "-qm", text)
    return f"+g{git(top, 'rev-parse', '--short=12', 'HEAD')}"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Make a repository with two commits."""
    top = tmp_path / "checkout"
    (top / CODE).parent.mkdir(parents=True)
    git(top, "init", "-q")
    commit(top, "first")
    commit(top, "second")
    return top


def test_two_commits_have_different_versions(top: Path) -> None:
    before = version.version_from_git(top)
    assert before == f"0.2.0.dev2+g{git(top, 'rev-parse', '--short=12', 'HEAD')}"
    assert version.version_from_git(top) == before
    assert version.version_from_git(top) != commit(top, "third")
    assert version.version_from_git(top).startswith("0.2.0.dev3+g")


def test_changes_of_the_code_are_marked(top: Path) -> None:
    (top / CODE).write_text("changed")
    assert version.version_from_git(top).endswith(".dirty")


def test_a_new_matrix_does_not_change_the_version(top: Path) -> None:
    before = version.version_from_git(top)
    (top / "matrix").mkdir()
    (top / "matrix/new.yaml").write_text("name: new\n")
    assert version.version_from_git(top) == before


def test_the_commit_of_a_tag_has_the_version_of_the_tag(top: Path) -> None:
    git(top, "tag", "v1.9.9")
    assert version.version_from_git(top) == "1.9.9"
    (top / CODE).write_text("changed")
    assert version.version_from_git(top).startswith("1.9.10.dev0+g")
    hash_ = commit(top, "third")
    assert version.version_from_git(top) == f"1.9.10.dev1{hash_}"


def test_other_tags_are_ignored(top: Path) -> None:
    git(top, "tag", "vendor")
    git(top, "tag", "nightly-5")
    assert version.version_from_git(top).startswith("0.2.0.dev2+g")


def test_a_hook_of_another_repository_does_not_change_the_version(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = version.version_from_git(top)
    git(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other/.git/index"))
    assert version.version_from_git(top) == before


def test_without_git_the_version_has_no_commit(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert version.version_from_git(top) == "0.2.0"


def test_outside_a_checkout_the_version_is_that_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "_TOP", tmp_path)
    monkeypatch.setattr(metadata, "version", {"matrix-runner": "7.8"}.__getitem__)
    assert version.matrix_version.__wrapped__() == "7.8"
