"""Our end of what holds disks and runs scripts on a host behind ssh (`holder.pl`): asked by a line that may drop.

Every request bears being made twice, so one whose answer the line took along is made again once there is another. A
thread keeps the lease, and thereby notices a line that dropped while nobody asked anything.

A host that is slow is not one that is gone. ssh itself asks after its other end, and ends a line on which nobody
answers (`line.ALERT`) sooner than anybody here grows impatient. So as long as it is up, answers are late and not lost.
"""

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

from runner.base import process
from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from runner.hosts.agent.connection import Line

#: Seconds for which locks, disks and scripts over there outlive the last word of ours.
LEASE = 300.0
#: Seconds between words that say only that we are there, and until one that is not answered is asked after: more than
#: ssh takes to notice that its other end is gone.
BEAT, DEAF = 5.0, 30.0
#: What a script's status is that was killed.
KILLED = 137
#: Seconds that somebody waits who can do without an answer.
GLANCE = 1.0
#: Seconds between tries to connect again.
PAUSES = (0.2, 1.0, 2.0, 4.0, 8.0)
#: Where it has its folder over there, and its locks: those of whoever works on that host itself.
ABOVE, LOCKS = "/run/matrix/far", "/run/lock/matrix"
PROGRAM = files("runner.hosts.agent").joinpath("holder.pl")


class Gone(HarnessBroken):
    """What held disks and ran scripts over there is no more, or cannot be reached: whatever it held is not ours now."""


class _Dropped(Exception):
    """The line broke before an answer came."""


@dataclass(frozen=True, slots=True)
class Done:
    """A script that has ended. `late`: because it took longer than it was given."""

    status: int
    late: bool
    output: bytes
    complaint: bytes
    #: It was ended because a disk had had enough (see `Holder.bound`).
    worn: bool = False


class Holder:
    """One of them, for one run. Enter it to have it; whatever it holds is let go on the way out."""

    def __init__(
        self, line: Line, run: str, guard: Sequence[str], say: Callable[[str], None], lease: float = LEASE
    ) -> None:
        self.line, self.run, self._say = line, run, say
        self.folder = f"{ABOVE}/{run}.{token_hex(4)}"
        self._rest = (self.folder, f"{lease:g}", LOCKS, *guard)
        self._lease = lease
        #: It is over; whoever waits for the line is told to leave, and gives it one more try.
        self._quit, self._leaving = Event(), Event()
        self._mending = Lock()
        #: Taken by whoever has told that answers are late.
        self._told_late = Lock()
        self._gone: Gone | None = None
        self._bridge: _Bridge | None = None
        self.boot_id = ""

    def __enter__(self) -> Self:
        self._bridge, self.boot_id = self._bridged("begin")
        Thread(target=self._keep, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """If it does not hear that it is over, its lease will tell it."""
        self._quit.set()
        self._leaving.set()
        if self._bridge is not None:
            self._bridge.told_last(b"end", DEAF)

    @property
    def gone(self) -> Gone | None:
        """Why nothing is held any more, if so."""
        return self._gone

    def dismiss(self, run: str) -> None:
        """End what works for another run, whose runner is gone."""
        self.line.run(self._program("dismiss", f"{ABOVE}/{run}.", *self._rest[1:]), timeout=DEAF * 2)

    def ask(self, *words: str | bytes) -> list[bytes]:
        """Its answer, in words; raises Gone if none can be had."""
        return self._asked(words, self._soon)

    def _asked(self, words: Sequence[str | bytes], heard: Callable[[_Bridge, bytes], bytes]) -> list[bytes]:
        request = b"\0".join(word.encode() if isinstance(word, str) else word for word in words)
        while True:
            if self._gone:
                raise Gone(self._gone.brief, details=self._gone.details, resolution=self._gone.resolution)
            bridge = self._bridge
            if bridge is None:
                raise ValueError("it was not entered")
            try:
                return heard(bridge, request).split(b"\0", 4)
            except _Dropped:
                self._mend(bridge)

    def _soon(self, bridge: _Bridge, request: bytes) -> bytes:
        """The answer, which is waited for as long as the line is up and the lease would last."""
        answer = bridge.asked(request)
        with suppress(TimeoutError):
            return answer.result(DEAF)
        if not self.line.is_up:
            raise _Dropped
        patience = GLANCE if self._leaving.is_set() else self._lease
        with self._late(patience):
            try:
                return answer.result(patience)
            except TimeoutError:
                self._gone = self._hung(request, DEAF + patience)
                bridge.let_go()  # nobody else has to wait as long
                raise self._gone from None

    @contextmanager
    def _late(self, patience: float) -> Iterator[None]:
        """Told once, however many wait."""
        name = self.line.name
        if not self._told_late.acquire(blocking=False):
            yield
            return
        try:
            self._say(
                f"{name} has not answered for {DEAF:g} s, but the connection is up: it is slow, and waited for, "
                f"{patience:g} s more at most"
            )
            yield
            self._say(f"{name} answers again")
        finally:
            self._told_late.release()

    def _hung(self, request: bytes, waited: float) -> Gone:
        name, what = self.line.name, request.partition(b"\0")[0].decode(errors="replace")
        return Gone(
            f"{name} did not answer within {waited:g} s, though the connection to it is up",
            details=f"what it did not answer: {what}",
            resolution="`dmesg` and `ps` there say what it is stuck at; what it holds for us it lets go by itself",
        )

    def glance(self, *words: str) -> bytes:
        """The answer if it can be had at once, else nothing: nobody is made to wait for a line that is down or slow."""
        bridge = self._bridge
        if bridge is None or self._gone or self._mending.locked() or self._told_late.locked():
            return b""
        try:
            return bridge.asked("\0".join(words).encode()).result(GLANCE)
        except (_Dropped, TimeoutError):
            return b""

    def work(self, job: str, script: bytes, deadline: float) -> Done:
        """Run a script to its end, whatever becomes of the line meanwhile.

        One that is late is killed over there. What then does not end either (a disk that never answers keeps a process
        from dying) is not waited for any longer than the lease lasts.
        """
        try:
            what, *rest = self._asked(
                ("job", job, f"{deadline:g}", script),
                lambda bridge, request: bridge.asked(request).result(deadline + self._lease),
            )
        except TimeoutError:
            return Done(KILLED, late=True, output=b"", complaint=b"it was killed, and has not ended since")
        if what != b"done":
            raise HarnessBroken(f"{self.line.name} does not run scripts", details=b" ".join(rest[1:]).decode())
        status, late, length, said = rest
        with suppress(Gone):  # what was heard was heard
            self.ask("forget", job)
        return Done(int(status), late == b"1", said[: int(length)], said[int(length) :], worn=late == b"2")

    def bound(self, most: Mapping[str, int]) -> bool:
        """Up to which count disks, by the kernel's names, may be written while nobody can look; whether it was heard.

        Scripts are ended over there as soon as one of them was written more.
        """
        words = (word for name, sectors in most.items() for word in (name, str(sectors)))
        return self.glance("most", *words) == b"known"

    def stop(self, job: str) -> None:
        """End a script. Where the line is down nobody waits for it to come back: the lease will end it, or clean."""
        self._leaving.set()
        self.ask("stop", job)

    def _keep(self) -> None:
        while not self._quit.wait(BEAT):
            try:
                self.ask("on")
            except Gone:
                return

    def _bridged(self, mode: str) -> tuple[_Bridge, str]:
        """A session that leads to it, and which boot of the host it is on."""
        child = self.line.open(self._program(mode, *self._rest))
        assert child.stdout is not None  # noqa: S101 - for the type checker; it was asked for
        with _ended_after(child, DEAF * 2):
            words = next((said.split() for said in child.stdout if said.startswith(b"matrix ")), [])
            if words[1:2] == [b"holder"]:
                return _Bridge(child), words[2].decode()
            child.stdout.close()
            status = child.wait()
        process.let_go(child)
        if words[1:2] == [b"gone"]:
            raise self._lost(words[2].decode())
        why = f"it said nothing within {DEAF * 2:g} s" if status == -SIGKILL else f"status {status}"
        raise HarnessBroken(
            f"{self.line.name} cannot hold disks for us: {why}",
            details=b" ".join(words[2:]).decode(errors="replace"),
            resolution=f"`matrix doctor --on {self.line.place}` says what is missing",
        )

    def _program(self, *words: str) -> list[str]:
        return [*self.line.installed, *words] if self.line.installed else program(*words)

    def _lost(self, boot: str) -> Gone:
        name = self.line.name
        if self.boot_id and boot != self.boot_id:
            return Gone(f"{name} was started anew while it worked")
        return Gone(f"what held the disks of {name} for us has ended", resolution="look who kills processes there")

    def _mend(self, broken: _Bridge) -> None:
        """Have a session that leads there again; raises Gone if that is not to be."""
        with self._mending:
            if self._bridge is not broken or self._gone:
                return
            self._say(f"the connection to {self.line.name} dropped; what works there goes on, and it is tried again")
            try:
                self._bridge = self._again(broken)
            except Gone as gone:
                self._gone = gone
                raise
            self._say(f"connected to {self.line.name} again")

    def _again(self, broken: _Bridge) -> _Bridge:
        until, why = monotonic() + self._lease, ""
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            self.line.down()
            broken.let_go()
            try:
                return self._bridged("again")[0]
            except Gone:
                raise
            except HarnessBroken as error:
                why = error.details or error.brief
            if monotonic() > until or self._leaving.wait(pause):
                break
        raise Gone(f"{self.line.name} could not be reached again", details=why)


class _Bridge:
    """One session: requests go out with a number each, answers come back with it."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._numbers = count(1)
        self._alone = Lock()
        self._open: dict[int, Future[bytes]] | None = {}
        Thread(target=self._hear, daemon=True).start()

    def asked(self, request: bytes) -> Future[bytes]:
        """What will be the answer."""
        answer: Future[bytes] = Future()
        with self._alone:
            if self._open is None:
                raise _Dropped
            number = next(self._numbers)
            self._open[number] = answer
            self._write(b"%d %d\n%b" % (number, len(request), request))
        return answer

    def told_last(self, request: bytes, patience: float) -> None:
        """Say this, and be gone once it was heard."""
        with suppress(_Dropped, TimeoutError):
            self.asked(request).result(patience)
        self.let_go()

    def let_go(self) -> None:
        """End the session."""
        process.let_go(self._child)

    def _write(self, text: bytes) -> None:
        assert self._child.stdin is not None  # noqa: S101 - for the type checker; it was asked for
        try:
            with _ended_after(self._child, LEASE):  # whoever hears nothing for so long has let go of everything
                self._child.stdin.write(text)
                self._child.stdin.flush()
        except (OSError, ValueError):
            raise _Dropped from None

    def _hear(self) -> None:
        assert self._child.stdout is not None  # noqa: S101 - for the type checker; it was asked for
        with self._child.stdout as stream:
            for head in stream:
                number, length = map(int, head.split())
                text = stream.read(length)
                if len(text) < length:
                    break
                with self._alone:
                    answer = self._open.pop(number, None) if self._open else None
                if answer:
                    answer.set_result(text)
        with self._alone:
            left, self._open = self._open or {}, None
        for answer in left.values():
            answer.set_exception(_Dropped())


@contextmanager
def _ended_after(child: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    """Kill it if this takes longer: then nothing waits for it any more."""
    timer = Timer(seconds, child.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def program(*words: str) -> list[str]:
    """The command that is it."""
    return ["perl", "-e", PROGRAM.read_text(encoding="utf-8"), *words]
