"""What a run notes of where it was made."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base import process
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.machines.rig_specs import simulated_disk_facts
from matrix_runner.records.environment import Digests, Host, flatten_environment
from matrix_runner.session import host_facts as host
from matrix_runner.simdisks.disk import Disk, Link
from matrix_runner.space.load import disk_model

if TYPE_CHECKING:
    from pathlib import Path

git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def test_facts_of_the_host() -> None:
    found = host.query_facts("")
    assert found.kernel
    assert found.command_line
    assert found.versions["matrix"]
    told = flatten_environment(found, (), Digests(), {"6.1": {"fio": "3.33"}, "": {"fio": "3.1"}})
    assert told["host.versions.matrix"] == found.versions["matrix"]
    assert told["6.1: fio"] == "3.33"
    assert all(told.values()), "what is not known is not there"


def test_a_missing_program_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise HarnessBroken("not installed")

    monkeypatch.setattr(host, "run", absent)
    assert set(host.program_versions()) == {"python"}


def commit(folder: Path) -> None:
    for words in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "all"),
    ):
        done = process.run(("git", "-C", str(folder), *words))
        assert done.returncode == 0, done.stderr


@git
def test_the_revision_of_a_folder(tmp_path: Path) -> None:
    assert host.revision(tmp_path) is None
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "m.yaml").write_text("name: m\n")
    (tmp_path / "other").write_text("")
    commit(tmp_path)
    found = host.revision(tmp_path / "sweeps")
    assert found is not None
    assert (len(found.commit), found.dirty) == (40, False)
    (tmp_path / "other").write_text("changed, but beside it")
    assert host.revision(tmp_path / "sweeps") == found
    (tmp_path / "sweeps" / "m.yaml").write_text("name: n\n")
    again = host.revision(tmp_path / "sweeps")
    assert again is not None
    assert again.dirty


@git
def test_a_repository_without_a_commit_has_no_revision(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert host.revision(tmp_path) is None


def test_disks_of_one_model_have_the_same_digest() -> None:
    model = disk_model("st3320620as")
    one, other = (simulated_disk_facts(Disk(1 << 30, "sata", model.physics(seed))) for seed in (1, 2))
    assert one == other
    assert one.model == "hdd"
    assert one.digest != simulated_disk_facts(Disk(1 << 30, "sata", disk_model("nas-7200").physics(1))).digest
    named = simulated_disk_facts(Disk(1 << 30, "sata", model.physics(1), model="st3320620as"))
    assert (named.name, named.model) == ("st3320620as", "hdd")
    here = Host(kernel="6.1.0", cpu="some cpu", cores=2, memory=4 << 30)
    with_name, without = (flatten_environment(here, [facts], Digests(), {}) for facts in (named, one))
    assert with_name == without, "runs of earlier versions have no name, and are compared with later ones"
    plain = simulated_disk_facts(Disk(1 << 30, "virtio", link=Link("pci", 133e6)))
    assert (plain.model, plain.digest, plain.link) == ("", "", "pci, 133 MB/s")


def test_the_running_kernel_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Welcome!\n6.12.43-amd64\n6.1.0-40-amd64\n6.12.43-amd64\nextramodules\n6.1.0-40-amd64\n"
    monkeypatch.setattr(host, "_query", lambda *_: said)
    assert host.query_kernels("there") == ("6.12.43-amd64", "6.1.0-40-amd64")
    monkeypatch.undo()
    assert host.query_kernels("")[-1] == host.kernel_release("")


def test_a_kernel_without_an_image_is_not_installed(tmp_path: Path) -> None:
    for name in ("boot/vmlinuz-6.1.0-40-amd64", "boot/vmlinuz", "lib/modules/6.12.43-amd64/vmlinuz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for removed in ("6.1.0-40-amd64", "6.6.9-amd64"):
        (tmp_path / "lib/modules" / removed / "updates").mkdir(parents=True)
    script = host._KERNELS_SCRIPT.replace(" /", f" {tmp_path}/")
    found = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True).stdout
    assert found.split()[:-1] == ["6.1.0-40-amd64", "6.12.43-amd64"]
