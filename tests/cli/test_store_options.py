"""Runs that are named by the path of their folder, outside of the results folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call


@pytest.fixture
def colleague(tmp_path: Path) -> Path:
    """The folder of a run with the name of an own one, and other figures."""
    past.recorded(tmp_path / "results", [past.measured("c1", 1, 1e8)], 1, exit=0)
    return past.recorded(tmp_path / "theirs", [past.measured("c1", 1, 3e8)], 1, exit=0, id="other").path


def test_an_own_run_is_compared_with_that_of_a_colleague(colleague: Path, call: Call) -> None:
    said = call("compare", "latest", str(colleague))
    assert "3.00×" in said.out
    assert "0.33×" in call("compare", str(colleague), "run-1").out
    assert "3.00×" not in call("results", "--format", "csv").out  # the own store has the own runs only


@pytest.mark.parametrize(
    "words",
    [
        ("results", "{}"),
        ("results", "{},latest"),
        ("history", "--runs", "{}", "--only", "layout=raid5"),
        ("summary", "{}"),
        ("compare", "6.1", "6.1", "{}", "--by", "kernel"),
    ],
)
def test_commands_take_the_path_of_a_run(colleague: Path, call: Call, words: tuple[str, ...]) -> None:
    said = call(*(word.format(colleague) for word in words))
    assert "300 MB/s" in said.out or "chunk=64KiB" in said.out
    assert not said.err.startswith("matrix: ")


def test_a_page_of_two_places_goes_to_the_results_folder(colleague: Path, call: Call, tmp_path: Path) -> None:
    said = call("explore", f"latest,{colleague}", "--no-open")
    assert said.status == 0, said.err
    page = (tmp_path / "results" / "explore.html").read_text()
    assert "../theirs/run-1/" in page


def test_a_folder_of_runs_means_all_of_them(colleague: Path, call: Call, tmp_path: Path) -> None:
    past.recorded(colleague.parent, [past.measured("c1", 1, 5e8)], 2, exit=0, id="another")
    said = call("results", f"{colleague.parent}/", "--trials", "--format", "csv")
    assert said.status == 0, said.err
    assert len(said.out.splitlines()) == 3
    own = call("results", f"{tmp_path}/results/", "--trials", "--format", "csv")
    assert len(own.out.splitlines()) == 2


def test_a_folder_without_a_run_is_named_in_the_message(colleague: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    said = call("results", f"{tmp_path}/empty")
    assert said.status == 2
    assert "empty" in said.err
    assert call("compare", "nothing", str(colleague)).status == 2
