"""Templates: a machine is booted once and kept; every further one is a clone of it, ready in a tenth of a second.

The guest's memory is a file. Clones map it copy-on-write; the rest of the machine's state is a small second file. The
disks are part of the template's topology but not of its content: they are empty when it is saved, and each clone gets
empty ones of its own, so what the guest has cached of them is true. Disks of the host take their place in the same way:
nobody has a disk open while a template is saved, so the guest has cached nothing of what is on it.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from runner.base.cache import cache_dir, make_once, remove_partial, remove_unused, sha256, shared_lock, use_lock
from runner.machines.base import RigLost
from runner.machines.facts import FACTS
from runner.machines.qemu import argv, recipe, rig
from runner.machines.qemu.disk_files import backed
from runner.machines.qemu.guest import Guest, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from runner.machines.qemu.argv import Vm
    from runner.machines.qemu.disk_files import Backing

#: Raise it when the content of a template changes and the key does not show it.
VERSION = 4
MOST = 12
MOST_BYTES = 8 * 2**30
CAPABILITIES = [{"capability": "x-ignore-shared", "state": True}, {"capability": "events", "state": True}]
SAVE_DEADLINE = 60.0
RESTORE_DEADLINE = 60.0


def key(vm: Vm, qemu: str, host: str) -> str:
    """Names a template. `host` stands for all of the host that a guest can see: its processor above all.

    A guest's memory holds its kernel, and what it has read of its root: of this very build of the appliance.
    """
    disks = [(disk.bus, disk.size, disk.physics.rotation if disk.physics else None) for disk in vm.disks]
    return recipe.digest(
        VERSION, vm.appliance.key, vm.appliance.build, qemu, host, vm.accel, vm.cpus, vm.memory, disks,
        sorted(vm.modules), vm.appliance.words, FACTS, rig.WITHOUT, *vm.passed,
    )  # fmt: skip


def home() -> Path:
    return cache_dir() / "templates"


def whole(folder: Path) -> bool:
    """Return whether a template is complete. The manifest is written last, with the memory's size and the hash of the
    rest.
    """
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        right_size: bool = (folder / "memory").stat().st_size == manifest["memory"]
        return right_size and sha256(folder / "state") == str(manifest["state"])
    except (OSError, ValueError, KeyError):
        return False


async def make(vm: Vm, folder: Path, scratch: Path) -> None:
    memory = folder / "memory"
    async with running(vm, scratch, argv.Template(memory)) as guest:
        await rig.booted(guest)
        facts = await rig.ask_facts(guest)
        await save(guest, folder / "state")
    manifest = {"memory": memory.stat().st_size, "state": sha256(folder / "state"), "facts": facts}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))


async def save(guest: Guest, target: Path) -> None:
    """Save the machine's state without its memory. It must not be paused before, or its clones would be, too."""
    await guest.command("migrate-set-capabilities", capabilities=CAPABILITIES)
    with target.open("wb") as file:
        await migrate(guest, "migrate", file.fileno())
        outcome = await guest.soon(guest.migrated(), "QEMU did not save its state", SAVE_DEADLINE)
    if outcome != "completed":
        raise RigLost("QEMU cannot save its state", tail=guest.tail())


async def migrate(guest: Guest, command: str, descriptor: int) -> None:
    """Pass an open file to QEMU and migrate the state to it, or from it."""
    guest.qmp.send_fd_scm(descriptor)
    await guest.command("getfd", fdname="state")
    await guest.command(command, uri="fd:state")


@asynccontextmanager
async def restored(
    vm: Vm, name: str, scratch: Path, back: Backing = backed
) -> AsyncIterator[tuple[Guest, dict[str, Any]]]:
    """A clone of the template of this name, which is made now unless it is there."""
    folder = home() / name
    # The lock is taken before the template is found complete, so that it cannot be pruned between that and its use.
    async with shared_lock(use_lock(folder)):
        with lost_with_files(folder):
            await make_once(folder, whole, lambda half: make(vm, half, scratch))
            facts = json.loads((folder / "manifest.json").read_text())["facts"]
            os.utime(folder)
        prune()
        async with running(vm, scratch, argv.Clone(folder / "memory"), back) as guest:
            with lost_with_files(folder):
                await wake(guest, folder / "state")
            yield guest, facts


@contextmanager
def lost_with_files(folder: Path) -> Iterator[None]:
    """Treat file errors of a template as a template that does not start."""
    try:
        yield
    except OSError as error:
        raise RigLost(f"the template in {folder} is of no use: {error}") from error


async def wake(guest: Guest, state: Path) -> None:
    await guest.command("migrate-set-capabilities", capabilities=CAPABILITIES)
    with state.open("rb") as file:
        await migrate(guest, "migrate-incoming", file.fileno())
        await guest.soon(guest.resumed.wait(), "the template did not come to life", RESTORE_DEADLINE)
    # Messages to the agent before its state is loaded would be lost.
    await guest.shell(rig.refresh(), deadline=RESTORE_DEADLINE)


def prune() -> None:
    """Forget the templates that were not used for longest, beyond a number and a size; never one in use.

    What is left of those that somebody was killed at goes as well.
    """
    remove_partial(home())
    total = 0
    for number, (_, size, folder) in enumerate(sorted(known(), reverse=True)):
        total += size
        if number >= MOST or total > MOST_BYTES:
            remove_unused(folder)


def known() -> Iterator[tuple[float, int, Path]]:
    for folder in home().iterdir():
        # Another process may remove it meanwhile.
        with suppress(OSError):
            if not folder.name.startswith("."):
                yield folder.stat().st_mtime, sum(path.stat().st_blocks * 512 for path in folder.iterdir()), folder


def since(start: float) -> str:
    return f"{time.monotonic() - start:.3f}"
