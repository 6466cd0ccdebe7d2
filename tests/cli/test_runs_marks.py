"""`matrix runs tag`, `note`, `exclude`, `rm` and `prune`."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    results = tmp_path / "results"
    for number in (1, 2, 3):
        past.recorded(results, [past.measured("c1", 1, number * 1e8)], number, exit=0, planned=1)
    return results


def listed(call: Call) -> dict[str, dict[str, Any]]:
    return {one["run"]: one for one in json.loads(call("runs", "--json").out)["runs"]}


def test_marks_are_listed_and_the_reverse_command_removes_them(nights: Path, call: Call) -> None:
    call("results")  # makes the store
    assert call("runs", "tag", "run-1", "release", "v1").out == "run-1: tags: release, v1\n"
    assert call("runs", "note", "run-1", "with the new cable").status == 0
    assert call("runs", "exclude", "run-1", "--reason", "a rebuild").status == 0
    one = listed(call)["run-1"]
    assert (one["tags"], one["note"], one["excluded"]) == (["release", "v1"], "with the new cable", "a rebuild")
    assert "finished, excluded: a rebuild" in call("runs").out
    shutil.rmtree(nights / "run-1")  # the store knows them, too
    one = listed(call)["run-1"]
    assert (one["tags"], one["excluded"], one["state"]) == (["release", "v1"], "a rebuild", "gone")

    call("runs", "tag", "run-2", "release")
    assert call("runs", "tag", "--remove", "run-2", "release").out == "run-2: no tags, no note, not excluded\n"


def test_an_excluded_night_is_neither_history_nor_a_baseline(nights: Path, call: Call) -> None:
    everything = call("history", "--only", "layout=raid5", "--format", "csv").out
    call("runs", "exclude", "run-2", "--reason", "a rebuild")
    shown = call("history", "--only", "layout=raid5", "--format", "csv")
    assert ("run-2" in everything, "run-2" in shown.out) == (True, False)
    assert "1 excluded run left out; name them with --runs" in shown.err
    assert "3.00×" in call("compare", "latest~good", "latest").out
    call("runs", "include", "run-2")
    assert call("history", "--only", "layout=raid5", "--format", "csv").out == everything


def _without_sizes(said: str) -> str:
    return re.sub(r"(  stays), \d+ [kM]?B:", r"\1:", said)


def test_runs_are_removed_only_after_a_confirmation(nights: Path, call: Call) -> None:
    refused = call("runs", "rm", "run-1")
    assert (refused.status, "add `--yes`" in refused.err) == (2, True)
    assert "\n2 runs, " in call("runs", "prune", "--keep-last", "1", "--dry-run").out
    assert (nights / "run-1").exists()
    assert call("runs", "rm", "--yes", "run-1").status == 0
    assert [*listed(call)] == ["run-3", "run-2"]
    assert call("runs", "prune", "--yes", "--keep-last", "1").out.endswith("removed 1 run\n")
    said = _without_sizes(call("runs", "prune", "--yes", "--keep", "1h").out)
    assert said == "run-3  stays: the last good run of its kind\nno run to remove; 1 stay\n"
    assert [path.name for path in nights.glob("run-*")] == ["run-3"]


def test_a_removed_copy_or_link_leaves_the_original(nights: Path, call: Call, tmp_path: Path) -> None:
    shutil.copytree(nights / "run-1", nights / "copy")
    shutil.copytree(nights / "run-1", tmp_path / "elsewhere/run-9")
    (nights / "link").symlink_to(tmp_path / "elsewhere/run-9")
    call("results")
    assert call("runs", "exclude", "copy", "--reason", "a copy").out == "copy: excluded: a copy\n"
    for name in ("copy", "results/link"):
        assert call("runs", "rm", "--yes", name).out.endswith("1 run\n")
    assert (tmp_path / "elsewhere/run-9/journal.sqlite").exists()
    assert sorted(path.name for path in nights.iterdir() if path.is_dir()) == ["run-1", "run-2", "run-3"]
    assert "run-1" in call("results", "run-1").out


def test_a_path_to_another_place_removes_no_run_of_the_same_name(nights: Path, call: Call, tmp_path: Path) -> None:
    shutil.copytree(nights / "run-1", tmp_path / "backup/run-1")
    refused = call("runs", "rm", "--yes", "backup/run-1")
    assert (refused.status, "backup/run-1 is not in results/" in refused.err) == (2, True)
    assert (nights / "run-1").exists()


def test_prune_names_why_each_run_stays(nights: Path, call: Call) -> None:
    call("runs", "tag", "run-1", "before-upgrade")
    said = _without_sizes(call("runs", "prune", "--keep-last", "1", "--dry-run").out)
    assert "run-3  stays: the last good run of its kind\n" in said
    assert "run-1  stays: it has the tag before-upgrade\n" in said
    assert "run-2  stays" not in said
    said = _without_sizes(call("runs", "prune", "--down-to", "1GB").out)
    assert "run-2  stays: all runs are small enough without it\n" in said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("prune",), "no rule says which runs stay"),
        (("prune", "--keep", "soon"), "write it like 12h, 90d or 8w"),
        (("rm", "--yes", "run-9"), "no run in the store matches 'run-9'"),
        (("tag", "run-1", "two words"), "is no tag"),
        (("exclude", "run-1", "--reason", " "), "--reason is empty"),
        (("exclude", "run-1"), "needs --reason"),
        (("tag", "--remove", "run-1", "release"), "run-1 has no tag release"),
    ],
)
def test_wrong_words_are_refused(nights: Path, call: Call, words: tuple[str, ...], reason: str) -> None:
    said = call("runs", *words)
    assert said.status == 2
    assert reason in " ".join(said.err.split())
    assert len(list(nights.glob("run-*"))) == 3


def test_prune_names_what_stays_above_the_wanted_size(nights: Path, call: Call) -> None:
    call("runs", "tag", "run-1", "release")
    said = call("runs", "prune", "--yes", "--down-to", "1KB")
    assert said.out.endswith("removed 1 run\n")
    assert "stay, more than 1" in said.err
    assert sorted(path.name for path in nights.glob("run-*")) == ["run-1", "run-3"]


def test_latest_is_a_run_with_results(nights: Path, call: Call) -> None:
    past.recorded(nights, (), 4, finished=False)
    assert call("runs", "exclude", "latest", "--reason", "a rebuild").out.startswith("run-3: ")


def test_a_baseline_is_removed_or_excluded_with_a_note(nights: Path, call: Call) -> None:
    assert call("accept", "run-2", "--baseline", "--reason", "the level of May").status == 0
    for words in (("exclude", "run-2", "--reason", "a rebuild"), ("rm", "run-2", "--yes")):
        said = call("runs", *words)
        assert said.status == 0
        assert "note: baselines.yaml names run-2" in said.err
    assert call("runs", "rm", "run-1", "--yes").err == ""


def test_the_list_shows_the_baseline(nights: Path, call: Call, tmp_path: Path) -> None:
    assert call("accept", "run-2", "--baseline", "--reason", "after the upgrade").status == 0
    assert [listed(call)[name]["baseline"] for name in ("run-1", "run-2", "run-3")] == [False, True, False]
    assert call("runs").out.count("finished, baseline") == 1
    (tmp_path / "baselines.yaml").write_text("- run: [1]\n")
    said = call("runs")
    assert (said.status, "baselines.yaml: 1 error" in said.err) == (0, True)
    assert "the list does not show baselines" in said.err


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "note", "latest", "a\udcffb"),
        ("runs", "tag", "latest", "\udcff"),
        ("runs", "exclude", "latest", "--reason", "\udcff"),
        ("accept", "latest", "--baseline", "--reason", "\udcff"),
        ("accept", "latest", "--reason", "x", "--link", "\udcff"),
    ],
)
def test_a_text_that_is_not_utf8_is_refused(nights: Path, call: Call, words: tuple[str, ...]) -> None:
    """Python reads such an argument as halves of surrogate pairs, which no file of a run can hold."""
    said = call(*words)
    assert (said.status, "a mistake in matrix itself" in said.err) == (2, False), said
