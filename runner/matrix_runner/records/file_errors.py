"""Errors of recorded files as ours. Apart from `databases`, so that commands without a database start faster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from matrix_runner.base.errors import ERRNO, BadInput, Cause, Damaged, UnfitFile
from matrix_runner.statistics.percentile import DamagedHistogram

DAMAGED = Cause(
    Damaged,
    "{path} is damaged",
    "`matrix salvage RUN` writes what can be read into a new run; `matrix run --fresh` starts again",
)
#: Salvage reads journals only.
_DAMAGED_FILE = Cause(Damaged, "{path} is damaged", "move it away, or restore it from a backup")
UNFIT = Cause(BadInput, "{path} cannot be read", "put a regular file there; matrix writes no other kind")
FILE_ERRORS = (OSError, UnicodeDecodeError, orjson.JSONDecodeError)


def cause_of(problem: Exception) -> Cause | None:
    if isinstance(problem, UnfitFile) and not problem.path.is_file():
        return UNFIT  # its content may belong to others
    if isinstance(problem, OSError) and not isinstance(problem, UnfitFile):
        return ERRNO.get(problem.errno or 0)
    return DAMAGED


@contextmanager
def histogram_errors(journal: Path) -> Iterator[None]:
    """Turn the error of a damaged histogram into one about its journal."""
    try:
        yield
    except DamagedHistogram as problem:
        raise DAMAGED.error(journal, str(problem)) from problem


@contextmanager
def recorded_file_errors(path: Path | str) -> Iterator[None]:
    """Turn errors of the block into a MatrixError about `path`: of its reading, and of texts in it."""
    try:
        yield
    except FILE_ERRORS as problem:
        cause = cause_of(problem)
        if cause:
            found = problem.path if isinstance(problem, UnfitFile) else path
            raise (_DAMAGED_FILE if cause is DAMAGED else cause).error(found, str(problem)) from problem
        raise
