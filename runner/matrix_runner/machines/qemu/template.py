"""Templates: a machine boots once and is saved with empty disks. Its clones map its memory, and are ready at once."""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from matrix_runner.base.cache import cache_dir, make_once, remove_partial, remove_unused, shared_lock, use_lock
from matrix_runner.machines.base import RigLost
from matrix_runner.machines.qemu import argv, recipe, rig
from matrix_runner.machines.qemu.argv import Vm
from matrix_runner.machines.qemu.guest import DiskProvider, Guest, run_guest, serve_disks
from matrix_runner.machines.requirements import FACTS

#: Raise it when the content of a template changes and the key does not show it.
VERSION = 4
MOST = 12
MOST_BYTES = 8 * 2**30
CAPABILITIES = [{"capability": "x-ignore-shared", "state": True}, {"capability": "events", "state": True}]
FACTS_FILE = "facts.json"
SAVE_DEADLINE = 60.0
RESTORE_DEADLINE = 60.0


def key(vm: Vm, qemu: str, host: str) -> str:
    """Return the name of a template, from everything in the guest's memory; `host` is what it sees of the host."""
    disks = [(disk.bus, disk.size, argv.rotation(disk)) for disk in vm.disks]
    return recipe.digest(
        VERSION, vm.appliance.key, vm.appliance.build, qemu, host, vm.accel, vm.cpus, vm.memory, disks,
        sorted(vm.modules), f"{recipe.KERNEL_WORDS} {vm.cmdline}".strip(), FACTS, rig.WITHOUT, *vm.passed,
    )  # fmt: skip


def home() -> Path:
    return cache_dir() / "templates"


async def make(vm: Vm, folder: Path, scratch: Path) -> None:
    memory = folder / "memory"
    # A guest sees no other difference between a simulated disk and a plain one, which needs no server.
    disks = tuple(disk if argv.rotation(disk) else replace(disk, physics=None) for disk in vm.disks)
    async with run_guest(replace(vm, disks=disks), scratch, argv.Start(memory)) as guest:
        await rig.wait_for_boot(guest)
        facts = await rig.ask_facts(guest, vm.appliance.modules)
        await save(guest, folder / "state")
    (folder / FACTS_FILE).write_text(json.dumps(facts, indent=1))


async def save(guest: Guest, target: Path) -> None:
    """Save the machine's state without its memory. A paused machine would have paused clones."""
    await guest.command("migrate-set-capabilities", capabilities=CAPABILITIES)
    with target.open("wb") as file:
        await migrate(guest, "migrate", file.fileno())
        outcome = await guest.answer_within(guest.wait_for_migration(), "QEMU did not save its state", SAVE_DEADLINE)
    if outcome != "completed":
        raise RigLost("QEMU cannot save its state", tail=guest.tail())


async def migrate(guest: Guest, command: str, descriptor: int) -> None:
    guest.qmp.send_fd_scm(descriptor)
    await guest.command("getfd", fdname="state")
    await guest.command(command, uri="fd:state")


@asynccontextmanager
async def restore(
    vm: Vm,
    name: str,
    scratch: Path,
    back: DiskProvider = serve_disks,
    notice: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[tuple[Guest, dict[str, Any]]]:
    folder = home() / name
    # The lock comes before the check of the template, so that it cannot be pruned between check and use.
    async with shared_lock(use_lock(folder)):
        with file_errors_as_loss(folder):
            await make_once(folder, lambda half: make(vm, half, scratch), "a template", notice)
            facts = json.loads((folder / FACTS_FILE).read_text())
            os.utime(folder)
        prune()
        async with run_guest(vm, scratch, argv.Start(folder / "memory", is_clone=True), back) as guest:
            with file_errors_as_loss(folder):
                await resume(guest, folder / "state")
            yield guest, facts


@contextmanager
def file_errors_as_loss(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RigLost(f"the template in {folder} cannot be used: {error}") from error


async def resume(guest: Guest, state: Path) -> None:
    await guest.command("migrate-set-capabilities", capabilities=CAPABILITIES)
    with state.open("rb") as file:
        await migrate(guest, "migrate-incoming", file.fileno())
        await guest.answer_within(guest.resumed.wait(), "the template did not resume", RESTORE_DEADLINE)
    # Messages to the agent before its state is loaded would be lost.
    await guest.shell(rig.refresh(), deadline=RESTORE_DEADLINE)


def prune() -> None:
    """Remove the least recently used templates above the limits, and partial ones. Those in use stay."""
    remove_partial(home())
    total = 0
    for number, (_, size, folder) in enumerate(sorted(list_templates(), reverse=True)):
        total += size
        if number >= MOST or total > MOST_BYTES:
            remove_unused(folder)


def list_templates() -> Iterator[tuple[float, int, Path]]:
    for folder in home().iterdir():
        # Another process may remove it meanwhile.
        with suppress(OSError):
            if not folder.name.startswith("."):
                yield folder.stat().st_mtime, sum(path.stat().st_blocks * 512 for path in folder.iterdir()), folder
