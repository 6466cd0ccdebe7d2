"""Standard output, which may go away (`| head`, a full disk) while a run goes on: the run does not need it."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from io import TextIOBase

import click


class Voice(TextIOBase):
    """Passes on what is said for as long as somebody takes it. `lost` is why nobody does any more."""

    def __init__(self) -> None:
        # The stream of now: while something replaces sys.stdout by what writes to us, we would call ourselves.
        self._stream = sys.stdout
        self.lost: OSError | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of standard output."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def failed(self) -> bool:
        """Whether something that was to be kept could not be; a reader who has seen enough is no failure."""
        return self.lost is not None and self.lost.errno != errno.EPIPE

    def writable(self) -> bool:
        """Always: what cannot be said is dropped."""
        return True

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        """That of standard output."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Say it, if anybody is there."""
        if self.lost is None and self._stream is not None:
            try:
                self._stream.write(text)
                self._stream.flush()
            except OSError as error:
                self._lose(error)
        return len(text)

    def _lose(self, error: OSError) -> None:
        self.lost = error
        abandon_stdout()
        with suppress(OSError):
            click.echo(f"matrix: nobody takes what is said here ({error.strerror}); the run goes on without", err=True)


def abandon_stdout() -> None:
    """Let the rest vanish, or Python would try once more when it ends, fail again, and say so in a traceback."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
