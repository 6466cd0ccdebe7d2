"""What the package requires, and what its extras add: the same in pyproject.toml, the lock files and the messages."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from matrix_runner.base.extras import list_extras, missing_package, without_statistics

if TYPE_CHECKING:
    import pytest

TOP = Path(__file__).parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=~! ]", one)[0] for one in requirements}


def test_the_base_install_is_small() -> None:
    """Each of these is imported by what every user runs. A large one is an extra (decision 30)."""
    assert names(PROJECT["dependencies"]) == {
        *("click", "jinja2", "junitparser", "orjson", "platformdirs", "pydantic", "qemu.qmp", "rich", "ruamel.yaml"),
        "sqlalchemy",
    }


def test_each_extra_is_known_to_doctor_and_to_messages() -> None:
    extras = {extra: names(packages) for extra, packages in PROJECT["optional-dependencies"].items()}
    assert {name for name, *_ in list_extras()} == {*extras}
    for extra, packages in extras.items():
        for package in packages:
            error = missing_package("this", package)
            assert error.brief == f"this needs the package {package}"
            assert f"pip install 'matrix-runner[{extra}]'" in error.resolution


def test_a_checkout_and_the_tests_of_lowest_versions_have_the_extras() -> None:
    locked = (TOP / "requirements.lock").read_text()
    assert {"numpy", "psycopg"} <= {line.partition("==")[0] for line in locked.splitlines()}
    lowest = (TOP / ".ci" / "lowest").read_text()
    assert [f"--extra {name}" in lowest for name in PROJECT["optional-dependencies"]] == [True] * 3
    assert (TOP / ".ci" / "locks").read_text().count("--extra postgres --extra statistics") == 2


def test_a_page_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert without_statistics("It") == ""
    monkeypatch.setitem(sys.modules, "numpy", None)
    why = (
        "It needs the package numpy, which is not installed: install it with `pip install 'matrix-runner[statistics]'`."
    )
    assert without_statistics("It") == why
