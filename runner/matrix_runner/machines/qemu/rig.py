"""A rig of QEMU: a running guest, its preparation, and a check of its clock."""

import asyncio
import os
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from matrix_runner.base.digests import forget_checks
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.process import processor_seconds
from matrix_runner.base.time_limit import time_limit
from matrix_runner.machines import shell
from matrix_runner.machines.base import RigLost, Step, StepResult
from matrix_runner.machines.qemu.argv import Vm
from matrix_runner.machines.qemu.guest import Guest
from matrix_runner.machines.requirements import FACTS, parse_facts
from matrix_runner.simdisks.clib import Report
from matrix_runner.simdisks.disk import Fault, slow_of

#: The allowed error, beyond the uncertainty from the delay of the answers.
TOLERANCE = 0.02
#: The least seconds between two readings, and the least multiple of the time for the first one.
LEAST, PATIENCE = 0.4, 4
ANSWER_DEADLINE = 30.0


@dataclass(frozen=True, slots=True)
class Reading:
    asked: float
    guest: float
    answered: float


def pace(first: Reading, second: Reading) -> tuple[float, float]:
    gone = second.guest - first.guest
    return gone / (second.answered - first.asked), gone / (second.asked - first.answered)


def clock_error(first: Reading, second: Reading) -> str:
    least, most = pace(first, second)
    if least <= 1 + TOLERANCE and most >= 1 - TOLERANCE:
        return ""
    return f"the guest's clock is wrong: it runs {least:.2f} to {most:.2f} times as fast as the host's"


async def check_clock(guest: Guest) -> None:
    """Raise RigLost if the guest has measured a wrong rate for its clock. Another boot may measure it right."""
    first = await _read(guest)
    await asyncio.sleep(max(LEAST, PATIENCE * (first.answered - first.asked)))
    if why := clock_error(first, await _read(guest)):
        cause = "measured wrong at its boot, on a busy host; no figure is affected, as no trial had begun"
        raise RigLost(f"{why} ({cause})", tail=guest.tail())


async def _read(guest: Guest) -> Reading:
    asked = time.monotonic()
    output = await guest.shell("echo $EPOCHREALTIME\n", deadline=ANSWER_DEADLINE)
    return Reading(asked, float(output.split()[-1]), time.monotonic())


BOOT_DEADLINE = 120.0
#: Prints the missing modules. It checks loaded modules and personalities of md without starting a process. Without a
#: list of built-in modules (the user's own kernel without modules) it assumes that all others are present.
WITHOUT = Path(__file__).with_name("without.sh").read_text(encoding="utf-8")


def disk_names(count: int) -> tuple[str, ...]:
    """Return names by serial number. They match no disk of a host, where a user may run a script by hand."""
    return tuple(f"/dev/disk/by-id/matrix-{number}" for number in range(count))


class ProcessorWaits:
    """Seconds for which the threads of a process waited for a processor. Threads that ended meanwhile count, too."""

    def __init__(self, threads: Path) -> None:
        self._threads = threads  # /proc/PROCESS/task
        self._waited = dict[str, int]()

    def seconds(self) -> float:
        with suppress(OSError):  # the process has ended, or the kernel does not count
            for thread in os.listdir(self._threads):  # noqa: PTH208 - each half second
                with suppress(OSError):
                    self._waited[thread] = int((self._threads / thread / "schedstat").read_text().split()[1])
        return sum(self._waited.values()) / 1e9


class QemuRig:
    def __init__(self, guest: Guest, vm: Vm, facts: Mapping[str, str]) -> None:
        self.guest = guest
        self.facts = dict(facts)
        self.disks = disk_names(len(vm.disks))
        self._armed: tuple[Fault, ...] = ()
        self._scripts = 0
        self._slow = slow_of(vm.disks)
        self._waits: ProcessorWaits | None = None

    def disk_reports(self) -> tuple[Report, ...]:
        reports = self.guest.served.reports()
        if not reports:
            return ()
        self._waits = self._waits or ProcessorWaits(Path(f"/proc/{self.guest.process.pid}/task"))
        waited = self._waits.seconds() / self._slow
        return tuple(replace(report, waited=waited) for report in reports)

    def host_seconds(self) -> float | None:
        servers = self.guest.served.servers.values()
        return processor_seconds([one.pid for one in (self.guest.process, *servers)])

    def slow_down(self, slow: int) -> None:
        self._slow = slow
        self.guest.served.slow_down(slow)

    def arm(self, faults: Sequence[Fault]) -> None:
        self._armed = tuple(faults)

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        def start_faults() -> None:
            self.guest.served.add_faults(self._armed)
            self._armed = ()

        mark = secrets.token_hex(16)
        # A static busybox starts fastest under emulation.
        enter = shell.enter_work_folder("/run/matrix/trial", self._scripts, "busybox")
        enter = f"export MATRIX_BELL=/dev/matrix-bell && {enter}"
        self._scripts += 1
        script = shell.pack(steps, mark, enter)
        try:
            output = await self.guest.evaluate(script, deadline=deadline, on_start=start_faults)
            if output is None:
                output = await self.guest.run_in_new_shell(script, expected=expected, deadline=deadline)
            results = shell.unpack(steps, mark, output)
        except RigLost:
            forget_checks()
            raise
        except HarnessBroken as error:
            forget_checks()
            # Another rig may return a valid answer, so only this rig is lost.
            raise RigLost(error.brief, tail=f"{error.details}\n{self.guest.tail()}".strip()) from error
        missed, self._armed = self._armed, ()
        if any(result.status for result in results):
            forget_checks()
        elif missed:
            raise RigLost("disks were to fail, but the start of the workload was not signalled", tail=self.guest.tail())
        return results


async def wait_for_boot(guest: Guest) -> None:
    await wait_for_agent(guest, BOOT_DEADLINE, "come up")
    await check_clock(guest)


async def wait_for_agent(guest: Guest, deadline: float, what: str) -> None:
    try:
        async with time_limit(deadline):
            await guest.ask("guest-ping")
    except TimeoutError:
        raise RigLost(f"the guest did not {what} within {deadline:g} s", tail=guest.tail()) from None


async def ask_facts(guest: Guest, modules: Collection[str] = ()) -> dict[str, str]:
    """Ask a guest for its facts. Raise RigLost if it lacks some of the `modules`, which its kernel has."""
    output = await guest.shell(FACTS + WITHOUT, deadline=BOOT_DEADLINE)
    facts = parse_facts(output.decode(errors="replace"))
    if lost := [name for name in facts.get("without", "").split() if name in modules]:
        raise RigLost(f"the guest cannot load {', '.join(lost)}, which its kernel has", tail=guest.tail())
    return facts


def refresh() -> str:
    """Return the script that gives a clone its own clock, entropy and identity.

    Writing to /dev/urandom alone takes effect only at the kernel's next reseeding, up to a minute later; RNDRESEEDCRNG
    (0x5207) reseeds now.
    """
    seed = secrets.token_hex(64)
    reseed = f"open F,'+>','/dev/urandom';syswrite F,'{seed}';ioctl F,0x5207,0;close F"
    return (
        f'perl -e "{reseed}"; printf "%s\\n" {secrets.token_hex(16)} >/etc/machine-id\n'
        f"date -s @{time.time():.6f} >/dev/null\n"
    )
