"""What a virtual machine costs before its first trial, told without starting anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.digests import write_digests
from matrix_runner.machines.base import ForecastsCost, MachineOptions, Preparation, RigSpec
from matrix_runner.machines.dry import Dry
from matrix_runner.machines.local import Local
from matrix_runner.machines.qemu import (
    BOOT_SECONDS,
    BUILD_SECONDS,
    PROBE_SECONDS,
    Qemu,
    appliance,
    host,
    recipe,
    template,
)
from matrix_runner.simdisks.disk import Disk

if TYPE_CHECKING:
    from pathlib import Path

BOOT = BOOT_SECONDS["tcg"]
SPEC = RigSpec((Disk(1 << 30), Disk(1 << 30)))
CRYPT = RigSpec(SPEC.disks, modules=("dm_mod", "dm_crypt"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path))
    monkeypatch.setenv("MATRIX_ACCEL", "tcg")
    monkeypatch.setattr(host, "qemu_version", lambda: "7.2")
    return tmp_path


def build(suite: str) -> None:
    made = recipe.Recipe(suite)
    for folder in (appliance.home() / recipe.userland_key(suite), appliance.core_of(made)):
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps({"versions": {}, "modules": []}))
        write_digests(folder)


def save(spec: RigSpec) -> None:
    folder = template.home() / Qemu()._template(spec, appliance.find_cached(recipe.Recipe("trixie")))
    folder.mkdir(parents=True)
    for name in ("memory", "state"):
        (folder / name).write_bytes(b"content")
    write_digests(folder)


def test_cached_preparations_take_no_time(cache: Path) -> None:
    machine = Qemu()
    assert machine.preparation([SPEC]) == Preparation(once=BUILD_SECONDS + BOOT)
    build("trixie")
    assert machine.preparation([SPEC]) == Preparation(once=BOOT)
    save(SPEC)
    assert machine.preparation([SPEC]) == Preparation()
    assert list(cache.glob("*.lock")) == []


def test_each_kind_of_machine_is_booted_once(cache: Path) -> None:
    build("trixie")
    save(SPEC)
    raid = RigSpec(SPEC.disks, modules=("raid0", "ext4"))
    assert Qemu().preparation([SPEC, raid]) == Preparation(), "every template has these modules"
    assert Qemu().preparation([SPEC, CRYPT]).once == BOOT
    more = RigSpec((*SPEC.disks, Disk(1 << 30)))
    assert Qemu().preparation([SPEC, CRYPT, more]).once == 2 * BOOT
    other = RigSpec(SPEC.disks, kernel="debian-12")
    assert Qemu().preparation([SPEC, other]).once == BUILD_SECONDS + BOOT
    assert Qemu().preparation([RigSpec(SPEC.disks, kernel="no such kernel")]) == Preparation(), "refused elsewhere"


def test_machines_without_snapshots_boot_for_each_stack(cache: Path) -> None:
    build("trixie")
    nvme = RigSpec((Disk(1 << 30, "nvme"),))
    assert Qemu().preparation([nvme]) == Qemu(MachineOptions(cold=True)).preparation([SPEC]) == Preparation(0.0, BOOT)


@pytest.mark.parametrize(
    ("flags", "answer", "expected", "first"),
    [
        ("fpu hypervisor svm", None, "tcg", PROBE_SECONDS),
        ("fpu svm", None, "kvm", PROBE_SECONDS),
        ("fpu hypervisor", "kvm", "kvm", 0.0),
        ("fpu", "tcg", "tcg", 0.0),
    ],
)
def test_kvm_in_a_virtual_machine_is_not_trusted_before_it_was_tried(
    cache: Path, monkeypatch: pytest.MonkeyPatch, flags: str, answer: str | None, expected: str, first: float
) -> None:
    monkeypatch.delenv("MATRIX_ACCEL")
    for name, text in (("KVM", ""), ("CPUINFO", f"processor : 0\nflags\t: {flags}\n")):
        (cache / name).write_text(text)
        monkeypatch.setattr(host, name, cache / name)
    memory = cache / "answer.json"
    monkeypatch.setattr(host, "_memory_file", lambda: memory)
    if answer:
        memory.write_text(json.dumps({"accel": answer}))
    build("trixie")
    assert host.expected_accelerator() == expected
    assert Qemu().processor() == ("virtual" if expected == "kvm" else "emulated")
    assert Qemu().preparation([]).once == first
    monkeypatch.setattr(host, "KVM", cache / "none")
    assert (host.expected_accelerator(), Qemu().preparation([]).once) == ("tcg", 0.0)


def test_other_machines_run_programs_as_the_host_does() -> None:
    assert isinstance(Qemu(), ForecastsCost)
    assert isinstance(Dry(), ForecastsCost)
    assert not isinstance(Local.from_options(MachineOptions()), ForecastsCost)
