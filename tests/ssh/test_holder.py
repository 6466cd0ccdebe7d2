"""What holds and works on a host behind ssh, over a real sshd: while the line is up, drops, stays down, and for good."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.machines.shell import guard
from runner.ssh.holder import Holder
from runner.ssh.line import Line
from tests.ssh.far import NAME, Shelf, why_no_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

REASON = why_no_namespace()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    made = Shelf(tmp_path / "ssh")
    monkeypatch.setenv("PATH", made.path)
    yield made
    made.close()


@pytest.fixture
def line(shelf: Shelf) -> Iterator[Line]:
    found = Line(NAME)
    yield found
    found.down()


def test_it_runs_a_script(line: Line, shelf: Shelf) -> None:
    said: list[str] = []
    with Holder(line, "r1", guard(), said.append) as holder:
        done = holder.work("a", b"echo hello; echo oh >&2; exit 3", 60)
        assert (done.status, done.late, done.output, done.complaint) == (3, False, b"hello\n", b"oh\n")
        assert shelf.there("ls /run/matrix/far/*") == "line\n"
    assert said == []
    assert len(shelf.connections) == 1
    assert shelf.there("ls /run/matrix/far") == ""
