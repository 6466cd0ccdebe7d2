"""The answer at the end of `matrix run`, on a real pseudo-terminal."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.machines import dry
from matrix_runner.pages.answer import SYNTHETIC
from tests.support.answers import MATRIX
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("columns", [60, 110])
def test_the_answer_is_the_last_text_above_the_files(columns: int, tmp_path: Path) -> None:
    (tmp_path / "three.yaml").write_text(MATRIX)
    argv = ["matrix", "run", "--on", "dry", "--results", str(tmp_path / "r"), "three.yaml"]
    with Terminal(argv, columns=columns, cwd=tmp_path) as terminal:
        assert terminal.wait() == 0
        answer = terminal.transcript[terminal.transcript.rindex("Fastest stack by workload (95 % confidence):") :]
    note = "\n".join(textwrap.wrap(SYNTHETIC, columns, subsequent_indent="  "))
    words, _, files = answer.partition(note)
    assert "workloads" in words or "sequential/rw=write" in words
    assert "answer.txt" in files.replace("\n", "")
    assert "MB/s where" not in answer


BEATEN = """\
name: two
disks: {count: 4, size: 64MiB}
layouts:
  linear: [lvm: {}]
  raid0: [md: {level: 0}]
workloads:
  work: {rw: read, bs: 1MiB, runtime: 1s}
repeat: 3
"""


def test_a_beaten_stack_is_grey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_any = dry._result

    def of_lvm_half(name: str, options: Mapping[str, str], job: str, slow: int) -> dict[str, Any]:
        return of_any(name, options, job, 2 * slow if "/mapper/" in options["filename"] else slow)

    monkeypatch.setattr(dry, "_result", of_lvm_half)
    (tmp_path / "two.yaml").write_text(BEATEN)
    argv = ["matrix", "run", "--on", "dry", "--results", str(tmp_path / "r"), "two.yaml"]
    with Terminal(argv, cwd=tmp_path) as terminal:
        assert terminal.wait() == 0
        rows = [line for line in terminal.raw.decode().splitlines() if line[:1] == "\u2502" and "\u00d7" in line]
    assert [(row.count("linear"), row.count("raid0"), "\x1b[90m" in row) for row in rows] == [
        (0, 1, False),
        (1, 0, True),
    ]
