"""How a machine comes up and goes down: Vagrant does it, in a folder of the machine's own."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.cache import cache_dir, exclusive_lock
from runner.base.errors import HarnessBroken
from runner.base.uncancelled import run_to_end
from runner.machines.base import RigLost
from runner.machines.vagrant import box as boxes
from runner.machines.vagrant import libvirt
from runner.machines.vagrant.leftovers import half_uploaded, recorded, uploading, written
from runner.machines.vagrant.rig import Up, entered, master
from runner.machines.vagrant.vagrantfile_settings import PLAN, Plan, node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from typing import Literal

    from runner.machines.base import Progress, RigSpec
    from runner.machines.vagrant.leftovers import Record
    from runner.machines.vagrant.nbd_disks import Bays
    from runner.machines.vagrant.vagrantfile_settings import Box, Network, Served

VAGRANT = "vagrant"
EVIDENCE_LINES = 15
#: A machine that is emulated on a busy host takes minutes to boot.
UP_DEADLINE = 900.0
DOWN_DEADLINE = 120.0
LINE_DEADLINE = 180.0


def home() -> Path:
    """Where Vagrant keeps its boxes: a user's own box is known to the user's own Vagrant, ours to one in the cache."""
    usual = Path(os.environ.get("VAGRANT_HOME") or Path.home() / ".vagrant.d")
    return usual if boxes.chosen() else cache_dir() / "vagrant" / "home"


def command(folder: Path, *words: str) -> list[str]:
    """Vagrant, told which machine it is about. Its complaints are to be heard where they belong."""
    told = {
        "MATRIX_VAGRANT": str(folder / PLAN),
        "VAGRANT_CHECKPOINT_DISABLE": "1",
        "VAGRANT_CWD": str(boxes.HOME),
        "VAGRANT_DOTFILE_PATH": str(folder / "vagrant"),
        "VAGRANT_HOME": str(home()),
        "VAGRANT_NO_COLOR": "1",
    }
    merged = ("sh", "-c", 'exec "$@" 2>&1', "sh")
    return [*merged, "env", *(f"{name}={value}" for name, value in told.items()), VAGRANT, *words]


async def vagrant(folder: Path, *words: str, deadline: float, hear: Callable[[str], None] = lambda _: None) -> str:
    """Run Vagrant to its end; it cannot outlive us."""
    child = await process.spawn(command(folder, *words), output=asyncio.subprocess.PIPE)
    said: list[str] = []
    try:
        async with asyncio.timeout(deadline):
            async for line in lines(child.stdout):
                said.append(line)
                hear(line)
            status = await child.wait()
    except TimeoutError:
        raise RigLost(f"vagrant {words[0]} did not end within {deadline:g} s", tail=tail(said)) from None
    finally:
        await process.kill(child)
    if status:
        raise RigLost(f"vagrant {words[0]} failed with status {status}", tail=tail(said))
    return "\n".join(said)


async def lines(stream: asyncio.StreamReader | None) -> AsyncIterator[str]:
    """What it says, without how far it is, which it says thousands of times and without an end of line."""
    left = ""
    while stream and (chunk := await stream.read(2**16)):
        *whole, left = (left + chunk.decode(errors="replace")).replace("\r", "\n").split("\n")
        for line in whole:
            if line.strip() and "Progress:" not in line:
                yield line
    if left.strip():
        yield left


def tail(said: list[str]) -> str:
    """The last of what it said."""
    return "\n".join(said[-EVIDENCE_LINES:])


@dataclass(frozen=True)
class Order:
    """What a machine is to be, and for which run."""

    spec: RigSpec
    box: Box
    driver: Literal["kvm", "qemu"]
    scratch: Path
    bays: Bays


@asynccontextmanager
async def up(order: Order, progress: Progress) -> AsyncIterator[Up]:
    """A machine with its disks, for as long as the block lasts."""
    began = time.monotonic()
    with recorded(order.scratch) as (record, folder):
        sockets = Path(record.sockets)
        async with order.bays(order.spec.disks, order.scratch, sockets) as disks:
            whole = False
            try:
                await _made(order, record, folder, disks.shown, progress)
                async with line(folder, sockets / "line") as enter:
                    whole = True
                    ready = f"{time.monotonic() - began:.1f}"
                    yield Up(record, disks, enter, {**made_of(order), "up": "vagrant up", "ready": ready})
            finally:
                await run_to_end(down(record, folder, whole=whole))


def made_of(order: Order) -> dict[str, str]:
    """Facts that need no machine."""
    return {"accel": "kvm" if order.driver == "kvm" else "tcg", "box": order.box.name, **libvirt.versions()}


async def _made(order: Order, record: Record, folder: Path, disks: Sequence[Served], progress: Progress) -> None:
    """Let Vagrant make it. Only one at a time may bring a box to where all others find it."""
    common = cache_dir() / "vagrant"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(exclusive_lock(common / "up.lock"))
        network = await asyncio.to_thread(libvirt.prepared)
        unconfined = await asyncio.to_thread(libvirt.security_models)
        wanted = plan(order, record, disks, network, unconfined)
        written(folder / PLAN, wanted.model_dump_json(indent=2))
        there = await asyncio.to_thread(libvirt.box_volumes, order.box.name)
        if there and order.box.catalogue and not half_uploaded(common):
            await stack.aclose()
        else:  # it is brought now; or it is the user's own, of which Vagrant may know a newer one than is there
            await asyncio.to_thread(stack.enter_context, uploading(order.box.name, common))  # it asks libvirt
        progress(f"vagrant: {record.domain} comes up")
        await vagrant(folder, "up", deadline=UP_DEADLINE, hear=lambda said: tell(said, progress))
        progress(f"vagrant: {record.domain} is up", 1)


def plan(order: Order, record: Record, disks: Sequence[Served], network: Network, unconfined: tuple[str, ...]) -> Plan:
    """What the Vagrantfile reads."""
    return Plan(
        box=order.box.name,
        catalogue=order.box.catalogue,
        uri=libvirt.uri(),
        driver=order.driver,
        prefix=record.prefix,
        description=record.mark,
        pool=libvirt.POOL,
        network=network,
        unconfined=unconfined,
        machines=(node(order.spec, disks),),
    )


def tell(said: str, progress: Progress) -> None:
    """Pass on what Vagrant says that it does; not what it says of every setting."""
    if said.startswith("==> ") and " -- " not in said:
        progress(f"vagrant: {said.partition(': ')[2].strip().rstrip('.')}"[:100])


@asynccontextmanager
async def line(folder: Path, socket: Path) -> AsyncIterator[tuple[str, ...]]:
    """The way in: one connection, which all that is to be said goes through."""
    config = folder / "ssh-config"
    written(config, configuration(await vagrant(folder, "ssh-config", deadline=DOWN_DEADLINE)))
    child = await process.spawn(master(config, socket))
    try:
        await _let_in(socket, child)
        yield entered(config, socket)
    finally:
        await process.kill(child)


async def _let_in(socket: Path, child: asyncio.subprocess.Process) -> None:
    """Wait for the connection to stand."""
    try:
        async with asyncio.timeout(LINE_DEADLINE):
            while not socket.is_socket():  # noqa: ASYNC240 - nothing tells when it is there, and looking is quick
                if child.returncode is not None:
                    raise RigLost(f"ssh ended with status {child.returncode} before the machine let us in")
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise RigLost(f"the machine let nobody in within {LINE_DEADLINE:g} s") from None


def configuration(said: str) -> str:
    """What is ssh's of what Vagrant says; ruby may have had something to complain of, too."""
    return "".join(f"{line}\n" for line in said.splitlines() if line.startswith(("Host ", "  ")))


async def down(record: Record, folder: Path, *, whole: bool) -> None:
    """Let Vagrant take it away; what it leaves, or does not know of as it never was whole, we do."""
    if whole:
        with suppress(HarnessBroken):
            await vagrant(folder, "destroy", "-f", deadline=DOWN_DEADLINE)
    await asyncio.to_thread(libvirt.removed, record.domain)
