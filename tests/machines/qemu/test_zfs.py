"""How the appliance gets ZFS: who needs it, what a failed build says, and how progress is shown. Nothing is compiled."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.machines import qemu
from matrix_runner.machines.base import RigSpec
from matrix_runner.machines.qemu import Qemu, build, recipe, zfs
from matrix_runner.machines.qemu.appliance import Appliance, is_of_same_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RELEASE = "6.1.0-44-amd64"
WANTED = RigSpec((), modules=("raid1", "zfs"), programs=("mdadm", "zfs", "zpool"))


def test_only_stacks_with_zfs_have_a_kernel_with_it_and_only_one_of_debian() -> None:
    made = recipe.recipe_for("debian-12", WANTED.modules)
    assert made == recipe.Recipe("bookworm", zfs=True)
    assert recipe.recipe_for("debian-12", ["raid1"]) == recipe.Recipe("bookworm")
    own = recipe.recipe_for(sys.executable, WANTED.modules)
    assert own is not None
    assert not own.zfs
    keys = {recipe.kernel_key("bookworm", None, zfs=zfs) for zfs in (False, True)}
    assert len(keys) == 2


def test_what_a_build_will_bring_is_not_missed_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Appliance(Path("/u"), Path("/c"), {"kernel": RELEASE, "mdadm": "4.4"}, modules=frozenset({"raid1"}))
    monkeypatch.setattr(qemu, "find_cached", lambda made: None if made.zfs else plain)
    assert Qemu().known(WANTED) == {"kernel": RELEASE, "processors": "2", "mdadm": "4.4"}
    both = Appliance(
        Path("/u"), Path("/z"), {"kernel": RELEASE, "zfsutils-linux": "2.3.9"}, modules=frozenset({"raid1", "zfs"})
    )
    monkeypatch.setattr(qemu, "find_cached", lambda made: both if made.zfs else plain)
    assert Qemu().known(WANTED)["zfs"] == "2.3.9"


def test_the_plan_counts_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "find_cached", lambda _: None)
    monkeypatch.setattr(qemu.host, "expected_accelerator", lambda: "tcg")
    monkeypatch.setattr(qemu.host, "known_accelerator", lambda: "tcg")
    without = Qemu().preparation([RigSpec(())]).once
    assert Qemu().preparation([WANTED]).once - without == qemu.ZFS_SECONDS - qemu.BUILD_SECONDS


def test_headers_that_left_the_archive_are_named_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: object) -> list[Path]:
        raise HarnessBroken("cannot get packages", details=f"E: Unable to locate package linux-headers-{RELEASE}")

    monkeypatch.setattr(build, "fetch", fetch)
    with pytest.raises(HarnessBroken, match=f"no longer has the headers of the appliance's kernel, {RELEASE}") as lost:
        zfs._fetch("trixie", RELEASE, tmp_path, lambda *_: None)
    assert "matrix clean --cache" in lost.value.resolution


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/usr/bin").mkdir(parents=True)
    (tmp_path / "root/usr/src/zfs-2.3.9").mkdir(parents=True)
    (tmp_path / "root/usr/bin/x86_64-linux-gnu-gcc-14").touch()
    (tmp_path / "root/usr/bin/gcc-14").touch()
    return tmp_path / "root"


def test_the_links_of_maintainer_scripts_are_made_once(root: Path) -> None:
    zfs._link(root)
    zfs._link(root)
    assert (root / "usr/bin/gcc").readlink() == Path("gcc-14")
    assert (root / "bin").readlink() == Path("usr/bin")


def test_a_compiler_that_has_only_the_name_of_its_platform_is_linked(root: Path) -> None:
    (root / "usr/bin/gcc-14").unlink()
    zfs._link(root)
    assert (root / "usr/bin/gcc").readlink() == Path("x86_64-linux-gnu-gcc-14")


@pytest.mark.parametrize(
    ("last", "release", "expected"),
    [
        ("7.2", "7.3.4+deb13-amd64", False),
        ("7.2", "7.2.12+deb13-amd64", True),
        ("6.14", "6.12.95+deb12-amd64", True),
        ("6.9", "6.12.95+deb12-amd64", False),
    ],
)
def test_no_module_is_built_for_a_kernel_that_zfs_does_not_support(last: str, release: str, expected: bool) -> None:
    assert zfs.is_for(f"Name:          zfs\nLinux-Maximum: {last}\nLinux-Minimum: 4.18\n", release) is expected


@pytest.mark.parametrize("made", [["spl.ko", "zfs.ko"], ["icp/icp.ko", "spl/spl.ko", "zfs/zfs.ko"]])
def test_the_steps_of_the_build_are_shown(made: list[str], root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Sequence[str]] = []

    @contextmanager
    def output(argv: Sequence[str]) -> Iterator[io.BytesIO]:
        commands.append(argv)
        for name in made:
            (root / "usr/src/zfs-2.3.9/module" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "usr/src/zfs-2.3.9/module" / name).touch()
        yield io.BytesIO(b"checking for gcc... yes\n" * 375 + b"  CC [M]  arc.o\n" * 145)

    monkeypatch.setattr(zfs, "open_output", output)
    seen = list[float]()
    modules = zfs._compile(root, RELEASE, lambda brief, done=None: seen.append(done if RELEASE in brief else -1))
    assert seen == sorted(seen)
    assert 0.2 < seen[0] < 0.21
    assert seen[-1] == pytest.approx(0.7, abs=0.01)
    assert modules == [root / "usr/src/zfs-2.3.9/module" / name for name in made]
    assert commands[0][-2:] == [str(root), RELEASE]


def test_a_failed_build_shows_its_last_lines_and_what_it_needs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "guest_file", lambda _: "echo configure: error: no headers\nexit 7\n")
    with pytest.raises(HarnessBroken, match=f"cannot build ZFS for Linux {RELEASE}") as failed:
        zfs._compile(root, RELEASE, lambda *_: None)
    if subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True).returncode == 0:
        assert failed.value.details.endswith("configure: error: no headers")
    assert "user namespaces" in failed.value.resolution


def test_a_half_for_another_kernel_than_that_of_the_other_stacks_is_built_again(tmp_path: Path) -> None:
    core, debian = tmp_path / "zfs", tmp_path / "kernel"

    def build_half(folder: Path, release: str) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "manifest.json").write_text(json.dumps({"versions": {"kernel": release}}))

    assert is_of_same_kernel(core, debian), "neither is built"
    build_half(core, "6.1.0-44-amd64")
    assert not is_of_same_kernel(core, debian), "the other one may get a later kernel"
    build_half(debian, "6.1.0-50-amd64")
    assert not is_of_same_kernel(core, debian)
    build_half(core, "6.1.0-50-amd64")
    assert is_of_same_kernel(core, debian)
