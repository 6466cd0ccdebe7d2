"""What a kernel needs in the appliance: judged from its configuration, wherever that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.layers import LAYERS
from matrix_runner.machines.qemu.kernel_config import OPTIONS, embedded_config, inspect, lacks, smallest_config
from matrix_runner.machines.qemu.recipe import BOOT_MODULES, BUS_MODULES
from tests.support.kernels import BUILT_IN, RELEASE, ikconfig, image

if TYPE_CHECKING:
    from matrix_runner.machines.qemu import kernel_config

#: As Debian 12 has it (linux-image-6.1.0-amd64): what is a module there.
DEBIAN = "".join(f"CONFIG_{one.name}={'y' if one.need == 'boot' else 'm'}\n" for one in OPTIONS)


def test_a_complete_kernel_has_no_missing_option() -> None:
    assert not list(lacks(BUILT_IN, modules=False))
    assert not list(lacks(DEBIAN, modules=True))


@pytest.mark.parametrize("option", OPTIONS, ids=lambda one: one.name)
def test_each_option_is_missed(option: kernel_config.Option) -> None:
    line = f"CONFIG_{option.name}=y\n"
    for other in ("", f"# CONFIG_{option.name} is not set\n", f"CONFIG_{option.name}_MORE=y\n"):
        (lack,) = lacks(BUILT_IN.replace(line, other), modules=True)
        assert lack.message == f"CONFIG_{option.name} is not set: {option.use}"
    as_module = list(lacks(BUILT_IN.replace(line, line.replace("=y", "=m")), modules=True))
    assert bool(as_module) == (option.need == "boot"), "init and initramfs load the others"


def test_the_smallest_configuration_needs_no_modules() -> None:
    assert not list(lacks(smallest_config(), modules=False))


def test_modules_need_a_folder_to_be_loaded_from() -> None:
    found = list(lacks(DEBIAN, modules=False))
    assert {lack.option.name for lack in found} == {one.name for one in OPTIONS if one.need != "boot"}
    assert {lack.why for lack in found} == {"is a module that cannot be loaded"}


def test_every_module_that_the_machine_or_a_layer_loads_has_an_option() -> None:
    """The names of modules, as far as they follow from those of options by another rule than by their letters."""
    others = {
        "SCSI_VIRTIO": "virtio_scsi",
        "SATA_AHCI": "ahci",
        "BLK_DEV_SD": "sd_mod",
        "BLK_DEV_NVME": "nvme",
        "OVERLAY_FS": "overlay",
        "BLK_DEV_NULL_BLK": "null_blk",
        "BLK_DEV_RAM": "brd",
        "CONFIGFS_FS": "configfs",
        "NVME_TARGET_TCP": "nvmet_tcp",
        "MD_LINEAR": "linear",
        "MD_RAID0": "raid0",
        "MD_RAID1": "raid1",
        "MD_RAID10": "raid10",
        "MD_RAID456": "raid456",
        "BLK_DEV_DM": "dm_mod",
        "DM_THIN_PROVISIONING": "dm_thin_pool",
        **{f"{name.upper()}_FS": name for name in ("ext4", "xfs", "btrfs", "f2fs")},
    }
    named = {others.get(one.name, one.name.lower()) for one in OPTIONS}
    assert {*BOOT_MODULES, *(name for bus in BUS_MODULES.values() for name in bus)} <= named
    assert {
        name for layer in LAYERS.values() for need in layer.needs if not need.package for name in need.modules
    } <= named


def test_the_configuration_in_the_image(tmp_path: Path) -> None:
    found = inspect(image(tmp_path, ikconfig(BUILT_IN)))
    assert (found.release, found.config, found.modules) == (RELEASE, BUILT_IN, False)
    assert "IKCONFIG" in found.source
    assert embedded_config(ikconfig(BUILT_IN)) == BUILT_IN, "not packed"


@pytest.mark.parametrize(
    "payload", [b"", b"IKCFG_ST", b"IKCFG_EDIKCFG_ST", b"IKCFG_STnot gzipIKCFG_ED", b"IKCFG_ST\x1f\x8b\x08IKCFG_ED"]
)
def test_an_image_with_half_a_configuration_has_none(tmp_path: Path, payload: bytes) -> None:
    assert not inspect(image(tmp_path, payload)).source


@pytest.mark.parametrize("name", [f"config-{RELEASE}", f"lib/modules/{RELEASE}/config", ".config"])
def test_the_configuration_beside_the_image(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(DEBIAN)
    assert inspect(image(tmp_path)).source == str(tmp_path / name)


def test_the_configuration_in_the_tree_of_a_build(tmp_path: Path) -> None:
    (tmp_path / ".config").write_text(BUILT_IN)
    (boot := tmp_path / "arch/x86/boot").mkdir(parents=True)
    assert inspect(image(boot)).source == str(tmp_path / ".config")


def test_a_file_that_is_no_configuration_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / f"config-{RELEASE}").write_bytes(b"\xff\0 no options here")
    assert not inspect(image(tmp_path)).source


def test_files_that_are_no_kernel_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bzImage").write_bytes(b"MZ")
    with pytest.raises(BadInput, match="is no kernel image"):
        inspect(tmp_path / "bzImage")
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        inspect(tmp_path / "none")
    with pytest.raises(BadInput, match="cannot be read: it is a folder"):
        inspect(tmp_path)
