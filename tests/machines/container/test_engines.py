"""What engines are told, and what is made of their answers. Nothing is started."""

from __future__ import annotations

import asyncio
import os
import shlex
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.machines import MACHINES
from matrix_runner.machines.base import NO_OPTIONS, RigSpec
from matrix_runner.machines.container import (
    Container,
    LabelledContainer,
    Owner,
    disk_node,
    engines,
    parse_containers,
)
from matrix_runner.machines.container.engines import (
    FIRST,
    SWEEP,
    Box,
    DiskNode,
    Engine,
    Workaround,
    enter_command,
    find_engine,
    find_working,
    installed_engines,
    kind_of,
    lower_limit,
    mapper_major,
    probe_command,
    remove_command,
    start_command,
    workarounds,
)
from matrix_runner.machines.rig_specs import powers_of
from matrix_runner.simdisks.disk import Disk, Physics
from tests.support.matrices import space

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

PODMAN = Engine("/usr/bin/podman", "podman", Workaround(("--runtime", "runc"), ("--ulimit=nofile=1024:1024",)))
DOCKER = Engine("/usr/bin/docker", "docker")
SCSI = DiskNode("/dev/disk/by-id/wwn-0x5", "/dev/sdb", 8, 16, "/sys/devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0")
LOOP = DiskNode("/dev/loop3", "/dev/loop3", 7, 3, "/sys/devices/virtual/block/loop3")
TWO = (Disk(1 << 26), Disk(1 << 26))
RAW = Box(
    "matrix-1", "localhost/matrix:x", (SCSI, LOOP), RigSpec(TWO), "/home/me/results/r", "b/pid:[1] 7 99", mapper=253
)
SPECS = {
    "raw": RAW.spec,
    "knobs of the host": replace(RAW.spec, powers=("host",)),
    "files": replace(RAW.spec, modules=("ext4",), programs=("mkfs.ext4", "dumpe2fs")),
    "md": replace(RAW.spec, modules=("raid456",), programs=("mdadm",)),
    "lvm": replace(RAW.spec, modules=("dm_mod",), programs=("lvm",)),
    "parts": replace(RAW.spec, programs=("sfdisk",)),
}


@pytest.mark.parametrize("engine", [PODMAN, DOCKER], ids=lambda engine: engine.kind)
@pytest.mark.parametrize("of", SPECS)
def test_a_container_gets_what_its_layout_takes_and_no_more(
    engine: Engine, of: str, snapshot: SnapshotAssertion
) -> None:
    argv = start_command(engine, replace(RAW, spec=SPECS[of]))
    assert shlex.join(word if word != FIRST else "FIRST" for word in argv).replace(" --", "\n--") == snapshot


@pytest.mark.parametrize("of", SPECS)
def test_no_container_gets_all_rights_or_a_network_or_other_disks(of: str) -> None:
    argv = start_command(DOCKER, replace(RAW, spec=SPECS[of]))
    assert {"--cap-drop=ALL", "--network=none"} <= set(argv)
    assert not [word for word in argv if "privileged" in word or "SYS_RAWIO" in word or "source=/sys," in word]
    assert [word for word in argv if word.startswith("--device=/dev/sd")] == ["--device=/dev/sdb:/dev/sdb:rwm"]


def test_paths_of_sysfs_with_colons_in_them_stay_whole() -> None:
    assert f"--mount=type=bind,source={SCSI.sysfs},target={SCSI.sysfs}" in start_command(DOCKER, RAW)


def test_a_way_in_and_a_way_out() -> None:
    assert enter_command(DOCKER, "m") == ("/usr/bin/docker", "exec", "--interactive", "m")
    assert remove_command(PODMAN, "m") == ["/usr/bin/podman", "--runtime", "runc", "rm", "--force", "m"]
    assert probe_command(DOCKER, "i") == [
        "/usr/bin/docker",
        "run",
        "--rm",
        "--pull=never",
        "--network=none",
        "i",
        "true",
    ]


def test_the_plain_way_is_the_first() -> None:
    limits = {"nofile": 10, "nproc": 20}
    assert [str(way) for way in workarounds("podman", limits, ("runc",))] == [
        "",
        "--ulimit=nofile=10:10 --ulimit=nproc=20:20",
        "--runtime runc",
        "--runtime runc --ulimit=nofile=10:10 --ulimit=nproc=20:20",
    ]
    assert len(workarounds("docker", limits, ("runc",))) == 2


def test_a_limit_is_never_raised() -> None:
    assert lower_limit(4096, 100) == 100
    assert lower_limit(4096, 10**6) == 4096
    assert lower_limit(4096, -1) == 4096


# --- the first process, on this host ----------------------------------------------------------------------------------


def first(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", FIRST, "first", *words], input="", capture_output=True, text=True, timeout=60)


def test_a_regular_file_in_the_place_of_a_disk_is_no_disk(tmp_path: Path) -> None:
    (tmp_path / "loop0").write_bytes(b"\0" * 512)
    done = first(f"{tmp_path}/loop0 7:0 {tmp_path}/loop0")
    assert (done.returncode, done.stdout) == (1, f"{tmp_path}/loop0 is no block device in the container\n")
    done = first(f"{tmp_path}/none 7:0 {tmp_path}/none")
    assert (done.returncode, done.stdout) == (1, f"{tmp_path}/none is no block device in the container\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make device nodes")
def test_another_disk_than_the_leased_one_is_refused(tmp_path: Path) -> None:
    node = tmp_path / "sdb"
    try:
        os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(7, 261))
    except PermissionError:
        pytest.skip("no device nodes can be made here")
    done = first(f"{node} 7:6 {node}")
    assert (done.returncode, done.stdout) == (1, f"{node} is 7:261 in the container, and 7:6 was leased\n")


def test_without_disks_it_is_up_until_its_line_ends() -> None:
    done = first()
    assert (done.returncode, done.stdout) == (0, "up\n")


def test_the_first_process_is_a_clean_script() -> None:
    shellcheck = Path(sys.executable).parent / "shellcheck"
    for script in (FIRST, SWEEP[2]):
        done = subprocess.run([shellcheck, "-s", "bash", "-"], input=script, capture_output=True, text=True, timeout=60)
        assert done.stdout == ""


# --- engines ----------------------------------------------------------------------------------------------------------


def engine_saying(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_host_without_an_engine(tmp_path: Path) -> None:
    none = find_engine({"PATH": str(tmp_path)})
    assert none.engine is None
    assert [one.brief for one in none.refusals] == ["neither podman nor docker is installed"]
    chosen = find_engine({"PATH": str(tmp_path), "MATRIX_CONTAINER_ENGINE": "nerdctl"})
    assert [one.brief for one in chosen.refusals] == ["there is no nerdctl, which MATRIX_CONTAINER_ENGINE names"]


def test_podman_is_tried_before_docker(tmp_path: Path) -> None:
    engine_saying(tmp_path, "podman", "echo 'Error: no storage' >&2; exit 125")
    engine_saying(tmp_path, "docker", "echo")
    assert [engine.kind for engine in installed_engines({"PATH": str(tmp_path)})] == ["podman", "docker"]
    other = find_engine({"PATH": str(tmp_path)}).engine
    assert other is not None
    assert other.kind == "docker"
    (one,) = find_engine({"PATH": str(tmp_path), "MATRIX_CONTAINER_ENGINE": "podman"}).refusals
    assert one.brief == "podman does not run: Error: no storage"


def test_the_message_of_a_silent_daemon_is_shown(tmp_path: Path) -> None:
    """docker's client ends with 0 there, from some versions on."""
    engine_saying(tmp_path, "docker", "echo; echo 'Cannot connect to the Docker daemon at unix:///x.' >&2")
    (one,) = find_engine({"PATH": str(tmp_path)}).refusals
    assert one.brief == "docker does not run: Cannot connect to the Docker daemon at unix:///x."


def test_the_engine_of_an_ordinary_user_has_no_disks(tmp_path: Path) -> None:
    engine_saying(tmp_path, "podman", "echo true")
    (one,) = find_engine({"PATH": str(tmp_path)}).refusals
    assert one.brief.startswith("podman runs without root here")
    assert "sudo" in one.resolution


def test_podman_of_an_ordinary_user_is_refused_without_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first call would leave a process that keeps the mounts of all disks."""
    engine_saying(tmp_path, "podman", f"touch {tmp_path}/called")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    (one,) = find_engine({"PATH": str(tmp_path)}).refusals
    assert one.brief.startswith("podman runs without root here")
    assert not (tmp_path / "called").exists()


#: As podman speaks where limits may not be raised and crun refuses the cgroups; runc, if there is one, does it all.
PICKY = """case " $* " in
*" --runtime runc "*--ulimit=*) exit 0 ;;
*--ulimit=*) echo 'Error: crun: cgroups in hybrid mode not supported' >&2; exit 126 ;;
*) echo 'Error: setrlimit: Operation not permitted' >&2; exit 126 ;;
esac"""


@pytest.fixture
def picky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine_saying(tmp_path, "podman", PICKY)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    return Engine(str(tmp_path / "podman"), "podman")


def test_the_first_working_engine_options_are_remembered(picky: Engine, tmp_path: Path) -> None:
    engine_saying(tmp_path, "runc", "")
    said: list[str] = []
    one = find_working(picky, "image", said.append)
    assert one.workaround.engine == ("--runtime", "runc")
    assert [word.split("=")[0] for word in one.workaround.container] == ["--ulimit", "--ulimit"]
    assert said == [
        f"podman does not work with its defaults (Error: setrlimit: Operation not permitted); it works with {one.workaround}"
    ]
    assert find_working(picky, "image", said.append) == one
    assert len(said) == 1


def test_without_a_working_engine_all_errors_are_listed(picky: Engine, tmp_path: Path) -> None:
    with pytest.raises(HarnessBroken, match="podman cannot start a container here") as broken:
        find_working(picky, "image", lambda _: None)
    setrlimit, hybrid = broken.value.details.splitlines()
    assert ("setrlimit" in setrlimit, "hybrid" in hybrid) == (True, True)
    assert broken.value.resolution.startswith("apt install runc")
    engine_saying(tmp_path, "podman", "echo 'Error: no' >&2; exit 126")
    with pytest.raises(HarnessBroken) as broken:
        find_working(picky, "image", lambda _: None)
    assert broken.value.resolution.startswith("repair it")


def test_other_engines_are_used_like_podman() -> None:
    assert [kind_of(name) for name in ("/opt/docker", "docker.io", "podman-remote")] == ["docker", "docker", "podman"]


def test_all_refusals_of_containers_are_listed() -> None:
    spec = RigSpec(
        (Disk(1 << 26, "sata", Physics("volume")),), kernel="debian-13", modules=("no_such_module",), cmdline="nosmt"
    )
    said = [one.brief for one in Container().refusals(spec)]
    assert said[:3] == [
        "physical disks have no model",
        "a running host cannot boot debian-13",
        "a running host cannot boot with nosmt",
    ]
    assert any("has no no_such_module, neither built in nor as a module" in one for one in said)


def test_programs_are_those_of_the_image_not_of_the_host() -> None:
    said = [one.brief for one in Container().refusals(RigSpec((), programs=("no-such-program",)))]
    assert not any("no-such-program" in one for one in said)


def test_it_is_one_of_the_machines() -> None:
    assert MACHINES["container"] == "matrix_runner.machines.container:Container"
    assert "the kernel of the host" in Container().kernel_refusal("debian-13")


# --- images -----------------------------------------------------------------------------------------------------------


def test_another_recipe_is_another_image() -> None:
    text = engines.CONTAINERFILE.read_text()
    assert engines.tag_of_containerfile(text) != engines.tag_of_containerfile(text + "\n")
    assert engines.tag_of_packages("trixie") != engines.tag_of_packages("bookworm")


def test_a_container_image_has_the_packages_of_the_appliance() -> None:
    argv = engines.build_command(DOCKER, "localhost/matrix:x", "--network=none")
    (packages,) = (word for word in argv if word.startswith("--build-arg=PACKAGES="))
    assert {"fio", "mdadm", "lvm2", "xfsprogs"} <= set(packages.partition("PACKAGES=")[2].split())
    assert "busybox-static" not in packages
    assert f"ARG BASE={engines.BASE}\n" in engines.CONTAINERFILE.read_text()


#: Works only with limits, and has a base image once `base` is there.
HARD_TO_PLEASE = """\
echo "$1" >>{folder}/said
case $* in
  'image inspect docker.io/'*) [ -e {folder}/base ] ;;
  'image inspect '*) exit 1 ;;
  *--ulimit=*) ;;
  *) echo rlimit >&2; exit 1 ;;
esac
"""


def test_an_image_is_built_with_the_first_working_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "said"
    engine_saying(tmp_path, "docker", HARD_TO_PLEASE.format(folder=tmp_path))
    engine = Engine(f"{tmp_path}/docker", "docker")
    monkeypatch.setattr(engines, "TOOLS", ("no-such-tool",))
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    with pytest.raises(HarnessBroken, match="cannot build the image") as failed:
        asyncio.run(engines.provide(engine, NO_OPTIONS.progress, NO_OPTIONS.notice))
    assert failed.value.details == "rlimit"
    assert "install no-such-tool to build without" in failed.value.resolution
    assert said.read_text().split() == ["image", "build", "image"]
    (tmp_path / "base").touch()
    said.unlink()
    assert asyncio.run(engines.provide(engine, NO_OPTIONS.progress, NO_OPTIONS.notice)).startswith(
        "localhost/matrix:built-"
    )
    assert said.read_text().split() == ["image", "build", "image", "build"]


# --- whose is it? -----------------------------------------------------------------------------------------------------

ME = Owner.me()


def test_an_owner_is_written_on_a_label_and_read_again() -> None:
    assert Owner.parse(str(ME)) == ME
    assert ME.is_here
    assert ME.is_alive
    assert [Owner.parse(text) for text in ("", "x", "x 1", "x y z", "x 1 2 3")] == [None] * 5


def test_a_reused_process_number_is_another_process() -> None:
    assert not replace(ME, born=ME.born + 1).is_alive


def left(status: str, owner: Owner | None) -> bool:
    return LabelledContainer("matrix-1", status, owner, "/r").is_abandoned


def test_only_containers_without_an_owner_are_left_over() -> None:
    gone = replace(ME, born=ME.born + 1)
    elsewhere = replace(ME, world="another boot/pid:[1]")
    assert left("running", gone)
    assert left("created", gone)
    assert not left("running", ME)
    assert not left("exited", ME)
    # Of whom we cannot see we do not know whether they are alive.
    assert not left("running", elsewhere)
    assert left("exited", elsewhere)
    assert not left("running", None)


def test_containers_are_parsed_from_inspect() -> None:
    said = f"/matrix-1\trunning\t{ME}\t/home/me/results/a b\nmatrix-2\texited\t\t/r\n\nweb\trunning\t\t\n"
    assert list(parse_containers(said)) == [
        LabelledContainer("matrix-1", "running", ME, "/home/me/results/a b"),
        LabelledContainer("matrix-2", "exited", None, "/r"),
    ]


# --- this host --------------------------------------------------------------------------------------------------------


def test_the_number_of_the_device_mapper() -> None:
    devices = "Character devices:\n  1 mem\n253 device-mapper\n\nBlock devices:\n  7 loop\n252 device-mapper\n"
    assert mapper_major(devices) == 252
    assert mapper_major("Character devices:\n\nBlock devices:\n  7 loop\n") is None


@pytest.mark.skipif(not Path("/sys/block/loop0").exists(), reason="this host has no loop devices")
def test_a_leased_disk_is_found_by_its_kernel_name(tmp_path: Path) -> None:
    if not Path("/dev/loop0").is_block_device():
        pytest.skip("no nodes of loop devices here")
    (tmp_path / "disk-a").symlink_to("/dev/loop0")
    assert disk_node(f"{tmp_path}/disk-a") == DiskNode(
        f"{tmp_path}/disk-a", "/dev/loop0", 7, 0, "/sys/devices/virtual/block/loop0"
    )


# --- what work takes --------------------------------------------------------------------------------------------------

MATRIX = """\
name: m
disks: {count: 2, size: 64MiB}
layouts: {raw: [disk]}
tune: {%s}
workloads: {w: {rw: read, bs: 4KiB, runtime: 1s, %s}}
repeat: 1
"""


@pytest.mark.parametrize(
    ("tune", "work", "powers"),
    [
        ("readahead: 1MiB", "direct: true", ()),
        ("scheduler: none", "direct: [true, false]", ()),
        ("vm: {dirty_ratio: [default, 5]}", "direct: true", ("host",)),
        ("cpu_governor: performance", "direct: false", ("host",)),
        ("transparent_hugepages: never", "direct: true", ("host",)),
        ("write_cache: write through", "direct: true", ()),
    ],
)
def test_work_declares_its_powers_beyond_disks(tune: str, work: str, powers: tuple[str, ...]) -> None:
    (array,) = space(MATRIX % (tune, work)).stacks
    assert powers_of(array) == powers
