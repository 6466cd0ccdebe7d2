"""Start and remove machines with Vagrant, each in a folder of its own."""

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
#: An emulated machine on a busy host takes minutes to boot.
UP_DEADLINE = 900.0
DOWN_DEADLINE = 120.0
LINE_DEADLINE = 180.0


def home() -> Path:
    """Return Vagrant's home: the user's for the user's own box, one in the cache for a box that is built here."""
    usual = Path(os.environ.get("VAGRANT_HOME") or Path.home() / ".vagrant.d")
    return usual if boxes.chosen() else cache_dir() / "vagrant" / "home"


def command(folder: Path, *words: str) -> list[str]:
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
    """Run Vagrant to its end; it cannot outlive this process."""
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
    """Yield Vagrant's lines without its progress, which it prints thousands of times without a line end."""
    left = ""
    while stream and (chunk := await stream.read(2**16)):
        *whole, left = (left + chunk.decode(errors="replace")).replace("\r", "\n").split("\n")
        for line in whole:
            if line.strip() and "Progress:" not in line:
                yield line
    if left.strip():
        yield left


def tail(said: list[str]) -> str:
    return "\n".join(said[-EVIDENCE_LINES:])


@dataclass(frozen=True)
class Order:
    spec: RigSpec
    box: Box
    driver: Literal["kvm", "qemu"]
    scratch: Path
    bays: Bays


@asynccontextmanager
async def up(order: Order, progress: Progress) -> AsyncIterator[Up]:
    """Provide a machine with its disks as long as the block lasts."""
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
    return {"accel": "kvm" if order.driver == "kvm" else "tcg", "box": order.box.name, **libvirt.versions()}


async def _made(order: Order, record: Record, folder: Path, disks: Sequence[Served], progress: Progress) -> None:
    """Let Vagrant make the machine. Only one process at a time may upload a box."""
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
        else:  # the box is uploaded now; or Vagrant may have a newer version of the user's own
            await asyncio.to_thread(stack.enter_context, uploading(order.box.name, common))  # it asks libvirt
        progress(f"vagrant: {record.domain} comes up")
        await vagrant(folder, "up", deadline=UP_DEADLINE, hear=lambda said: tell(said, progress))
        progress(f"vagrant: {record.domain} is up", 1)


def plan(order: Order, record: Record, disks: Sequence[Served], network: Network, unconfined: tuple[str, ...]) -> Plan:
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
    if said.startswith("==> ") and " -- " not in said:
        progress(f"vagrant: {said.partition(': ')[2].strip().rstrip('.')}"[:100])


@asynccontextmanager
async def line(folder: Path, socket: Path) -> AsyncIterator[tuple[str, ...]]:
    """Open the one ssh connection that all scripts share."""
    config = folder / "ssh-config"
    written(config, configuration(await vagrant(folder, "ssh-config", deadline=DOWN_DEADLINE)))
    child = await process.spawn(master(config, socket))
    try:
        await _let_in(socket, child)
        yield entered(config, socket)
    finally:
        await process.kill(child)


async def _let_in(socket: Path, child: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(LINE_DEADLINE):
            while not socket.is_socket():  # noqa: ASYNC240 - the socket's creation cannot be awaited, and looking is quick
                if child.returncode is not None:
                    raise RigLost(f"ssh ended with status {child.returncode} before the machine let us in")
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise RigLost(f"the machine let nobody in within {LINE_DEADLINE:g} s") from None


def configuration(said: str) -> str:
    """Return ssh's configuration without warnings of ruby."""
    return "".join(f"{line}\n" for line in said.splitlines() if line.startswith(("Host ", "  ")))


async def down(record: Record, folder: Path, *, whole: bool) -> None:
    """Let Vagrant remove the machine, and then what Vagrant leaves or does not know of."""
    if whole:
        with suppress(HarnessBroken):
            await vagrant(folder, "destroy", "-f", deadline=DOWN_DEADLINE)
    await asyncio.to_thread(libvirt.removed, record.domain)
