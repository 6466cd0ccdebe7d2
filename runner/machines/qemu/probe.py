"""What this host can do: its QEMU, its processor, and whether KVM runs the appliance."""

from __future__ import annotations

import asyncio
import json
import os
import re
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
CPUINFO = Path("/proc/cpuinfo")
#: Seconds in which each way of booting must succeed.
PROOF_DEADLINE = 30.0
ACCELERATORS = ("kvm", "tcg")
_EMULATED = "QEMU emulates (TCG), many times slower"


def absent(tools: Iterable[str]) -> list[str]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [tool for tool in tools if shutil.which(tool, path=path) is None]


@cache
def qemu_version() -> str:
    return run([argv.QEMU, "--version"]).stdout.partition("\n")[0].removeprefix("QEMU emulator version ").strip()


@cache
def host() -> str:
    """Return the processor_name, whose clock rate a template has measured, and the kernel with its KVM."""
    return f"{processor_name()}, {os.uname().release}"


async def accelerator(base: Appliance, scratch: Path, notice: Callable[[str], None]) -> str:
    """Return `kvm` if the appliance boots under it, else `tcg`. The result is cached until host or QEMU change."""
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
                notice("the appliance boots neither with KVM nor emulated; the run tries emulation")
                return "tcg"
            memory.write_text(json.dumps({"accel": accel}))
    if accel == "tcg":
        notice(f"KVM does not boot the appliance: {_EMULATED} ({_again()})")
    return accel


def _out_of_reach(*, cure: bool = False) -> str:
    """Return the note that KVM cannot be used; with the cure where there is room."""
    if KVM.exists():
        why, remedy = f"this user may not open {KVM}", "sudo adduser USER kvm, then log in again"
    else:
        why = f"there is no {KVM}"
        remedy = "turn virtualization on in the firmware, or in the machine around this one, or load the module kvm"
    return f"{why}: {_EMULATED}" + (f"; to change that, {remedy}" if cure else "; `matrix doctor` shows what to do")


def outlook() -> str:
    """Describe what is known of KVM without starting anything."""
    if chosen := os.environ.get("MATRIX_ACCEL"):
        return _chosen(chosen)
    if not os.access(KVM, os.R_OK | os.W_OK):
        return _out_of_reach(cure=True)
    with suppress(HarnessBroken):  # without QEMU nobody has tried
        match remembered(_memory()):
            case "kvm":
                return "works: it boots the appliance"
            case "tcg":
                return f"does not boot the appliance: {_EMULATED} ({_again()})"
    return "is there; the first run finds out whether it boots the appliance"


def _chosen(accelerator: str) -> str:
    said = f"MATRIX_ACCEL={accelerator}"
    if accelerator not in ACCELERATORS:
        return f"cannot be used: {said} is neither of {', '.join(ACCELERATORS)}"
    if accelerator == "kvm" and not os.access(KVM, os.R_OK | os.W_OK):
        return f"cannot be used, as {KVM} {'may not be opened' if KVM.exists() else 'is not there'}: {said} asks for it"
    return f"not asked for, as {said} says what is used"


def expected() -> str:
    """Name the accelerator of the next run without starting anything. In a guest, an untested KVM does not count."""
    if chosen := os.environ.get("MATRIX_ACCEL"):
        return chosen
    if not os.access(KVM, os.R_OK | os.W_OK):
        return "tcg"
    with suppress(HarnessBroken):
        if found := remembered(_memory()):
            return found
    return "tcg" if _is_guest() else "kvm"


def is_known() -> bool:
    if os.environ.get("MATRIX_ACCEL") or not os.access(KVM, os.R_OK | os.W_OK):
        return True
    with suppress(HarnessBroken):
        return remembered(_memory()) is not None
    return True


def _is_guest() -> bool:
    """Return whether this host is a virtual machine: nested KVM often opens and does not work."""
    with suppress(OSError):
        return re.search(r"^flags\b.*\bhypervisor\b", CPUINFO.read_text(), re.MULTILINE) is not None
    return False


def _memory() -> Path:
    return cache_dir() / "accelerator" / f"{identity()}.json"


def _again() -> str:
    return f"to try again, delete {_memory()}"


def remembered(memory: Path) -> str | None:
    with suppress(OSError, ValueError, KeyError):
        return str(json.loads(memory.read_text())["accel"])
    return None


def identity() -> str:
    """Return all that the result depends on: kernel, QEMU, processor and the device itself."""
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
    vm = argv.Vm(base, (), accel, 2, 2**29, ())
    try:
        async with asyncio.timeout(PROOF_DEADLINE), running(vm, scratch) as guest:
            await guest.ask("guest-ping")
    except (TimeoutError, HarnessBroken):
        return False
    return True
