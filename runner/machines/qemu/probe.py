"""What this host can do: which QEMU, which processor, and whether KVM really runs our appliance."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import HarnessBroken
from runner.machines.cache import cache_dir, locked
from runner.machines.qemu import argv, recipe
from runner.machines.qemu.guest import running
from runner.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.machines.qemu.appliance import Appliance

KVM = Path("/dev/kvm")
#: A guest under KVM is up in a second or two; one that is not by then hangs.
KVM_DEADLINE = 10.0
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
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    return "unknown"


async def accelerator(base: Appliance, scratch: Path, notice: Callable[[str], None]) -> str:
    """`kvm` if our appliance comes up under it, else `tcg`. The answer is remembered until host or QEMU change."""
    chosen = os.environ.get("MATRIX_ACCEL")
    if chosen:
        if chosen not in ACCELERATORS:
            raise HarnessBroken(f"MATRIX_ACCEL={chosen} is neither of {', '.join(ACCELERATORS)}")
        return chosen
    if not os.access(KVM, os.R_OK | os.W_OK):
        return "tcg"
    memory = cache_dir() / "accelerator" / f"{identity()}.json"
    async with locked(memory.with_suffix(".lock")):
        with suppress(OSError, ValueError, KeyError):
            return str(json.loads(memory.read_text())["accel"])
        works = await boots_under_kvm(base, scratch)
        if not works:
            notice("KVM is there but does not boot our appliance: emulating (TCG) instead")
        memory.write_text(json.dumps({"accel": "kvm" if works else "tcg"}))
    return "kvm" if works else "tcg"


def identity() -> str:
    """Everything on which the answer hangs: kernel, QEMU, processor and the device itself."""
    stat = KVM.stat()
    return recipe.digest(os.uname().release, qemu_version(), host(), stat.st_rdev, stat.st_ino)


async def boots_under_kvm(base: Appliance, scratch: Path) -> bool:
    """Boot once and see: a KVM that opens may still hang, or kill QEMU."""
    vm = argv.Vm(base, (), "kvm", 2, 2**29, ())
    try:
        async with asyncio.timeout(KVM_DEADLINE), running(vm, scratch) as guest:
            await guest.ask("guest-ping")
    except (TimeoutError, HarnessBroken):
        return False
    return True
