"""Types of `tests.support.command`, under the name that the tests beside this one import; and a host with disks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from matrix_runner.hosts.agent.connection import connection_to
from tests.support.command import Call, Said
from tests.support.shelf import ANSWER, LAB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Call", "Said"]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A host behind an ssh that is none."""
    monkeypatch.setenv("MATRIX_STATE", str(tmp_path / "state"))
    (tmp_path / "hosts.yaml").write_text(LAB)
    (tmp_path / "answer").write_text(ANSWER)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(
        "#!/bin/sh\ncase $* in *ControlMaster=yes*) echo; echo matrix is up; exec cat >/dev/null ;; esac\n"
        f'echo "$@" >{tmp_path}/asked\ncat >{tmp_path}/script\ncat {tmp_path}/answer\n'
    )
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    yield tmp_path
    connection_to("shelf").disconnect()
