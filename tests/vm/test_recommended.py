"""What `matrix recommend` prints is pasted on a fresh machine with udev, and the kernel is asked whether it is so.

The machine is the appliance with the udev daemon that it does without elsewhere: disks have the names that udev gives
them, and after a restart only what a disk of the system would have kept is there again: the files that were written.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.carry.disk_samples import sample_disks
from matrix_runner.machines.base import MachineOptions, Rig
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.scripts.cell import job
from matrix_runner.scripts.stack import view_stack
from matrix_runner.simdisks.server import overload_of
from matrix_runner.work.fio.output import parse
from tests.support.matrices import space
from tests.support.reboot import reboot
from tests.support.recommended import LOOK, RUN, STABLE, TOP, WANTED, Advice, advice, done, matrix, tried

if TYPE_CHECKING:
    from matrix_runner.simdisks.server import Overload
    from matrix_runner.space.space import Cell

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(900)]
#: Of the time of disks, so much may be lost to the host before their pace says nothing.
MOST_OVERLOAD = 0.05
UDEV = """\
mkdir -p /run/udev
(exec -a systemd-udevd udevadm --daemon </dev/null >/dev/null 2>&1)
udevadm trigger --action=add --subsystem-match=block
udevadm settle
"""
#: Files that a machine keeps, by which everything must be so again.
KEPT = "/etc/fstab /etc/udev/rules.d /etc/tmpfiles.d"
#: Takes it apart as an administrator does.
DOWN = {
    "raid5": "mdadm --stop /dev/md/matrix-0\n",
    "raid10": "mdadm --stop /dev/md/matrix-0\n",
    "striped": "vgchange -an matrix-0\n",
}
#: What is said of rules that somebody else relies on.
ANOTHER = (
    "/etc/udev/rules.d/99-matrix.rules is there, and says something else: "
    "what of it is still wanted belongs into a file of another name\n"
)
#: What keeps a second paste off: all of it must stay as it is.
WITNESS = "sha256sum /srv/data/witness /etc/fstab /etc/udev/rules.d/* /etc/tmpfiles.d/*; cat /proc/mdstat || :; dmsetup table\n"


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that really was measured."""
    folder = tmp_path_factory.mktemp("night")
    (folder / "pasted.yaml").write_text(RUN)
    matrix(folder, "run", "--on", "qemu", "pasted.yaml")
    return folder


async def looked(rig: Rig, layout: str) -> list[str]:
    names = " ".join(STABLE.format(number) for number in range(4))
    said = await done(rig, LOOK.format(top=TOP[layout], disks=names))
    return [" ".join(line.split()) for line in said.splitlines()]


async def restarted(rig: Rig, layout: str) -> None:
    """The machine from nothing, with the files that its own disk would have kept, as its boot goes about them."""
    kept = (await done(rig, f"umount /srv/data; sync; tar -C / -c {KEPT} 2>/dev/null | base64 -w 0")).strip()
    await reboot(rig)
    assert "/srv/data" not in await done(rig, "cat /etc/fstab")
    await done(rig, "base64 -d kept | tar -C / -x", {"kept": kept})
    await done(rig, UDEV + ("vgchange -aay\nudevadm settle\n" if layout == "striped" else ""))
    await done(rig, "mkdir -p /srv/data; mount /srv/data; systemd-tmpfiles --create /etc/tmpfiles.d/matrix.conf")


async def measured(rig: Rig, cell: Cell, top: str) -> tuple[float, Overload]:
    """Bytes per second, which the device on top must have seen; and what the host kept the disks from."""
    stack = view_stack(cell.stack.layers.value, rig.disks, cell.stack.disks, zeroed=False)
    assert stack.directory is not None
    text = job(cell, stack, 1).replace(stack.directory, "/srv/data")
    read = (
        f'read -r _ _ sectors _ </sys/class/block/"$(basename "$(readlink -f {top})")"/stat\necho "sectors=$sectors"\n'
    )
    folders = "grep -o '/srv/data[^ ]*' job.fio | sort -u | xargs mkdir -p\nfio --create_only=1 job.fio >/dev/null\n"
    async with sample_disks(rig) as service:
        said = await done(rig, f"{folders}{read}fio --output-format=json+ job.fio\n{read}", {"job.fio": text})
    overload = overload_of(service.done)
    assert overload is not None
    before, after = (int(line.removeprefix("sectors=")) for line in said.splitlines() if line.startswith("sectors="))
    figures = parse(said[said.index("{") : said.rindex("}") + 1])
    assert figures.read is not None
    assert (after - before) * 512 >= figures.read.bytes > 0
    return figures.read.bw, overload


async def _pasted(one: Advice, layout: str, scratch: Path) -> tuple[float, Overload]:
    found = space(RUN)
    async with Qemu(MachineOptions(cold=True)).rig(rig_spec(found.matrix, one.cell.stack, None), scratch) as rig:
        await done(rig, UDEV)
        await done(rig, "bash <best.sh", {"best.sh": one.script})  # pasting: the shell reads it as it comes
        await done(rig, f"mdadm --wait {TOP[layout]} || true\n" if layout != "striped" else "")
        assert await looked(rig, layout) == WANTED[layout]
        await done(rig, "udevadm verify /etc/udev/rules.d/99-matrix.rules\n")
        found_so = await measured(rig, one.cell, TOP[layout])

        await done(rig, "echo this stays >/srv/data/witness; sync")
        before = await done(rig, WITNESS)
        status, said = await tried(rig, "bash best.sh", {"best.sh": one.script})
        assert status == 1
        assert f"something is on {STABLE.format(0)}" in said
        assert await done(rig, WITNESS) == before

        await restarted(rig, layout)
        assert await looked(rig, layout) == WANTED[layout]
        assert await done(rig, "cat /srv/data/witness") == "this stays\n"
        await _once_more(rig, one, layout)
    return found_so


async def _once_more(rig: Rig, one: Advice, layout: str) -> None:
    """On disks that were emptied as the script says, whose old contents lie where the new array finds them."""
    await done(rig, f"umount /srv/data\n{DOWN[layout]}")
    names = " ".join(STABLE.format(number) for number in range(4))
    await done(rig, f'for disk in {names}; do wipefs --quiet --all "$disk"; done; udevadm settle')
    status, said = await tried(rig, "bash best.sh", {"best.sh": one.script})
    assert (status, said) == (1, "/srv/data is mounted, or in /etc/fstab: take another, or that line out\n")
    assert not await done(rig, f'for disk in {names}; do wipefs --noheadings "$disk"; done')
    await done(
        rig,
        "cp -a /etc/udev/rules.d/99-matrix.rules /run/kept; echo '# of other disks' >>/etc/udev/rules.d/99-matrix.rules",
    )
    status, said = await tried(rig, "sed -i '\\:/srv/data:d' /etc/fstab; bash best.sh", {"best.sh": one.script})
    assert (status, said) == (1, ANOTHER)
    assert not await done(rig, f'for disk in {names}; do wipefs --noheadings "$disk"; done')
    await done(rig, "cp -a /run/kept /etc/udev/rules.d/99-matrix.rules")
    await done(rig, "sed -i '\\:/srv/data:d' /etc/fstab; bash best.sh", {"best.sh": one.script})
    assert "/srv/data" in await done(rig, "findmnt --noheadings --output TARGET /srv/data; ls -A /srv/data")


@pytest.mark.parametrize("layout", WANTED)
def test_a_pasted_recommendation_holds_after_a_restart(night: Path, layout: str, tmp_path: Path) -> None:
    one = advice(night, layout)
    figure, overload = asyncio.run(_pasted(one, layout, tmp_path))
    sys.stdout.write(f"{layout}, pasted: {figure / 1e6:.1f} MB/s, {overload}; recommended:\n{one.table}")
    # Four disks of 6 MB/s set the pace, unless the host does.
    assert figure == pytest.approx(one.predicted, rel=0.1) or overload.exceeds(MOST_OVERLOAD)
