"""matrix: a declarative test-matrix runner around fio."""

from __future__ import annotations

TYPE_CHECKING = False  # the module `typing` takes longer to import than all that is before Ctrl-C is caught
if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.pages.frames import RecordedRun


def open_run(path: str | Path) -> RecordedRun:
    """Read the run of a folder: its cells and trials as columns."""
    from matrix_runner.pages import frames  # the commands import this package, and need no frames

    return frames.open_run(path)
