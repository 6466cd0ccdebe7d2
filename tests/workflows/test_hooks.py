"""Hooks of pre-commit use what bootstrap installs, and the YAML files pass yamllint."""

import subprocess
import sys

from tests.support.top import TOP
from tests.workflows.emulator import loaded


def tracked(*patterns: str) -> list[str]:
    done = subprocess.run(
        ["git", "-C", str(TOP), "ls-files", "-z", *patterns], capture_output=True, text=True, check=True
    )
    return done.stdout.rstrip("\0").split("\0")


def test_hooks_need_no_network() -> None:
    (local,) = loaded(TOP / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    assert {hook["id"] for hook in local["hooks"]} == {"ruff-check", "ruff-format", "mypy", "yamllint"}
    lock = (TOP / "requirements-dev.lock").read_text()
    for hook in local["hooks"]:
        program = hook["entry"].split()[0]
        assert hook["language"] == "system"
        assert f"\n{program.removeprefix('.venv/bin/')}==" in lock, program


def test_yaml_files_pass_yamllint() -> None:
    words = [sys.executable, "-m", "yamllint", "--strict", "--format", "parsable", *tracked("*.yaml", "*.yml")]
    done = subprocess.run(words, cwd=TOP, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_scripts_for_ci_pass_shellcheck() -> None:
    done = subprocess.run(
        ["shellcheck", *tracked(".ci/run", ".ci/locks", ".ci/lowest")], cwd=TOP, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_scripts_of_the_package_pass_shellcheck() -> None:
    """Variables that another part of a script sets are not known here."""
    words = ["shellcheck", "--shell=bash", "--exclude=SC2154,SC1007", *tracked("runner/*.sh")]
    done = subprocess.run(words, cwd=TOP, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
