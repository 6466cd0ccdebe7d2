"""Real machines from damaged files of the cache: with the real size and content of an appliance and a template."""

from __future__ import annotations

import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.digests import DIGESTS, write_digests
from matrix_runner.machines.base import NO_OPTIONS, MachineOptions, RigLost, RigSpec, Step
from matrix_runner.machines.qemu import Qemu, appliance, recipe, template
from matrix_runner.simdisks.disk import Disk
from tests.support.damage import flip

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive]

SPEC = RigSpec((Disk(64 << 20),) * 3, modules=("md_mod", "raid456"))
CREATE = "mdadm --create /dev/md/t --run --assume-clean --level=5 -n3 $(echo /dev/disk/by-id/matrix-*) </dev/null"


@pytest.fixture
async def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> appliance.Appliance:
    """A copy of the appliance in a cache of its own."""
    wanted = recipe.recipe_for(None)
    assert wanted is not None
    known = await appliance.provide(wanted, NO_OPTIONS.progress)
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    for folder in (known.userland, known.core):
        shutil.copytree(folder, appliance.home() / folder.name)
    return await appliance.provide(wanted, NO_OPTIONS.progress)


def flip_many(path: Path) -> None:
    """Flip bytes that are no holes; size and times stay, as with a failing disk."""
    known, chance, positions = path.stat(), random.Random(1), list[int]()  # noqa: S311 - the same damage in each run
    with path.open("rb") as file:
        while len(positions) < 3000:
            position = chance.randrange(known.st_size)
            if os.lseek(file.fileno(), position, os.SEEK_DATA) == position:
                positions.append(position)
    flip(path, *positions)
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))


async def notices_of_an_array(scratch: Path, *, cold: bool = False) -> list[str]:
    notices: list[str] = []
    async with Qemu(MachineOptions(cold=cold, notice=notices.append)).rig(SPEC, scratch) as rig:
        (result,) = await rig.run([Step("create", CREATE)], expected=1, deadline=120)
        assert result.status == 0, result.output
    return [line for line in notices if "was damaged" in line or "clon" in line]


async def test_damaged_files_are_rebuilt_and_the_machine_works(base: appliance.Appliance, tmp_path: Path) -> None:
    from matrix_runner.base.digests import forget_checks

    assert await notices_of_an_array(tmp_path) == []
    (saved,) = (folder for _, _, folder in template.list_templates())
    flip_many(saved / "memory")
    forget_checks()  # as in a new process
    assert await notices_of_an_array(tmp_path) == ["a template was damaged: memory (digest differs); it is rebuilt"]
    flip_many(base.core / "modules.squashfs")
    forget_checks()
    assert await notices_of_an_array(tmp_path) == [
        "the appliance was damaged: modules.squashfs (digest differs); it is rebuilt"
    ]
    assert await notices_of_an_array(tmp_path) == []


async def test_a_module_that_cannot_be_read_is_lost_and_not_lacking(base: appliance.Appliance, tmp_path: Path) -> None:
    """The digests are those of the damaged file, so only the guest can find the damage."""
    path = base.core / "modules.squashfs"
    flip(path, *range(96, path.stat().st_size, 5000))  # the superblock is left
    (base.core / DIGESTS).unlink()
    write_digests(base.core)
    with pytest.raises(RigLost, match=r"cannot load .*raid456.*, which its kernel has"):
        await notices_of_an_array(tmp_path, cold=True)
