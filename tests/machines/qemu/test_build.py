"""The build of an appliance: its archive, its packages and its modules."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.machines.qemu import (
    build,
    recipe,
)
from tests.support.kernels import bzimage


def test_a_kernel_has_its_modules_and_what_is_built_in(tmp_path: Path) -> None:
    assert build.module_names(tmp_path) == []
    (tmp_path / "modules.dep").write_text("kernel/drivers/md/dm-mod.ko: kernel/a.ko\nkernel/a.ko:\n")
    (tmp_path / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\n")
    assert build.module_names(tmp_path) == ["a", "dm_mod", "ext4"]


def test_the_host_s_archive_is_found_or_the_usual_taken() -> None:
    seen = "http://u/ubuntu|Ubuntu|noble\nhttp://s/sec|Debian|bookworm-security\nhttp://m/debian/|Debian|bookworm\n"
    assert build.mirror_from(seen) == "http://m/debian"
    assert build.mirror_from("") == recipe.DEFAULT_MIRROR


def test_apt_takes_only_fetch_settings_of_the_host() -> None:
    dump = 'APT::Install-Recommends "1";\nAcquire::http::Proxy "http://p:1";\nDPkg::Post-Invoke:: "rm";\n'
    text = build.configuration(Path("/w"), dump)
    assert 'Acquire::http::Proxy "http://p:1";' in text
    assert "Post-Invoke" not in text
    assert 'Dir::State "/w"' in text


@pytest.mark.parametrize(
    ("mirror", "asked"),
    [
        ("file:///srv/debian", "copy:///srv/debian"),
        ("file:/srv/file:/debian", "copy:/srv/file:/debian"),
        ("http://m/debian", "http://m/debian"),
    ],
)
def test_packages_of_a_local_archive_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirror: str, asked: str
) -> None:
    """Nothing would be unpacked otherwise, and the root file system of that be kept as whole."""
    monkeypatch.setattr(build, "run", lambda argv: subprocess.CompletedProcess(argv, 0, "", ""))
    build.prepare(tmp_path, ["trixie"], mirror)
    assert f" {asked} trixie main\n" in (tmp_path / "sources.list").read_text()


def test_a_full_folder_of_temporary_files_does_not_matter_to_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "run", lambda argv: subprocess.CompletedProcess(argv, 0, "", ""))
    monkeypatch.setenv("TMPDIR", "/full")
    used = Path(build.prepare(tmp_path, ["trixie"], "http://m/debian")["TMPDIR"])
    assert used.is_dir()
    assert used.parent == tmp_path


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("E: No space left on device", "disk space"),
        ("NO_PUBKEY 123", "debian-archive-keyring"),
        ("404", "MATRIX_MIRROR"),
    ],
)
def test_advice_on_apt_s_complaints(words: str, advice: str) -> None:
    assert advice in build.hint(words)


def test_name_and_version_of_a_package() -> None:
    assert build.package_version(Path("/x/perl-base_1%3a5.40_amd64.deb")) == ("perl-base", "1:5.40")


def test_the_compression_of_a_module_is_read_from_its_content(tmp_path: Path) -> None:
    packed = tmp_path / "a.ko.xz"
    packed.write_bytes(gzip.compress(b"module"))
    build.unpack_module(packed)
    assert (tmp_path / "a.ko").read_bytes() == b"module"
    assert not packed.exists()


def test_a_module_packed_in_an_unknown_way_is_named(tmp_path: Path) -> None:
    packed = tmp_path / "a.ko.zip"
    packed.write_bytes(b"PK")
    with pytest.raises(HarnessBroken, match=r"a\.ko\.zip has an unknown compression"):
        build.unpack_module(packed)


def test_a_kernel_is_left_plain_beside_its_image_only_if_it_can_be_booted(tmp_path: Path) -> None:
    bootable = b"\x7fELF" + build.PVH_NOTE
    target = tmp_path / "vmlinux"
    for payload, plain in ((bootable, bootable), (b"\x7fELF", None)):
        target.unlink(missing_ok=True)
        build.unpack_kernel(bzimage(b"6.9", gzip.compress(payload)), target)
        assert (target.read_bytes() if target.exists() else None) == plain
    build.unpack_kernel(bzimage(b"6.9", b"unknown...."), target)
    assert [path.name for path in tmp_path.iterdir()] == []


def test_a_newer_kernel_of_debian_is_in_two_packages() -> None:
    """Its `linux-image` is empty: with it alone, the appliance would keep Debian's usual kernel, and measure that."""

    def line(file: str) -> str:
        return f"'http://m/{file}' {file} 7 SHA256:{len(file)}"

    whole, empty = ("linux-image-6.12.9+deb13-amd64_1_amd64.deb", "linux-image-7.3.4+deb13-amd64_1_amd64.deb")
    parts = [f"linux-{kind}-7.3.4+deb13-amd64_1_amd64.deb" for kind in ("modules", "binary")]
    without_image = "linux-modules-7.4+deb13-amd64_1_amd64.deb"
    without_modules = [f"linux-{kind}-6.19.6+deb13-amd64_1_amd64.deb" for kind in ("image", "binary")]
    found = build.packages_of_kernels(
        ["Reading …", *map(line, (whole, *parts, empty, without_image, *without_modules))]
    )
    assert found == {
        "6.12.9+deb13": f"http://m/{whole} SHA256:{len(whole)}",
        "7.3.4+deb13": f"http://m/{parts[1]} SHA256:{len(parts[1])}\nhttp://m/{parts[0]} SHA256:{len(parts[0])}",
    }


def test_modules_belong_to_the_kernel_that_starts(tmp_path: Path) -> None:
    (tmp_path / "7.3").mkdir()
    assert not build.has_modules_of("6.12", [tmp_path])
    assert build.has_modules_of("7.3", [tmp_path])
