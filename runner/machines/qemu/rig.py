"""A rig: a running guest, and how it is made ready."""

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

#: How many working directories are made at a time.
ROOMS = 32
BOOT_DEADLINE = 120.0
#: Which of the modules that were asked for this kernel does not have. Those that are loaded, or built in and have a
#: folder, cost nothing to find; the personalities of md are listed in a file, whatever they are; and where no list says
#: what is built in (a kernel of the user's own, without modules), everything else is taken to be there.
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
    """Of disks, by their serial numbers: on a host, where somebody may run a kept script by hand, they name nothing."""
    return tuple(f"/dev/disk/by-id/matrix-{number}" for number in range(count))


class QemuRig:
    """The rig that trials see."""

    def __init__(self, guest: Guest, vm: Vm, facts: Mapping[str, str]) -> None:
        self.guest = guest
        self._facts = dict(facts)
        self._armed: tuple[Fault, ...] = ()
        self._by_heart = ByHeart()
        self._rooms = 0
        self._disks = names(len(vm.disks))

    @property
    def disks(self) -> tuple[str, ...]:
        """See `names`."""
        return self._disks

    @property
    def facts(self) -> Mapping[str, str]:
        """Versions, accelerator, and how the machine came up."""
        return self._facts

    def disk_reports(self) -> tuple[Report, ...]:
        """From the board that their servers share with us."""
        return self.guest.served.reports()

    def arm(self, faults: Sequence[Fault]) -> None:
        """They wait for the bell."""
        self._armed = tuple(faults)

    def _strike(self) -> None:
        """The work begins, and with it the time of what goes wrong with the disks."""
        self.guest.served.fail(self._armed)
        self._armed = ()

    async def reboot(self) -> None:
        """Press the reset button and wait until the guest is up again, with the disks as they are."""
        if self._facts["up"] != "cold boot":
            raise HarnessBroken("a clone has no kernel to boot again", resolution="bring the machine up with --cold")
        await self.guest.reset()
        await booted(self.guest)
        await self.guest.stay_up()
        self._by_heart, self._rooms = ByHeart(), 0
        self._facts |= await ask_facts(self.guest)

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        """Run the steps as one script."""
        mark, enter = secrets.token_hex(16), f"export MATRIX_BELL=/dev/matrix-bell && {room(self._rooms)}"
        self._rooms += 1
        script = script_bundle.pack(steps, mark, enter, self._by_heart.words)
        try:
            said = await self.guest.evaluated(script, deadline=deadline, begun=self._strike)
            if said is None:
                # Another shell knows nothing by heart.
                script = script_bundle.pack(steps, mark, enter)
                said = await self.guest.gathered(script, expected=expected, deadline=deadline)
            results = script_bundle.unpack(steps, mark, said)
        except RigLost:
            raise
        except HarnessBroken as error:
            # Whatever garbled the answer, a fresh rig may do better, and the run goes on without this one.
            raise RigLost(error.brief, tail=f"{error.details}\n{self.guest.tail()}".strip()) from error
        went_well = [step.text for step, result in zip(steps, results, strict=False) if result.status == 0]
        for name, definition in self._by_heart.worth([script_bundle.PRELUDE, *went_well]).items():
            if await self.guest.evaluated(definition) == name.encode() + b"\n":
                self._by_heart.learnt(name)
        unheard, self._armed = self._armed, ()
        if unheard and not any(result.status for result in results):
            raise RigLost("disks were to fail, but nobody said that the work began", tail=self.guest.tail())
        return results


def room(number: int) -> str:
    """Shell text that goes to an empty working directory, if the numbers up to this one have been used.

    A static busybox starts three times faster on an emulated processor than coreutils.
    """
    where = "/run/matrix/trial"
    to_it = f"cd {where}/{number % ROOMS}"
    made = f"busybox rm -rf {where} && busybox mkdir -p {where}/{{0..{ROOMS - 1}}} && {to_it}"
    # Whoever played a restart may have emptied all of /run.
    return f"{{ {to_it} 2>/dev/null || {{ {made}; }}; }}" if number % ROOMS else made


async def booted(guest: Guest) -> None:
    """Wait until a machine that boots answers, and see that it can tell the time."""
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
    """What the guest says about itself."""
    said = await guest.shell(FACTS + WITHOUT, deadline=BOOT_DEADLINE)
    return parse_facts(said.decode(errors="replace"))


def refresh() -> str:
    """The script that makes a clone a machine of its own: clock, entropy, identity.

    Writing to /dev/urandom alone would show only at the kernel's next reseeding, up to a minute later; RNDRESEEDCRNG
    (0x5207) makes it happen now.
    """
    seed = secrets.token_hex(64)
    reseed = f"open F,'+>','/dev/urandom';syswrite F,'{seed}';ioctl F,0x5207,0;close F"
    return (
        f'perl -e "{reseed}"; printf "%s\\n" {secrets.token_hex(16)} >/etc/machine-id\n'
        f"date -s @{time.time():.6f} >/dev/null\n"
    )
