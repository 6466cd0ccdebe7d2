"""The client of the disk agent on another host, over a connection that may drop: it repeats requests."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain, count, repeat
from secrets import token_hex
from signal import SIGKILL
from threading import Event, Lock, Thread, Timer
from time import monotonic
from typing import TYPE_CHECKING, Self

from matrix_runner.base import process
from matrix_runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from matrix_runner.hosts.agent.connection import Connection

#: Seconds for which the agent keeps locks, disks and scripts after our last request.
LEASE = 300.0
#: Seconds between heartbeats, and until an answer counts as late: longer than ssh takes to notice a dead connection.
HEARTBEAT, SLOW_AFTER = 5.0, 30.0
KILLED = 137
QUICK_ANSWER = 1.0
RETRY_PAUSES = (0.2, 1.0, 2.0, 4.0, 8.0)
#: The agent's folder on the host, and the lock folder, which local runs of that host use too.
BASE_FOLDER, LOCKS = "/run/matrix/far", "/run/matrix-locks"
PROGRAM = files("matrix_runner.hosts.agent").joinpath("agent.py")


class AgentLost(HarnessBroken):
    """The agent ended or cannot be reached: what it held is no longer leased."""


class _ConnectionDropped(Exception):
    """The connection broke before an answer came."""


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The result of a script that ended. `timed_out`: it was killed at its deadline."""

    status: int
    timed_out: bool
    output: bytes
    error_output: bytes
    over_budget: bool = False  # it was stopped because a disk reached its limit (see `limit_writes`)


class AgentClient:
    """One agent for one run. It releases everything when the context ends."""

    def __init__(
        self, connection: Connection, run: str, guard: Sequence[str], say: Callable[[str], None], lease: float = LEASE
    ) -> None:
        self.connection, self.run, self._say = connection, run, say
        self.folder = f"{BASE_FOLDER}/{run}.{token_hex(4)}"
        self._arguments = (self.folder, f"{lease:g}", LOCKS, *guard)
        self._lease = lease
        #: The session is over; threads that wait for the connection try once more, then give up.
        self._over, self._leaving = Event(), Event()
        #: The second one is held by the thread that reported late answers.
        self._reconnecting, self._slow_reported = Lock(), Lock()
        #: Why the agent is lost, if it is.
        self.lost: AgentLost | None = None
        self._session: _Session | None = None
        self.boot_id = ""

    def __enter__(self) -> Self:
        self._session, self.boot_id = self._open_session("begin")
        Thread(target=self._send_heartbeats, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._leaving.set()
        if self._session is not None:
            with suppress(_ConnectionDropped, TimeoutError):
                self._session.send(b"end").result(SLOW_AFTER)
            self._session.close()

    def dismiss(self, run: str) -> None:
        """End the agent of another run, whose runner is gone."""
        command = self._program("dismiss", f"{BASE_FOLDER}/{run}.", *self._arguments[1:])
        self.connection.run(command, timeout=SLOW_AFTER * 2)

    def ask(self, *words: str | bytes) -> list[bytes]:
        return self._request(words, self._wait_for_answer)

    def _request(self, words: Sequence[str | bytes], receive: Callable[[_Session, bytes], bytes]) -> list[bytes]:
        request = b"\0".join(word.encode() if isinstance(word, str) else word for word in words)
        while not self.lost:
            session = self._session
            if session is None:
                raise ValueError("it was not entered")
            try:
                return receive(session, request).split(b"\0", 4)
            except _ConnectionDropped:
                self._reconnect(session)
        raise AgentLost(self.lost.brief, details=self.lost.details, resolution=self.lost.resolution)

    def _wait_for_answer(self, session: _Session, request: bytes) -> bytes:
        answer = session.send(request)
        with suppress(TimeoutError):
            return answer.result(SLOW_AFTER)
        if not self.connection.is_connected:
            raise _ConnectionDropped
        patience = QUICK_ANSWER if self._leaving.is_set() else self._lease
        with self._report_slowness(patience):
            try:
                return answer.result(patience)
            except TimeoutError:
                what = request.partition(b"\0")[0].decode(errors="replace")
                self.lost = AgentLost(
                    f"{self.connection.name} did not answer within {SLOW_AFTER + patience:g} s, though the connection "
                    "to it is up",
                    details=f"unanswered request: {what}",
                    resolution="`dmesg` and `ps` there show what blocks it; the disk agent releases the disks",
                )
                session.close()  # other threads need not wait as long
                raise self.lost from None

    @contextmanager
    def _report_slowness(self, patience: float) -> Iterator[None]:
        """Report it once, even if several threads wait."""
        if not self._slow_reported.acquire(blocking=False):
            yield
            return
        try:
            name = f"{self.connection.name} has not answered for {SLOW_AFTER:g} s"
            self._say(f"{name}, but the connection is up: waiting up to {patience:g} s more")
            yield
            self._say(f"{self.connection.name} answers again")
        finally:
            self._slow_reported.release()

    def ask_now(self, *words: str) -> bytes:
        """Return the answer if it comes at once, else b"": never wait for a connection that is down or slow."""
        session = self._session
        if session is None or self.lost or self._reconnecting.locked() or self._slow_reported.locked():
            return b""
        with suppress(_ConnectionDropped, TimeoutError):
            return session.send("\0".join(words).encode()).result(QUICK_ANSWER)
        return b""

    def run_script(self, job: str, script: bytes, deadline: float) -> ScriptResult:
        """Run a script to its end, even if the connection drops. A late one is killed, and not waited for forever."""
        try:
            what, *rest = self._request(
                ("job", job, f"{deadline:g}", script),
                lambda session, request: session.send(request).result(deadline + self._lease),
            )
        except TimeoutError:
            return ScriptResult(
                KILLED, timed_out=True, output=b"", error_output=b"it was killed, and has not ended since"
            )
        if what != b"done":
            raise HarnessBroken(
                f"{self.connection.name} cannot run scripts",
                details=b" ".join(rest[1:]).decode(),
                resolution=f"`matrix doctor --on {self.connection.target}` shows what is missing",
            )
        status, late, length, answer = rest
        with suppress(AgentLost):  # the result is complete already
            self.ask("forget", job)
        return ScriptResult(
            int(status), late == b"1", answer[: int(length)], answer[int(length) :], over_budget=late == b"2"
        )

    def limit_writes(self, most: Mapping[str, int]) -> bool:
        """Set sector counts, by kernel name, at which the agent ends scripts while we cannot look."""
        words = (word for name, sectors in most.items() for word in (name, str(sectors)))
        return self.ask_now("most", *words) == b"known"

    def stop(self, job: str) -> None:
        """End a script. If the connection is down do not wait for it: the lease or `matrix clean` ends it."""
        self._leaving.set()
        self.ask("stop", job)

    def _send_heartbeats(self) -> None:
        with suppress(AgentLost):
            while not self._over.wait(HEARTBEAT):
                self.ask("on")

    def _open_session(self, mode: str) -> tuple[_Session, str]:
        child = self.connection.start(self._program(mode, *self._arguments))
        assert child.stdout is not None  # noqa: S101 - for the type checker; it was asked for
        with _kill_after(child, SLOW_AFTER * 2):
            words = next((answer.split() for answer in child.stdout if answer.startswith(b"matrix ")), [])
            if words[1:2] == [b"agent"]:
                return _Session(child), words[2].decode()
            child.stdout.close()
            status = child.wait()
        process.stop_child(child)
        if words[1:2] == [b"gone"]:
            if self.boot_id and words[2].decode() != self.boot_id:
                raise AgentLost(
                    f"{self.connection.name} was rebooted during the run",
                    resolution="the same command continues the run",
                )
            raise AgentLost(
                f"the disk agent of {self.connection.name} has ended", resolution="find out what kills processes there"
            )
        why = f"no answer within {SLOW_AFTER * 2:g} s" if status == -SIGKILL else f"status {status}"
        raise HarnessBroken(
            f"{self.connection.name} cannot start the disk agent: {why}",
            details=b" ".join(words[2:]).decode(errors="replace"),
            resolution=f"`matrix doctor --on {self.connection.target}` shows what is missing",
        )

    def _program(self, *words: str) -> list[str]:
        return [*self.connection.agent_command, *words] if self.connection.agent_command else agent_command(*words)

    def _reconnect(self, broken: _Session) -> None:
        with self._reconnecting:
            if self._session is not broken or self.lost:
                return
            name, until = self.connection.name, monotonic() + self._lease
            self._say(f"the connection to {name} dropped; scripts there continue; reconnecting")
            for pause in chain(RETRY_PAUSES, repeat(RETRY_PAUSES[-1])):
                self.connection.disconnect()
                broken.close()
                try:
                    self._session = self._open_session("again")[0]
                    break
                except AgentLost as gone:
                    self.lost = gone
                    raise
                except HarnessBroken as error:
                    if monotonic() > until or self._leaving.wait(pause):
                        why = error.details or error.brief
                        self.lost = AgentLost(
                            f"{name} could not be reached again",
                            details=why,
                            resolution="repair the connection; then the same command continues the run",
                        )
                        raise self.lost from None
            self._say(f"connected to {name} again")


class _Session:
    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._numbers = count(1)
        self._mutex = Lock()
        self._pending: dict[int, Future[bytes]] | None = {}
        Thread(target=self._read_answers, daemon=True).start()

    def send(self, request: bytes) -> Future[bytes]:
        answer: Future[bytes] = Future()
        with self._mutex:
            if self._pending is None:
                raise _ConnectionDropped
            number = next(self._numbers)
            self._pending[number] = answer
            self._write(b"%d %d\n%b" % (number, len(request), request))
        return answer

    def close(self) -> None:
        process.stop_child(self._child)

    def _write(self, text: bytes) -> None:
        assert self._child.stdin is not None  # noqa: S101 - for the type checker; it was asked for
        try:
            with _kill_after(self._child, LEASE):  # after so long the agent has released everything
                self._child.stdin.write(text)
                self._child.stdin.flush()
        except (OSError, ValueError):
            raise _ConnectionDropped from None

    def _read_answers(self) -> None:
        assert self._child.stdout is not None  # noqa: S101 - for the type checker; it was asked for
        with self._child.stdout as stream:
            for head in stream:
                number, length = map(int, head.split())
                text = stream.read(length)
                if len(text) < length:
                    break
                with self._mutex:
                    answer = self._pending.pop(number, None) if self._pending else None
                if answer:
                    answer.set_result(text)
        with self._mutex:
            left, self._pending = self._pending or {}, None
        for answer in left.values():
            answer.set_exception(_ConnectionDropped())


@contextmanager
def _kill_after(child: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    """Kill the child if the block takes longer: that unblocks every reader and writer."""
    timer = Timer(seconds, child.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def agent_command(*words: str) -> list[str]:
    return ["python3", "-I", "-c", PROGRAM.read_text(encoding="utf-8"), *words]
