"""Comparisons whose sides are equal are refused. What makes them sides is observed in what ran."""

from __future__ import annotations

import ast
import asyncio
import sys
from pathlib import Path

import pytest

from bench import bisect, boot, coverage, history, parallel, race, sides, slow
from bench import help as bench_help
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


def test_each_benchmark_proves_that_its_sides_differ_or_has_one_side() -> None:
    folder = Path(sides.__file__).parent
    programs = {path: path.read_text() for path in folder.rglob("*.py") if '__name__ == "__main__"' in path.read_text()}
    del programs[folder / "__main__.py"], programs[folder / "waiting.py"]  # these start others
    groups = {
        path.name: {"require_difference(" in text, "\nOne side: " in (ast.get_docstring(ast.parse(text)) or "")}
        for path, text in programs.items()
    }
    assert [name for name, group in groups.items() if len(group) != 2] == []
    assert len(programs) > 30


def test_a_help_that_prints_as_much_as_no_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["help", "--rounds", "1"])
    monkeypatch.setattr(bench_help, "seconds", lambda *_: (1.0, b""))
    with pytest.raises(SystemExit, match="sides have the same output"):
        bench_help.main()


def test_a_race_that_drops_no_stack_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    race.measure("0..50 %", 5, 0.02, 4)
    monkeypatch.setattr(race, "race", lambda *_: race.Ended(3, 15, decided=True, wrong=False))
    with pytest.raises(SystemExit, match="sides have the same trials: 60, 60"):
        race.measure("0..50 %", 5, 0.02, 4)


def test_searches_and_rules_that_are_the_same_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bisect", "--quick"])
    monkeypatch.setattr(bisect, "SEARCHES", {"matrix": bisect.by_plain_bisect, "plain": bisect.by_plain_bisect})
    with pytest.raises(SystemExit, match="sides have the same numbers of trials"):
        bisect.main()
    monkeypatch.setattr(coverage, "naive", coverage.measured)
    with pytest.raises(SystemExit, match="sides have the same trials"):
        coverage.show_coverage(coverage.SCENARIOS[:1], coverage.RULE, 50, 1)


def test_a_history_of_commands_with_the_same_output_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["history", "--runs", "1"])
    monkeypatch.setattr(history, "seconds", lambda *_: (1.0, "no trials"))
    with pytest.raises(SystemExit, match="sides have the same output"):
        history.main()
