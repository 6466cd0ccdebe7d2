"""What of the qemu machine is computed, not run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.digests import write_digests
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.machines import shell
from matrix_runner.machines.base import MachineOptions, RigLost, RigSpec
from matrix_runner.machines.qemu import (
    Qemu,
    appliance,
    argv,
    modules_of,
    recipe,
    rig,
    template,
)
from matrix_runner.machines.qemu.appliance import (
    Appliance,
    appliance_in_use,
    listen,
    parse_failure,
    parse_line,
    provide,
)
from matrix_runner.machines.qemu.guest import boot_errors, panic_cause
from matrix_runner.machines.qemu.host import Host, capacity_refusals, crowding_notice, file_system_of, max_machines
from matrix_runner.simdisks.disk import Disk, Physics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from matrix_runner.machines.base import Progress

BASE = Appliance(Path("/c/u,serland"), Path("/c/core"))
SATA = Disk(2**20, "sata")


def vm(*disks: Disk, accel: str = "tcg", modules: tuple[str, ...] = ()) -> argv.Vm:
    return argv.Vm(BASE, disks, accel, 2, 512 * 2**20, modules)


def line(machine: argv.Vm, start: argv.Start = argv.BOOT) -> str:
    disks = tuple(range(20, 20 + len(machine.disks)))
    return " ".join(argv.command(machine, argv.Channels(3, 4, 5, 6, 7, 8, disks), start))


def test_every_processor_is_a_socket_of_its_own() -> None:
    assert "-smp 2,sockets=2" in line(vm())


def test_a_booting_machine_has_a_kernel_and_a_restored_one_waits_for_its_state() -> None:
    cold, warm = line(vm()), line(vm(), argv.Start(Path("/m"), is_clone=True))
    assert "-kernel /c/core/vmlinuz" in cold
    assert "-incoming" not in cold
    assert "-kernel" not in warm
    assert "-incoming defer" in warm


def test_a_template_keeps_its_memory_and_a_clone_does_not() -> None:
    assert "mem-path=/m,share=on" in line(vm(), argv.Start(Path("/m")))
    assert "-kernel" in line(vm(), argv.Start(Path("/m")))
    assert "mem-path=/m,share=off" in line(vm(), argv.Start(Path("/m"), is_clone=True))
    assert "memory-backend-ram" in line(vm())


def test_commas_in_paths_are_doubled() -> None:
    assert "file.filename=/c/u,,serland/root.squashfs" in line(vm())


def test_no_network() -> None:
    assert "net" not in line(vm()).replace("console", "")


def test_disks_come_by_descriptor_and_carry_their_number() -> None:
    text = line(vm(Disk(1), Disk(1)))
    assert "-add-fd set=11,fd=21" in text
    assert "file.filename=/dev/fdset/11" in text
    assert "virtio-blk-pci,drive=disk1,serial=matrix-1,werror=enospc" in text


def test_sata_controllers_are_added_as_ports_run_out() -> None:
    text = line(vm(*[SATA] * 7))
    assert text.count("ich9-ahci") == 2
    assert "ide-hd,bus=sata0.5,drive=disk5" in text
    assert "ide-hd,bus=sata1.0,drive=disk6" in text


def test_one_scsi_controller_serves_all_and_buses_mix() -> None:
    text = line(vm(Disk(1, "scsi"), SATA, Disk(1, "scsi"), Disk(1)))
    assert text.count("virtio-scsi-pci") == 1
    assert "scsi-hd,bus=scsi.0,scsi-id=1,drive=disk2" in text
    assert "ide-hd,bus=sata0.0,drive=disk1" in text


@pytest.mark.parametrize(
    ("disks", "slots"), [((), 0), ((SATA,) * 7, 2), ((Disk(1, "scsi"),) * 9, 1), ((Disk(1),) * 9, 9)]
)
def test_slots(disks: tuple[Disk, ...], slots: int) -> None:
    assert argv.slots(disks) == slots


@pytest.mark.parametrize(
    ("accel", "start", "wanted"),
    [
        ("tcg", argv.Start(Path("memory")), "-accel tcg,thread=single"),
        ("tcg", argv.Start(Path("memory"), is_clone=True), "-accel tcg -cpu"),
        ("tcg", argv.BOOT, "-accel tcg -cpu"),
        ("kvm", argv.Start(Path("memory")), "-accel kvm -cpu"),
    ],
)
def test_only_the_emulated_boot_of_a_template_has_one_thread(accel: str, start: argv.Start, wanted: str) -> None:
    assert wanted in " ".join(argv.machine(vm(accel=accel), start))


def test_impossible_wishes_are_refused() -> None:
    many = RigSpec(disks=(Disk(2**20),) * 40, kernel="debian-99", memory=2**20)
    briefs = " / ".join(refusal.brief for refusal in Qemu().refusals(many))
    assert "no such kernel: debian-99" in briefs
    assert "40 disks do not fit" in briefs
    assert "too few" in briefs
    assert all(refusal.resolution for refusal in Qemu().refusals(many))


def test_drivers_of_the_buses_come_first_and_once() -> None:
    spec = RigSpec(disks=(SATA, Disk(1, "scsi"), SATA), modules=("raid0", "ahci"))
    assert modules_of(spec) == ("ahci", "sd_mod", "virtio_scsi", "raid0")


def test_the_key_of_a_template_follows_all_that_a_guest_can_see() -> None:
    machines = [
        vm(),
        vm(Disk(1)),
        vm(Disk(2)),
        vm(SATA),
        vm(accel="kvm"),
        vm(modules=("raid0",)),
    ]
    keys = [template.key(machine, "7.2", "cpu") for machine in machines]
    keys += [template.key(vm(), "8.2", "cpu"), template.key(vm(), "7.2", "other")]
    assert len(set(keys)) == len(keys)
    assert template.key(vm(modules=("a", "b")), "", "") == template.key(vm(modules=("b", "a")), "", "")


FLASH, VOLUME = Physics("ssd"), Physics("volume")


def test_simulated_disks_share_the_template_of_plain_ones_unless_the_guest_sees_a_rotation_rate() -> None:
    def key(disk: Disk) -> str:
        return template.key(vm(disk), "7.2", "cpu")

    assert key(Disk(1, "virtio", FLASH)) == key(Disk(1, "virtio", VOLUME)) == key(Disk(1))
    assert key(Disk(1, "sata", VOLUME)) == key(Disk(1, "sata"))
    assert key(Disk(1, "sata", FLASH)) != key(Disk(1, "sata"))


async def test_a_template_boots_with_servers_only_for_disks_with_a_rotation_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted: list[argv.Vm] = []

    @asynccontextmanager
    async def run_guest(machine: argv.Vm, *_: object) -> AsyncIterator[None]:
        booted.append(machine)
        yield

    async def wait_for_boot(_: object) -> None:
        raise RigLost("it has booted far enough")

    monkeypatch.setattr(template, "run_guest", run_guest)
    monkeypatch.setattr(rig, "wait_for_boot", wait_for_boot)
    machine = vm(Disk(1, "virtio", FLASH), Disk(1, "scsi", VOLUME), Disk(1, "scsi", FLASH))
    with pytest.raises(RigLost):
        await template.make(machine, tmp_path, tmp_path)
    assert [disk.physics for disk in booted[0].disks] == [None, None, FLASH]


async def test_a_template_is_not_used_with_another_build_of_its_appliance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody empties a part of the cache, or a file is cut short: the archive may have another kernel by then."""
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path))
    names = recipe.userland_key("trixie"), recipe.kernel_key("trixie", None)

    async def key_of(kernel: str, built: int) -> str:
        for name in names:
            folder = tmp_path / "appliances" / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "manifest.json").write_text(json.dumps({"versions": {"kernel": kernel}, "modules": []}))
            os.utime(folder / "manifest.json", ns=(built, built))
            write_digests(folder)
        base = await provide(recipe.Recipe("trixie"), MachineOptions().progress)
        return template.key(argv.Vm(base, (), "tcg", 1, 2**28, ()), "7.2", "cpu")

    assert await key_of("6.12.1", 1) == await key_of("6.12.1", 1)
    assert len({await key_of("6.12.1", 1), await key_of("6.12.2", 1), await key_of("6.12.1", 2)}) == 3


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Appliances of nothing; the kernels that were built, in a cache of their own."""
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    images: list[str] = []

    async def build(what: list[str], _: object) -> None:
        kind, _suite, image, folder = what
        if kind == "kernel":
            images.append(Path(image).read_text() if image else "")  # noqa: ASYNC240 - nothing else is under way
        (Path(folder) / "manifest.json").write_text(json.dumps({"versions": {}, "modules": []}))

    monkeypatch.setattr(appliance, "build", build)
    return images


async def test_a_rebuilt_kernel_image_does_not_change_a_started_run(tmp_path: Path, built: list[str]) -> None:
    image = tmp_path / "bzImage"
    image.write_text("old")
    key = recipe.kernel_key("trixie", image)
    machine = Qemu(MachineOptions(images={str(image): key}))
    for content in ("old", "new", None):
        if content is None:
            image.unlink()
        else:
            image.write_text(content)
        async with appliance_in_use(machine._recipe(str(image)), MachineOptions().progress) as base:
            assert base.core.name == key
    assert built == ["", "old"], "Debian's, of which it takes parts, and then its own"


@pytest.mark.parametrize("content", ["new", None])
async def test_an_image_that_is_another_before_it_was_used_is_refused(
    tmp_path: Path, built: list[str], content: str | None
) -> None:
    image = tmp_path / "bzImage"
    image.write_text("old")
    wanted = recipe.own_recipe(str(image), recipe.kernel_key("trixie", image))
    image.unlink()
    if content:
        image.write_text(content)
    with pytest.raises(HarnessBroken, match=r"bzImage, .*was changed or removed since") as caught:
        async with appliance_in_use(wanted, MachineOptions().progress):
            pytest.fail("it is another kernel")
    assert "restore the old one" in caught.value.resolution
    assert built == []
    assert not list(appliance.home().glob("*own-kernel-*.half"))
    assert not list(appliance.home().glob("own-kernel-*"))


async def test_an_image_that_changes_while_it_is_built_from_is_refused(
    tmp_path: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "bzImage"
    image.write_text("old")
    build = appliance.build

    async def meanwhile(what: list[str], progress: Progress) -> None:
        image.write_text("new")
        await build(what, progress)

    monkeypatch.setattr(appliance, "build", meanwhile)
    with pytest.raises(HarnessBroken, match="was changed or removed since"):
        async with appliance_in_use(recipe.own_recipe(str(image)), MachineOptions().progress):
            pytest.fail("it is another kernel")
    assert not list(appliance.home().glob("own-kernel-*"))


async def test_kernels_of_the_users_own_are_forgotten_unless_they_are_in_use(
    tmp_path: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appliance, "MOST_OWN", 2)
    image = tmp_path / "bzImage"

    @asynccontextmanager
    async def lent(content: str) -> AsyncIterator[Path]:
        image.write_text(content)
        async with appliance_in_use(recipe.own_recipe(str(image)), MachineOptions().progress) as base:
            os.utime(base.core, (int(content), int(content)))
            yield base.core

    async with appliance_in_use(recipe.Recipe("trixie"), MachineOptions().progress) as named:
        pass
    cores = []
    async with lent("1") as used:
        cores.append(used)
        for content in "234":
            async with lent(content) as core:
                cores.append(core)
    assert [core.exists() for core in cores] == [True, False, True, True]
    async with lent("5"):
        assert [core.exists() for core in cores] == [False, False, False, True]
    assert named.core.exists()
    assert built == ["", "1", "2", "3", "4", "5"]


def test_the_last_error_of_the_builder_is_raised() -> None:
    error = parse_failure(["chatter", '{"error": "no space", "details": "d", "resolution": "r"}', "more"])
    assert (error.brief, error.details, error.resolution) == ("no space", "d", "r")
    assert "chatter" in parse_failure(["chatter"]).details
    assert parse_line("[1]") == {}


async def test_progress_is_passed_on_and_the_rest_kept() -> None:
    import asyncio

    words = asyncio.StreamReader()
    words.feed_data(b'{"brief": "a", "fraction": 0.5}\nxz: oops\n{"brief": "b", "fraction": null}\n')
    words.feed_eof()
    seen: list[tuple[str, float | None]] = []

    def progress(brief: str, fraction: float | None = None) -> None:
        seen.append((brief, fraction))

    assert await listen(words, progress) == ["xz: oops"]
    assert seen == [("a", 0.5), ("b", None)]


def test_names_of_disks_match_no_disk_of_a_host() -> None:
    """Scripts are kept, and may be run by hand: what says /dev/sda there would meet somebody's disk."""
    from typing import Any, cast

    up = rig.QemuRig(cast("Any", None), vm(Disk(1), SATA), {"matrix-0": "/dev/vda", "matrix-1": "/dev/sda"})
    assert up.disks == ("/dev/disk/by-id/matrix-0", "/dev/disk/by-id/matrix-1")


def test_errors_of_boot_scripts_are_found_on_the_console() -> None:
    assert boot_errors("[1.0] boot\nmatrix: no disk a\nmatrix: no root\nKernel panic") == "no disk a; no root"
    assert boot_errors("Kernel panic") == ""


def test_the_first_trap_is_the_cause_of_a_panic() -> None:
    oops = "[   21.3] quota\n[   21.375425] int3: 0000 [#1] PREEMPT SMP\n[ 22.0] Kernel panic - not syncing: Fatal exception"
    assert panic_cause(oops) == "int3: 0000 [#1] PREEMPT SMP"
    assert panic_cause("[ 1.0] Kernel panic - not syncing: sysrq") == "Kernel panic - not syncing: sysrq"


def test_a_machine_beyond_the_host_is_refused_with_the_limit() -> None:
    small = Host(memory=23 << 30, cpus=2)
    (memory, cpus) = capacity_refusals(RigSpec((), memory=900 << 30, cpus=64), small)
    assert memory.brief == (
        "this host cannot hold a virtual machine with 921600MiB of memory: it has 23552MiB, of which an eighth is reserved"
    )
    assert memory.resolution == "use at most machine: {memory: 20608MiB}"
    assert cpus.brief == "a virtual machine with 64 processors is too large for this host, which has 2"
    assert [*capacity_refusals(RigSpec((), memory=20608 << 20, cpus=16), small)] == []


def test_memory_that_templates_lock_is_not_given_away() -> None:
    (refusal,) = capacity_refusals(RigSpec((), memory=3 << 30), Host(4 << 30, 2, locked=1 << 30))
    assert "saved virtual machines take 1024MiB of it" in refusal.brief
    assert refusal.resolution == "use at most machine: {memory: 2560MiB}"


@given(st.integers(1 << 28, 1 << 45), st.integers(1, 512), st.integers(0, 1 << 40))
def test_the_advised_size_is_accepted(memory: int, cpus: int, locked: int) -> None:
    host = Host(memory, cpus, locked)
    assert [*capacity_refusals(RigSpec((), memory=host.spare, cpus=cpus), host)] == []
    assert crowding_notice(RigSpec((), cpus=cpus), host) == ""
    assert f"this host {cpus}: they take turns" in crowding_notice(RigSpec((), cpus=cpus + 1), host)


@given(st.integers(1 << 28, 1 << 45), st.integers(1, 512), st.integers(1 << 28, 1 << 36), st.integers(1, 64))
def test_as_many_machines_as_there_is_room_for_are_not_too_many(memory: int, cpus: int, each: int, wide: int) -> None:
    host, spec = Host(memory, cpus), RigSpec((), memory=each, cpus=wide)
    many = max_machines(spec, host)
    assert many == 1 or [*capacity_refusals(RigSpec((), memory=many * each, cpus=many * wide), host)] == []
    assert [*capacity_refusals(RigSpec((), memory=(many + 1) * each, cpus=(many + 1) * wide), host)]


def test_the_file_system_of_a_path_is_that_of_the_nearest_mount() -> None:
    mounts = (
        "/dev/sda / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\ntmpfs /a\\040b tmpfs rw 0 0\n/dev/sdb /run/x xfs rw 0 0\n"
    )
    kinds = [file_system_of(Path(path), mounts) for path in ("/home/u", "/run/u", "/run/x/y", "/a b/c")]
    assert kinds == ["ext4", "tmpfs", "xfs", "tmpfs"]


def test_a_mount_may_have_any_name() -> None:
    odd = "/a\u2028\x85\x0c\x1c\xa0\udcff\rb\n\\c\td"  # the kernel escapes of these the last three alone, and spaces
    escaped = odd.replace("\\", "\\134").replace("\n", "\\012").replace("\t", "\\011")
    mounts = f"/dev/sda / ext4 rw 0 0\ntmpfs {escaped} tmpfs rw 0 0\n"
    assert [file_system_of(Path(path), mounts) for path in (f"{odd}/x", "/a")] == ["tmpfs", "ext4"]


def test_a_notice_about_the_host_appears_once() -> None:
    said: list[str] = []
    machine = Qemu(MachineOptions(notice=said.append))
    for word in ("", "crowded", "crowded"):
        machine.notice_once(word)
    assert said == ["crowded"]


@pytest.mark.parametrize(("accel", "is_saved", "slow"), [(None, True, 1), ("tcg", False, 1), ("tcg", True, 0)])
async def test_only_a_slow_start_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accel: str | None, is_saved: bool, slow: int
) -> None:
    @asynccontextmanager
    async def entered(found: object) -> AsyncIterator[object]:
        yield found

    async def probe(*_: object) -> str:
        return "tcg"

    shown: list[tuple[str, float | None]] = []
    monkeypatch.setattr("matrix_runner.machines.qemu.appliance_in_use", lambda *_: entered(BASE))
    monkeypatch.setattr("matrix_runner.machines.qemu.cloned_rig", lambda *_: entered("rig"))
    monkeypatch.setattr("matrix_runner.machines.qemu.is_complete", lambda _: is_saved)
    monkeypatch.setattr("matrix_runner.machines.qemu.crowding_notice", lambda *_: "")
    monkeypatch.setattr("matrix_runner.machines.qemu.host.known_accelerator", lambda: accel)
    monkeypatch.setattr("matrix_runner.machines.qemu.host.accelerator", probe)
    monkeypatch.setattr("matrix_runner.machines.qemu.host.qemu_version", lambda: "9")
    monkeypatch.setattr("matrix_runner.machines.qemu.template.key", lambda *_: "name")
    machine = Qemu(MachineOptions(progress=lambda brief, fraction=None: shown.append((brief, fraction))))
    async with machine.rig(RigSpec((SATA,)), tmp_path):
        assert shown == [("starting the virtual machine", None), ("the virtual machine is up", 1.0)][: 2 * slow]


def test_every_script_gets_an_empty_folder(tmp_path: Path) -> None:
    def entered(number: int) -> list[str]:
        script = shell.enter_work_folder(str(tmp_path / "trial"), number)
        done = subprocess.run(["bash", "-c", f"{script} && pwd && ls -A && touch it"], capture_output=True, text=True)
        return done.stdout.splitlines()

    folder = tmp_path / "trial"
    assert entered(0) == [str(folder / "0")]
    assert entered(1) == [str(folder / "1")]
    shutil.rmtree(folder)
    assert entered(2) == [str(folder / "2")]
    assert entered(shell.WORK_FOLDERS) == [str(folder / "0")]
    assert [path.name for path in folder.iterdir() if (path / "it").exists()] == ["0"]


def test_an_earlier_kernel_is_found_in_the_cache_or_in_an_unchanged_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    image = tmp_path / "kernel/bzImage"
    image.parent.mkdir()
    image.write_bytes(b"one")
    core = appliance.core_of(recipe.own_recipe(str(image.parent)))
    asked = ("6.12", f"{core.name}+trixie-1", ["debian-13", str(tmp_path / "gone"), str(image.parent)])
    assert Qemu().find_kernel(*asked) == (str(image.parent), "")
    image.write_bytes(b"two")
    assert Qemu().find_kernel(*asked) == ("", ""), "another kernel is there now"
    core.mkdir(parents=True)
    (core / "vmlinuz").touch()
    write_digests(core)
    assert Qemu().find_kernel(*asked) == ("6.12", core.name)
    assert Qemu().find_kernel("6.12", "", []) == ("", ""), "a level from before appliances were recorded"
