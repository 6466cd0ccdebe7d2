"""Texts for people are made from fields, and never read back: a module decides by the fields."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[1] / "runner/matrix_runner"
#: Names of texts that modules of this program make for people.
TEXTS = {"bottleneck", "brief", "claim", "details", "doubt", "evidence", "explanation", "heading", "legend", "note"}
TEXTS |= {"message", "notes", "overload", "reason", "reasons", "refusal", "remedy", "resolution", "sentence", "title"}
TEXTS |= {"verdict", "warning", "why"}
READERS = {"startswith", "endswith", "partition", "rpartition", "split", "rsplit", "removeprefix", "removesuffix"}
READERS |= {"find", "index"}
PATTERNS = {"match", "search", "fullmatch", "findall", "finditer", "split"}
#: The places that may, by file and function, with the reason.
ALLOWED = {
    ("carry/trial_result.py", "finding"): "the line `not as declared` is what the scripts of this program print",
    ("cli/help.py", "_first_place"): "the same",
    ("machines/base.py", "message"): "a message of another program may end in a colon, which is not doubled",
    ("machines/requirements.py", "describe"): "a remedy `apt install` of any refusal joins one command",
    ("session/batch.py", "_progress"): "steps of building an appliance begin with a constant of `machines/base.py`",
    ("pages/html.py", "_sentence"): "a note becomes a sentence: its last dot is not doubled",
}


def _name_of(node: ast.expr) -> str:
    """Return the last name of an expression: `message` of `error.message`, `notes` of `trial.notes.get("x")`."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            break
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_text(node: ast.expr) -> bool:
    return _name_of(node) in TEXTS


def _reads(node: ast.AST) -> bool:
    """Return whether an expression takes a part of such a text, or looks for words in it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in READERS and _is_text(node.func.value):
            return not _is_layout(node)
        return node.func.attr in PATTERNS and any(map(_is_text, node.args))
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        texts = _is_text(node.comparators[0]) and not _name_of(node.comparators[0]).endswith("s")
        return texts and isinstance(node.left, ast.Constant | ast.JoinedStr) and ast.unparse(node.left) != "''"
    return False


def _is_layout(call: ast.Call) -> bool:
    """Return whether it splits a text into lines, or into words to join them again."""
    return ast.unparse(call).endswith((".split()", ".split('\\n')"))


def readers(source: str) -> Iterator[str]:
    """Yield the function of each such expression."""

    def walk(node: ast.AST, function: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if _reads(child):
                yield function
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from walk(child, child.name if is_function else function)  # type: ignore[attr-defined]

    yield from walk(ast.parse(source), "")


def test_no_module_reads_a_fact_out_of_a_text_for_people() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), function)
        for path in sorted(PACKAGE.rglob("*.py"))
        for function in readers(path.read_text())
    }
    assert found - ALLOWED.keys() == set()
    assert ALLOWED.keys() - found == set(), "no such place is left: remove it from the list"


@pytest.mark.parametrize(
    "source",
    [
        'def f(trial): return trial.notes["host_limited"].partition("%")[0]',
        'def f(trial): return re.match(r"[0-9.]+%", trial.notes.get("host_limited", ""))',
        "def f(note): return _LOSS.findall(note)",
        'def f(error): return error.message.partition(";")[0]',
        'def f(one): return "host-limited" in one.reason',
        'def f(answer): return answer.title.startswith("Fastest")',
    ],
)
def test_such_places_are_found(source: str) -> None:
    assert list(readers(source)) == ["f"]


@pytest.mark.parametrize(
    "source", ['def f(trial): return "lacks" in trial.notes', 'def f(output): return output.startswith("{")']
)
def test_keys_and_outputs_of_other_programs_are_not_texts_for_people(source: str) -> None:
    assert list(readers(source)) == []
