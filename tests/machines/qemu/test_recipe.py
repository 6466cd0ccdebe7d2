"""What an appliance is made of, and its key."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from matrix_runner.language.matrix import SUITES
from matrix_runner.machines.qemu import (
    explain_unusable_kernel,
    recipe,
)
from tests.support.kernels import bzimage


def test_kernels_by_name_and_by_file(tmp_path: Path) -> None:
    image = tmp_path / "bzImage"
    image.write_bytes(b"x")
    default = recipe.recipe_for(None)
    assert default is not None
    assert default.suite == SUITES[recipe.DEFAULT_KERNEL]
    assert recipe.recipe_for("debian-12") == recipe.Recipe("bookworm")
    newer = recipe.recipe_for("debian-12-backports")
    assert newer is not None
    assert (newer.suite, newer.release) == ("bookworm-backports", "bookworm")
    assert recipe.kernel_key(newer.suite, None) != recipe.kernel_key(newer.release, None)
    own = recipe.recipe_for(str(image))
    assert own is not None
    assert own.image == image
    assert recipe.recipe_for("debian-1") is None


def test_the_key_of_an_own_kernel_follows_its_content_and_its_modules(tmp_path: Path) -> None:
    image = tmp_path / "bzImage"
    keys = set()
    for content in (b"1", b"2"):
        image.write_bytes(content)
        keys.add(recipe.kernel_key("trixie", image))
    module = tmp_path / "lib/modules/6.0/kernel/a.ko"
    module.parent.mkdir(parents=True)
    module.touch()
    keys.add(recipe.kernel_key("trixie", image))
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("./bin/bash", "usr/bin/bash"),
        ("./lib64/ld.so", "usr/lib64/ld.so"),
        ("./usr/bin/x", "usr/bin/x"),
        ("./etc/fstab", "etc/fstab"),
        ("./bin", ""),
        ("./sbin/", ""),
        ("./", ""),
        ("./library/x", "library/x"),
    ],
)
def test_usr_is_merged(name: str, path: str) -> None:
    assert recipe.merge_usr(name) == path


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("usr/bin/fio", True),
        ("usr/share/doc", False),
        ("usr/share/doc/fio/README", False),
        ("usr/share/docs", True),
        ("", False),
        ("usr/lib/modules/6.1/kernel/drivers/md/raid456.ko", True),
        ("usr/lib/modules/6.1/kernel/sound/core.ko", False),
        ("usr/lib/modules/6.1/kernel/drivers/gpu/x.ko", False),
        ("usr/lib/modules/6.1/modules.builtin", True),
        ("usr/lib/python3.11/os.py", False),
    ],
)
def test_files_that_the_appliance_needs(path: str, kept: bool) -> None:
    assert recipe.is_wanted(path) is kept


def test_modules_in_loading_order() -> None:
    dependencies = "kernel/a.ko: kernel/b-c.ko kernel/d.ko\nkernel/b-c.ko: kernel/d.ko\nkernel/d.ko:\n"
    assert recipe.load_order(dependencies, ("a", "b_c", "gone")) == ["kernel/d.ko", "kernel/b-c.ko", "kernel/a.ko"]


def test_release_and_payload_of_a_bzimage() -> None:
    image = bzimage(b"6.9.1-mine (me@here) #1\0", b"packed....")
    assert recipe.kernel_release(image) == "6.9.1-mine"
    assert recipe.kernel_payload(image) == b"packed"
    packed = gzip.compress(b"kernel")  # its size is a part of it: the build adds none
    assert recipe.kernel_payload(bzimage(b"6.9.1", packed)) == packed
    assert recipe.kernel_release(b"\x7fELF" + b"\0" * 1024) is None


def test_a_folder_is_a_kernel_with_modules_and_programs(tmp_path: Path) -> None:
    for name in ("boot/vmlinuz-6.1", "lib/modules/6.1/kernel/a.ko", "sbin/mdadm", "usr/bin/fio", "README"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    own = recipe.recipe_for(str(tmp_path))
    assert own is not None
    assert own.image == tmp_path / "boot/vmlinuz-6.1"
    assert recipe.modules_in(tmp_path) == [tmp_path / "lib/modules"]
    assert {*recipe.programs_in(tmp_path)} == {"usr/bin/fio", "usr/sbin/mdadm"}
    assert "is no kernel image" in explain_unusable_kernel(str(tmp_path))


def test_a_folder_without_a_kernel_replaces_programs_of_the_appliance(tmp_path: Path) -> None:
    assert "has no bzImage, no lib/modules and no programs" in explain_unusable_kernel(str(tmp_path))
    program = tmp_path / "usr/sbin/mdadm"
    program.parent.mkdir(parents=True)
    keys = set()
    for size in (1, 2):
        program.write_text("x" * size)
        keys.add(recipe.kernel_key("trixie", tmp_path))
    assert len(keys) == 2
    assert recipe.image_in(tmp_path) is None
    assert not explain_unusable_kernel(str(tmp_path))
