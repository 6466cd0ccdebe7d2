"""A running machine of Vagrant: its start and removal, its rig, and its disks, each with a server at a socket."""

import asyncio
import json
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Literal, Protocol

from matrix_runner.base import children, process
from matrix_runner.base.cache import cache_dir, exclusive_lock
from matrix_runner.base.children import kill, run_to_end, spawn
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.files import write_whole
from matrix_runner.base.process import is_gone
from matrix_runner.base.time_limit import time_limit
from matrix_runner.machines import requirements
from matrix_runner.machines.base import Progress, RigLost, RigSpec, Step, StepResult
from matrix_runner.machines.qemu.guest import open_nameless
from matrix_runner.machines.shell import ShellRig
from matrix_runner.machines.vagrant import box as boxes
from matrix_runner.machines.vagrant import libvirt
from matrix_runner.machines.vagrant.box import FIND, NODE, PLAN, Box, ServedDisk, parse_names, serial, temporary_disk
from matrix_runner.machines.vagrant.libvirt import NOTE, Record, note_upload, record_machine
from matrix_runner.simdisks.clib import Board, Library, Report, build_library, load_library
from matrix_runner.simdisks.disk import Disk, links_of, slow_of
from matrix_runner.simdisks.server import explain_exit, plain_command, socket_command, wait_for_socket

DEADLINE = 30.0


@dataclass
class DiskServers:
    disks: tuple[Disk, ...]
    files: tuple[IO[bytes], ...]
    sockets: tuple[Path, ...]
    plan_entries: tuple[ServedDisk, ...]
    board: Board | None = None
    servers: list[asyncio.subprocess.Process] = field(default_factory=list)

    def reports(self) -> tuple[Report, ...]:
        return tuple(self.board.report(number) for number in range(len(self.disks))) if self.board else ()

    def slow_down(self, slow: int) -> None:
        if self.board:
            self.board.slow_down(slow)

    async def find_ended_server(self) -> tuple[str, str] | None:
        for number, server in enumerate(self.servers):
            if is_gone(server.pid):
                return explain_exit(number, await server.wait())
        return None

    def empty(self) -> None:
        """Make all disks read as zeros. The machine must not use them meanwhile."""
        for file, disk in zip(self.files, self.disks, strict=True):
            file.truncate(0)
            file.truncate(disk.size)


@asynccontextmanager
async def serve_disks(
    disks: tuple[Disk, ...], scratch: Path, folder: Path, notice: Callable[[str], None] = lambda _: None
) -> AsyncIterator[DiskServers]:
    async with AsyncExitStack() as stack:
        files = tuple(stack.enter_context(open_nameless(scratch)) for _ in disks)
        sockets = socket_paths(folder, len(disks))
        made = DiskServers(disks, files, sockets, tuple(map(temporary_disk, disks, count(), sockets)))
        made.empty()
        sheet = stack.enter_context(open_nameless(scratch)).fileno()
        code = load_library(await build_library(notice)) if any(disk.physics for disk in disks) else None
        if code:
            made.board = Board(code, sheet, tuple(link.rate for link in links_of(disks)), slow_of(disks))
            stack.callback(made.board.close)
        for number, socket in enumerate(made.sockets):
            argv, descriptors = server_command(made, code, number, sheet)
            made.servers.append(await start_server(socket, argv, descriptors, stack))
        yield made


def socket_paths(folder: Path, number: int) -> tuple[Path, ...]:
    return tuple(folder / secrets.token_hex(8) for _ in range(number))


async def start_server(
    socket: Path, argv: Sequence[str], descriptors: Sequence[int], stack: AsyncExitStack
) -> asyncio.subprocess.Process:
    server = await spawn(argv, pass_fds=descriptors)
    stack.push_async_callback(kill, server)
    await wait_for_socket(socket, server, DEADLINE)
    await asyncio.to_thread(socket.chmod, 0o666)  # only we and QEMU's user reach it: see `libvirt.admit_qemu`
    return server


def server_command(
    made: DiskServers, code: Library | None, number: int, sheet: int
) -> tuple[list[str], tuple[int, ...]]:
    image, socket = made.files[number].fileno(), made.sockets[number]
    if code is None or made.disks[number].physics is None:
        return plain_command(socket, image), (image,)
    return socket_command(code.plugin, made.disks, number, socket, image, sheet), (image, sheet)


class DiskProvider(Protocol):
    def __call__(
        self, disks: tuple[Disk, ...], scratch: Path, folder: Path
    ) -> AbstractAsyncContextManager[DiskServers]: ...


#: The arguments are quoted, because ssh joins them and the shell in the machine splits them again. $1: ssh's
#: configuration; $2: the socket of the connection.
INTO = 'config=$1 line=$2; shift 2; exec ssh -F "$config" -S "$line" node -- "$(printf "%q " sudo -n "$@")"'
FOLDER = "/run/matrix/rig"
#: After the runner has emptied the disks, the machine's cache of them is outdated.
FORGET = 'export PATH=$PATH:/usr/sbin:/sbin; for disk do blockdev --flushbufs "$disk"; done'
PATIENCE = 120.0


def enter_command(config: Path, line: Path) -> tuple[str, ...]:
    return ("bash", "-c", INTO, "into", str(config), str(line))


@dataclass(frozen=True)
class RunningMachine:
    record: Record
    servers: DiskServers
    enter: tuple[str, ...]
    facts: Mapping[str, str]

    @property
    def where(self) -> str:
        return f"the machine {self.record.domain}"

    def run_script(self, script: str, *words: str) -> str:
        done = process.run([*self.enter, "bash", "-c", script, "matrix", *words], timeout=PATIENCE)
        if done.returncode:
            raise RigLost(
                f"no shell on {self.where}: status {done.returncode}",
                tail=f"{done.stderr.strip()[-2000:]}\n{libvirt.describe_state(self.record.domain)}",
            )
        return done.stdout

    def disks(self) -> tuple[str, ...]:
        count = len(self.servers.disks)
        names = parse_names(self.run_script(FIND, *map(serial, range(count))), count)
        if not all(names):
            raise HarnessBroken(
                f"{self.where} shows no disk with the serial number {serial(names.index(''))}",
                resolution="add udev and the drivers of this bus to your own box",
            )
        return names

    def empty_disks(self, disks: Sequence[str]) -> None:
        self.servers.empty()
        self.run_script(FORGET, *disks)


class VagrantRig(ShellRig):
    def __init__(self, up: RunningMachine, disks: Sequence[str], facts: Mapping[str, str]) -> None:
        super().__init__(up.enter, FOLDER, disks, facts, up.where)
        self._up = up

    def disk_reports(self) -> tuple[Report, ...]:
        return self._up.servers.reports()

    def slow_down(self, slow: int) -> None:
        self._up.servers.slow_down(slow)

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        try:
            results = await super().run(steps, expected=expected, deadline=deadline)
        except RigLost as lost:
            state = await asyncio.to_thread(libvirt.describe_state, self._up.record.domain)
            raise RigLost(lost.brief, tail=f"{lost.tail}\n{state}".strip(), resolution=lost.resolution) from None
        if why := await self._up.servers.find_ended_server():
            raise RigLost(why[0], resolution=why[1])
        return results


def query_facts(up: RunningMachine, spec: RigSpec) -> dict[str, str]:
    answer = requirements.query(up.enter, spec, up.where)
    lacking = [one for one in requirements.refusals(answer, up.where) if one.program]
    if lacking:
        raise HarnessBroken(
            f"{up.where} lacks programs",
            details="\n".join(f"- {one.message}" for one in lacking),
            resolution="add them to your box, or unset MATRIX_BOX and let `matrix` build one",
        )
    return {**requirements.facts(answer), **up.facts}


VAGRANT = "vagrant"
EVIDENCE_LINES = 15
#: An emulated machine on a busy host takes minutes to boot.
UP_DEADLINE = 900.0
DOWN_DEADLINE = 120.0
LINE_DEADLINE = 180.0


def home() -> Path:
    """Return Vagrant's home: the user's for the user's own box, or a private one for a box that is built here."""
    usual = Path(os.environ.get("VAGRANT_HOME") or Path.home() / ".vagrant.d")
    return usual if boxes.user_box() else cache_dir() / "vagrant" / "home"


def command(folder: Path, *words: str) -> list[str]:
    environment = {
        "MATRIX_VAGRANT": str(folder / PLAN),
        "VAGRANT_CHECKPOINT_DISABLE": "1",
        "VAGRANT_CWD": str(boxes.HOME),
        "VAGRANT_DOTFILE_PATH": str(folder / "vagrant"),
        "VAGRANT_HOME": str(home()),
        "VAGRANT_NO_COLOR": "1",
    }
    return ["env", *(f"{name}={value}" for name, value in environment.items()), VAGRANT, *words]


async def vagrant(folder: Path, *words: str, deadline: float, on_line: Callable[[str], None] = lambda _: None) -> str:
    output: list[str] = []

    def note(line: str) -> None:
        output.append(line)
        on_line(line)

    try:
        async with time_limit(deadline):
            status = await boxes.run_with_lines(command(folder, *words), note)
        why = f"failed with status {status}" if status else ""
    except TimeoutError:
        why = f"did not end within {deadline:g} s"
    if why:
        raise RigLost(f"vagrant {words[0]} {why}", tail="\n".join(output[-EVIDENCE_LINES:]))
    return "\n".join(output)


@dataclass(frozen=True)
class Order:
    spec: RigSpec
    box: Box
    driver: Literal["kvm", "qemu"]
    scratch: Path
    serve_disks: DiskProvider


@asynccontextmanager
async def start_machine(order: Order, progress: Progress) -> AsyncIterator[RunningMachine]:
    began = time.monotonic()
    with record_machine(order.scratch) as (record, folder):
        sockets = Path(record.sockets)
        async with order.serve_disks(order.spec.disks, order.scratch, sockets) as disks:
            is_whole = False
            try:
                await _create(order, record, folder, disks.plan_entries, progress)
                async with ssh_connection(folder, sockets / "line") as enter:
                    is_whole = True
                    ready = f"{time.monotonic() - began:.1f}"
                    yield RunningMachine(record, disks, enter, {**facts_of(order), "up": "vagrant up", "ready": ready})
            finally:
                await run_to_end(remove_machine(record, folder, is_whole=is_whole))


def facts_of(order: Order) -> dict[str, str]:
    return {"accel": "kvm" if order.driver == "kvm" else "tcg", "box": order.box.name, **libvirt.versions()}


async def _create(order: Order, record: Record, folder: Path, disks: Sequence[ServedDisk], progress: Progress) -> None:
    """Create the machine with Vagrant. Only one process at a time may upload a box."""
    common = cache_dir() / "vagrant"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(exclusive_lock(common / "up.lock"))
        address = await asyncio.to_thread(libvirt.prepare)
        unconfined = await asyncio.to_thread(libvirt.security_models)
        await asyncio.to_thread(libvirt.admit_qemu, Path(record.sockets))
        write_whole(folder / PLAN, plan(order, record, disks, address, unconfined).encode())
        there = await asyncio.to_thread(libvirt.box_volumes, order.box.name)
        if there and order.box.catalogue and not (common / NOTE).exists():
            await stack.aclose()
        else:  # Vagrant uploads the box now, or may upload a newer version of the user's own
            await asyncio.to_thread(stack.enter_context, note_upload(order.box.name, common))
        progress(f"vagrant: {record.domain} starts")
        await vagrant(folder, "up", deadline=UP_DEADLINE, on_line=lambda line: report_progress(line, progress))
        progress(f"vagrant: {record.domain} is up", 1)


def plan(order: Order, record: Record, disks: Sequence[ServedDisk], address: str, unconfined: tuple[str, ...]) -> str:
    memory = (order.spec.memory + boxes.OWN_MEMORY) // 2**20
    machine = {"name": NODE, "cpus": order.spec.cpus, "memory": memory, "disks": [asdict(disk) for disk in disks]}
    content = {
        "box": order.box.name,
        "catalogue": order.box.catalogue,
        "uri": libvirt.uri(),
        "driver": order.driver,
        "prefix": record.prefix,
        "description": record.mark,
        "pool": libvirt.POOL,
        "network": {"name": libvirt.NETWORK, "address": address},
        # Security models that are switched off for the machine, because they would block the sockets.
        "unconfined": unconfined,
        "machines": [machine],
    }
    return json.dumps(content, indent=2)


def report_progress(line: str, progress: Progress) -> None:
    if line.startswith("==> ") and " -- " not in line:
        progress(f"vagrant: {line.partition(': ')[2].strip().rstrip('.')}"[:100])


@asynccontextmanager
async def ssh_connection(folder: Path, socket: Path) -> AsyncIterator[tuple[str, ...]]:
    config = folder / "ssh-config"
    write_whole(config, ssh_config(await vagrant(folder, "ssh-config", deadline=DOWN_DEADLINE)).encode())
    line = ("ssh", "-F", str(config), "-N", "-M", "-S", str(socket), "-o", "ServerAliveInterval=15", NODE)
    child = await children.spawn(line)
    try:
        await _wait_for_connection(socket, child)
        yield enter_command(config, socket)
    finally:
        await children.kill(child)


async def _wait_for_connection(socket: Path, child: asyncio.subprocess.Process) -> None:
    try:
        async with time_limit(LINE_DEADLINE):
            while not socket.is_socket():  # noqa: ASYNC240 - the socket's creation cannot be awaited, and looking is quick
                if child.returncode is not None:
                    raise RigLost(f"ssh ended with status {child.returncode} before it could connect to the machine")
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise RigLost(f"ssh could not connect to the machine within {LINE_DEADLINE:g} s") from None


def ssh_config(output: str) -> str:
    return "".join(f"{line}\n" for line in output.splitlines() if line.startswith(("Host ", "  ")))


async def remove_machine(record: Record, folder: Path, *, is_whole: bool) -> None:
    if is_whole:
        with suppress(HarnessBroken):
            await vagrant(folder, "destroy", "-f", deadline=DOWN_DEADLINE)
    await asyncio.to_thread(libvirt.remove_domain, record.domain)
