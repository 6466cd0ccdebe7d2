"""The study that is measured each night, with a recorder instead of the program."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.top import TOP

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = ".github/scripts/measure-study.sh"
PROGRAM = """\
#!/usr/bin/env bash
echo "$*" >>calls
case $1 in
  run) exit "$RUN" ;;
  study) if [[ $2 == --check ]]; then printf "$FOUND"; exit "$CHECK"; fi; echo "of tonight" >"$3/README.md" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("matrix/studies/a", "matrix/studies/raid-wiki/b", ".github/scripts"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(TOP / SCRIPT, tmp_path / SCRIPT)
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (tmp_path / "matrix/studies/a/README.md").write_text("of last week\n")
    for words in (("init", "-q"), ("add", "matrix")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, timeout=60)
    return tmp_path


def ran(checkout: Path, **variables: str) -> tuple[int, list[str]]:
    values = {"FOUND": "matrix/studies/a\\n", "CHECK": "1", "RUN": "0", "MATRIX": "./program"} | variables
    done = subprocess.run([checkout / SCRIPT], env=os.environ | values, check=False, timeout=60)
    return done.returncode, (checkout / "calls").read_text().splitlines()


@pytest.mark.parametrize("claims", ["0", "1"])
def test_the_oldest_is_measured_and_its_page_becomes_a_patch(checkout: Path, claims: str) -> None:
    status, calls = ran(checkout, RUN=claims)
    assert status == 0
    assert calls[0].startswith("study --check --oldest matrix/studies/a/ matrix/studies/raid-wiki/ matrix/studies/raid")
    assert calls[1:] == ["run --budget 90m matrix/studies/a", "study --page matrix/studies/a"]
    assert "+of tonight" in (checkout / "build/study.patch").read_text()


def test_nights_without_an_old_page_measure_nothing(checkout: Path) -> None:
    status, calls = ran(checkout, FOUND="", CHECK="0")
    assert (status, len(calls)) == (0, 1)


@pytest.mark.parametrize(("variables", "code", "calls"), [({"CHECK": "2"}, 2, 1), ({"RUN": "3"}, 3, 2)])
def test_errors_end_the_night(checkout: Path, variables: dict[str, str], code: int, calls: int) -> None:
    status, found = ran(checkout, **variables)
    assert (status, len(found)) == (code, calls)
    assert not (checkout / "build").exists()
