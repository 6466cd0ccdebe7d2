"""All messages and help texts in one file, `messages.txt`, for people to read and judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matrix_runner
from docs import generate
from matrix_runner.cli import cli
from tests.messages.catalogue import catalogue
from tests.support.pages import DOCS

if TYPE_CHECKING:
    import click
    import pytest

FILE = Path(__file__).with_name("messages.txt")
HEAD = """\
# Messages

Every text in the source that a user can see, by module. `{name}` is a value, `(one|other)` are alternatives, `…` is a
repetition, and advice follows `→`. The help texts are at the end. A test compares this file with the source. To write it again:

    .venv/bin/pytest tests/messages --snapshot-update

"""


def test_all_messages_and_help_texts(pytestconfig: pytest.Config) -> None:
    text = f"{HEAD}{_messages()}# Help texts\n\n{_help_texts()}"
    if pytestconfig.getoption("update_snapshots"):
        FILE.write_text(text, encoding="utf-8")
    assert text == FILE.read_text(encoding="utf-8")


def test_the_page_of_messages_is_up_to_date() -> None:
    text = (DOCS / "reference/messages.md").read_text(encoding="utf-8")
    assert generate.generated(text) == text, "run `python -m docs.generate`"


def _messages() -> str:
    found = catalogue(Path(matrix_runner.__path__[0]))
    return "".join(f"## {module}\n\n{''.join(map(_item, texts))}\n" for module, texts in found)


def _item(text: str) -> str:
    return "- " + text.rstrip("\n").replace("\n", "\n  ") + "\n"


def _help_texts() -> str:
    with cli.make_context("matrix", [], resilient_parsing=True) as root:
        commands = [cli.get_command(root, name) for name in cli.list_commands(root)]
        return "\n".join([_help_text(cli, None), *(_help_text(one, root) for one in commands if one)])


def _help_text(command: click.Command, parent: click.Context | None) -> str:
    name = command.name if parent else "matrix"
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=100)
    return f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
