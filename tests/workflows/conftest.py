"""A checkout with the workflows' own scripts, and the program as it is here instead of one that is set up first."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.top import TOP


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    made = tmp_path / "work place"
    made.mkdir()
    shutil.copytree(TOP / ".github", made / ".github")
    shutil.copy(TOP / "action.yml", made)
    program = f"PYTHONPATH={shlex.quote(str(TOP))} exec {shlex.quote(sys.executable)} -m runner.cli"
    # Cleaning up is about the disks of the machine, which no test is to touch.
    clean = 'if [ "$*" = clean ]; then echo "cleaned" >>"$HOME/cleaned"; exit "${CLEAN_STATUS:-0}"; fi'
    far = 'if [ "$1" = clean ]; then shift; echo "$*" >>"$HOME/cleaned-far"; exit "${CLEAN_FAR_STATUS:-0}"; fi'
    # Nor are the tests of all that is here a part of themselves.
    test = 'if [ "$1" = test ]; then printf "%s\\n" "$@" >>"$HOME/tested"; exit "${TEST_STATUS:-0}"; fi'
    says = '[ -z "${SAYS-}" ] || printf "%s\\n" "$SAYS" >&2'
    (made / "bootstrap").write_text(f'#!/bin/sh\n{says}\n{clean}\n{far}\n{test}\n{program} "$@"\n')
    (made / "bootstrap").chmod(0o755)
    return made


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    made = tmp_path / "temp"
    made.mkdir()
    return made
