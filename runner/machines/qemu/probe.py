"""What this host can do: which QEMU, which processor, and whether KVM really runs our appliance."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.cache import cache_dir, exclusive_lock
from runner.base.cpu import processor_name
from runner.base.errors import HarnessBroken
from runner.base.process import run
from runner.machines.qemu import argv, recipe
from runner.machines.qemu.guest import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.machines.qemu.appliance import Appliance

KVM = Path("/dev/kvm")
#: Neither way of booting may take longer than this to prove that it works.
PROOF_DEADLINE = 30.0
ACCELERATORS = ("kvm", "tcg")


def absent(tools: Iterable[str]) -> list[str]:
    """Which programs are not on this host."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [tool for tool in tools if shutil.which(tool, path=path) is None]


@cache
def qemu_version() -> str:
    """What QEMU calls itself, with the distribution's revision."""
    return run([argv.QEMU, "--version"]).stdout.partition("\n")[0].removeprefix("QEMU emulator version ").strip()


@cache
def host() -> str:
    """The processor, whose clock's rate a template has measured; and the kernel, whose KVM is part of the machine."""
    return f"{processor_name()}, {os.uname().release}"


async def accelerator(base: Appliance, scratch: Path, notice: Callable[[str], None]) -> str:
    """`kvm` if our appliance comes up under it, else `tcg`. The answer is remembered until host or QEMU change."""
    chosen = os.environ.get("MATRIX_ACCEL")
    if chosen:
        if chosen not in ACCELERATORS:
            raise HarnessBroken(f"MATRIX_ACCEL={chosen} is neither of {', '.join(ACCELERATORS)}")
        return chosen
    if not os.access(KVM, os.R_OK | os.W_OK):
        notice(_out_of_reach())
        return "tcg"
    memory = _memory()
    async with exclusive_lock(memory.with_suffix(".lock")):
        accel = remembered(memory)
        if accel is None:
            accel = await fastest(base, scratch)
            if accel is None:
                notice(
                    "our appliance boots neither under KVM nor under emulation (TCG): trying to emulate nevertheless"
                )
                return "tcg"
            memory.write_text(json.dumps({"accel": accel}))
    if accel == "tcg":
        notice(f"KVM is there but does not boot our appliance: emulating (TCG) instead ({_again()})")
    return accel


def _out_of_reach() -> str:
    """Why nobody need ask whether KVM works, and what would make it."""
    if KVM.exists():
        who = "as a rule whoever is in group kvm may: adduser USER kvm, then log in anew"
        return f"{KVM} is there but this user may not open it ({who}): emulating (TCG) instead, many times slower"
    why = "no virtualization in the processor, its firmware or the machine around this one, or no module of it loaded"
    return f"there is no {KVM} ({why}): emulating (TCG) instead, many times slower"


def outlook() -> str:
    """What is known of KVM without starting anything."""
    if chosen := os.environ.get("MATRIX_ACCEL"):
        return _chosen(chosen)
    if not os.access(KVM, os.R_OK | os.W_OK):
        return _out_of_reach()
    with suppress(HarnessBroken):  # without QEMU nobody has tried
        match remembered(_memory()):
            case "kvm":
                return "works: our appliance boots by it"
            case "tcg":
                return (
                    f"is there but does not boot our appliance: emulating (TCG) instead, many times slower ({_again()})"
                )
    return "is there; the first run finds out whether our appliance boots by it"


def _chosen(accelerator: str) -> str:
    """As the user says; no run asks whether that goes."""
    said = f"MATRIX_ACCEL={accelerator}"
    if accelerator not in ACCELERATORS:
        return f"cannot be used: {said} is neither of {', '.join(ACCELERATORS)}"
    if accelerator == "kvm" and not os.access(KVM, os.R_OK | os.W_OK):
        return f"cannot be used, as {KVM} {'may not be opened' if KVM.exists() else 'is not there'}: {said} asks for it"
    return f"not asked for, as {said} says what is used"


def _memory() -> Path:
    """Where the answer is kept."""
    return cache_dir() / "accelerator" / f"{identity()}.json"


def _again() -> str:
    return f"remembered; without {_memory()} it is tried again"


def remembered(memory: Path) -> str | None:
    """What was found out earlier."""
    with suppress(OSError, ValueError, KeyError):
        return str(json.loads(memory.read_text())["accel"])
    return None


def identity() -> str:
    """Everything on which the answer hangs: kernel, QEMU, processor and the device itself."""
    stat = KVM.stat()
    return recipe.digest(qemu_version(), host(), stat.st_rdev, stat.st_ino)


async def fastest(base: Appliance, scratch: Path) -> str | None:
    """Boot once each way and see: a KVM that opens may still hang, or kill QEMU.

    One that works is up long before emulation is, however slow the host; so twice what emulation takes is long enough.
    If neither comes up it is not KVM's fault: None.
    """
    began = time.monotonic()
    kvm, tcg = (asyncio.create_task(_comes_up(base, scratch, accel)) for accel in ACCELERATORS)
    try:
        await asyncio.wait({kvm, tcg}, return_when=asyncio.FIRST_COMPLETED)
        if tcg.done() and tcg.result():
            await asyncio.wait({kvm}, timeout=time.monotonic() - began)
            return "kvm" if kvm.done() and kvm.result() else "tcg"
        if await kvm:
            return "kvm"
        return "tcg" if await tcg else None
    finally:
        kvm.cancel()
        tcg.cancel()
        await asyncio.wait({kvm, tcg})


async def _comes_up(base: Appliance, scratch: Path, accel: str) -> bool:
    """Whether the appliance's agent ever answers."""
    vm = argv.Vm(base, (), accel, 2, 2**29, ())
    try:
        async with asyncio.timeout(PROOF_DEADLINE), running(vm, scratch) as guest:
            await guest.ask("guest-ping")
    except (TimeoutError, HarnessBroken):
        return False
    return True
