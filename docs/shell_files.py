"""What a package installs for shells: completions, and a manual page made from the help of `matrix` and two pages."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from matrix_runner.cli import cli

FOLDER = Path(__file__).parent / "shell"
_REFERENCE = Path(__file__).parent / "reference"
_SEE = {
    "matrix help": "topics: tutorials, how-to pages, explanations, reference",
    "matrix COMMAND --help": "options and examples of a command",
    "fio(1), mdadm(8), lvm(8)": "the programs that build and measure",
}


def shell_files() -> dict[Path, str]:
    root = cli.make_context("matrix", [], resilient_parsing=True)
    files = {FOLDER / "matrix.1": "\n".join(_manual(root)) + "\n"}
    for shell in ("bash", "zsh", "fish"):
        kind = get_completion_class(shell)
        assert kind is not None  # noqa: S101 - the three shells are click's own
        source = kind(cli, {}, "matrix", "_MATRIX_COMPLETE").source()
        files[FOLDER / f"matrix.{shell}"] = source.strip() + "\n"
    return files


def _manual(root: click.Context) -> Iterator[str]:
    about = inspect.cleandoc(cli.help or "").replace("\n", " ")
    yield from ('.TH MATRIX 1 "" "matrix" "User Commands"', ".SH NAME")
    yield f"matrix \\- {_roff(about[0].lower() + about[1:].rstrip('.'))}"
    yield from (".SH SYNOPSIS", ".B matrix", r".I COMMAND \fR[\fIOPTIONS\fR] [\fIARGUMENTS\fR]", ".SH DESCRIPTION")
    yield _roff(about)
    yield from (".SH COMMANDS", *_commands(root))
    yield from (".SH EXIT STATUS", *_rows("exit-codes.md", "# Exit codes"))
    yield from (".SH ENVIRONMENT", *_rows("environment-variables.md", "## Read by matrix"))
    yield from (".SH EXAMPLES", *_examples())
    yield from (".SH SEE ALSO", *(line for name, text in _SEE.items() for line in _entry(name, text)))


def _commands(root: click.Context) -> Iterator[str]:
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        if command and not command.hidden:
            yield from _entry(name, command.get_short_help_str(200))


def _rows(page: str, heading: str) -> Iterator[str]:
    """Return the first two columns of the first table below a heading."""
    below = (_REFERENCE / page).read_text(encoding="utf-8").split(f"{heading}\n", 1)[1]
    for row in re.search(r"^[| -]+\n((?:\|.*\n)+)", below, re.MULTILINE)[1].splitlines():  # type: ignore[index]
        name, text, *_ = (one.strip() for one in row.strip("|").split("|"))
        yield from _entry(_plain(name), _plain(text))


def _examples() -> Iterator[str]:
    text = inspect.cleandoc(cli.epilog or "").replace("\b\n", "")
    for command, meaning in re.findall(r"^  (matrix .+?) {2,}(.+)$", text, re.MULTILINE):
        yield from _entry(command, meaning)


def _entry(name: str, text: str) -> tuple[str, ...]:
    return ".TP", f".B {_roff(name)}", _roff(text)


def _plain(text: str) -> str:
    """Remove what Markdown marks."""
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text).replace("`", "")


def _roff(text: str) -> str:
    """Escape what roff reads as a command."""
    return re.sub(r"^(?=[.'])", r"\\&", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.MULTILINE)
