"""A rig of QEMU: a running guest, and how it is prepared."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.machines import script_bundle
from runner.machines.base import RigLost
from runner.machines.facts import FACTS, parse_facts
from runner.machines.qemu import tsc_check as clock
from runner.machines.qemu.script_cache import ByHeart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.machines.base import Step, StepResult
    from runner.machines.qemu.argv import Vm
    from runner.machines.qemu.guest import Guest
    from runner.simdisks.clib import Report
    from runner.simdisks.faults import Fault

#: Working directories made at a time.
WORK_FOLDERS = 32
BOOT_DEADLINE = 120.0
#: Prints which wanted modules this kernel does not have. Loaded modules, and built-in ones with a folder, cost no
#: process. Personalities of md are listed in a file. Without a list of built-in modules (the user's own kernel without
#: modules), all others are assumed to be present.
WITHOUT = """\
personality() {
  case $1 in linear | raid0 | raid1 | raid10) REPLY=$1 ;; raid456) REPLY=raid5 ;; *) return 1 ;; esac
}
mdstat= without=
[ ! -e /proc/mdstat ] || read -r mdstat </proc/mdstat
read -r words </proc/cmdline
for word in $words; do
  case $word in matrix.modules=*) IFS=, read -ra wanted <<<"${word#*=}" ;; esac
done
for module in "${wanted[@]}"; do
  if [[ -e /sys/module/$module ]]; then continue; fi
  if personality "$module"; then
    [[ "$mdstat " == *"[$REPLY] "* ]] || without+=" $module"
  elif [[ -e /lib/modules/$(uname -r)/modules.builtin ]]; then
    modprobe -n -q "$module" || without+=" $module"
  fi
done
echo "without$without"
"""


def names(count: int) -> tuple[str, ...]:
    """Name disks by serial number: on a host, where a kept script may be run by hand, the names match no disk."""
    return tuple(f"/dev/disk/by-id/matrix-{number}" for number in range(count))


class QemuRig:
    def __init__(self, guest: Guest, vm: Vm, facts: Mapping[str, str]) -> None:
        self.guest = guest
        self._facts = dict(facts)
        self._armed: tuple[Fault, ...] = ()
        self._by_heart = ByHeart()
        self._rooms = 0
        self._disks = names(len(vm.disks))

    @property
    def disks(self) -> tuple[str, ...]:
        return self._disks

    @property
    def facts(self) -> Mapping[str, str]:
        return self._facts

    def disk_reports(self) -> tuple[Report, ...]:
        return self.guest.served.reports()

    def arm(self, faults: Sequence[Fault]) -> None:
        """Keep the faults until the bell rings."""
        self._armed = tuple(faults)

    def _strike(self) -> None:
        """Start the faults, as the workload begins."""
        self.guest.served.add_faults(self._armed)
        self._armed = ()

    async def reboot(self) -> None:
        if self._facts["up"] != "cold boot":
            raise HarnessBroken("a clone has no kernel to boot again", resolution="bring the machine up with --cold")
        await self.guest.reset()
        await booted(self.guest)
        await self.guest.stay_up()
        self._by_heart, self._rooms = ByHeart(), 0
        self._facts |= await ask_facts(self.guest)

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        mark, enter = secrets.token_hex(16), f"export MATRIX_BELL=/dev/matrix-bell && {room(self._rooms)}"
        self._rooms += 1
        script = script_bundle.pack(steps, mark, enter, self._by_heart.words)
        try:
            said = await self.guest.evaluated(script, deadline=deadline, begun=self._strike)
            if said is None:
                # Another shell has no cached functions.
                script = script_bundle.pack(steps, mark, enter)
                said = await self.guest.gathered(script, expected=expected, deadline=deadline)
            results = script_bundle.unpack(steps, mark, said)
        except RigLost:
            raise
        except HarnessBroken as error:
            # A fresh rig may do better than one with a garbled answer, so only this rig is lost.
            raise RigLost(error.brief, tail=f"{error.details}\n{self.guest.tail()}".strip()) from error
        went_well = [step.text for step, result in zip(steps, results, strict=False) if result.status == 0]
        for name, definition in self._by_heart.worth([script_bundle.PRELUDE, *went_well]).items():
            if await self.guest.evaluated(definition) == name.encode() + b"\n":
                self._by_heart.learnt(name)
        unheard, self._armed = self._armed, ()
        if unheard and not any(result.status for result in results):
            raise RigLost("disks were to fail, but the start of the workload was not signalled", tail=self.guest.tail())
        return results


def room(number: int) -> str:
    """Return shell text that enters an empty working directory, if the ones before this number are used.

    A static busybox starts three times faster on an emulated processor than coreutils.
    """
    where = "/run/matrix/trial"
    to_it = f"cd {where}/{number % WORK_FOLDERS}"
    made = f"busybox rm -rf {where} && busybox mkdir -p {where}/{{0..{WORK_FOLDERS - 1}}} && {to_it}"
    # A simulated restart may have emptied all of /run.
    return f"{{ {to_it} 2>/dev/null || {{ {made}; }}; }}" if number % WORK_FOLDERS else made


async def booted(guest: Guest) -> None:
    """Wait until a booting machine answers, and check its clock."""
    await within(guest, BOOT_DEADLINE, "come up")
    await clock.checked(guest)


async def within(guest: Guest, deadline: float, what: str) -> None:
    """Wait for the guest agent's first answer."""
    try:
        async with asyncio.timeout(deadline):
            await guest.ask("guest-ping")
    except TimeoutError:
        raise RigLost(f"the guest did not {what} within {deadline:g} s", tail=guest.tail()) from None


async def ask_facts(guest: Guest) -> dict[str, str]:
    said = await guest.shell(FACTS + WITHOUT, deadline=BOOT_DEADLINE)
    return parse_facts(said.decode(errors="replace"))


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
