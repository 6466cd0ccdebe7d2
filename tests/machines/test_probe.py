"""Whether KVM works is found by racing it against emulation."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runner.machines.qemu import probe


@pytest.mark.parametrize(
    ("kvm", "tcg", "works"),
    [
        ("up", "hangs", True),
        ("up", "up", True),
        ("hangs", "up", False),
        ("dies", "hangs", False),
        ("dies", "up", False),
    ],
)
async def test_kvm_must_not_be_slower_than_emulation(
    monkeypatch: pytest.MonkeyPatch, kvm: str, tcg: str, works: bool
) -> None:
    over: list[str] = []

    async def comes_up(_base: Any, _scratch: Path, accel: str) -> bool:
        does = {"kvm": kvm, "tcg": tcg}[accel]
        try:
            for _ in range(10**9 if does == "hangs" else 1):
                await asyncio.sleep(0)
        finally:
            over.append(accel)
        return does != "dies"

    monkeypatch.setattr(probe, "_comes_up", comes_up)
    base: Any = None
    assert await probe.boots_under_kvm(base, Path()) is works
    assert sorted(over) == ["kvm", "tcg"], "nothing is left running"
