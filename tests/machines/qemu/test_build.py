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


@pytest.mark.parametrize(
    ("suite", "suites", "target"),
    [("trixie", ["trixie"], []), ("trixie-backports", ["trixie", "trixie-backports"], ["trixie-backports"])],
)
def test_packages_come_from_backports_if_these_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suite: str, suites: list[str], target: list[str]
) -> None:
    """By itself, apt takes from backports only what the release lacks, and so the kernel of the release."""
    monkeypatch.setattr(build, "run", lambda argv, **_: subprocess.CompletedProcess(argv, 0, "", ""))
    asked: list[list[str]] = []
    monkeypatch.setattr(build, "apt", lambda arguments, *_: asked.append(arguments))
    build.fetch(tmp_path, suite, ["linux-image-amd64"], lambda *_: None)
    lines = (tmp_path / "sources.list").read_text().splitlines()
    assert [line.split()[-2] for line in lines] == suites
    install = asked[-1]
    found = install[install.index("--target-release") + 1 :][:1] if "--target-release" in install else []
    assert found == target


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


def test_a_newer_kernel_of_debian_is_in_three_packages() -> None:
    """Its `linux-image` is empty: with it alone, the appliance would keep Debian's usual kernel, and measure that."""

    def line(file: str) -> str:
        return f"'http://m/{file}' {file} 7 SHA256:{len(file)}"

    whole, empty = ("linux-image-6.12.9+deb13-amd64_1_amd64.deb", "linux-image-7.3.4+deb13-amd64_1_amd64.deb")
    parts = [f"linux-{kind}-7.3.4+deb13-amd64_1_amd64.deb" for kind in ("modules", "binary", "base")]
    without_image = "linux-modules-7.4+deb13-amd64_1_amd64.deb"
    without_modules = [f"linux-{kind}-6.19.6+deb13-amd64_1_amd64.deb" for kind in ("image", "base", "binary")]
    found = build.packages_of_kernels(
        ["Reading …", *map(line, (whole, *parts, empty, without_image, *without_modules))]
    )
    assert found == {
        "6.12.9+deb13": f"http://m/{whole} SHA256:{len(whole)}",
        "7.3.4+deb13": "\n".join(f"http://m/{part} SHA256:{len(part)}" for part in reversed(parts)),
    }


@pytest.mark.parametrize(
    "packages",
    [
        {"image": ("boot/vmlinuz-7.3-amd64", "boot/config-7.3-amd64", "lib/modules/7.3-amd64/kernel/fs/a.ko")},
        {
            "image": (),
            "base": ("lib/modules/7.3-amd64/config",),
            "binary": ("lib/modules/7.3-amd64/vmlinuz",),
            "modules": ("lib/modules/7.3-amd64/kernel/fs/a.ko",),
        },
    ],
    ids=["one package", "three packages"],
)
def test_a_kernel_is_found_in_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packages: dict[str, tuple[str, ...]]
) -> None:
    contents = {f"linux-{kind}-7.3-amd64": files for kind, files in packages.items()}
    archives = []
    for name, files in {**contents, "busybox-static": ("bin/busybox",)}.items():
        tree = tmp_path / name
        for file in (*files, "DEBIAN/control"):
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            (tree / file).write_bytes(bzimage(b"7.3-amd64", b"unknown....") if "vmlinuz" in file else b"content\n")
        (tree / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@b>\nDescription: a\n"
        )
        archives.append(tmp_path / f"{name}_1_amd64.deb")
        subprocess.run(["dpkg-deb", "--build", tree, archives[-1]], check=True, capture_output=True)
    monkeypatch.setattr(build, "fetch", lambda *_: archives)
    (out := tmp_path / "half").mkdir()
    (work := tmp_path / "work").mkdir()
    made = build.kernel("trixie", None, work, out, lambda *_: None)
    assert made["versions"]["kernel"] == "7.3-amd64"
    assert (out / recipe.CONFIG).read_text() == "content\n"
    assert not list(work.rglob("usr/lib/modules/**/vmlinuz"))
    assert list(work.rglob("usr/lib/modules/**/a.ko"))


def test_modules_belong_to_the_kernel_that_starts(tmp_path: Path) -> None:
    (tmp_path / "7.3").mkdir()
    assert not build.has_modules_of("6.12", [tmp_path])
    assert build.has_modules_of("7.3", [tmp_path])
