"""`matrix run --confirm`: what is slower than the accepted level is measured again, and only what stays is an alarm."""

from __future__ import annotations

import os
import signal
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.machines import dry
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import RunFolder, latest, load, runs
from tests.support.junit import parsed
from tests.support.slow_machine import SlowMachine, slow_machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from matrix_runner.machines.base import RigSpec
    from tests.support.command import Call, Said

__all__ = ["slow_machine"]
MATRIX = """\
name: nas
disks: {count: 4, size: 64MiB}
layouts: {raid5: [md: {level: 5}], raid10: [md: {level: 10}]}
workloads: {work: {rw: [read, randwrite], bs: 4KiB, runtime: 1s}}
repeat: 3
"""
NIGHT = ("run", "--on", "dry", "--fresh", "--confirm", "1h", "nas.yaml")


@pytest.fixture
def night(call: Call, slow_machine: SlowMachine) -> Callable[..., Said]:
    """Run a night in which reads have a speed of their own, in so many trials. The first two are usual ones."""
    Path("nas.yaml").write_text(MATRIX)
    for _ in range(2):
        assert call("run", "--quiet", "--fresh", "--on", "dry", "nas.yaml").status == 0

    def run(speed: float = 1.0, trials: int = 10**6, *words: str) -> Said:
        slow_machine.speed, slow_machine.job, slow_machine.trials, slow_machine.count = speed, "rw=read\n", trials, 0
        return call(*(words or NIGHT))

    return run


def last() -> RunFolder:
    found = latest(runs(Path("results")))
    assert found
    return found


def counts() -> dict[str, int]:
    with Journal.open(last().journal, synthetic=True) as journal:
        names = {one.id: one.name for one in journal.cells()}
        trials = [(names[one.cell], one.round) for one in journal.trials()]
    assert len(trials) == len(set(trials))
    return {name: sum(one == name for one, _ in trials) for name in names.values()}


def test_a_baseline_without_a_run_is_named_with_its_place(night: Callable[..., Said]) -> None:
    Path("baselines.yaml").write_text("- {matrix: nas, run: gone}\n")
    said = night()
    told = said.out + said.err
    assert "--confirm: no cell is measured again: " in told
    assert "baselines.yaml:1:22: no run of nas is called 'gone'" in told
    assert "no trial has started" not in told


def test_a_slower_figure_is_confirmed(night: Callable[..., Said], call: Call) -> None:
    said = night(0.8)
    assert said.status == 0, "the exit code is that of `matrix summary` and `compare`"
    assert "2 cells are slower than the accepted level: round 4 adds 2 trials" in said.out
    assert "confirmed: slower when measured again, too: raid5/work/rw=read (read_iops 0.8" in said.out
    assert counts() == {
        f"{raid}/work/rw={rw}": 8 if rw == "read" else 3 for raid in ("raid5", "raid10") for rw in ("read", "randwrite")
    }
    root = parsed((last().path / "junit.xml").read_bytes())
    (suite,) = [one for one in root.iterfind("testsuite") if "Measured again" in (one.get("name") or "")]
    assert (suite.get("tests"), suite.get("failures"), root.get("failures")) == ("2", "2", "2")
    assert "Measured again" in (last().path / "report.html").read_text()
    compared = call("compare", "accepted", "latest", "--junit", "compare.xml")
    assert compared.status == 1
    assert "slower, measured again" in compared.out
    assert "confirmed: slower when measured again, too" in Path("compare.xml").read_text()
    summary = call("summary", "latest", "--annotations", "annotations")
    assert summary.status == 1
    assert "confirmed" in summary.out
    assert Path("annotations").read_text().count("\n") == 1


def test_what_is_no_longer_slower_is_no_alarm(night: Callable[..., Said], call: Call) -> None:
    said = night(0.8, 6)
    assert "went away: not slower when measured again: raid5/work/rw=read (read_iops 1.0" in said.out
    root = parsed((last().path / "junit.xml").read_bytes())
    assert root.get("failures") == "0"
    assert "went away: not slower when measured again" in (last().path / "junit.xml").read_text()
    compared = call("compare", "accepted", "latest")
    assert (compared.status, "same, measured again" in compared.out) == (0, True)
    assert "went away" in call("report", "latest").out


def test_an_alarm_that_was_not_measured_again_stays(night: Callable[..., Said], call: Call) -> None:
    said = night(0.8, 10**6, *(word if word != "1h" else "0.001s" for word in NIGHT))
    assert "the time of --confirm is used up: every cell has its minimum; 2 further trials" in said.out
    assert max(counts().values()) == 3
    assert call("compare", "accepted", "latest").status == 1


def test_nothing_is_measured_again_without_a_slower_figure(night: Callable[..., Said]) -> None:
    said = night()
    assert "--confirm: no cell is slower than the accepted level (nas-dry-" in said.out
    assert set(counts().values()) == {3}
    assert "Measured again" not in (last().path / "report.html").read_text()


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_the_first_run_has_no_level(call: Call, quiet: tuple[str, ...]) -> None:
    """Also with `--quiet`, because what was asked for was not done."""
    Path("nas.yaml").write_text(MATRIX)
    said = call(*NIGHT, *quiet)
    assert said.status == 0
    assert "no cell is measured again: there is no accepted level yet" in said.out + said.err


def test_a_killed_confirmation_goes_on(night: Callable[..., Said], slow_machine: SlowMachine, call: Call) -> None:
    slow_machine.ends = lambda: os.kill(os.getpid(), signal.SIGTERM)
    said = night(0.8, 9)
    assert said.status == 130
    assert 8 > max(counts().values()) > 3
    slow_machine.ends = None
    again = night(0.8, 10**6, *(word for word in NIGHT if word != "--fresh"))
    assert "continuing the run of" in again.out
    assert sorted(counts().values()) == [3, 3, 8, 8]
    assert "confirmed: slower when measured again, too" in again.out


def test_several_rigs_at_a_time(night: Callable[..., Said]) -> None:
    night(0.8, 10**6, *NIGHT, "--jobs", "4")
    assert sorted(counts().values()) == [3, 3, 8, 8]


def test_the_files_beside_the_matrix_are_kept_with_the_run(night: Callable[..., Said], call: Call) -> None:
    night(0.8)
    assert call("accept", "latest", "--reason", "a new kernel").status == 0
    accepted = night(0.8)
    assert "no cell is slower than the accepted level" in accepted.out
    assert (last().path / "known-changes.yaml").read_bytes() == Path("known-changes.yaml").read_bytes()
    Path("known-changes.yaml").write_text("- {cells: {layout: raid9}, change: -8%, since: 2026-03-01, reason: x}\n")
    refused = night(0.8)
    assert (refused.status, "known-changes.yaml:1" in refused.err) == (2, True)


def test_other_steerings_are_refused(call: Call) -> None:
    Path("nas.yaml").write_text(MATRIX)
    said = call("run", "--on", "dry", "--race", "--confirm", "1h", "nas.yaml")
    assert said.status == 2
    assert "--race and --until-decided plan none" in said.err


OLD, NEW = "debian-12", "debian-13"
ON_NEW = (*NIGHT, "--kernel", NEW)


@pytest.fixture
def other_kernel(call: Call, slow_machine: SlowMachine) -> Callable[..., Said]:
    """Run a night on another kernel than the level, each with its speed at reads tonight."""
    Path("nas.yaml").write_text(MATRIX)
    for _ in range(2):
        assert call("run", "--quiet", "--fresh", "--on", "dry", "--kernel", OLD, "nas.yaml").status == 0

    def run(new: float, old: float, *words: str, trials: int = 10**6) -> Said:
        slow_machine.job, slow_machine.kernels = "rw=read\n", {NEW: new, OLD: old}
        slow_machine.trials, slow_machine.count = trials, 0
        return call(*(words or ON_NEW))

    return run


def old_counts() -> dict[str, int]:
    with Journal.existing(last().path / "old-kernel/journal.sqlite") as journal:
        assert {one.notes["kernel"] for one in journal.trials()} == {OLD}
        rounds = sorted(one.round for one in journal.trials())
        cells = [one.cell for one in journal.trials()]
    assert set(rounds) == set(range(4, 9))
    return {cell: cells.count(cell) for cell in cells}


@pytest.mark.parametrize(
    ("new", "old", "why"),
    [
        (0.8, 1.0, "the old kernel debian-12 is faster tonight, so it is the kernel"),
        (0.8, 0.8, "the old kernel debian-12 is slow tonight as well, so the host or its disks changed"),
        (0.6, 0.8, "the old kernel debian-12 is faster tonight, but slower than before"),
    ],
)
def test_the_kernel_of_the_level_is_measured_in_turns(
    other_kernel: Callable[..., Said], call: Call, new: float, old: float, why: str
) -> None:
    said = other_kernel(new, old)
    assert "the accepted level, and measured on its kernel debian-12, too: round 4 adds 4 trials" in said.out
    assert f"confirmed: slower when measured again, too; {why}" in said.out
    assert "debian-12/raid5/work/rw=read" in said.out
    assert sorted(counts().values()) == [3, 3, 8, 8]
    assert list(old_counts().values()) == [5, 5]
    for page in ("junit.xml", "report.html"):
        assert why in (last().path / page).read_text(), page
    for words in (("compare", "accepted", "latest"), ("report", "latest"), ("summary", "latest")):
        assert why in " ".join(call(*words).out.split()), words


def test_trials_on_the_old_kernel_are_no_figures_of_the_night(other_kernel: Callable[..., Said], call: Call) -> None:
    other_kernel(0.8, 1.0)
    for name in ("trials.csv", "summary.csv"):
        assert OLD not in (last().path / name).read_text()
    assert len((last().path / "trials.csv").read_text().splitlines()) == 1 + 2 * 8 + 2 * 3
    assert call("runs", "--json").out.count('"folder"') == 3
    assert call("results", "latest", "--format", "csv").out.count("raid5/work/rw=read,") == 1
    shown = call("show", "--run", f"{last().path.name}/old-kernel", "raid5/work/rw=read").out
    assert "raid5/work/rw=read/trial-8/fio.json" in shown
    assert "trial-3" not in shown


@pytest.mark.parametrize("trials", [6, 9, 12, 25])
def test_a_kill_with_both_kernels(
    other_kernel: Callable[..., Said], slow_machine: SlowMachine, call: Call, trials: int
) -> None:
    """The night has six planned reads; then each round has four."""
    slow_machine.ends = lambda: os.kill(os.getpid(), signal.SIGTERM)
    assert other_kernel(0.8, 1.0, trials=trials).status == 130
    slow_machine.ends = None
    again = other_kernel(0.8, 1.0, *(word for word in ON_NEW if word != "--fresh"))
    assert "continuing the run of" in again.out
    assert sorted(counts().values()) == [3, 3, 8, 8]
    assert list(old_counts().values()) == [5, 5]
    assert "so it is the kernel" in again.out


def test_the_time_is_for_both_kernels(other_kernel: Callable[..., Said]) -> None:
    said = other_kernel(0.8, 1.0, *(word if word != "1h" else "0.001s" for word in ON_NEW))
    assert "the time of --confirm is used up" in said.out
    assert max(counts().values()) == 3


def test_an_old_kernel_that_is_gone(other_kernel: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry.Dry, "find_kernel", lambda *_: ("", ""))
    said = other_kernel(0.8, 1.0)
    why = "the accepted level is from kernel debian-12, this run is on debian-13, and the old one is not measured beside it"
    assert said.out.count(f"{why}: neither the cache nor Debian's mirror has it; keep it in a folder") == 1
    assert sorted(counts().values()) == [3, 3, 8, 8]
    assert "confirmed: slower when measured again, too: raid" in said.out
    assert not (last().path / "old-kernel").exists()


def test_a_machine_that_keeps_its_kernel(other_kernel: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry.Dry, "takes_folders", False)
    said = other_kernel(0.8, 1.0)
    assert "measured beside it: dry cannot start both in turns; `matrix bisect` compares kernels" in said.out
    assert "2 cells are slower than the accepted level: round 4 adds 2 trials" in said.out
    assert not (last().path / "old-kernel").exists()


def test_a_run_keeps_the_old_kernel_with_which_it_began(
    other_kernel: Callable[..., Said], slow_machine: SlowMachine
) -> None:
    slow_machine.ends = lambda: os.kill(os.getpid(), signal.SIGTERM)
    assert other_kernel(0.8, 1.0, trials=9).status == 130
    slow_machine.ends = None
    load(last().path / "old-kernel").update_manifest(kernels=("6.1",))
    again = other_kernel(0.8, 1.0, *(word for word in ON_NEW if word != "--fresh"))
    assert "measured beside it: this run began with kernel 6.1" in again.out
    assert "confirmed: slower when measured again, too" in again.out


@pytest.mark.parametrize("kernels", [(), ("6.1",)])
def test_an_edited_manifest_of_the_old_kernel(
    other_kernel: Callable[..., Said], call: Call, kernels: tuple[str, ...]
) -> None:
    other_kernel(0.8, 1.0)
    load(last().path / "old-kernel").update_manifest(kernels=kernels)
    compared = call("compare", "accepted", "latest")
    assert (compared.status, "so it is the kernel" in compared.out) == (1, True), "each trial knows its kernel"


def test_an_old_kernel_that_fails(other_kernel: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> None:
    usual = dry.DryRig.__init__

    def start(rig: dry.DryRig, spec: RigSpec) -> None:
        usual(rig, spec)
        if spec.kernel == OLD:
            raise HarnessBroken("its image is damaged", resolution="remove it")

    monkeypatch.setattr(dry.DryRig, "__init__", start)
    said = other_kernel(0.8, 1.0)
    assert said.out.count("not measured beside it: its image is damaged; remove it") == 1
    assert sorted(counts().values()) == [3, 3, 8, 8]
    assert "confirmed: slower when measured again, too: raid" in said.out


def test_a_level_on_the_same_kernel_needs_no_other(
    other_kernel: Callable[..., Said], slow_machine: SlowMachine
) -> None:
    said = other_kernel(1.0, 0.8, *(word if word != NEW else OLD for word in ON_NEW))
    assert "2 cells are slower than the accepted level: round 4 adds 2 trials" in said.out
    assert not (last().path / "old-kernel").exists()


def test_the_old_kernel_explains_only_what_is_slower_than_on_it(other_kernel: Callable[..., Said], call: Call) -> None:
    """Another run on the new kernel is as fast as the level, so the kernel is not the reason."""
    other_kernel(0.8, 1.0)
    night = last().path.name
    other_kernel(1.0, 1.0, "run", "--quiet", "--fresh", "--on", "dry", "--kernel", NEW, "nas.yaml")
    compared = call("compare", last().path.name, night).out
    assert "confirmed: slower when measured again, too: raid5/work/rw=read" in compared
    assert "kernel debian-12" not in compared


def test_a_salvaged_night_keeps_its_trials_on_the_old_kernel(other_kernel: Callable[..., Said], call: Call) -> None:
    other_kernel(0.8, 1.0)
    night = last().path
    with closing(sqlite3.connect(night / "journal.sqlite")) as connection, connection:
        connection.execute("UPDATE trials SET notes = '[1]' WHERE id = 2")
    assert call("salvage", str(night)).status == 0
    again = other_kernel(0.8, 1.0, *(word for word in ON_NEW if word != "--fresh"))
    assert "continuing the run of" in again.out
    assert last().path != night
    assert list(old_counts().values()) == [5, 5]
    assert "debian-12/" not in again.out, "none is repeated"
    assert "so it is the kernel" in again.out


def test_merged_shards_keep_their_trials_on_the_old_kernel(other_kernel: Callable[..., Said], call: Call) -> None:
    """The shards have the reads of different layouts."""
    on_old = ("run", "--on", "dry", "--fresh", "--kernel", OLD, "nas.yaml", "--shard")
    for shard in ("1/2", "2/2"):
        other_kernel(1.0, 1.0, *on_old, shard)
        other_kernel(1.0, 1.0, *on_old, shard)
        assert "so it is the kernel" in other_kernel(0.8, 1.0, *ON_NEW, "--shard", shard).out
    nights = [str(one.path) for one in runs(Path("results")) if (one.path / "old-kernel").exists()]
    assert call("merge", *nights, "--to", "night").status == 0
    level = next(one.path.name for one in runs(Path("results")) if not one.manifest.part)
    compared = " ".join(call("compare", level, "night").out.split())
    why = "confirmed: slower when measured again, too; the old kernel debian-12 is faster tonight, so it is the kernel"
    assert why in compared
    assert (compared.count("raid5/work/rw=read (read_iops 0.8"), compared.count("raid10/work/rw=read (")) == (1, 1)
    assert not list(Path("results/night").glob(".merging*"))
    shown = call("show", "--run", "night/old-kernel", "raid10/work/rw=read").out
    assert "raid10/work/rw=read/trial-8/fio.json" in shown
    assert call("bug-report", "night").status == 0
    with tarfile.open("bug-report.tar.gz") as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {f"old-kernel/{name}" for name in ("manifest.json", "journal.sql")} <= {*names}
