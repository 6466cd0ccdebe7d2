"""The version of the program: of a checkout from git, otherwise from the metadata of its package."""

import os
from functools import cache
from pathlib import Path

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.process import run

_TOP = Path(__file__).parents[3]
#: Before the first tag, and where git cannot say.
_FALLBACK = "0.2.0"


@cache
def matrix_version() -> str:
    if (_TOP / ".git").exists():
        return version_from_git()
    from importlib import metadata

    try:
        return metadata.version("matrix-runner")
    except metadata.PackageNotFoundError:
        return _FALLBACK


def version_from_git(top: Path = _TOP) -> str:
    """Return the version of the tag, or the next one with the number of commits, the commit and changes of the code."""
    found = git(top, "describe", "--tags", "--always", "--long", "--abbrev=12", "--match=v[0-9]*")
    if not found:
        return _FALLBACK
    changed = ".dirty" if git(top, "--no-optional-locks", "status", "--porcelain", "--", "runner", "templates") else ""
    if "-" not in found:
        return f"{_FALLBACK}.dev{git(top, 'rev-list', '--count', 'HEAD')}+g{found}{changed}"
    tag, distance, commit = found.removeprefix("v").rsplit("-", 2)
    if distance == "0" and not changed:
        return tag
    head, dot, last = tag.rpartition(".")
    following = f"{head}{dot}{int(last) + 1}" if last.isdigit() else tag
    return f"{following}.dev{distance}+{commit}{changed}"


def git(folder: Path, *words: str) -> str:
    """Return what git prints, or nothing if it fails or waits: for a password, or for a slow network file system."""
    # The owner of the checkout may be another user. In a hook, git's variables name another repository.
    env = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    try:
        result = run(["git", "-c", f"safe.directory={folder}", "-C", str(folder), *words], timeout=10, env=env)
    except HarnessBroken:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
