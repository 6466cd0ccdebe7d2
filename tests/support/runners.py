"""A runner that is at work, as a test has it: a process that tells a line for everything that it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess


def waited_for(runner: subprocess.Popen[str], lines: int) -> None:
    """Wait until it has told so many, or ends: whatever is under way then is what a test meddles with."""
    assert runner.stdout is not None
    for _, _ in zip(range(lines), runner.stdout, strict=False):
        pass


def killed_after(runner: subprocess.Popen[str], lines: int) -> None:
    """By a signal that nobody can hear."""
    waited_for(runner, lines)
    runner.kill()
    runner.communicate()
