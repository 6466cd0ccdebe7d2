"""`matrix bisect` on a machine that keeps its kernel: which kernel to boot next, and the search after each reboot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from matrix_runner.machines import dry
from matrix_runner.machines.dry import Dry, DryRig
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome
from matrix_runner.session import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from matrix_runner.machines.base import RigSpec
    from matrix_runner.records.record import CellRow, Trial
    from tests.support.command import Call, Said

MATRIX = """\
name: boots
disks: {count: 1, size: 512MiB, bus: sata}
layouts: {one: [disk]}
workloads: {work: {rw: randread, bs: 4KiB, iodepth: 4, runtime: 1s}}
"""
INSTALLED = ("6.1.0-40-amd64", "6.9.7-amd64", "6.12.43-amd64", "6.17.8-amd64", "6.17.8-rt-amd64", "7.0-amd64")
LISTED = ("6.1.0", "6.9.7", "6.12.43", "6.17.8-amd64")
SLOW = frozenset({"6.12.43-amd64", "6.17.8-amd64"})


class Host:
    """A host that boots one of its installed kernels at a time."""

    running = INSTALLED[0]

    def kernels(self, _ssh: str) -> tuple[str, ...]:
        return *(one for one in INSTALLED if one != self.running), self.running


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """The host of the machine `dry`. Figures fall by 13 % with 6.12.43."""
    (tmp_path / "boots.yaml").write_text(MATRIX)
    found, result, begin = Host(), dry._result, DryRig.__init__

    def slower(name: str, options: Mapping[str, str], job: str, slow: int) -> dict[str, Any]:
        return result(name, {**options, "iodepth": "3" if found.running in SLOW else "4"}, job, slow)

    def begun(self: DryRig, spec: RigSpec) -> None:
        begin(self, spec)
        self.facts = {**self.facts, "kernel": found.running}

    monkeypatch.setattr(dry, "_result", slower)
    monkeypatch.setattr(DryRig, "__init__", begun)
    monkeypatch.setattr(Dry, "keeps_kernel", True)
    monkeypatch.setattr(Dry, "takes_folders", False)
    monkeypatch.setattr(prepare, "query_kernels", found.kernels)
    return found


def bisect(call: Call, *words: str) -> Said:
    return call("bisect", "boots.yaml", "--on", "dry", *words)


def searched(call: Call, host: Host, *words: str, most: int = 40) -> tuple[list[Said], list[str]]:
    """Type the same command and boot what it names until it ends. Return what it said, and the boots."""
    done, boots = [bisect(call, *words, "--json")], list[str]()
    while boot := json.loads(done[-1].out.splitlines()[-1])["search"].get("boot"):
        assert done[-1].status == 4
        assert f"boot {boot}; then this command continues:\n  matrix bisect boots.yaml" in done[-1].err
        assert len(boots) < most
        assert boot != host.running
        boots.append(boot)
        host.running = boot
        done.append(bisect(call, *words, "--json"))
    return done, boots


def trials(folder: Path) -> list[Trial]:
    (run,) = (one for one in (folder / "results").iterdir() if one.is_dir())
    with Journal.open(run / "journal.sqlite", synthetic=True) as journal:
        return list(journal.trials())


def test_the_search_goes_on_after_each_boot(call: Call, host: Host, tmp_path: Path) -> None:
    done, boots = searched(call, host, "--kernels", ",".join(LISTED))
    end = json.loads(done[-1].out.splitlines()[-1])
    assert (end["exit"], end["search"]["state"], end["search"]["last"]) == (0, "found", "6.12.43-amd64")
    before = written(tmp_path)
    assert call("report", "latest").status == 0
    assert written(tmp_path) == before
    rounds: dict[int, list[str]] = {}
    names = {cell.id: cell.axes["kernel"] for cell in cells(tmp_path)}
    for one in trials(tmp_path):
        assert names[one.cell] == one.facts.kernel
        rounds.setdefault(one.round, []).append(names[one.cell])
    *whole, last = rounds.values()  # the last one may end the search before it is complete
    assert [{one[0], one[-1]} for one in whole] == [{INSTALLED[0], "6.17.8-amd64"}] * len(whole), (
        "good and bad are outer"
    )
    assert [one[-1] for one in whole] == [one[0] for one in (*whole[1:], last)], "a round begins with what runs"
    assert len(boots) == sum(len(one) - 1 for one in rounds.values())


def written(folder: Path) -> list[bytes]:
    return [one.read_bytes() for one in sorted(folder.glob("results/*/bisect.*"))]


def cells(folder: Path) -> list[CellRow]:
    (run,) = (one for one in (folder / "results").iterdir() if one.is_dir())
    with Journal.open(run / "journal.sqlite", synthetic=True) as journal:
        return list(journal.cells())


def test_it_says_beforehand_what_it_takes(call: Call, host: Host) -> None:
    done = bisect(call, "--kernels", ",".join(LISTED))
    assert done.status == 4
    assert "searching 4 versions, from 6.1.0 (6.1.0-40-amd64) to 6.17.8-amd64\n" in done.out
    assert "6.1.0-40-amd64 runs; about 7 boots left, or up to twice as many" in done.out
    assert "comparing 6.1.0-40-amd64 with 6.17.8-amd64: round 1 adds 1 trial\n" in done.out
    assert "the next trial needs 6.17.8-amd64; about 7 boots left\n" in done.out
    again = bisect(call, "--kernels", ",".join(LISTED))
    assert "(1 trials done)" in again.out
    assert "boot 6.17.8-amd64; then" in again.err, "without a boot, it changes nothing"


def test_all_installed_kernels_are_versions(call: Call, host: Host) -> None:
    done = bisect(call, "--good", "6.1.0", "--bad", "7.0")
    assert "searching 6 versions, from 6.1.0 (6.1.0-40-amd64) to 7.0 (7.0-amd64)" in done.out, done.err


def test_another_listed_kernel_may_run(call: Call, host: Host, tmp_path: Path) -> None:
    host.running = "6.9.7-amd64"
    done = bisect(call, "--kernels", ",".join(LISTED))
    assert "no round is complete yet" in done.out
    assert "boot 6.1" in done.err
    assert trials(tmp_path) == []


def test_a_kill_between_boots_repeats_nothing(
    call: Call, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Journal.record

    def killed(journal: Journal, trial: Any) -> None:
        record(journal, trial)
        raise MemoryError  # no end that the program foresees

    words = ("--kernels", ",".join(LISTED))
    for _ in range(6):
        monkeypatch.setattr(Journal, "record", killed)
        bisect(call, *words)
        monkeypatch.setattr(Journal, "record", record)
        done = bisect(call, *words, "--json")
        host.running = json.loads(done.out.splitlines()[-1])["search"]["boot"]
    rest, _ = searched(call, host, *words)
    assert rest[-1].status == 0
    assert len({(one.cell, one.round) for one in trials(tmp_path)}) == len(trials(tmp_path))


def test_a_kernel_that_does_not_boot_is_skipped(call: Call, host: Host, tmp_path: Path) -> None:
    words = ("--kernels", ",".join(LISTED))
    done = bisect(call, *words, "--skip", "6.12.43")
    assert "the next trial needs 6.17.8-amd64" in done.out, done.err
    rest, boots = searched(call, host, *words)  # it stays so
    end = json.loads(rest[-1].out.splitlines()[-1])["search"]
    assert (end["state"], end["first"], end["last"]) == ("found", "6.12.43-amd64", "6.17.8-amd64")
    assert "6.12.43-amd64" not in boots
    assert call("report", "latest").status == 0
    (run,) = (one for one in (tmp_path / "results").iterdir() if one.is_dir())
    text = (run / "bisect.md").read_text()
    assert "one of 6.12.43-amd64 to 6.17.8-amd64 changed it" in text
    assert text.index("| 6.9.7") < text.index("| 6.12.43-amd64 |") < text.index("| 6.17.8")


def test_a_skip_in_an_open_round_is_no_second_trial(call: Call, host: Host, tmp_path: Path) -> None:
    words = ("--kernels", ",".join(LISTED))
    while (boot := json.loads(bisect(call, *words, "--json").out.splitlines()[-1])["search"]["boot"]) not in {
        "6.9.7-amd64",
        "6.12.43-amd64",
    }:
        host.running = boot
    done = bisect(call, *words, "--skip", boot, "--json")
    assert json.loads(done.out.splitlines()[-1])["search"]["boot"] != boot
    again = bisect(call, *words, "--skip", boot, "--json")
    assert done.out.splitlines()[-1] == again.out.splitlines()[-1]
    assert [one.outcome for one in trials(tmp_path)].count(Outcome.SKIPPED) == 1


def test_a_trial_on_another_kernel_is_broken(
    call: Call, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "query_kernels", lambda _: (*INSTALLED[1:], INSTALLED[0]))
    host.running = "6.9.7-amd64"  # booted in the meantime
    bisect(call, "--kernels", ",".join(LISTED))
    (one,) = trials(tmp_path)
    assert (one.outcome, one.figures) == (Outcome.BROKEN, None)
    assert one.reason == "6.9.7-amd64 runs, and this trial is one of 6.1.0-40-amd64"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kernels", "6.9.7,6.12.43"), "the host runs 6.1.0-40-amd64, and this search is about 6.9.7-amd64, 6.12.43"),
        (("--kernels", "6.1.0"), "a search begins between a good and a bad version"),
        (("--kernels", "6.1.0", "--good", "6.1.0", "--bad", "6.1.0"), "are both 6.1.0"),
        (("--kernels", "6.1.0,6.1.0"), "are both 6.1.0"),
        (("--kernels", "6.1.0,6.5.13,7.0"), "--kernels 6.5.13: the host has no such kernel"),
        (("--kernels", "6.1.0,6.17.8"), "--kernels 6.17.8: the host has 2 kernels that begin so"),
        (("--kernels", "6.1.0,6.9.7", "--bad", "7.0"), "--bad 7.0: --kernels has no such kernel"),
        (("--kernels", "6.1.0,6.9.7", "--git", ".", "--build", "make"), "name installed kernels by --kernels"),
        (("--kernels", "6.1.0,6.9.7", "--skip", "6.1.0"), "--skip 6.1.0: each round needs good and bad"),
        (("--kernels", "6.1.0,6.9.7", "--skip", "7.0"), "--skip 7.0: the search has no such kernel"),
        (("--fetch", "--good", "6.1", "--bad", "7.0"), "it cannot change to other kernels"),
    ],
)
def test_wrong_input(call: Call, host: Host, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = bisect(call, *words)
    assert done.status == 2, done.out
    assert message in done.err
    assert "→" in done.err
    assert not (tmp_path / "results").exists()
