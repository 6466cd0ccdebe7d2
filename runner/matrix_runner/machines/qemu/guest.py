"""A running QEMU, which the kernel kills with this process; its channels and disks are inherited descriptors."""

import asyncio
import base64
import logging
import os
import re
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar, cast

from qemu.qmp import QMPClient, QMPError

from matrix_runner.base.children import kill, spawn, spawn_on_socket
from matrix_runner.base.digests import forget_checks
from matrix_runner.base.process import is_gone
from matrix_runner.base.time_limit import time_limit
from matrix_runner.machines.base import RigLost
from matrix_runner.machines.qemu import argv
from matrix_runner.machines.qemu.argv import Vm
from matrix_runner.machines.shell import OUTPUT_LOST, OrderChannel, OutputChannel, ShellGone
from matrix_runner.simdisks.clib import Board, Library, Report, build_library, load_library
from matrix_runner.simdisks.disk import Disk, Fault, links_of, slow_of
from matrix_runner.simdisks.server import ROOM, disk_full_message, explain_exit, stdio_command

T = TypeVar("T")
TAIL_LINES = 100
TAIL_BYTES = 64 * 1024
#: An argument of a shell may have 128 KiB; longer scripts go through standard input.
ARGUMENT_LIMIT = 120_000
BEGINS = b"b"
#: Seconds that output may be in transit, and the interval of polls of the agent.
DOUBT = 2.0
ANSWER_DEADLINE = 60.0
LAST_BREATH = 5.0
#: The shell that the agent starts if the standing shell cannot be used.
SHELL = "/bin/bash-static"
MODULES_WANTED = "build the drivers into the kernel, or put its modules into lib/modules beside the image"
#: Fixed by QEMU commit deba78709ae8, "accel/tcg: Always lock pages before translation".
NEWER_QEMU = "QEMU before 8.1 sometimes runs outdated kernel code when it emulates; KVM or a newer QEMU does not"
FROM_STDIN = "cat >/run/matrix/envelope && exec bash /run/matrix/envelope"

# The library logs every lost connection as an error, but a dead QEMU is a normal result here.
logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL + 1)


@dataclass
class DiskFiles:
    #: One descriptor for each disk, which QEMU inherits: a file, or a connection to a server.
    descriptors: tuple[int, ...] = ()
    servers: dict[int, asyncio.subprocess.Process] = field(default_factory=dict)
    board: Board | None = None
    own_ends: list[socket.socket] = field(default_factory=list)
    locks: tuple[int, ...] = ()  # descriptors of locks, which QEMU only keeps open

    def reports(self) -> tuple[Report, ...]:
        return tuple(self.board.report(number) for number in range(len(self.descriptors))) if self.board else ()

    def slow_down(self, slow: int) -> None:
        if self.board:
            self.board.slow_down(slow)

    def add_faults(self, faults: Iterable[Fault]) -> None:
        if self.board:
            now = self.board.clock()
            for fault in faults:
                self.board.add_fault(replace(fault, at=now + fault.at))

    async def wait_for_end(self) -> tuple[int, int]:
        waiting = {asyncio.create_task(server.wait()): number for number, server in self.servers.items()}
        try:
            if not waiting:
                await asyncio.Event().wait()
            (first, *_), _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return waiting[first], first.result()
        finally:
            for task in waiting:
                task.cancel()


class DiskProvider(Protocol):
    def __call__(
        self, disks: tuple[Disk, ...], scratch: Path, complaints: int
    ) -> AbstractAsyncContextManager[DiskFiles]:
        """`complaints`: a descriptor for the servers' errors."""


def open_nameless(scratch: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(dir=scratch)


@asynccontextmanager
async def serve_disks(
    disks: tuple[Disk, ...], scratch: Path, complaints: int, notice: Callable[[str], None] = lambda _: None
) -> AsyncIterator[DiskFiles]:
    async with AsyncExitStack() as stack:
        files = [stack.enter_context(open_nameless(scratch)) for _ in disks]
        for file, disk in zip(files, disks, strict=True):
            file.truncate(disk.size)
        served = DiskFiles(tuple(file.fileno() for file in files))
        if any(disk.physics for disk in disks):
            sheet = stack.enter_context(open_nameless(scratch)).fileno()
            code = load_library(await build_library(notice))
            await _serve(code, served, disks, sheet, complaints, stack)
        yield served


async def _serve(
    code: Library, served: DiskFiles, disks: tuple[Disk, ...], sheet: int, complaints: int, stack: AsyncExitStack
) -> None:
    served.board = Board(code, sheet, tuple(link.rate for link in links_of(disks)), slow_of(disks))
    stack.callback(served.board.close)
    ends = list(served.descriptors)
    for number, disk in enumerate(disks):
        if disk.physics is None:
            continue
        image, (ours, theirs) = ends[number], socket.socketpair()
        served.own_ends.append(ours)
        stack.callback(ours.close)
        ends[number] = ours.fileno()
        with theirs:
            argv = stdio_command(code.plugin, disks, number, image, sheet)
            server = await spawn_on_socket(argv, theirs.fileno(), pass_fds=(image, sheet), complaints=complaints)
        served.servers[number] = server
        stack.push_async_callback(kill, server)
    served.descriptors = tuple(ends)


class Guest:
    def __init__(
        self,
        process: asyncio.subprocess.Process,
        console: IO[bytes],
        bell: socket.socket,
        orders: socket.socket,
        words: socket.socket,
        served: DiskFiles,
    ) -> None:
        self.process, self.console, self.served = process, console, served
        self.bell = bell
        self.bell.setblocking(False)
        self.orders, self.words = OrderChannel(orders), OutputChannel(words)
        self.qmp = QMPClient("machine")
        self.agent = QMPClient("guest", readbuflen=64 * 2**20)
        self.agent.await_greeting = self.agent.negotiate = False
        self.resumed = asyncio.Event()
        self._migration: asyncio.Queue[str] = asyncio.Queue()
        #: Has a result as soon as the machine cannot be used any more.
        self.lost: asyncio.Future[RigLost] = asyncio.get_running_loop().create_future()

    async def connect(self, qmp: socket.socket, agent: socket.socket) -> None:
        """Connect to QMP and the agent, which answers later, when the guest is up."""
        try:
            await self.agent.connect(agent)
            await self.qmp.connect(qmp)
        except AssertionError as error:
            # The library asserts that a new connection is still open.
            raise EOFError("QEMU hung up at once") from error

    async def close(self) -> None:
        await kill(self.process)
        await self.orders.forget()
        await self.hang_up()

    async def hang_up(self) -> None:
        for client in (self.qmp, self.agent):
            with suppress(QMPError, OSError, EOFError):
                await client.disconnect()

    def tail(self) -> str:
        size = os.fstat(self.console.fileno()).st_size
        text = os.pread(self.console.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES)).decode(errors="replace")
        return "\n".join(text.replace("\r", "").splitlines()[-TAIL_LINES:])

    def lose(self, brief: str, resolution: str = "") -> None:
        if not self.lost.done():
            self.lost.set_result(RigLost(brief, tail=self.tail(), resolution=resolution))

    async def watch_process(self) -> None:
        status = await self.process.wait()
        if errors := boot_errors(self.tail()):
            self.lose(f"the guest could not start: {errors}", MODULES_WANTED)
        elif "Kernel panic" in self.tail():
            cause = panic_cause(self.tail())
            self.lose(f"the guest kernel panicked: {cause}", NEWER_QEMU if "int3" in cause else "")
        elif status < 0:
            self.lose(f"QEMU was killed by signal {-status}")
        else:
            self.lose(f"QEMU ended with status {status}" if status else "the guest switched itself off")

    async def watch_servers(self) -> None:
        """Report a disk server that ends before QEMU. A normal end kills QEMU first."""
        disk, status = await self.served.wait_for_end()
        with suppress(TimeoutError):
            async with time_limit(LAST_BREATH / 10):
                await self.process.wait()
        self.lose(*explain_exit(disk, status))

    async def watch_events(self) -> None:
        async for event in self.qmp.events:
            data = cast("dict[str, Any]", event.get("data", {}))
            if event["event"] == "RESUME":
                self.resumed.set()
            if event["event"] == "MIGRATION":
                self._migration.put_nowait(str(data["status"]))
            if event["event"] == "BLOCK_IO_ERROR" and data.get("action") == "stop":
                self.lose(disk_full_message(str(data.get("node-name") or data.get("device"))), ROOM)

    async def wait_for_migration(self) -> str:
        while (status := await self._migration.get()) not in {"completed", "failed", "cancelled"}:
            pass
        return status

    async def answer(self, asked: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(asked)
        either: set[asyncio.Future[Any]] = {task, self.lost}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not self.lost.done():
                return task.result()
        except (QMPError, OSError, EOFError):
            # The channel is broken. The reason is known once the process has been reaped.
            with suppress(TimeoutError):
                async with time_limit(LAST_BREATH):
                    await asyncio.shield(self.lost)
            self.lose("QEMU closed its channels")
        finally:
            task.cancel()
            await asyncio.wait({task})
            # The exception has been raised above, or must not hide the reason of the loss.
            _ = task.cancelled() or task.exception()
        raise self.lost.result()

    async def answer_within(self, asked: Coroutine[Any, Any, T], what: str, deadline: float) -> T:
        try:
            async with time_limit(deadline):
                return await self.answer(asked)
        except TimeoutError:
            self.lose(f"{what} within {deadline:g} s")
            raise self.lost.result() from None

    async def command(self, name: str, **arguments: object) -> Any:
        asked = self.qmp.execute(name, arguments or None)
        return await self.answer_within(asked, f"QEMU did not answer to {name}", ANSWER_DEADLINE)

    async def ask(self, name: str, **arguments: object) -> Any:
        return await self.answer(self.agent.execute(name, arguments or None))

    async def shell(self, script: str, *, deadline: float = 60) -> bytes:
        output = await self.evaluate(f"(\n{script}\n) 3>&-", deadline=deadline)
        return await self.run_in_new_shell(script, deadline=deadline) if output is None else output

    async def evaluate(
        self, script: str, *, deadline: float = 60, on_start: Callable[[], None] = lambda: None
    ) -> bytes | None:
        """Evaluate a script in the standing shell; call `on_start` at its bell. Return None if the shell is busy."""
        return await self._before_deadline(self._evaluate(script, on_start), deadline)

    async def run_in_new_shell(self, script: str, *, expected: float = 0, deadline: float = 60) -> bytes:
        return await self._before_deadline(self._run_in_new_shell(script, expected), deadline)

    async def _before_deadline(self, asked: Coroutine[Any, Any, T], deadline: float) -> T:
        result = await self.answer_within(asked, "the guest did not answer", deadline)
        if any(is_gone(server.pid) for server in self.served.servers.values()):
            # The script may have failed because a disk server has ended, so its output does not describe the stack.
            raise await self.lost
        return result

    async def _evaluate(self, script: str, on_start: Callable[[], None]) -> bytes | None:
        try:
            if not await self.orders.is_free(DOUBT):
                return None  # a script without a waiting caller still runs
            return await self._send_order(script, on_start)
        except ShellGone:
            self.lose("the guest's shell was killed")
            raise self.lost.result() from None

    async def _send_order(self, script: str, on_start: Callable[[], None]) -> bytes | None:
        async def watch_bell() -> None:
            while BEGINS in await asyncio.get_running_loop().sock_recv(self.bell, 64):
                on_start()

        last = secrets.token_hex(16)
        self.words.forget()
        self.read_bell()
        order = self.orders.send(f"{script}\nprintf '\\n%s\\n' {last}\n")
        watching = asyncio.create_task(watch_bell())
        listening = asyncio.create_task(self.words.read_until(f"\n{last}\n".encode()))
        try:
            # A script that ends early does not print the last line.
            await asyncio.wait({listening, order}, return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                await asyncio.wait({listening}, timeout=DOUBT)  # it may be in transit
            if listening.done():
                return listening.result()
            return None if order.result() == OUTPUT_LOST else self.words.received
        finally:
            for task in (watching, listening):
                task.cancel()
            await asyncio.gather(watching, listening, return_exceptions=True)
            if BEGINS in self.read_bell():
                on_start()

    async def _run_in_new_shell(self, script: str, patience: float) -> bytes:
        how: dict[str, object] = {"arg": ["-c", script]}
        if len(script.encode()) > ARGUMENT_LIMIT:
            how = {"arg": ["-c", FROM_STDIN], "input-data": base64.b64encode(script.encode()).decode()}
        started = await self.ask("guest-exec", path=SHELL, **how, **{"capture-output": True})
        while not (status := await self.ask("guest-exec-status", pid=started["pid"]))["exited"]:
            await asyncio.sleep(max(DOUBT, patience))
            patience = 0.0
        return base64.b64decode(status.get("out-data", "")) + base64.b64decode(status.get("err-data", ""))

    def read_bell(self) -> bytes:
        with suppress(OSError):
            return self.bell.recv(64)
        return b""


def boot_errors(tail: str) -> str:
    return "; ".join(line.removeprefix("matrix: ") for line in tail.splitlines() if line.startswith("matrix: "))


def panic_cause(tail: str) -> str:
    lines = [re.sub(r"^\[ *[\d.]+\] *", "", line) for line in tail.splitlines()]
    traps = [line for line in lines if re.match(r"BUG:|kernel BUG|Oops|int3:|general protection|invalid opcode", line)]
    return next(iter([*traps, *(line for line in lines if "Kernel panic" in line)]), "")


@asynccontextmanager
async def run_guest(
    vm: Vm, scratch: Path, start: argv.Start = argv.BOOT, back: DiskProvider = serve_disks
) -> AsyncIterator[Guest]:
    async with AsyncExitStack() as stack:
        console = stack.enter_context(open_nameless(scratch))
        log = os.open(f"/proc/self/fd/{console.fileno()}", os.O_WRONLY | os.O_APPEND)  # QEMU opens consoles write-only
        stack.callback(os.close, log)
        served = await stack.enter_async_context(back(vm.disks, scratch, log))
        (qmp, agent, bell, orders, words), theirs = zip(*(channel(stack) for _ in range(5)), strict=True)
        first, second, third, fourth, fifth = (end.fileno() for end in theirs)
        channels = argv.Channels(first, second, third, fourth, fifth, log, served.descriptors, served.locks)
        process = await spawn(argv.command(vm, channels, start), pass_fds=channels.all, output=log)
        for end in (*served.own_ends, *theirs):  # so that each server ends with QEMU
            end.close()
        guest = Guest(process, console, bell, orders, words, served)
        stack.push_async_callback(guest.close)
        for watching in (guest.watch_process(), guest.watch_servers()):
            stack.callback(asyncio.create_task(watching).cancel)
        try:
            await guest.answer_within(guest.connect(qmp, agent), "QEMU did not answer", ANSWER_DEADLINE)
            stack.callback(asyncio.create_task(guest.watch_events()).cancel)
            yield guest
        except RigLost:
            forget_checks()
            raise


def channel(stack: AsyncExitStack) -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    stack.callback(theirs.close)
    stack.callback(ours.close)
    return ours, theirs
