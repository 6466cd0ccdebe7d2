"""A real pseudo-terminal with a program in it, read as a person reads it: by what is on the screen."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import pexpect
import pyte

from tests.support.forked import ForkedOnTerminal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: No test waits this long: it is where a program that hangs is given up.
PATIENCE = 120.0
#: Lines that scrolled off the screen and can still be read.
_HISTORY = 20_000
#: In the environment of the program and of all that it starts.
_MARK = "MATRIX_TEST_TERMINAL"
_ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


def _heed_signals() -> None:
    """Make the program heed signals, even if these tests were started in the background and ignore some."""
    for one in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(one, signal.SIG_DFL)


class Terminal:
    """`with Terminal([...]) as terminal: terminal.wait_for("done")`; the program dies with the block.

    `matrix` is forked from the tests; all other programs are executed.
    """

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
        self._mark = uuid4().hex
        spawn = ForkedOnTerminal if argv[0] == "matrix" else pexpect.spawn
        self._child: pexpect.spawn[bytes] = spawn(
            argv[0],
            list(argv[1:]),
            dimensions=(rows, columns),
            cwd=str(cwd) if cwd else None,
            env={**inherited, "TERM": "xterm-256color", "LANG": "C.UTF-8", _MARK: self._mark, **(env or {})},
            timeout=None,
            preexec_fn=_heed_signals,
        )
        self._child.delayafterclose = self._child.delayafterterminate = 0.5

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.closed:
            return
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

    @property
    def written(self) -> list[str]:
        """The lines as they were written, before the terminal broke any; each drawing of a line counts as one."""
        return _ESCAPE.sub("", self.raw.decode()).replace("\r", "\n").split("\n")

    @property
    def styles(self) -> set[str]:
        """The colours and styles that were switched on, as numbers of the escape sequences."""
        found = (match[1].split(";") for match in _ESCAPE.finditer(self.raw.decode()) if match[2] == "m")
        return {number for numbers in found for number in numbers}

    @property
    def left_behind(self) -> list[str]:
        """Command lines of processes that the program started and that do not end soon after it."""
        tries = 60
        while (found := self._running()) and tries:
            time.sleep(0.05)
            tries -= 1
        return found

    def _running(self) -> list[str]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"{_MARK}={self._mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    def wait_for(self, text: str, patience: float = PATIENCE) -> None:
        """Read until `text` is on the screen or above it."""
        self._read(lambda: text in self.transcript, f"never showed {text!r}", patience)

    def wait_for_match(self, pattern: str, patience: float = PATIENCE) -> None:
        """Read until a line on the screen matches."""
        self._read(lambda: re.search(pattern, "\n".join(self.screen)) is not None, f"never showed {pattern}", patience)

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

    def hang_up(self) -> int:
        """Close the terminal with the program still in it, and wait for its end; its status, as of `wait`."""
        os.close(self._child.child_fd)
        _, status = os.waitpid(self.pid, 0)
        self._child.terminated = True
        self._child.closed = True
        return os.waitstatus_to_exitcode(status)

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
