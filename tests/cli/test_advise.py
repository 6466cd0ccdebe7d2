"""`matrix advise`: the matrix that it writes, the race, and the same command again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.run_folder import latest, runs
from matrix_runner.space.advice import PURPOSES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call

SMALL = ("advise", "--disks", "2x4TB", "--for", "log")


def test_the_list_describes_all_work(call: Call) -> None:
    said = call("advise", "--list")
    assert [line.split()[0] for line in said.out.splitlines()] == list(PURPOSES)


def test_it_runs_a_race_and_prints_the_table_of_large_disks(call: Call, tmp_path: Path) -> None:
    said = call(*SMALL, "--on", "dry", "--yes")
    assert said.status == 0
    assert "wrote advice.yaml" in said.out
    assert "2 cells on 2 stacks; about " in said.out
    run = latest(runs(tmp_path / "results"))
    assert run
    assert run.manifest.requested.race == ()
    answer = (run.path / "answer.txt").read_text()
    assert "3.9" in answer.split("raid1", 1)[1].splitlines()[0]
    assert "For all workloads together (log 1)" in " ".join(answer.split())


def test_without_yes_or_a_terminal_it_only_writes(call: Call, tmp_path: Path) -> None:
    for words in ((), ("--no-run",), ("--no-run", "--yes")):
        said = call(*SMALL, "--on", "dry", *words)
        assert said.out.splitlines()[-1] == "next: matrix run --race --on dry --jobs auto advice.yaml"
    assert not (tmp_path / "results").exists()
    assert call("validate", "advice.yaml").status == 0


def test_a_file_that_is_no_text_is_not_replaced(call: Call, tmp_path: Path) -> None:
    (tmp_path / "advice.yaml").write_bytes(b"\xff")
    said = call(*SMALL, "--on", "dry", "--no-run")
    assert (said.status, "advice.yaml exists already, with other content" in said.err) == (2, True)
    assert (tmp_path / "advice.yaml").read_bytes() == b"\xff"


def test_a_budget_that_ends_the_race_is_named_before_it_begins(call: Call) -> None:
    ends = "--budget ends it before that"
    assert ends in call(*SMALL, "--on", "dry", "--no-run", "--budget", "10ms").out
    said = call(*SMALL, "--on", "dry", "--no-run", "--budget", "10h").out
    assert ends not in said
    assert "advice.yaml is there already, with the same content" in said


def test_the_file_of_a_user_is_kept(call: Call, tmp_path: Path) -> None:
    call(*SMALL, "--to", "mine.yaml")
    (tmp_path / "mine.yaml").write_text((tmp_path / "mine.yaml").read_text() + "# mine\n")
    said = call(*SMALL, "--to", "mine.yaml")
    assert (said.status, "matrix run --race mine.yaml" in said.err) == (2, True)
    assert (tmp_path / "mine.yaml").read_text().endswith("# mine\n")


def test_disks_of_a_host_keep_their_size_and_are_only_written_about(call: Call, tmp_path: Path) -> None:
    said = call(*SMALL, "--on", "local", "--yes")
    assert said.status == 0
    assert "--destroy DISK-ID" in said.out
    assert "disks: {count: 2, size: 4TB}" in (tmp_path / "advice.yaml").read_text()
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "--disks is missing"),
        (("--disks", "6x4TB"), "--for is missing"),
        (("--disks", "6x4TB", "--for", "games"), "there is no work 'games'"),
        (("--disks", "6x4TB", "--for", "log", "--model", "punched-cards"), "there is no disk model 'punched-cards'"),
        (("--disks", "6x4TB", "--for", "log", "--fs", "fat"), "there is no advice on 'fat'"),
        (("--disks", "2x1MB", "--for", "log"), "advice.yaml"),
    ],
)
def test_wrong_wishes_are_refused_before_a_file_is_written(
    words: tuple[str, ...], why: str, call: Call, tmp_path: Path
) -> None:
    said = call("advise", *words)
    assert (said.status, why in said.err) == (2, True)
    assert not (tmp_path / "advice.yaml").exists()
