"""The capacity of this host for virtual machines, its QEMU and processor, and a probe of KVM."""

import asyncio
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from matrix_runner.base.cache import cache_dir, exclusive_lock
from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.process import run
from matrix_runner.base.time_limit import time_limit
from matrix_runner.hosts.inventory import unescape
from matrix_runner.machines.base import Refusal, RigSpec
from matrix_runner.machines.qemu import argv, recipe, template
from matrix_runner.machines.qemu.appliance import Appliance
from matrix_runner.machines.qemu.guest import run_guest
from matrix_runner.machines.requirements import processor_name

KVM = Path("/dev/kvm")
CPUINFO = Path("/proc/cpuinfo")
PROOF_DEADLINE = 30.0
ACCELERATORS = ("kvm", "tcg")
_EMULATED = "QEMU emulates (TCG), many times slower"


def missing_programs(tools: Iterable[str]) -> list[str]:
    return [tool for tool in tools if shutil.which(tool) is None]


def missing_tool_refusals(packages: Mapping[str, str]) -> list[Refusal]:
    return [Refusal(f"{tool} is not installed", f"apt install {packages[tool]}") for tool in missing_programs(packages)]


@cache
def qemu_version() -> str:
    return run([argv.QEMU, "--version"]).stdout.partition("\n")[0].removeprefix("QEMU emulator version ").strip()


@cache
def host() -> str:
    """Return the processor, whose clock rate a template contains, and the kernel with its KVM."""
    return f"{processor_name()}, {os.uname().release}"


def chosen_accelerator() -> str | None:
    """Return the accelerator that $MATRIX_ACCEL names, if it does."""
    chosen = os.environ.get("MATRIX_ACCEL")
    if chosen and chosen not in ACCELERATORS:
        remedy = f"use {' or '.join(ACCELERATORS)}, or unset the variable"
        raise BadInput(f"MATRIX_ACCEL={chosen} is unknown", resolution=remedy)
    return chosen


async def accelerator(base: Appliance, scratch: Path, notice: Callable[[str], None]) -> str:
    """Return `kvm` if the appliance boots with it, else `tcg`. The result is cached until host or QEMU change.

    Only the run that finds out shows it: later, `matrix doctor` does.
    """
    if chosen := chosen_accelerator():
        return chosen
    if not os.access(KVM, os.R_OK | os.W_OK):
        notice(_explain_unavailable())
        return "tcg"
    memory = _memory_file()
    async with exclusive_lock(memory.with_suffix(".lock")):
        accel = read_memory(memory)
        if accel is None:
            accel = await choose_accelerator(base, scratch)
            if accel is None:
                notice("the appliance booted neither with KVM nor emulated in time; the run tries emulation")
                return "tcg"
            memory.write_text(json.dumps({"accel": accel}))
            if accel == "tcg":
                notice(f"KVM does not boot the appliance: {_EMULATED} ({_retry_hint()})")
    return accel


def _explain_unavailable(*, cure: bool = False) -> str:
    if KVM.exists():
        why, remedy = f"this user may not open {KVM}", "sudo adduser USER kvm, then log in again"
    else:
        why = f"there is no {KVM}"
        remedy = (
            "turn virtualization on in the firmware, or in the virtual machine around this one, or load the module kvm"
        )
    return f"{why}: {_EMULATED}" + (f"; to change that, {remedy}" if cure else "; `matrix doctor` shows what to do")


def outlook() -> str:
    chosen, is_usable = os.environ.get("MATRIX_ACCEL"), os.access(KVM, os.R_OK | os.W_OK)
    setting = f"MATRIX_ACCEL={chosen}"
    if chosen and chosen not in ACCELERATORS:
        return f"cannot be used: {setting} is unknown; use {' or '.join(ACCELERATORS)}"
    if chosen == "kvm" and not is_usable:
        return f"cannot be used, as {KVM} {'may not be opened' if KVM.exists() else 'is not there'}: {setting} needs it"
    if chosen:
        return f"not tried, because of {setting}"
    if not is_usable:
        return _explain_unavailable(cure=True)
    with suppress(HarnessBroken):  # without QEMU there is no result
        match read_memory(_memory_file()):
            case "kvm":
                return "works: it boots the appliance"
            case "tcg":
                return f"does not boot the appliance: {_EMULATED} ({_retry_hint()})"
    return "is there; the first run finds out whether it boots the appliance"


def known_accelerator() -> str | None:
    """Return the accelerator of the next run; None if a probe has to find it."""
    if chosen := chosen_accelerator():
        return chosen
    return read_memory(_memory_file()) if os.access(KVM, os.R_OK | os.W_OK) else "tcg"


def expected_accelerator() -> str:
    """Return the likely accelerator of the next run without starting anything. A guest counts as without KVM."""
    with suppress(HarnessBroken):
        if known := known_accelerator():
            return known
    with suppress(OSError):
        # In a virtual machine, nested KVM often opens but does not work.
        if re.search(r"^flags\b.*\bhypervisor\b", CPUINFO.read_text(), re.MULTILINE):
            return "tcg"
    return "kvm"


def _memory_file() -> Path:
    return cache_dir() / "accelerator" / f"{identity()}.json"


def _retry_hint() -> str:
    return f"to try again, delete {_memory_file()}"


def read_memory(memory: Path) -> str | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        accel = json.loads(memory.read_text())["accel"]
        return accel if accel in ACCELERATORS else None
    return None


def identity() -> str:
    stat = KVM.stat()
    return recipe.digest(qemu_version(), host(), stat.st_rdev, stat.st_ino)


async def choose_accelerator(base: Appliance, scratch: Path) -> str | None:
    """Boot the appliance with each accelerator, because KVM may open and still hang, or kill QEMU.

    Working KVM boots long before emulation, so KVM gets twice the time of emulation. Return None if neither boots: then
    KVM is not the cause.
    """
    began = time.monotonic()
    kvm, tcg = (asyncio.create_task(_boots(base, scratch, accel)) for accel in ACCELERATORS)
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


async def _boots(base: Appliance, scratch: Path, accel: str) -> bool:
    vm = argv.Vm(base, (), accel, 2, 2**29, ())
    with suppress(TimeoutError, HarnessBroken):
        async with time_limit(PROOF_DEADLINE), run_guest(vm, scratch) as guest:
            await guest.ask("guest-ping")
            return True
    return False


#: An eighth of the memory is for the host, QEMU and the runner.
HOST_SHARE = 8
#: With more processors per processor of the host, the guest's kernel reports waiting processors as stuck.
MAX_CROWDING = 8
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Host:
    memory: int
    cpus: int
    locked: int = 0

    @property
    def spare(self) -> int:
        return max(0, self.memory - self.memory // HOST_SHARE - self.locked) // _MIB * _MIB


def this_host() -> Host:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    home = template.home()
    mounts = os.fsdecode(Path("/proc/self/mounts").read_bytes())  # mount points may have any bytes
    in_memory = home.is_dir() and file_system_of(home.resolve(), mounts) in _IN_MEMORY
    locked = sum(size for _, size, _ in template.list_templates()) if in_memory else 0
    return Host(memory, len(os.sched_getaffinity(0)), locked)


def file_system_of(path: Path, mounts: str) -> str:
    kinds = {}
    for line in filter(None, mounts.split("\n")):
        _, point, kind, *_ = line.split(" ")
        kinds[Path(unescape(point))] = kind  # a later mount covers an earlier one
    return next((kinds[folder] for folder in (path, *path.parents) if folder in kinds), "")


def capacity_refusals(spec: RigSpec, host: Host) -> Iterator[Refusal]:
    if spec.memory > host.spare:
        templates = f", and saved virtual machines take {_mib(host.locked)} of it" if host.locked else ""
        yield Refusal(
            f"this host cannot hold a virtual machine with {_mib(spec.memory)} of memory: it has "
            f"{_mib(host.memory)}, of which an eighth is reserved{templates}",
            f"use at most machine: {{memory: {_mib(host.spare)}}}",
        )
    if spec.cpus > MAX_CROWDING * host.cpus:
        yield Refusal(
            f"a virtual machine with {spec.cpus} processors is too large for this host, which has {host.cpus}",
            f"lower `cpus:` of `machine:` to {host.cpus}; the maximum is {MAX_CROWDING * host.cpus}",
        )


def max_machines(spec: RigSpec, host: Host) -> int:
    return max(1, min(host.spare // spec.memory, MAX_CROWDING * host.cpus // spec.cpus))


def crowding_notice(spec: RigSpec, host: Host) -> str:
    if spec.cpus <= host.cpus:
        return ""
    return (
        f"the virtual machine has {spec.cpus} processors and this host {host.cpus}: they take turns, which affects "
        f"results; machine: {{cpus: {host.cpus}}} has one for each"
    )


def _mib(size: int) -> str:
    return f"{size // _MIB}MiB"
