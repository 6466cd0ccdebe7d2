"""Whether KVM works is found by racing it against emulation."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.machines.qemu import host

BASE: Any = None


def race(monkeypatch: pytest.MonkeyPatch, kvm: str, tcg: str) -> list[str]:
    """Replace both boots; the list says which are over."""
    over: list[str] = []
    turns = {"hangs": 10**9, "up late": 100, "dies late": 100}

    async def comes_up(_base: Any, _scratch: Path, accel: str) -> bool:
        does = {"kvm": kvm, "tcg": tcg}[accel]
        try:
            for _ in range(turns.get(does, 1)):
                await asyncio.sleep(0)
        finally:
            over.append(accel)
        return not does.startswith("dies")

    monkeypatch.setattr(host, "_boots", comes_up)
    return over


@pytest.mark.parametrize(
    ("kvm", "tcg", "accel"),
    [
        ("up", "hangs", "kvm"),
        ("up", "up", "kvm"),
        ("up", "dies", "kvm"),
        ("up late", "dies", "kvm"),
        ("hangs", "up", "tcg"),
        ("dies", "up", "tcg"),
        ("dies", "up late", "tcg"),
        ("dies", "dies", None),
        ("dies late", "dies", None),
        ("dies", "dies late", None),
    ],
)
async def test_only_an_emulation_that_comes_up_can_show_that_kvm_does_not(
    monkeypatch: pytest.MonkeyPatch, kvm: str, tcg: str, accel: str | None
) -> None:
    over = race(monkeypatch, kvm, tcg)
    assert await host.choose_accelerator(BASE, Path()) == accel
    assert sorted(over) == ["kvm", "tcg"], "nothing is left running"


@pytest.fixture
def with_kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with a /dev/kvm; returns where the answer is remembered."""
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(host, "KVM", device)
    monkeypatch.setattr(host, "identity", lambda: "here")
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MATRIX_ACCEL", raising=False)
    return tmp_path / "cache" / "accelerator" / "here.json"


async def test_a_kvm_that_fails_is_remembered_and_only_the_first_run_shows_it(
    with_kvm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    over = race(monkeypatch, "dies", "up")
    for _ in range(2):
        assert await host.accelerator(BASE, Path(), told.append) == "tcg"
    assert host.read_memory(with_kvm) == "tcg"
    assert len(over) == 2, "asked once"
    (line,) = told
    assert "KVM does not boot" in line
    assert str(with_kvm) in line


async def test_a_working_kvm_is_remembered_without_a_message(with_kvm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    over = race(monkeypatch, "up", "up")
    for _ in range(2):
        assert await host.accelerator(BASE, Path(), told.append) == "kvm"
    assert len(over) == 2
    assert told == []


async def test_a_failed_boot_in_both_ways_is_not_blamed_on_kvm(with_kvm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    race(monkeypatch, "dies", "dies")
    assert await host.accelerator(BASE, Path(), told.append) == "tcg"
    assert "neither" in told[0]
    race(monkeypatch, "up", "up")
    assert await host.accelerator(BASE, Path(), told.append) == "kvm"


@pytest.mark.parametrize(("there", "said"), [(True, "this user may not open "), (False, "there is no ")])
async def test_an_inaccessible_kvm_is_reported_without_a_boot(
    with_kvm: Path, monkeypatch: pytest.MonkeyPatch, there: bool, said: str
) -> None:
    told: list[str] = []
    over = race(monkeypatch, "up", "up")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may open everything
    if not there:
        host.KVM.unlink()
    assert await host.accelerator(BASE, Path(), told.append) == "tcg"
    (line,) = told
    assert said in line
    assert str(host.KVM) in line
    assert "QEMU emulates (TCG), many times slower" in line
    assert "\n" not in line
    assert not over
    assert host.read_memory(with_kvm) is None, "it may be opened tomorrow"


@pytest.mark.parametrize(("kvm", "tcg", "said"), [("up", "up", "works"), ("dies", "up", "does not boot")])
async def test_doctor_reports_known_results_of_kvm(
    with_kvm: Path, monkeypatch: pytest.MonkeyPatch, kvm: str, tcg: str, said: str
) -> None:
    over = race(monkeypatch, kvm, tcg)
    assert "the first run finds out" in host.outlook()
    assert not over
    await host.accelerator(BASE, Path(), lambda _: None)
    assert said in host.outlook()
    assert (str(with_kvm) in host.outlook()) == (said == "does not boot")
    monkeypatch.setenv("MATRIX_ACCEL", "tcg")
    assert host.outlook() == "not tried, because of MATRIX_ACCEL=tcg"
    monkeypatch.setenv("MATRIX_ACCEL", "KVM")
    assert host.outlook() == "cannot be used: MATRIX_ACCEL=KVM is unknown; use kvm or tcg"
    monkeypatch.setenv("MATRIX_ACCEL", "kvm")
    assert host.outlook() == "not tried, because of MATRIX_ACCEL=kvm"
    host.KVM.unlink()
    assert host.outlook() == f"cannot be used, as {host.KVM} is not there: MATRIX_ACCEL=kvm needs it"
    monkeypatch.delenv("MATRIX_ACCEL")
    assert "there is no" in host.outlook()


def test_without_qemu_kvm_is_untried(with_kvm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise HarnessBroken("qemu-system-x86_64 is not installed")

    monkeypatch.setattr(host, "identity", missing)
    assert "the first run finds out" in host.outlook()


def test_another_host_kernel_is_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its KVM is part of every machine, and of every template."""
    real = os.uname()
    seen = set()
    for release in ("6.1", "6.2"):
        fields = (real.sysname, real.nodename, release, real.version, real.machine)
        uname = os.uname_result(fields)
        with monkeypatch.context() as patch:
            patch.setattr(os, "uname", lambda uname=uname: uname)
            seen.add(host.host.__wrapped__())
    assert len(seen) == 2


def test_an_unknown_accelerator_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_ACCEL", "foo")
    with pytest.raises(BadInput, match="MATRIX_ACCEL=foo is unknown") as refused:
        host.expected_accelerator()
    assert refused.value.resolution == "use kvm or tcg, or unset the variable"
