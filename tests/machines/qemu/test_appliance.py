"""Damaged appliances and templates: the message, the rebuilt part, and what a failure of a guest causes."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from matrix_runner.base import digests
from matrix_runner.base.digests import write_digests
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.machines import shell
from matrix_runner.machines.base import NO_OPTIONS, MachineOptions, RigLost, RigSpec, Step, StepResult
from matrix_runner.machines.qemu import Qemu, appliance, argv, guest, recipe, rig, template
from matrix_runner.machines.qemu.appliance import Appliance, appliance_in_use, provide
from matrix_runner.simdisks import clib
from matrix_runner.simdisks.disk import Disk
from tests.machines.talk import talking
from tests.support.damage import flip

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TRIXIE = recipe.Recipe("trixie")
HALVES = {"userland": ("root.squashfs",), "kernel": ("modules.squashfs", "vmlinux", "vmlinuz", "initramfs")}


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The halves of small appliances that were built, in a cache of their own. Both are built at once."""
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    halves: list[str] = []

    async def build(what: list[str], _: object) -> None:
        half, folder = what[0], Path(what[-1])
        halves.append(half)
        for name in HALVES[half]:
            (folder / name).write_bytes(name.encode() * 10_000)
        (folder / "manifest.json").write_text(json.dumps({"versions": {}, "modules": ["raid456"]}))

    monkeypatch.setattr(appliance, "build", build)
    return halves


async def test_a_damaged_half_is_named_and_rebuilt_and_the_other_stays(built: list[str]) -> None:
    base = await provide(TRIXIE, NO_OPTIONS.progress)
    squashfs, notices = base.core / "modules.squashfs", list[str]()
    sound = squashfs.read_bytes()
    with squashfs.open("rb") as used:  # by a running guest
        flip(squashfs, *range(50_000, 53_000))
        damaged = squashfs.read_bytes()
        async with appliance_in_use(TRIXIE, NO_OPTIONS.progress, notices.append) as again:
            assert again.modules == {"raid456"}
            assert again.build != base.build, "templates of the damaged one are not used"
        assert used.read() == damaged, "a running guest keeps its files"
    assert notices == ["the appliance was damaged: modules.squashfs (digest differs); it is rebuilt"]
    assert squashfs.read_bytes() == sound
    assert sorted(built) == ["kernel", "kernel", "userland"]
    await provide(TRIXIE, NO_OPTIONS.progress, notices.append)
    assert len(notices) == 1


async def test_a_kernel_of_backports_has_the_programs_of_its_release(built: list[str]) -> None:
    base = await provide(TRIXIE, NO_OPTIONS.progress)
    newer = await provide(recipe.Recipe("trixie-backports"), NO_OPTIONS.progress)
    assert sorted(built) == ["kernel", "kernel", "userland"]
    assert newer.userland == base.userland
    assert newer.core != base.core


async def test_each_file_of_an_appliance_is_checked(built: list[str]) -> None:
    base, notices = await provide(TRIXIE, NO_OPTIONS.progress), list[str]()
    for folder, half in ((base.userland, "userland"), (base.core, "kernel")):
        for name in (*HALVES[half], "manifest.json"):
            flip(folder / name, 20)
            await provide(TRIXIE, NO_OPTIONS.progress, notices.append)
            assert notices.pop().startswith(f"the appliance was damaged: {name} (digest differs)")
            assert built.pop() == half
    assert notices == []


async def test_two_users_of_a_damaged_appliance_rebuild_it_once(built: list[str]) -> None:
    base, notices = await provide(TRIXIE, NO_OPTIONS.progress), list[str]()
    flip(base.userland / "root.squashfs", 1)
    await asyncio.gather(*(provide(TRIXIE, NO_OPTIONS.progress, notices.append) for _ in range(3)))
    assert sorted(built) == ["kernel", "userland", "userland"]
    assert len(notices) == 1


async def test_a_damaged_appliance_stays_until_another_is_built(
    built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base, notices = await provide(TRIXIE, NO_OPTIONS.progress), list[str]()
    flip(base.userland / "root.squashfs", 1)

    async def fail(*_: object) -> None:
        raise HarnessBroken("no network")

    monkeypatch.setattr(appliance, "build", fail)
    with pytest.raises(HarnessBroken, match="no network"):
        await provide(TRIXIE, NO_OPTIONS.progress, notices.append)
    assert len(notices) == 1
    assert (base.userland / "root.squashfs").exists(), "another process may be about to open it"
    assert sorted(built) == ["kernel", "userland"]


async def test_a_damaged_template_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path))
    vm = argv.Vm(Appliance(Path("/u"), Path("/c")), (), "tcg", 1, 2**28, ())
    made, notices = list[Path](), list[str]()

    async def make(_vm: argv.Vm, folder: Path, _scratch: Path) -> None:
        made.append(folder)
        for name in ("memory", "state"):
            (folder / name).write_bytes(bytes(100_000))
        (folder / template.FACTS_FILE).write_text("{}")

    @asynccontextmanager
    async def run_guest(*_: object) -> AsyncIterator[None]:
        yield

    async def resume(*_: object) -> None: ...

    for name, fake in {"make": make, "run_guest": run_guest, "resume": resume}.items():
        monkeypatch.setattr(template, name, fake)
    for damaged in (None, "memory", "state", template.FACTS_FILE):
        if damaged:
            flip(template.home() / "a" / damaged, 1)
        for _ in range(2):
            async with template.restore(vm, "a", tmp_path, notice=notices.append):
                pass
    assert len(made) == 4
    assert notices == [
        f"a template was damaged: {name} (digest differs); it is rebuilt"
        for name in ("memory", "state", template.FACTS_FILE)
    ]


async def test_the_code_of_disks_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path))

    async def compile_it(folder: Path) -> None:
        (folder / clib.LIBRARY).write_bytes(b"code")

    monkeypatch.setattr(clib, "_compile", compile_it)
    notices: list[str] = []
    folder = await clib.build_library(notices.append)
    flip(folder / clib.LIBRARY, 1)
    assert (await clib.build_library(notices.append) / clib.LIBRARY).read_bytes() == b"code"
    assert notices == [f"the code of the simulated disks was damaged: {clib.LIBRARY} (digest differs); it is rebuilt"]


async def test_a_module_that_its_kernel_has_is_lost_and_another_is_lacking() -> None:
    async with talking(says=b"kernel 6.12\nwithout raid456 f2fs\n") as (up, _):
        assert (await rig.ask_facts(up, {"raid0"}))["without"] == "raid456 f2fs"
        with pytest.raises(RigLost, match=r"^the guest cannot load raid456, which its kernel has$"):
            await rig.ask_facts(up, {"raid0", "raid456"})


@pytest.fixture
def checked(tmp_path: Path) -> Path:
    (tmp_path / "file").touch()
    write_digests(tmp_path)
    assert digests.find_damage(tmp_path) == []
    return tmp_path


@pytest.mark.parametrize("status", [0, 1])
async def test_a_step_that_fails_has_the_files_checked_again(
    checked: Path, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = StepResult("it", status, "", 0.0)
    monkeypatch.setattr(shell, "unpack", lambda *_: [result])
    async with talking() as (up, _):
        vm = argv.Vm(Appliance(Path("/u"), Path("/c")), (), "tcg", 1, 2**28, ())
        await rig.QemuRig(up, vm, {}).run([Step("it", ":")], expected=0, deadline=5)
    assert (checked in digests._sound) == (status == 0)


async def test_a_lost_guest_has_the_files_checked_again(checked: Path) -> None:
    async with talking() as (up, _):
        up.lose("QEMU was killed")
        vm = argv.Vm(Appliance(Path("/u"), Path("/c")), (), "tcg", 1, 2**28, ())
        with pytest.raises(RigLost):
            await rig.QemuRig(up, vm, {}).run([Step("it", ":")], expected=0, deadline=5)
    assert checked not in digests._sound


async def test_a_guest_that_does_not_come_up_has_the_files_checked_again(
    checked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(argv, "command", lambda *_: ["sh", "-c", "exit 3"])
    vm = argv.Vm(Appliance(Path("/u"), Path("/c")), (), "tcg", 1, 2**28, ())
    with pytest.raises(RigLost):
        async with guest.run_guest(vm, tmp_path):
            pytest.fail("it ended at once")
    assert checked not in digests._sound


async def test_after_a_clone_failed_the_boot_has_an_appliance_without_damage(
    built: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The damage came after the check, and left size and times of the file unchanged."""
    monkeypatch.setenv("MATRIX_ACCEL", "tcg")
    notices, booted = list[str](), list[Appliance]()

    async def fail(vm: argv.Vm, *_: object) -> None:
        path = vm.appliance.core / "vmlinux"
        known = path.stat()
        flip(path, 7)
        os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))
        digests.forget_checks()  # as run_guest does it
        raise RigLost("the guest kernel panicked")

    @asynccontextmanager
    async def cold_rig(vm: argv.Vm, *_: object) -> AsyncIterator[Any]:
        booted.append(vm.appliance)
        yield cast("Any", None)

    monkeypatch.setattr(template, "make", fail)
    monkeypatch.setattr("matrix_runner.machines.qemu.cold_rig", cold_rig)
    monkeypatch.setattr("matrix_runner.machines.qemu.host.qemu_version", partial(str, "7.2"))
    async with Qemu(MachineOptions(notice=notices.append)).rig(RigSpec((Disk(1 << 20),)), tmp_path):
        pass
    assert [line.partition(":")[0] for line in notices if "processors" not in line] == [
        "the rig boots instead of cloning a template",
        "the appliance was damaged",
    ]
    assert sorted(built) == ["kernel", "kernel", "userland"]
    assert digests.find_damage(booted[0].core) == []
