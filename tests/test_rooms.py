"""The order of the rooms: each imports rooms below it only, as pyproject.toml declares. And no test imports a test."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from importlinter.cli import lint_imports

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

TESTS = Path(__file__).parent


def test_imports_go_down(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(TESTS.parent)
    assert lint_imports(no_cache=True, no_logo=True) == 0, capsys.readouterr().out


def test_no_test_imports_from_another_test_file() -> None:
    wrong = [f"{path.relative_to(TESTS)}: {name}" for path in TESTS.rglob("*.py") for name in _test_files(path)]
    assert wrong == [], "what several tests use is in tests/support"


def test_only_kinds_of_work_ask_for_a_kind_of_work() -> None:
    rooms = TESTS.parent / "runner" / "matrix_runner"
    kind = re.compile(r"isinstance\([^)]*Workload|\btype\([^)]*\) (is|in) [^:]*Workload")
    others = (path for path in rooms.rglob("*.py") if "work" not in path.relative_to(rooms).parts)
    wrong = [str(path.relative_to(rooms)) for path in others if kind.search(path.read_text())]
    assert wrong == [], "ask the workload: its answers are properties and methods of each kind"


def test_each_imported_package_is_installed_with_the_program() -> None:
    """Packages for tests are there in each checkout, so an import of one fails only for users."""
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    known = {re.split(r"[^a-z0-9]", one)[0] for one in wanted} | {
        "markupsafe",
        "pydantic_core",
        "pytest",
        "matrix_runner",
    }
    rooms = TESTS.parent / "runner" / "matrix_runner"
    found = {(name, str(path.relative_to(rooms))) for path in rooms.rglob("*.py") for name in _packages(path)}
    assert {(name, path) for name, path in found if name not in known | sys.stdlib_module_names} == set()


def test_most_modules_have_a_test_of_their_name() -> None:
    rooms = TESTS.parent / "runner" / "matrix_runner"
    modules = [path.relative_to(rooms) for path in rooms.rglob("*.py") if not path.name.startswith("__")]
    without = [str(one) for one in modules if not (TESTS / one.parent / f"test_{one.name}").exists()]
    assert len(without) <= 0.2 * len(modules), f"tests/ROOM/test_MODULE.py for at least 80 % of the modules: {without}"


def _packages(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def _test_files(path: Path) -> Iterator[str]:
    """Yield the files of tests that a module of the tests imports from."""
    for node in ast.walk(ast.parse(path.read_text())):
        name = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if name.startswith("tests.") and re.search(r"\.(test_\w+|conftest)$", name):
            yield name
