"""Comparisons whose sides are equal are refused. What makes them sides is observed in what ran."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench import boot, parallel, slow
from bench.sides import require_difference
from matrix_runner.machines.dry import Dry
from matrix_runner.machines.qemu import argv
from matrix_runner.machines.qemu.appliance import Appliance
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.space.load import parse


def test_equal_sides_are_refused() -> None:
    require_difference("start", "a", "b", "c")
    with pytest.raises(SystemExit, match="no comparison: sides have the same start: a, b, a"):
        require_difference("start", "a", "b", "a")


def test_a_stock_machine_starts_in_its_own_way_and_a_clone_does_not_boot() -> None:
    vm, channels = (
        argv.Vm(Appliance(Path("/u"), Path("/c")), (), "tcg", 1, 2**28, ()),
        argv.Channels(3, 4, 5, 6, 7, 8, ()),
    )
    with boot.started_as_stock(Path("/stock")):
        stock = argv.command(vm, channels, argv.BOOT)
    ours, clone = (argv.command(vm, channels, start) for start in (argv.BOOT, argv.Start(Path("/m"), is_clone=True)))
    found = [boot.start_of("\0".join([*words, ""]).encode()) for words in (stock, ours, clone)]
    assert found[0] == ("/stock/vmlinuz", "/stock/initramfs", "console=ttyS0 quiet panic=-1 no_timer_check")
    assert found[1][:2] == ("/c/vmlinuz", "/c/initramfs")
    assert found[2] == ("defer",)


def test_trials_at_the_same_time_are_counted() -> None:
    trials = [
        Trial(f"c{number}", 1, Outcome.MEASURED, started=f"2026-01-01T00:00:{second:02}+00:00", seconds=2.0)
        for number, second in enumerate((10, 11, 12, 20))
    ]
    assert [parallel.most_together(trials[:count]) for count in (1, 2, 3, 4)] == [1, 2, 2, 2]


def test_slow_motion_without_an_effect_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(slow, "Qemu", Dry)
    space = parse("bench", slow.MATRIX.format(model="nas-7200")).space
    with pytest.raises(SystemExit, match="sides have the same pace: 1, 1"):
        asyncio.run(slow.measure_all(space, ["workload=read"], (1, 2), 1, tmp_path))
