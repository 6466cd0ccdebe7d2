"""`matrix run --race`: fewer trials, a marked run, and the same race after a kill."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import latest, runs
from matrix_runner.records.tables import IN_JOURNAL
from tests.support.choices import FIVE
from tests.support.sealing import reseal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call


def trials(folder: Path) -> set[tuple[str, int]]:
    run = latest(runs(folder / "results"))
    assert run
    with Journal.open(run.journal, synthetic=True) as journal:
        return {(one.cell, one.round) for one in journal.trials()}


def test_a_race_ends_when_the_best_is_decided_and_marks_the_run(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    said = call("run", "--on", "dry", "--race", "small.yaml")
    assert "the race is not decided yet: round 4 adds" in said.out
    assert "or one that is equal within 5 %" in said.out
    run = latest(runs(tmp_path / "results"))
    assert run
    assert run.manifest.finished
    assert run.manifest.steered
    assert run.manifest.part == "race for each workload"
    assert run.manifest.excluded == "a search, a race or a design chose its cells"


def test_other_commands_know_a_race(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    call("run", "--on", "dry", "--race", "small.yaml")
    run = latest(runs(tmp_path / "results"))
    assert run
    call("run", "--on", "dry", "small.yaml")
    assert "until-decided: by a race" in call("compare", run.path.name, "latest").out
    assert "1 excluded run left out; name them with --runs" in call("history").out
    assert "| race for each workload |" in call("summary", run.path.name).out


def test_without_repeat_a_race_begins_with_two_rounds(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE.replace("repeat: 2\n", ""))
    said = call("run", "--on", "dry", "--race", "small.yaml")
    assert "the race is not decided yet: round 3 adds" in said.out
    run = latest(runs(tmp_path / "results"))
    assert run
    assert (run.manifest.least, run.manifest.most) == (2, 2)
    assert json.loads(call("plan", "--on", "dry", "--race", "--format", "json", "small.yaml").out)["repeat"]["min"] == 2


def test_the_matrix_says_which_differences_do_not_matter(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE + "practical: 30%\n")
    planned = [json.loads(call("plan", "--race", "--format", "json", "small.yaml").out)["race"]["trials"]]
    said = call("run", "--on", "dry", "--race", "small.yaml")
    assert "or one that is equal within 30 %" in said.out
    few = len(trials(tmp_path))
    (tmp_path / "small.yaml").write_text(FIVE)
    planned.append(json.loads(call("plan", "--race", "--format", "json", "small.yaml").out)["race"]["trials"])
    call("run", "--on", "dry", "--race", "small.yaml")
    assert few < len(trials(tmp_path))
    assert planned[0] < planned[1]


def test_only_chosen_workloads_race(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    call("run", "--on", "dry", "--race", "--for", "rw=read", "small.yaml")
    rounds = dict[str, int]()
    run = latest(runs(tmp_path / "results"))
    assert run
    with Journal.open(run.journal, synthetic=True) as journal:
        names = {one.id: one.axes["workload.rw"] for one in journal.cells()}
        for one in journal.trials():
            work = names[one.cell]
            rounds[work] = max(one.round, rounds.get(work, 0))
    assert rounds == {"read": rounds["read"], "randwrite": 2}
    assert rounds["read"] > 3


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--race", "--shard", "1/2"), "has only some of them"),
        (("--race", "--until-decided"), "both choose the trials"),
        (("--for", "rw=read"), "--for chooses the workloads of a race"),
        (("--race", "--only", "chunk=4KiB"), "no workload with several stacks"),
        (("--race", "--for", "rw=reed"), "--for 'rw=reed'"),
    ],
)
def test_options_without_a_race_are_refused(call: Call, tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    said = call("run", "--on", "dry", *options, "small.yaml")
    assert said.status == 2
    assert why in said.err
    assert not (tmp_path / "results").exists()


def test_a_killed_race_goes_on_to_the_same_end(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    call("run", "--on", "dry", "--race", "small.yaml")
    whole = trials(tmp_path)
    run = latest(runs(tmp_path / "results"))
    assert run
    last = max(number for _, number in whole)
    assert last > 4
    with closing(sqlite3.connect(run.journal)) as connection, connection:
        connection.execute("delete from trials where round >= ?", (last - 1,))
        reseal(connection, IN_JOURNAL.trials)
    manifest = run.path / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"finished": False}))
    said = call("run", "--on", "dry", "--race", "small.yaml")
    assert "continuing the run" in said.out
    assert trials(tmp_path) == whole
