"""Standard output of a run, which continues if standard output fails (`| head`, a full disk)."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from io import TextIOBase

import click


class RunOutput(TextIOBase):
    """Writes to standard output until a write fails, then drops all text. `error` is the first failure."""

    def __init__(self) -> None:
        # Keep the stream: sys.stdout may be replaced later by a writer to this object, an endless recursion.
        self._stream = sys.stdout
        self.error: OSError | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def has_failed(self) -> bool:
        """Return whether output was lost. A reader that closes the pipe is no failure."""
        return self.error is not None and self.error.errno != errno.EPIPE

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> int:
        if self.error is None and self._stream is not None:
            try:
                self._stream.write(text)
                self._stream.flush()
            except OSError as error:
                self._stop(error)
        return len(text)

    def _stop(self, error: OSError) -> None:
        self.error = error
        abandon_stdout()
        with suppress(OSError):
            click.echo(f"matrix: standard output failed ({error.strerror}); the run continues without it", err=True)


def abandon_stdout() -> None:
    """Send further output to /dev/null: otherwise Python would fail once more at exit, with a traceback."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
