"""The answer of `matrix run` for programs, and what scripts do not get."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.answers import MATRIX

if TYPE_CHECKING:
    from tests.support.command import Said

Call = Callable[..., "Said"]


def test_json_has_the_answer_in_the_last_event(call: Call) -> None:
    Path("three.yaml").write_text(MATRIX)
    end = json.loads(call("run", "--on", "dry", "--json", "three.yaml").out.splitlines()[-1])
    assert end["event"] == "end"
    assert [one["workload"] for one in end["answer"]] == ["sequential/rw=read", "sequential/rw=write", "mixed"]
    assert {one["stack"] for one in end["answer"][0]["stacks"]} == {"raid5", "raid10-far", "stripe"}
    assert any(file.endswith("answer.txt") for file in end["files"])


def test_the_answer_is_printed_in_a_pipe_but_not_with_quiet(call: Call) -> None:
    Path("three.yaml").write_text(MATRIX)
    *_, synthetic, files = call("run", "--on", "dry", "three.yaml").out.splitlines()
    assert synthetic.startswith("These figures are synthetic")
    assert "answer.txt" in files
    quiet = call("run", "--on", "dry", "--fresh", "--quiet", "three.yaml").out
    assert "Fastest" not in quiet
    assert "Fastest stack by workload" in call("report", quiet.split(":")[0].rstrip("/")).out
