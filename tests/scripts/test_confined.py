"""fio writes only in the trial's folder and on what is under test, whatever its job says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.record import UNCONFINED
from matrix_runner.scripts.cell import BEGINS, cell_scripts, stack_scripts
from matrix_runner.work.fio.output import find_json
from matrix_runner.work.workload import notes_of
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import Iterator

MATRIX = """\
name: m
disks: {count: 1, size: 64MiB}
layouts: {raw: [disk]}
workloads: {w: {rw: write, bs: 4KiB, size: 1MiB}}
"""
JOB = "[a]\nrw=write\nbs=4k\nsize=8k\nallow_file_create=0\nfilename="
TEXT = "as it was\n" * 1000

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to attach loop devices and to mount")


def attached(image: Path) -> str:
    image.write_bytes(TEXT.encode().ljust(1 << 20))
    return subprocess.run(
        ["losetup", "--find", "--show", image], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Attach the device under test, and one of somebody else."""
    made: list[str] = []
    try:
        made += [attached(tmp_path / "mine"), attached(tmp_path / "other")]
        yield made[0], made[1]
    finally:
        for device in made:
            subprocess.run(["losetup", "--detach", device], check=True)


def measured(folder: Path, device: str, job: str, **environment: str) -> subprocess.CompletedProcess[str]:
    cell = next(iter(space(MATRIX).cells()))
    stack = stack_scripts(cell.stack, [device], zeroed=False).stack
    trial = folder / "a trial"
    trial.mkdir(exist_ok=True)
    (trial / "job.fio").write_text(job)
    measure = cell_scripts(cell, stack).measure
    return subprocess.run(
        ["bash", "-c", measure], cwd=trial, capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_the_device_under_test_is_written(devices: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "by id").symlink_to(devices[0])
    done = measured(tmp_path, devices[0], JOB + devices[0])
    assert done.returncode == 0, done.stderr
    assert '"disk_util"' in done.stdout
    assert not notes_of(done.stdout)
    assert not (tmp_path / "mine").read_bytes().startswith(TEXT[:100].encode())
    assert {one.name for one in (tmp_path / "a trial").iterdir()} == {"job.fio", "fio.json"}


@pytest.mark.parametrize(
    "way",
    [
        "{path}",
        "../sentinel",
        "/host{path}",
        "link",
        "/proc/1/root{path}",
        "/proc/self/cwd/../sentinel",
        "{mount}/file",
    ],
)
def test_a_confined_fio_does_not_write_foreign_files(devices: tuple[str, str], tmp_path: Path, way: str) -> None:
    sentinel, trial, mount = tmp_path / "sentinel", tmp_path / "a trial", tmp_path / "a 0405 mount"
    trial.mkdir()
    mount.mkdir()
    sentinel.write_text(TEXT)
    (trial / "link").symlink_to(sentinel)
    subprocess.run(["mount", "-t", "tmpfs", "test", mount], check=True)
    try:
        (mount / "file").write_text(TEXT)
        done = measured(tmp_path, devices[0], JOB + way.format(path=sentinel, mount=mount))
        assert done.returncode != 0
        assert [(mount / "file").read_text(), sentinel.read_text()] == [TEXT, TEXT]
    finally:
        subprocess.run(["umount", mount], check=True)


def test_no_variable_of_the_environment_ends_the_confinement(devices: tuple[str, str], tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    sentinel.write_text(TEXT)
    done = measured(tmp_path, devices[0], f"{JOB}{sentinel}", MATRIX_BELL="/dev/null")
    assert done.returncode != 0
    assert sentinel.read_text() == TEXT


def test_a_bell_of_the_environment_is_not_rung(devices: tuple[str, str], tmp_path: Path) -> None:
    bell = BEGINS["exec_prerun"]
    done = measured(tmp_path, devices[0], f"{JOB}{devices[0]}\nexec_prerun={bell}", MATRIX_BELL="bell")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "a trial/bell").exists()


def test_a_confined_fio_does_not_write_foreign_devices(devices: tuple[str, str], tmp_path: Path) -> None:
    done = measured(tmp_path, devices[0], JOB + devices[1])
    assert done.returncode != 0
    assert (tmp_path / "other").read_bytes().startswith(TEXT.encode())


@pytest.mark.parametrize(
    "options",
    [
        "filename_format=$jobname\n[../../sentinel]\nrw=write\nbs=4k\nsize=8k",
        "directory={top}\nfilename=sentinel",
        "opendir={top}",
        "unlink=1\nfilename={top}/sentinel",
        "mem=mmapshared:{top}/made\nfilename={device}",
        "ioengine=filecreate\nfilename={top}/made",
        "write_bw_log={top}/made\nfilename={device}",
        "write_iolog={top}/made\nfilename={device}",
        "read_iolog=log\nreplay_redirect={other}",
        "exec_prerun=touch {top}/made\nfilename={device}",
        "filename=/sys/class/block/loop0/queue/nr_requests",
        "filename=/host/dev/kmsg",
    ],
)
def test_no_option_of_fio_writes_elsewhere(devices: tuple[str, str], tmp_path: Path, options: str) -> None:
    """As if each had passed the checks of the matrix."""
    device, other = devices
    (tmp_path / "sentinel").write_text(TEXT)
    trial = tmp_path / "a trial"
    trial.mkdir()
    (trial / "log").write_text(f"fio version 2 iolog\n{other} add\n{other} open\n{other} write 0 4096\n{other} close\n")
    names = {one.name for one in tmp_path.iterdir()}
    given = options.format(top=f"/host{tmp_path}", device=device, other=other)
    measured(tmp_path, device, f"[a]\nrw=write\nbs=4k\nsize=8k\n{given}\n")
    assert {one.name for one in tmp_path.iterdir()} == names
    assert (tmp_path / "sentinel").read_text() == TEXT
    assert (tmp_path / "other").read_bytes().startswith(TEXT.encode())


def test_without_mount_rights_fio_runs_unconfined_with_a_note(devices: tuple[str, str], tmp_path: Path) -> None:
    dropped = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    cell = next(iter(space(MATRIX).cells()))
    measure = cell_scripts(cell, stack_scripts(cell.stack, [devices[0]], zeroed=False).stack).measure
    (tmp_path / "job.fio").write_text(JOB + devices[0])
    done = subprocess.run([*dropped, "bash", "-c", measure], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert notes_of(done.stdout) == {UNCONFINED: "root may not mount here: it lacks CAP_SYS_ADMIN"}
    assert find_json(done.stdout)["jobs"]
