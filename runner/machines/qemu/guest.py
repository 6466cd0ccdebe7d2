"""A QEMU that runs, and the two conversations with it: QMP with the machine, the guest agent inside it.

All channels are socket pairs and nameless files, inherited. QEMU is killed by the kernel if we die.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import re
import secrets
import socket
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from qemu.qmp import QMPClient, QMPError

from runner.base.process import kill, spawn
from runner.machines.base import RigLost
from runner.machines.qemu import argv
from runner.machines.qemu.disk_files import Served, backed, nameless
from runner.machines.qemu.shell_output import Words
from runner.machines.qemu.shell_protocol import UNHEARD, Orders, ShellGone
from runner.simdisks.server import ROOM, disk_full_message, explain_exit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from runner.machines.qemu.argv import Vm
    from runner.machines.qemu.disk_files import Backing

T = TypeVar("T")
TAIL_LINES = 100
TAIL_BYTES = 64 * 1024
#: A shell's argument may be 128 KiB; what is longer goes through standard input.
ARGUMENT_LIMIT = 120_000
#: What the bell says when that begins which a command is about.
BEGINS = b"b"
#: How long what was said may be in the air, and how often the agent is asked about what only it can hear.
DOUBT = 2.0
#: How long QEMU may take to answer, however busy the host: it has no more to do than to read a line.
ANSWER_DEADLINE = 60.0
#: How long QEMU may take to be gone after it closed its channels.
LAST_BREATH = 5.0
#: What the agent runs where the standing shell is of no use.
SHELL = "/bin/bash-static"
MODULES_WANTED = "build the drivers into the kernel, or put its modules into lib/modules beside the image"
#: QEMU commit deba78709ae8, "accel/tcg: Always lock pages before translation", ended it.
NEWER_QEMU = "QEMU before 8.1 sometimes runs outdated kernel code when it emulates; KVM or a newer QEMU does not"
FROM_STDIN = "cat >/run/matrix/envelope && exec bash /run/matrix/envelope"

# The library logs every lost connection as an error; to us a dead QEMU is an answer like any other.
logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL + 1)


class Guest:
    """One running virtual machine."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        console: IO[bytes],
        bell: socket.socket,
        orders: socket.socket,
        words: socket.socket,
        served: Served,
    ) -> None:
        self.process = process
        self.served = served
        self.console = console
        self.bell = bell
        self.bell.setblocking(False)
        self.orders = Orders(orders)
        self.words = Words(words)
        self.qmp = QMPClient("machine")
        self.agent = QMPClient("guest", readbuflen=64 * 2**20)
        self.agent.await_greeting = self.agent.negotiate = False
        self.resumed = asyncio.Event()
        self.was_reset = asyncio.Event()
        self._migration: asyncio.Queue[str] = asyncio.Queue()
        #: Set as soon as the machine is beyond hope.
        self.lost: asyncio.Future[RigLost] = asyncio.get_running_loop().create_future()

    async def connect(self, qmp: socket.socket, agent: socket.socket) -> None:
        """Take up both conversations. The agent answers later, when the guest is up."""
        try:
            await self.agent.connect(agent)
            await self.qmp.connect(qmp)
        except AssertionError as error:
            # The library takes it for granted that a connection just made still stands.
            raise EOFError("QEMU hung up at once") from error

    async def close(self) -> None:
        """Kill QEMU and hang up."""
        await kill(self.process)
        await self.orders.forget()
        await self.hang_up()

    async def hang_up(self) -> None:
        """End both conversations, as far as they ever began."""
        for client in (self.qmp, self.agent):
            with suppress(QMPError, OSError, EOFError):
                await client.disconnect()

    def tail(self) -> str:
        """The console's last lines."""
        size = os.fstat(self.console.fileno()).st_size
        text = os.pread(self.console.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES)).decode(errors="replace")
        return "\n".join(text.replace("\r", "").splitlines()[-TAIL_LINES:])

    def lose(self, brief: str, resolution: str = "") -> None:
        """Remember the first reason why this machine is of no use any more."""
        if not self.lost.done():
            self.lost.set_result(RigLost(brief, tail=self.tail(), resolution=resolution))

    async def watch_process(self) -> None:
        """Notice QEMU's end."""
        status = await self.process.wait()
        if said := last_words(self.tail()):
            self.lose(f"the guest could not start: {said}", MODULES_WANTED)
        elif "Kernel panic" in self.tail():
            cause = first_cause(self.tail())
            self.lose(f"the guest kernel panicked: {cause}", NEWER_QEMU if "int3" in cause else "")
        elif status < 0:
            self.lose(f"QEMU was killed by signal {-status}")
        else:
            self.lose(f"QEMU ended with status {status}" if status else "the guest switched itself off")

    async def watch_servers(self) -> None:
        """Notice that a disk's server ends before the machine does: whoever kills both kills the machine first."""
        disk, status = await self.served.first_to_end()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self.process.wait()), LAST_BREATH / 10)
        self.lose(*explain_exit(disk, status))

    async def watch_events(self) -> None:
        """Notice what QEMU says about the machine."""
        async for event in self.qmp.events:
            data = cast("dict[str, Any]", event.get("data", {}))
            if event["event"] == "RESUME":
                self.resumed.set()
            if event["event"] == "RESET":
                self.was_reset.set()
            if event["event"] == "MIGRATION":
                self._migration.put_nowait(str(data["status"]))
            if event["event"] == "BLOCK_IO_ERROR" and data.get("action") == "stop":
                self.lose(disk_full_message(str(data.get("node-name") or data.get("device"))), ROOM)

    async def migrated(self) -> str:
        """Wait until saving the machine's state came to an end, and say to which."""
        while (status := await self._migration.get()) not in {"completed", "failed", "cancelled"}:
            pass
        return status

    async def answer(self, asked: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer, but not longer than the machine lives."""
        task = asyncio.create_task(asked)
        either: set[asyncio.Future[Any]] = {task, self.lost}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not self.lost.done():
                return task.result()
        except (QMPError, OSError, EOFError):
            # The channel broke; why, is known as soon as the process is reaped.
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self.lost), LAST_BREATH)
            self.lose("QEMU closed its channels")
        finally:
            task.cancel()
            await asyncio.wait({task})
            # Whatever it ended with is told by now, or must not hide why we stopped waiting.
            _ = task.cancelled() or task.exception()
        raise self.lost.result()

    async def soon(self, asked: Coroutine[Any, Any, T], what: str, deadline: float) -> T:
        """Wait for an answer that is due; without it the machine is lost."""
        try:
            async with asyncio.timeout(deadline):
                return await self.answer(asked)
        except TimeoutError:
            self.lose(f"{what} within {deadline:g} s")
            raise self.lost.result() from None

    async def command(self, name: str, **arguments: object) -> Any:
        """Ask the machine."""
        asked = self.qmp.execute(name, arguments or None)
        return await self.soon(asked, f"QEMU did not answer to {name}", ANSWER_DEADLINE)

    async def reset(self) -> None:
        """Press the reset button: what the guest had only in memory is gone, its disks are as they are."""
        self.was_reset.clear()
        await self.command("set-action", reboot="reset")
        await self.command("system_reset")
        await self.answer(self.was_reset.wait())
        await self.orders.forget()

    async def stay_up(self) -> None:
        """From here on, a guest that resets itself is lost, not restarted; its BIOS does so once, on the way up."""
        await self.command("set-action", reboot="shutdown")

    async def ask(self, name: str, **arguments: object) -> Any:
        """Ask the guest."""
        return await self.answer(self.agent.execute(name, arguments or None))

    async def shell(self, script: str, *, deadline: float = 60) -> bytes:
        """Run a script in a shell of its own, and hear all that it says."""
        said = await self.evaluated(f"(\n{script}\n) 3>&-", deadline=deadline)
        return await self.gathered(script, deadline=deadline) if said is None else said

    async def evaluated(
        self, script: str, *, deadline: float = 60, begun: Callable[[], None] = lambda: None
    ) -> bytes | None:
        """Have the standing shell evaluate what keeps to itself; None: it is not free, or would not have been heard.

        `begun` is called when it rings the bell: what it is about begins.
        """
        return await self._due(self._evaluated(script, begun), deadline)

    async def gathered(self, script: str, *, expected: float = 0, deadline: float = 60) -> bytes:
        """Have the agent start another shell and gather what it says; it is first asked when that is expected."""
        return await self._due(self._gathered(script, expected), deadline)

    async def _due(self, asked: Coroutine[Any, Any, T], deadline: float) -> T:
        said = await self.soon(asked, "the guest did not answer", deadline)
        if self.served.lacks_one():
            # The script may have ended because of it, sooner than we were told: what it says is not about the array.
            raise await self.lost
        return said

    async def _evaluated(self, script: str, begun: Callable[[], None]) -> bytes | None:
        try:
            if not await self.orders.free(DOUBT):
                return None  # somebody stopped waiting for what it still does
            return await self._ordered(script, begun)
        except ShellGone:
            self.lose("the guest's shell was killed")
            raise self.lost.result() from None

    async def _ordered(self, script: str, begun: Callable[[], None]) -> bytes | None:
        last = secrets.token_hex(16)
        self.words.forget()
        self.rung()
        order = self.orders.give(f"{script}\nprintf '\\n%s\\n' {last}\n")
        watching = asyncio.create_task(self._begins(begun))
        listening = asyncio.create_task(self.words.until(f"\n{last}\n".encode()))
        try:
            return await self._heard(listening, order)
        finally:
            for task in (watching, listening):
                task.cancel()
            await asyncio.gather(watching, listening, return_exceptions=True)
            if BEGINS in self.rung():
                begun()

    async def _heard(self, listening: asyncio.Task[bytes], order: asyncio.Task[int]) -> bytes | None:
        """What ended too soon never says that it is through."""
        await asyncio.wait({listening, order}, return_when=asyncio.FIRST_COMPLETED)
        if not listening.done():
            await asyncio.wait({listening}, timeout=DOUBT)  # it may be in the air
        if listening.done():
            return listening.result()
        return None if order.result() == UNHEARD else self.words.so_far

    async def _gathered(self, script: str, patience: float) -> bytes:
        how = {**handed_over(script), "capture-output": True}
        started = await self.ask("guest-exec", path=SHELL, **how)
        while not (status := await self.ask("guest-exec-status", pid=started["pid"]))["exited"]:
            await asyncio.sleep(max(DOUBT, patience))
            patience = 0.0
        return base64.b64decode(status.get("out-data", "")) + base64.b64decode(status.get("err-data", ""))

    async def _begins(self, begun: Callable[[], None]) -> None:
        while BEGINS in await asyncio.get_running_loop().sock_recv(self.bell, 64):
            begun()

    def rung(self) -> bytes:
        """What the bell has said that nobody heard."""
        with suppress(OSError):
            return self.bell.recv(64)
        return b""


def handed_over(script: str) -> dict[str, object]:
    """How the agent gives it to a shell."""
    if len(script.encode()) <= ARGUMENT_LIMIT:
        return {"arg": ["-c", script]}
    return {"arg": ["-c", FROM_STDIN], "input-data": base64.b64encode(script.encode()).decode()}


def last_words(tail: str) -> str:
    """What our own first programs had to complain about, before anything else could run."""
    return "; ".join(line.removeprefix("matrix: ") for line in tail.splitlines() if line.startswith("matrix: "))


def first_cause(tail: str) -> str:
    """The line of the console that tells why a kernel panicked: the first trap, or else the panic itself."""
    lines = [re.sub(r"^\[ *[\d.]+\] *", "", line) for line in tail.splitlines()]
    traps = [line for line in lines if re.match(r"BUG:|kernel BUG|Oops|int3:|general protection|invalid opcode", line)]
    return next(iter([*traps, *(line for line in lines if "Kernel panic" in line)]), "")


@asynccontextmanager
async def running(vm: Vm, scratch: Path, start: argv.Start = argv.BOOT, back: Backing = backed) -> AsyncIterator[Guest]:
    """Start QEMU, by default with fresh, empty disks; it is gone when the block is left, however that happens."""
    async with AsyncExitStack() as stack:
        console = stack.enter_context(nameless(scratch))
        log = os.open(f"/proc/self/fd/{console.fileno()}", os.O_WRONLY | os.O_APPEND)  # what QEMU opens consoles as
        stack.callback(os.close, log)
        served = await stack.enter_async_context(back(vm.disks, scratch, log))
        (qmp, agent, bell, orders, words), theirs = zip(*(channel(stack) for _ in range(5)), strict=True)
        first, second, third, fourth, fifth = (end.fileno() for end in theirs)
        channels = argv.Channels(first, second, third, fourth, fifth, log, served.descriptors, served.kept)
        process = await spawn(argv.command(vm, channels, start), pass_fds=channels.all, output=log)
        served.handed_over()
        guest = Guest(process, console, bell, orders, words, served)
        stack.push_async_callback(guest.close)
        for end in theirs:
            end.close()
        for watching in (guest.watch_process(), guest.watch_servers()):
            stack.callback(asyncio.create_task(watching).cancel)
        await guest.soon(guest.connect(qmp, agent), "QEMU did not answer", ANSWER_DEADLINE)
        listener = asyncio.create_task(guest.watch_events())
        stack.callback(listener.cancel)
        yield guest


def channel(stack: AsyncExitStack) -> tuple[socket.socket, socket.socket]:
    """Two ends of a conversation; both are closed at the latest when the stack unwinds."""
    ours, theirs = socket.socketpair()
    stack.callback(theirs.close)
    stack.callback(ours.close)
    return ours, theirs
