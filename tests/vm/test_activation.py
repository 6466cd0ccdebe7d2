"""The multi-zone study's last finding: after a reboot one pass of vgscan and vgchange does not see volumes made of volumes."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from matrix_runner.layers.lvm import config_seeing
from matrix_runner.machines.base import MachineOptions, Rig, Step
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.scripts.cell import stack_scripts
from tests.support.matrices import space
from tests.support.reboot import reboot

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(900)]

HIERARCHICAL = """\
name: hierarchical
disks: {count: 4, size: 64MiB}
layouts:
  hierarchical:
    - partition: {count: 4}
    - lvm: {groups: 4, stripes: 4, stripe_size: 64KiB, extent_size: 1MiB}
    - lvm: {order: "4 3 1 2", extent_size: 1MiB}
workloads: {work: {rw: read, bs: 64KiB, size: 1MiB}}
repeat: 1
"""
#: What Debian's /etc/init.d/lvm did at boot, once.
ROUND = """\
export LVM_SUPPRESS_FD_WARNINGS=1
lvm vgscan --config '{config}' >/dev/null
lvm vgchange --config '{config}' --yes --activate y >/dev/null
"""
#: LVM as it looked at devices in 2007: at volumes, too. And as it does by itself since 2.03: not.
THEN = config_seeing('"a|.*|"')
NOW = THEN.replace("scan_lvs=1", "scan_lvs=0")


@dataclass(frozen=True)
class Boot:
    """After how many passes was what there? `stripes`: the four below; `top`: what is made of them."""

    stripes: tuple[bool, ...]
    top: tuple[bool, ...]


async def done(rig: Rig, text: str) -> str:
    (result,) = await rig.run([Step("step", text)], expected=0, deadline=240)
    assert result.status == 0, result.output
    return result.output


async def booted(rig: Rig, config: str, below: tuple[str, ...], top: str) -> Boot:
    """Restart the machine, and look before the first pass and after each."""

    async def there(paths: tuple[str, ...]) -> bool:
        found = await done(rig, "".join(f"if [ -b {path} ]; then echo {path}; fi\n" for path in paths))
        return len(found.split()) == len(paths)

    await reboot(rig)
    seen = [(await there(below), await there((top,)))]
    for _ in range(2):
        await done(rig, ROUND.format(config=config))
        seen.append((await there(below), await there((top,))))
    return Boot(*zip(*seen, strict=True))


async def _boots(scratch: Path) -> tuple[Boot, Boot]:
    found = space(HIERARCHICAL)
    (array,) = found.stacks
    async with Qemu(MachineOptions(cold=True)).rig(rig_spec(found.matrix, array, None), scratch) as rig:
        scripts = stack_scripts(array, rig.disks, zeroed=True)
        (top,) = scripts.stack.tops
        below = scripts.stack.layers[-1].members
        await done(rig, scripts.set_up)
        then = await booted(rig, THEN, below, top)
        now = await booted(rig, NOW, below, top)
    return then, now


def test_volumes_made_of_volumes_take_two_passes_after_a_reboot(tmp_path: Path) -> None:
    then, now = asyncio.run(_boots(tmp_path))
    assert then == Boot(stripes=(False, True, True), top=(False, False, True))
    assert now == Boot(stripes=(False, True, True), top=(False, False, False))
