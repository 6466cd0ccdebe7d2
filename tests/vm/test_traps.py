"""The trap collection where md, the device mapper and every tool are: built in a virtual machine, judged here.

The machine answers the same script as any other; what it says is parsed and judged as for a host of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from matrix_runner.hosts.checks import check_disk, check_disks
from matrix_runner.hosts.inventory import Census, parse_census
from matrix_runner.hosts.reasons import Reason
from matrix_runner.language.hosts import DeclaredDisk
from matrix_runner.machines.base import Rig, RigSpec, Step
from matrix_runner.machines.qemu import Qemu
from matrix_runner.scripts.jinja import census_script
from matrix_runner.simdisks.disk import Disk
from tests.hosts.traps import SCSI, TRAPS, VM, Trap, script
from tests.support.rigs import DISKS, SMALL

#: Some eighty disks, one after the other, in one boot: how long that takes is the business of the host.
pytestmark = [pytest.mark.vm, pytest.mark.timeout(0)]

SIZE = 128 << 20
TWO = (Disk(SIZE),) * 2
MODULES = (
    *(
        "md_mod",
        "raid1",
        "dm_mod",
        "dm_crypt",
        "dm_multipath",
        "dm_service_time",
        "ext4",
        "xfs",
        "btrfs",
        "f2fs",
        "vfat",
    ),
    "loop",
)
SCSI_MODULES = ("sd_mod", "sr_mod")
#: Tools that few hosts have, and the appliance has.
OF_THE_APPLIANCE = {"cryptsetup", "lvm", "mkfs.btrfs", "mkfs.f2fs", "mkfs.vfat", "mkfs.xfs", "sfdisk", "sgdisk"}
CLAIM = DeclaredDisk("matrix-0", SIZE, serial="matrix-0")

#: Udev is not there, so what is written on a disk is the only thing that tells anything of it.
HEAD = """\
set -euo pipefail
shopt -s nullglob
# Traps turn these names elsewhere.
if [[ ! -e /run/first ]]; then
  readlink -f /dev/disk/by-id/matrix-0 >/run/first
  readlink -f /dev/disk/by-id/matrix-1 >/run/second
fi
export DISK=$(</run/first) OTHER=$(</run/second)
export NAMES=/dev/disk/by-id NAME=matrix-0 WORK=/run/trap LVM_SUPPRESS_FD_WARNINGS=1 DM_DISABLE_UDEV=1
"""
BUILD = """\
mkdir "$WORK"
trap 'for one in part twin; do if [[ -v $one ]]; then declare -p "$one"; fi; done >"$WORK/variables"' EXIT
exec 3>&1 >&2
{build}
exec >&3
"""
#: Hashing is slow on an emulated processor; a copy to compare with, byte for byte, is not.
LOOKED = f"""
blockdev --flushbufs "$DISK"
dd if="$DISK" of=/run/copy bs=1M conv=sparse status=none
echo census begins
(
{census_script()}
)
echo census ends
blockdev --flushbufs "$DISK"
cmp "$DISK" /run/copy && echo the same
rm /run/copy
"""
UNDO = """\
. "$WORK/variables"
(
{undo}
) || :
rm -rf "$WORK"
for disk in "$DISK" "$OTHER"; do
  wipefs --quiet --all --force "$disk"
  blkdiscard --zeroout --force "$disk"
  blockdev --rereadpt "$disk" || :
done
"""


async def _said(rig: Rig, text: str) -> tuple[int, str]:
    (result,) = await rig.run([Step("trap", f"{HEAD}{text}")], expected=0, deadline=300)
    return result.status, result.output


def _census(output: str) -> Census:
    """What stands between the two lines that say so."""
    return parse_census(output.split("census begins\n", 1)[1].split("census ends\n", 1)[0])


async def _caught(rig: Rig, trap: Trap, serial: str = "matrix-0") -> str:
    print("TRAP", trap.name, flush=True)  # noqa: T201 - shown with -s: which one it is at
    """What is wrong with how it was refused; empty if nothing is."""
    status, output = await _said(rig, BUILD.replace("{build}", script(trap, serial)) + LOOKED)
    try:
        if status:
            return f"could not be built: {output[-1500:]}"
        return _amiss(trap, output)
    finally:
        await _said(rig, UNDO.replace("{undo}", trap.undo or ":"))


def _amiss(trap: Trap, output: str) -> str:
    census, claim = _census(output), trap.declared(CLAIM)
    one = check_disk(census, claim, purpose="study")
    told = "; ".join(map(str, one.refusals))
    if not any(refused.reason is trap.reason and trap.evidence in refused.evidence for refused in one.refusals):
        return f"not refused as {trap.reason} ({trap.evidence}), but: {told}"
    if check_disk(census, replace(claim, wipe=True), purpose="study").usable is not trap.cured_by_wiping:
        return f"wiping it is {'not ' if trap.cured_by_wiping else ''}allowed: {told}"
    return "" if output.endswith("the same\n") else f"its content has changed: {output[-500:]}"


def _on_a_rig(scratch: Path, go: Callable[[Rig], Awaitable[None]], spec: RigSpec) -> None:
    async def up() -> None:
        async with Qemu().rig(spec, scratch) as rig:
            await go(rig)

    asyncio.run(up())


def _all_refused(traps: list[Trap], scratch: Path) -> None:
    wrong: dict[str, str] = {}
    empty = Trap("nothing on it", Reason.HELD, "no evidence")

    async def go(rig: Rig) -> None:
        assert (rig.facts.get("without") or "") == ""
        for trap in traps:
            if amiss := await _caught(rig, trap):
                wrong[trap.name] = amiss
        # The last of them is no trap any more.
        said = await _caught(rig, empty)
        if not said.endswith("but: "):
            wrong["nothing on it"] = said

    _on_a_rig(scratch, go, RigSpec(TWO, modules=MODULES))
    assert not wrong, "\n".join(f"{name}: {amiss}" for name, amiss in wrong.items())


@pytest.mark.exhaustive
def test_traps_of_virtual_machines_are_refused_and_stay(tmp_path: Path) -> None:
    traps = [trap for trap in TRAPS if trap.on == VM]
    assert len(traps) >= 20
    _all_refused(traps, tmp_path)


@pytest.mark.exhaustive
def test_traps_of_optional_tools_are_refused(tmp_path: Path) -> None:
    _all_refused([trap for trap in TRAPS if set(trap.tools) & OF_THE_APPLIANCE and trap.on != VM], tmp_path)


@pytest.mark.exhaustive
def test_every_trap_is_refused_inside_of_a_machine_too(tmp_path: Path) -> None:
    _all_refused([trap for trap in TRAPS if "vm" in trap.on and "mksquashfs" not in trap.tools], tmp_path)


def _of_scsi(trap: Trap, output: str) -> str:
    census = parse_census(output[output.index("node\t") :])
    nodes = [node for node in census.disks if node.name.startswith(("sd", "sr"))]
    claims = [DeclaredDisk(census.names_of(node)[0], node.size, node.serial, node.wwn, wipe=True) for node in nodes]
    refusals = [str(refused) for claim in claims for refused in check_disk(census, claim).refusals]
    right = any(one.startswith(f"{trap.reason}:") and trap.evidence in one for one in refusals)
    return "" if right else f"{nodes} {refusals}"


@pytest.mark.exhaustive
def test_scsi_devices_that_are_no_disks_to_use_are_refused(tmp_path: Path) -> None:
    wrong: dict[str, str] = {}

    async def go(rig: Rig) -> None:
        for trap in SCSI:
            load = f"modprobe scsi_debug dev_size_mb=8 {trap.build}\n"
            status, output = await _said(rig, f"{load}{census_script()}\nmodprobe -r scsi_debug")
            assert status == 0, (trap.name, output)
            if amiss := _of_scsi(trap, output):
                wrong[trap.name] = f"{amiss} {output}"

    _on_a_rig(tmp_path, go, RigSpec(TWO, modules=SCSI_MODULES))
    assert not wrong, "\n".join(f"{name}: {amiss}" for name, amiss in wrong.items())


#: tests/hosts/test_exclusive.py has the same with a loop device; here a census takes 5 s.
@pytest.mark.exhaustive
def test_two_claims_of_one_disk_are_refused_by_its_number(tmp_path: Path) -> None:
    async def go(rig: Rig) -> None:
        status, output = await _said(rig, f"ln -s matrix-0 /dev/disk/by-id/again\n{census_script()}")
        assert status == 0
        claim = replace(CLAIM, size=SMALL)
        both = check_disks(parse_census(output), (claim, replace(claim, id="again")))
        assert [[str(refused) for refused in one.refusals] for one in both] == [
            [f"twice: again is {both[0].node.path} as well" if both[0].node else ""],
            [f"twice: matrix-0 is {both[0].node.path} as well" if both[0].node else ""],
        ]

    _on_a_rig(tmp_path, go, RigSpec((Disk(SMALL),) * DISKS))
