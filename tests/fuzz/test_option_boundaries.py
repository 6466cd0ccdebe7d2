"""Each option of the command line that has a value, with each boundary, is understood or refused."""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import pytest

from matrix_runner import cli
from matrix_runner.base.errors import MatrixError
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.command import Call

ODD = (
    *("", " ", "0", "-1", "1", "0.5", "-0", "+1", "1_000", "0x10", "x", "nan", "inf", "-inf", "1e999", "9" * 400),
    *("0%", "100%", "101%", "-5%", "nan%", "0s", "1us", "999999999999d", "0B", "1B", "1EiB", "9" * 30 + "TiB"),
    *(
        "0/0",
        "1/0",
        "2/1",
        "1/1",
        "1/" + "9" * 400,
        "-1/2",
        "/",
        ",",
        ":",
        "=",
        "a=",
        "=1",
        "\u0661",
        "\u00b2",
        "\udcff",
    ),
)


def options() -> Iterator[tuple[str, click.Command, click.Option]]:
    for module in pkgutil.iter_modules(cli.__path__):
        if module.name == "__main__":
            continue
        command = getattr(importlib.import_module(f"{cli.__name__}.{module.name}"), "command", None)
        commands = {module.name: command, **getattr(command, "commands", {})}
        for one in filter(None, commands.values()):
            for option in one.params:
                is_open = not isinstance(option.type, click.Choice | click.Path)
                if isinstance(option, click.Option) and not option.is_flag and is_open:
                    yield f"{module.name} {one.name} {option.opts[0]}", one, option


OPTIONS = {name: (command, option) for name, command, option in options()}


def test_the_numbers_of_the_command_line_are_found() -> None:
    assert {"plan plan --budget", "compare compare --confidence", "runs list --rows"} <= OPTIONS.keys()


@pytest.mark.parametrize("name", OPTIONS)
def test_no_value_of_an_option_ends_in_a_traceback(name: str) -> None:
    command, option = OPTIONS[name]
    for value in ODD:
        context = click.Context(command, info_name="matrix")
        with suppress(click.ClickException, MatrixError):
            option.handle_parse_result(context, {str(option.name): (value,) if option.multiple else value}, [])


@pytest.mark.parametrize(
    "words",
    [
        *(("plan", option) for option in ("--budget", "--bytes-budget", "--shard", "--jobs", "--only", "--kernel")),
        *(("render", option) for option in ("--disks", "--only")),
        ("disks", "check", "--size"),
    ],
    ids=" ".join,
)
def test_no_value_ends_a_command_in_a_traceback(words: tuple[str, ...], call: Call, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(SMALL)
    *command, option = words
    for value in ODD[:: 1 if command == ["plan"] else 3]:
        said = call(*command, f"{option}={value}", "nas-7200" if "check" in command else "m.yaml")
        assert said.status in {0, 2}, (value, said.err)
        assert "Traceback" not in said.err
