"""Help texts: what they name, and what they cost."""

import subprocess
import sys

import pytest

from tests.support.command import Call, Matrix
from tests.support.shipped import ROOT


def test_help_names_every_command_and_every_exit_code(matrix: Matrix) -> None:
    said = matrix("--help").stdout
    for word in ("validate", "plan", "render", "run", "schema", "doctor", "Examples", "130 interrupted"):
        assert word in said
    for command in ("validate", "plan", "render", "run", "schema", "doctor"):
        assert "Example" in matrix(command, "--help").stdout


def test_help_needs_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys; sys.argv = ['matrix', '--help']\n"
        "from matrix_runner.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'pydantic', 'sqlalchemy', 'scipy', 'numpy', 'jinja2', 'rich', 'asyncio', 'ruamel'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("runs", "rm"), "Remove runs: their folders"),
        (("run",), "Run a matrix, or resume"),
        (("back", "up"), "# Back up and restore"),
        (("stripe", "cache"), "guideline stripe-cache-helps"),
        (("lost", "disk"), "matrix help "),
    ],
)
def test_several_words(call: Call, words: tuple[str, ...], shown: str) -> None:
    said = call("help", *words)
    assert (said.status, said.err) == (0, "")
    assert shown in said.out


def test_a_section_has_all_of_the_words(call: Call) -> None:
    assert "wear" in call("help", "wear").out
    said = call("help", "readahead", "zzz")
    assert said.status == 2
    assert "no topic or command is called 'readahead zzz'" in said.err


@pytest.mark.parametrize(("typed", "meant"), [("-on", "--on"), ("-on=dry", "--on"), ("-only", "--only")])
def test_one_dash_is_corrected(call: Call, monkeypatch: pytest.MonkeyPatch, typed: str, meant: str) -> None:
    monkeypatch.setattr(sys, "argv", ["matrix", "run", typed, "dry", "x.yaml"])
    said = call("run", typed, "dry", "x.yaml")
    assert said.status == 2
    assert f"did you mean {meant}? " in said.err
