"""A real pseudo-terminal with a program in it, read as a person reads it: by what is on the screen."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Self

import pexpect
import pyte

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

#: No test waits this long: it is where a program that hangs is given up.
PATIENCE = 120.0
#: Lines that scrolled off the screen and can still be read.
_HISTORY = 20_000


class Terminal:
    """`with Terminal([...]) as terminal: terminal.wait_for("done")`; the program dies with the block."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        columns: int = 110,
        rows: int = 40,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=_HISTORY, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        #: Every byte the program wrote, escape sequences included.
        self.raw = b""
        unwanted = {"COLUMNS", "LINES", "CI", "NO_COLOR", "FORCE_COLOR"}
        inherited = {name: value for name, value in os.environ.items() if name not in unwanted}
        self._child: pexpect.spawn[bytes] = pexpect.spawn(
            argv[0],
            list(argv[1:]),
            dimensions=(rows, columns),
            cwd=str(cwd) if cwd else None,
            env={**inherited, "TERM": "xterm-256color", "LANG": "C.UTF-8", **(env or {})},
            timeout=None,
        )
        self._child.delayafterclose = self._child.delayafterterminate = 0.5

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.isalive():
            self._child.kill(signal.SIGKILL)
        self._child.close(force=True)

    @property
    def pid(self) -> int:
        """The program's process."""
        assert self._child.pid is not None
        return self._child.pid

    @property
    def screen(self) -> list[str]:
        """The lines on the screen now, without spaces at their ends."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def transcript(self) -> str:
        """Everything that stayed: what scrolled off at the top, then the screen."""
        above = [
            "".join(line[column].data for column in range(self._screen.columns)).rstrip()
            for line in self._screen.history.top
        ]
        return "\n".join([*above, *self.screen]).rstrip()

    def wait_for(self, text: str, patience: float = PATIENCE) -> None:
        """Read until `text` is on the screen or above it."""
        self._read(lambda: text in self.transcript, f"never showed {text!r}", patience)

    def wait(self, patience: float = PATIENCE) -> int:
        """Read to the end of the program; its exit status, or minus the signal that ended it."""
        self._read(lambda: False, "did not end", patience)
        self._child.wait()
        status = -self._child.signalstatus if self._child.signalstatus else self._child.exitstatus
        assert status is not None
        return status

    def type(self, keys: str) -> None:
        """Press keys: "\\x03" is Ctrl-C, "\\r" is Enter."""
        self._child.send(keys)

    def resize(self, columns: int, rows: int) -> None:
        """As by dragging the window's corner."""
        self._screen.resize(rows, columns)
        self._child.setwinsize(rows, columns)

    def hang_up(self) -> None:
        """Close the terminal with the program still in it."""
        os.close(self._child.child_fd)
        self._child.closed = True

    def _read(self, done: Callable[[], bool], failure: str, patience: float) -> None:
        deadline = time.monotonic() + patience
        while not done():
            if time.monotonic() > deadline:
                raise AssertionError(f"the program {failure}; the screen:\n{self.transcript[-4000:]}")
            try:
                data = self._child.read_nonblocking(65536, timeout=0.2)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                if done() or failure == "did not end":
                    return
                raise AssertionError(f"the program {failure}; it ended with:\n{self.transcript[-4000:]}") from None
            self.raw += data
            self._stream.feed(data)
