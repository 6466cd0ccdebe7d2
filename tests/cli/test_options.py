"""What somebody types who does not know the options yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from matrix_runner.base.files import shipped
from matrix_runner.cli import _COMMANDS, load_command
from matrix_runner.cli.options import _OTHER_NAMES, DANGEROUS, suggest_option
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from tests.support.command import Said

Call = Callable[..., "Said"]


def options_of(command: str) -> set[str]:
    found = load_command(command)
    several = [found, *(found.commands.values() if isinstance(found, click.Group) else ())]
    return {name for one in several for parameter in one.params for name in parameter.opts if name.startswith("-")}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("run", "--dry-run", "m.yaml"), "did you mean --on dry?"),
        (("run", "--dry", "m.yaml"), "did you mean --on dry?"),
        (("plan", "--dry-run", "m.yaml"), "did you mean --on dry?"),
        (("clean", "--dry"), "did you mean --dry-run?"),
        (("results", "--row", "3"), "did you mean --rows?"),
        (("run", "--resume", "m.yaml"), "the same command continues an interrupted run"),
        (("run", "--bugdet", "2h", "m.yaml"), "did you mean --budget?"),
        (("--dry-run", "run", "m.yaml"), "options follow the command"),
    ],
)
def test_an_option_of_another_program_gets_a_suggestion(call: Call, words: tuple[str, ...], hint: str) -> None:
    said = call(*words)
    assert said.status == 2
    assert hint in said.err


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--destory", "m.yaml"),
        ("run", "--destroyed", "m.yaml"),
        ("run", "--retry", "m.yaml"),
        ("run", "--retry-brokn", "m.yaml"),
        ("clean", "--labeled", "x"),
        ("summary", "--rows", "3", "latest"),
        ("validate", "--dry-run", "m.yaml"),
    ],
)
def test_a_typo_suggests_no_dangerous_or_missing_option(call: Call, words: tuple[str, ...]) -> None:
    said = call(*words)
    assert said.status == 2
    assert "did you mean" not in said.err
    assert f"`matrix {words[0]} --help` shows all options" in said.err


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_hint_names_an_option_that_the_command_has(command: str) -> None:
    known = options_of(command)
    typed = {*_OTHER_NAMES, *(f"{name[:-1]}x" for name in known), *(f"{name}s" for name in known)}
    for option in typed - known:
        meant = suggest_option(option, known)
        for one in filter(None, meant.split(" or ")):
            assert one.partition(" ")[0] in known - DANGEROUS, (option, meant)


def test_a_list_of_cells_is_found_under_either_name(call: Call) -> None:
    Path("m.yaml").write_text(SMALL)
    assert call("plan", "--list", "m.yaml").out == call("plan", "--cells", "m.yaml").out


def test_a_matrix_is_found_by_its_name_but_never_guessed(call: Call) -> None:
    assert "matrix/chunk-sweep.yaml?" in call("validate", "chunk-sweep").err
    Path("matrix").mkdir()
    Path("matrix/chunk-sweep.yaml").write_text(SMALL)
    Path("small.yaml").write_text(SMALL)
    for typed, meant in {
        "chunk-sweep": "did you mean matrix/chunk-sweep.yaml",
        "small": "did you mean small.yaml?",
        "smal.yaml": "did you mean small.yaml?",
        "nothing-like-it": f"`matrix init` writes a matrix as a start; the shipped matrices are in {shipped('matrix')}/",
    }.items():
        said = call("run", "--on", "dry", typed)
        assert said.status == 2
        assert meant in said.err
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("raid5", 4),
        ("work", 4),
        ("randwrite", 2),
        ("raid5,64KiB", 2),
        ("16KiB|64KiB,read", 2),
        ("work,chunk=16KiB", 2),
    ],
)
def test_only_takes_names(call: Call, name: str, cells: int) -> None:
    Path("m.yaml").write_text(SMALL)
    said = call("plan", "--only", name, "--format", "json", "m.yaml")
    assert f'"cells":{cells}' in said.out.replace(" ", "")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raid6", "there is no layout, workload or other value raid6; did you mean raid5?"),
        ("raid5|work", "these values are not all on one axis: raid5, work"),
        ("4KiB", "4KiB is a value of md.chunk and of workload.bs"),
        ("raid5,", "'' is neither a name nor AXIS=VALUE"),
        ("raid5,raid5", "'layout' occurs twice"),
    ],
)
def test_a_name_that_selects_no_cell_is_an_error(call: Call, name: str, said: str) -> None:
    Path("m.yaml").write_text(SMALL.replace("[16KiB, 64KiB]", "[4KiB, 64KiB]"))
    ended = call("plan", "--only", name, "m.yaml")
    assert ended.status == 2
    assert said in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("--results", "x" * 300),
        ("--results", "/dev/null"),
        ("--results", "small.yaml"),
        ("--results", "small.yaml/x"),
        ("--folder-to", ""),
        ("--folder-to", "small.yaml/x"),
        ("--jobs", "9" * 5000),
        ("--shard", f"1/{'9' * 5000}"),
        ("--templates", "x" * 300),
        ("--store", f"/{'x' * 300}/store.db"),
        ("--hosts", "x" * 300),
    ],
    ids=lambda words: f"{words[0]} {words[1]:.20}",
)
def test_a_useless_name_or_number_is_refused_in_words(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    said = call("run", "--on", "dry", "--quiet", *words, "small.yaml")
    assert said.status in {0, 2, 3}
    assert "a mistake in matrix" not in said.err
