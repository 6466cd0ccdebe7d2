"""Files of a run folder: their names, and those of cells as paths and of facts; errors about recorded files as ours."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson

from matrix_runner.base.errors import ERRNO, BadInput, Cause, Damaged, UnfitFile
from matrix_runner.statistics.percentile import DamagedHistogram

CELLS = "cells"  # the folder of cells in a run
ARCHIVE = "cells.sqlite"  # what a large run has instead
_PART = re.compile(r"[A-Za-z0-9._=,+@%-]{1,255}")


def parts_of(name: str) -> list[str]:
    """Split a name into path parts. Refuse one that leads elsewhere or needs quotes in a shell."""
    parts = name.split("/")
    for part in parts:
        if not _PART.fullmatch(part) or part in {".", ".."}:
            raise BadInput(
                f"{name!r} cannot name a folder or a file",
                resolution="names are parts of letters, digits and ._=,+@%- (1 to 255 each), joined by /",
            )
    return parts


def is_file_of_trial(name: str) -> bool:
    """Return whether a worker may name a file so: not like a folder of trials, or a file that is being written."""
    return len(name) <= 128 and bool(_PART.fullmatch(name)) and not name.startswith((".", "trial-"))


def check_file_name(name: str, what: str = "a file of a trial") -> str:
    if "/" in name:
        raise BadInput(f"{name!r} cannot name {what}", resolution="leave out the slashes: it is one name")
    return parts_of(name)[0]


class LazyFiles(Mapping[str, bytes]):
    """Files by their paths, read one by one: together they may not fit into memory."""

    def __init__(self, paths: Sequence[str], read: Callable[[str], bytes]) -> None:
        self._paths, self._read = dict.fromkeys(paths), read

    def __getitem__(self, path: str) -> bytes:
        if path not in self._paths:
            raise KeyError(path)
        return self._read(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


OF = ": "  # in the keys of an environment
#: Runs and databases from before version 1 are read by this commit and by those before it.
LAST_COMMIT = "aad239b9"


def split_owner(name: str) -> tuple[str | None, str]:
    """Split a key of an environment after the kernel or the host that it is of; None: it is of the whole run."""
    owner, of, fact = name.partition(OF)
    return (owner, fact) if of else (None, name)


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
