"""A QEMU that runs, and the two conversations with it: QMP with the machine, the guest agent inside it.

All channels are socket pairs and nameless files, inherited. QEMU is killed by the kernel if we die.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import socket
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from qemu.qmp import QMPClient, QMPError

from runner.errors import HarnessBroken
from runner.machines.qemu import argv
from runner.machines.seam import RigLost
from runner.process import spawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

    from runner.machines.qemu.argv import Vm

T = TypeVar("T")
TAIL_LINES = 100
TAIL_BYTES = 64 * 1024
#: A shell's argument may be 128 KiB; what is longer goes through standard input.
ARGUMENT_LIMIT = 120_000
#: How often to look whether a command ended although the bell did not ring.
DOUBT = 0.5
#: The agent has the result within milliseconds once the bell rang.
EAGER = 0.004
#: How long QEMU may take to be gone after it closed its channels.
LAST_BREATH = 5.0
SHELL = "/bin/bash"
MODULES_WANTED = "build the drivers into the kernel, or put its modules into lib/modules beside the image"
FROM_STDIN = "cat >/run/matrix/envelope && exec bash /run/matrix/envelope"

# The library logs every lost connection as an error; to us a dead QEMU is an answer like any other.
logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL + 1)


class Guest:
    """One running virtual machine."""

    def __init__(self, process: asyncio.subprocess.Process, console: IO[bytes]) -> None:
        self.process = process
        self.console = console
        self.qmp = QMPClient("machine")
        self.agent = QMPClient("guest", readbuflen=64 * 2**20)
        self.agent.await_greeting = self.agent.negotiate = False
        self.resumed = asyncio.Event()
        self.was_reset = asyncio.Event()
        self._migration: asyncio.Queue[str] = asyncio.Queue()
        #: Set as soon as the machine is beyond hope.
        self.lost: asyncio.Future[RigLost] = asyncio.get_running_loop().create_future()

    async def connect(self, qmp: socket.socket, agent: socket.socket, bell: socket.socket) -> None:
        """Take up all conversations. The agent answers later, when the guest is up."""
        self.bell, self._bell_writer = await asyncio.open_unix_connection(sock=bell)
        await self.agent.connect(agent)
        await self.qmp.connect(qmp)

    async def close(self) -> None:
        """Kill QEMU and hang up."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        self._bell_writer.close()
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
            self.lose("the guest kernel panicked")
        elif status < 0:
            self.lose(f"QEMU was killed by signal {-status}")
        else:
            self.lose(f"QEMU ended with status {status}" if status else "the guest switched itself off")

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
                brief = f"the host's disk is full: {data.get('node-name') or data.get('device')} cannot grow"
                self.lose(brief, "free some disk space, or let the disks live elsewhere")

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
            with suppress(asyncio.CancelledError, QMPError, OSError, EOFError):
                await task
        raise self.lost.result()

    async def command(self, name: str, **arguments: object) -> Any:
        """Ask the machine."""
        return await self.answer(self.qmp.execute(name, arguments or None))

    async def reset(self) -> None:
        """Press the reset button: what the guest had only in memory is gone, its disks are as they are."""
        self.was_reset.clear()
        await self.command("set-action", reboot="reset")
        await self.command("system_reset")
        await self.answer(self.was_reset.wait())

    async def stay_up(self) -> None:
        """From here on, a guest that resets itself is lost, not restarted; its BIOS does so once, on the way up."""
        await self.command("set-action", reboot="shutdown")

    async def ask(self, name: str, **arguments: object) -> Any:
        """Ask the guest."""
        return await self.answer(self.agent.execute(name, arguments or None))

    async def shell(self, script: str, *, expected: float = 0, deadline: float = 60) -> tuple[int, bytes, str]:
        """Run a script that rings the bell at its end; returns status, output and complaints."""
        try:
            async with asyncio.timeout(deadline):
                return await self._shell(script, expected)
        except TimeoutError:
            self.lose(f"the guest did not answer within {deadline:g} s")
            raise self.lost.result() from None

    async def _shell(self, script: str, expected: float) -> tuple[int, bytes, str]:
        how: dict[str, object] = {"arg": ["-c", script]}
        if len(script.encode()) > ARGUMENT_LIMIT:
            text = base64.b64encode(script.encode()).decode()
            how = {"arg": ["-c", FROM_STDIN], "input-data": text}
        started = await self.ask("guest-exec", path=SHELL, **how, **{"capture-output": True})
        patience = expected + DOUBT
        while True:
            rung = await self.ring(patience)
            status = await self.ask("guest-exec-status", pid=started["pid"])
            if status["exited"]:
                return ended(status)
            patience = EAGER if rung else DOUBT

    async def ring(self, patience: float) -> bool:
        """Wait for the bell, so that nobody has to ask a busy guest whether it is done."""
        try:
            async with asyncio.timeout(patience):
                return bool(await self.answer(self.bell.read(64)))
        except TimeoutError:
            return patience == EAGER


def last_words(tail: str) -> str:
    """What our own first programs had to complain about, before anything else could run."""
    return "; ".join(line.removeprefix("matrix: ") for line in tail.splitlines() if line.startswith("matrix: "))


def ended(status: dict[str, Any]) -> tuple[int, bytes, str]:
    """Exit status (a signal as shells tell it), output and complaints of a command that ended."""
    if status.get("out-truncated"):
        raise HarnessBroken("a step wrote more than the guest agent can carry (16 MiB)")
    code = status.get("exitcode", 128 + int(status.get("signal", 0)))
    complaint = base64.b64decode(status.get("err-data", "")).decode(errors="replace")
    return int(code), base64.b64decode(status.get("out-data", "")), complaint


def nameless(scratch: Path) -> IO[bytes]:
    """A file without a name: when the last who has it open is gone, so is the file."""
    return tempfile.TemporaryFile(dir=scratch)


@asynccontextmanager
async def running(
    vm: Vm, scratch: Path, *, memory_file: Path | None = None, keep_memory: bool = False, incoming: bool = False
) -> AsyncIterator[Guest]:
    """Start QEMU with fresh, empty disks; it is gone when the block is left, however that happens."""
    async with AsyncExitStack() as stack:
        console = stack.enter_context(nameless(scratch))
        log = os.open(f"/proc/self/fd/{console.fileno()}", os.O_WRONLY | os.O_APPEND)  # what QEMU opens consoles as
        stack.callback(os.close, log)
        files = [stack.enter_context(nameless(scratch)) for _ in vm.disks]
        for file, disk in zip(files, vm.disks, strict=True):
            file.truncate(disk.size)
        ours, theirs = zip(*(socket.socketpair() for _ in range(3)), strict=True)
        for end in theirs:
            stack.callback(end.close)
        qmp, agent, bell = (end.fileno() for end in theirs)
        channels = argv.Channels(
            qmp, agent, bell, log, tuple(file.fileno() for file in files), memory_file, keep_memory
        )
        process = await spawn(argv.command(vm, channels, incoming=incoming), pass_fds=channels.all, output=log)
        guest = Guest(process, console)
        stack.push_async_callback(guest.close)
        for end in theirs:
            end.close()
        watcher = asyncio.create_task(guest.watch_process())
        stack.callback(watcher.cancel)
        await guest.answer(guest.connect(*ours))
        listener = asyncio.create_task(guest.watch_events())
        stack.callback(listener.cancel)
        yield guest
