"""The log of a run: what the process did, with the time. Its last lines are also kept in memory, for errors."""

import logging
import os
import re
import shlex
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from matrix_runner.base.errors import BadInput
from matrix_runner.base.text import printable, shorten, without_passwords

LOG = logging.getLogger("matrix")
SHOWN = logging.getLogger("matrix.shown")  # for what the terminal shows anyway
LOG_FILE = "matrix.log"
_MOST_BYTES, _OLDER_FILES = 4 << 20, 2
_RECENT = 50  # lines
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
#: The value of an option, variable or key whose name looks like that of a secret. A match begins with a word: else the
#: time grows with the square of its length, and journals have long ones.
_SECRET = re.compile(
    r"((?<![\w-])(?=[\w-]*(?:passw|passphrase|secret|token|api-?_?key|credential))[\w-]*+\\*[\"']?(?:=|:\s*|,?\s+))"
    r"(?:\"[^\"]*\"|'[^']*'|\S+)",
    re.IGNORECASE,
)
#: A secret that its own beginning, or the kind of a login before it, shows.
_TOKEN = re.compile(r"\b((?:gh[oprsu]|github_pat|glpat)[_-](?=\w{8})|bearer |authorization: basic )\S+", re.IGNORECASE)


class _Lines(logging.Formatter):
    converter = time.gmtime  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        return printable(without_secrets(super().format(record)))


class _Recent(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: deque[logging.LogRecord] = deque(maxlen=_RECENT)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


_recent = _Recent()
LOG.addHandler(_recent)
LOG.setLevel(logging.DEBUG)
LOG.propagate = False


def without_secrets(text: str) -> str:
    return _TOKEN.sub(r"\1***", _SECRET.sub(r"\1***", without_passwords(text)))


def command_text(argv: Sequence[str]) -> str:
    return printable(shorten(" ".join(shlex.join(argv).split()), 400))


def recent_lines() -> str:
    """Return the last lines of this process, also those that no file has."""
    return "\n".join(map(_Lines().format, _recent.records))


def log_level(*, verbose: bool = False) -> int:
    if verbose:
        return logging.DEBUG
    name = os.environ.get("MATRIX_LOG", "") or "info"
    if name.lower() not in _LEVELS:
        raise BadInput(f"MATRIX_LOG is {name!r}", resolution=f"use {', '.join(_LEVELS)}")
    return _LEVELS[name.lower()]


@contextmanager
def log_to(file: Path, level: int) -> Iterator[None]:
    """Write the log to a file, which begins with the recent lines."""
    from logging.handlers import RotatingFileHandler  # slow to import; only runs need it

    try:
        handler = RotatingFileHandler(
            file, maxBytes=_MOST_BYTES, backupCount=_OLDER_FILES, encoding="utf-8", errors="replace"
        )
    except OSError:  # such as a full disk
        yield
        return
    # A run does not end for its log: the journal reports a full disk.
    handler.handleError = lambda record: None  # type: ignore[method-assign] # noqa: ARG005
    handler.setFormatter(_Lines())
    handler.setLevel(level)
    for record in tuple(_recent.records):
        if record.levelno >= level:
            handler.handle(record)
    LOG.addHandler(handler)
    try:
        yield
    except Exception as error:
        LOG.error("%s: %s", type(error).__name__, error, exc_info=level == logging.DEBUG)  # noqa: TRY400
        raise
    finally:
        LOG.removeHandler(handler)
        with suppress(OSError):
            handler.close()


@contextmanager
def log_on_screen() -> Iterator[None]:
    handler = logging.StreamHandler()  # standard error
    handler.setFormatter(_Lines())
    handler.addFilter(lambda record: record.name != SHOWN.name)
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
