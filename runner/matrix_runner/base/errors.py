"""Errors that a user sees: what happened, the evidence, and what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple


class Exit(IntEnum):
    ALL_MEASURED = 0
    CLAIM_FAILED = 1  # a guideline fails, something is slower, or data is wrong
    BAD_INPUT = 2
    BROKEN = 3
    CANNOT_TELL = 4  # only where asked for
    INTERRUPTED = 130


class MatrixError(Exception):
    """Base of every error that is shown without a traceback."""

    exit_code = Exit.BROKEN

    def __init__(self, brief: str, *, details: str = "", resolution: str = "") -> None:
        super().__init__(brief)
        self.brief = brief
        self.details = details
        self.resolution = resolution
        if details:
            self.add_note(details)  # tracebacks show the evidence, too

    @property
    def advice(self) -> str:
        return f"→ {self.resolution}"


class BadInput(MatrixError):
    """The user's input cannot be used; no trial was started."""

    exit_code = Exit.BAD_INPUT


class HarnessBroken(MatrixError):
    """The program or the host failed; it is no result about the storage under test."""


class Damaged(HarnessBroken):
    """A recorded file has content that matrix did not write."""


class Cause(NamedTuple):
    """The reason why a file or database cannot be used, as one of our errors."""

    kind: type[MatrixError]
    brief: str
    resolution: str

    def error(self, path: Path | str, details: str) -> MatrixError:
        # A full disk concerns the whole folder, not only the one file.
        shown = f"{Path(path).parent}/" if self is FULL and "://" not in str(path) else path
        return self.kind(self.brief.format(path=shown), details=details, resolution=self.resolution)


FULL = Cause(
    HarnessBroken, "the disk that holds {path} is full", "make room and run the same command again: it continues"
)
LIMITED = Cause(HarnessBroken, "{path} would exceed the limit of a file's size", "raise the limit: `ulimit -f`")
READ_ONLY = Cause(
    BadInput, "{path} cannot be written", "check the permissions, or choose another place with `--results DIR`"
)
DENIED = Cause(BadInput, "no access to {path}", "check the permissions, or choose another place with `--results DIR`")
UNREACHABLE = Cause(
    BadInput, "{path} cannot be opened", "check that its folder exists and is yours, or use `--results DIR`"
)
ERRNO = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: LIMITED,
    errno.EACCES: DENIED,
    errno.EPERM: DENIED,
    errno.EROFS: READ_ONLY,
    errno.ENOENT: UNREACHABLE,
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EBUSY), UNREACHABLE),
    **dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP), UNREACHABLE),
}


@contextmanager
def file_errors(path: Path | str) -> Iterator[None]:
    """Turn operating system errors about `path` into our errors; others pass through."""
    try:
        yield
    except OSError as problem:
        if cause := ERRNO.get(problem.errno or 0):
            raise cause.error(path, str(problem)) from problem
        raise


class UnfitFile(OSError):
    """A file that is not read: no regular file, or too large."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(why)
        self.path = path
