"""Start and removal of machines by Vagrant, each in a separate folder."""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.base.files import cache_dir, exclusive_lock
from runner.base.process import run_to_end
from runner.machines.base import RigLost
from runner.machines.vagrant import box as boxes
from runner.machines.vagrant import libvirt
from runner.machines.vagrant.box import NODE, PLAN
from runner.machines.vagrant.libvirt import note_upload, record_machine, upload_was_interrupted, write_atomically
from runner.machines.vagrant.rig import RunningMachine, connection_command, enter_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from typing import Literal

    from runner.machines.base import Progress, RigSpec
    from runner.machines.vagrant.box import Box, ServedDisk
    from runner.machines.vagrant.libvirt import Record
    from runner.machines.vagrant.rig import DiskProvider

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
        async with asyncio.timeout(deadline):
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
        write_atomically(folder / PLAN, plan(order, record, disks, address, unconfined))
        there = await asyncio.to_thread(libvirt.box_volumes, order.box.name)
        if there and order.box.catalogue and not upload_was_interrupted(common):
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
    write_atomically(config, ssh_config(await vagrant(folder, "ssh-config", deadline=DOWN_DEADLINE)))
    child = await process.spawn(connection_command(config, socket))
    try:
        await _wait_for_connection(socket, child)
        yield enter_command(config, socket)
    finally:
        await process.kill(child)


async def _wait_for_connection(socket: Path, child: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(LINE_DEADLINE):
            while not socket.is_socket():  # noqa: ASYNC240 - the socket's creation cannot be awaited, and looking is quick
                if child.returncode is not None:
                    raise RigLost(f"ssh ended with status {child.returncode} before it could connect to the machine")
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise RigLost(f"ssh could not connect to the machine within {LINE_DEADLINE:g} s") from None


def ssh_config(output: str) -> str:
    return "".join(f"{line}\n" for line in output.splitlines() if line.startswith(("Host ", "  ")))


async def remove_machine(record: Record, folder: Path, *, is_whole: bool) -> None:
    """Remove the machine with Vagrant, and then its leftovers with libvirt."""
    if is_whole:
        with suppress(HarnessBroken):
            await vagrant(folder, "destroy", "-f", deadline=DOWN_DEADLINE)
    await asyncio.to_thread(libvirt.remove_domain, record.domain)
