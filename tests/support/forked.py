"""`matrix` in a process of its own, forked from the tests: to start Python and import all costs half a second."""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import logging
import os
import pty
import signal
import subprocess
import sys
import termios
import traceback
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pexpect
from ptyprocess import PtyProcess  # type: ignore[import-untyped]

from matrix_runner.base.log import LOG
from matrix_runner.base.log import __name__ as LOG_MODULE  # noqa: N812
from matrix_runner.cli import main
from matrix_runner.scripts import cell
from tests.support import prepared

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_SET_DUMPABLE = 4


class Forked(subprocess.Popen[Any]):
    """`Forked(["run", "small.yaml"], stdout=PIPE)`: `matrix run small.yaml`, or Python `code` with these arguments.

    With `mounts`, it has the mounts of that process. `user`, `group` and `extra_groups`, by number, are those of `Popen`.
    """

    def __init__(self, arguments: Sequence[str], *, code: str = "", mounts: int | None = None, **how: Any) -> None:
        self._code, self._mounts = code, mounts
        super().__init__(["matrix", *arguments], **how)

    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        """Fork where `Popen` would execute a program as well. The order of parameters is that of Python 3.3 to 3.14."""
        cwd, env, streams, (group, groups, user) = rest[4], rest[5], rest[9:15], rest[16:19]
        _prepare()
        with _no_warning_of_threads():
            self.pid = os.fork()
        if self.pid == 0:
            for number, stream in enumerate((streams[0], streams[3], streams[5])):
                if stream != -1:
                    os.dup2(stream, number)
            _become(args, cwd, env, code=self._code, mounts=self._mounts, ids=(user, group, groups))
        self._child_created = True
        self._close_pipe_fds(*streams)  # type: ignore[attr-defined]


class ForkedOnTerminal(pexpect.spawn):  # type: ignore[type-arg]
    """`pexpect.spawn` of `matrix`, without executing a program."""

    def _spawnpty(self, args: Sequence[bytes], **how: Any) -> PtyProcess:
        _prepare()
        with _no_warning_of_threads():
            pid, master = pty.fork()
        if pid == 0:
            termios.tcsetwinsize(0, how["dimensions"])  # before the program asks for it
            how["preexec_fn"]()
            _become([os.fsdecode(word) for word in args], how["cwd"], how["env"])
        return PtyProcess(pid, master)


def _prepare() -> None:
    prepared.compile_templates()
    prepared.answers()


@contextmanager
def _no_warning_of_threads() -> Iterator[None]:
    """Python 3.12 and later warn that threads end in the new process. Those of pytest-xdist are not needed there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def run(arguments: Sequence[str], *, code: str = "", **how: Any) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` of `Forked`, with its output as text."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Forked(arguments, code=code, text=True, **{**pipes, **how}) as child:
        out, err = child.communicate()
    return subprocess.CompletedProcess(arguments, child.returncode, out, err)


def _become(
    argv: Sequence[str],
    cwd: str | None,
    env: Mapping[str, str] | None,
    *,
    code: str = "",
    mounts: int | None = None,
    ids: tuple[int | None, int | None, Sequence[int] | None] = (None, None, None),
) -> NoReturn:
    status = 1
    try:
        _forget_tests()
        if mounts is not None:
            _enter_mounts(mounts)
        _change_user(*ids)
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        if cwd is not None:
            os.chdir(cwd)
        _open_streams()
        sys.argv = list(argv)
        status = _status_of(code)
        atexit._run_exitfuncs()
        sys.stdout.flush()
    finally:
        os._exit(status)


def _forget_tests() -> None:
    """Close the files of the tests, and undo what they changed in this process."""
    gc.freeze()
    gc.enable()
    setattr(cell, "run", prepared.run_once)  # noqa: B010 - it is imported there
    atexit._clear()
    warnings.simplefilter("ignore")
    for logger in (logging.getLogger(), LOG):  # a handler of pytest would write to whatever file gets its number
        logger.handlers = [one for one in logger.handlers if type(one).__module__ == LOG_MODULE]
    for path in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):  # the one that listed them is closed already
            if int(path.name) > 2:
                os.close(int(path.name))
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL)


def _enter_mounts(process: int) -> None:
    namespace = os.open(f"/proc/{process}/ns/mnt", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)


def _change_user(user: int | None, group: int | None, groups: Sequence[int] | None) -> None:
    if groups is not None:
        os.setgroups(groups)
    if group is not None:
        os.setresgid(group, group, group)
    if user is not None:
        os.setresuid(user, user, user)
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 1)  # or its files in /proc stay root's, as an executed program's do not


def _open_streams() -> None:
    """Open the standard streams as Python does at its start: pytest has put its own in their place."""
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    asked, _, handler = os.environ.get("PYTHONIOENCODING", "").partition(":")
    encoding, forgiving = asked or "utf-8", handler or ("strict" if asked else "surrogateescape")

    def writer(number: int, errors: str) -> io.TextIOWrapper:
        file = io.BufferedWriter(io.FileIO(number, "w"))
        lines = os.isatty(number) or number == 2
        return io.TextIOWrapper(file, encoding, errors, line_buffering=lines, write_through=at_once)

    sys.stdin = open(0, encoding=encoding, errors=forgiving)  # noqa: SIM115 - to the end
    sys.stdout = writer(1, forgiving)
    sys.stderr = writer(2, "backslashreplace")


def _status_of(code: str) -> int:
    try:
        if code:
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - the test's own
        else:
            main()
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:  # noqa: BLE001 - as Python does at its end
        traceback.print_exc()
        return 1
    return 0
