"""OpenMetrics of comparisons and histories: what a collector would refuse."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from matrix_runner.pages.change_files import Checked, metrics_of_changes
from matrix_runner.records.store import RunRow

RUN = RunRow("id", "run-1", "m", "qemu", False, "h", "", "2026-03-04T05:06:07+00:00", True, 3, 0.95, None, 3, 3, {})
LATER = replace(RUN, id="id2", name="run-2", started="2026-03-05T05:06:07+00:00")
SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\} \S+')


def samples(*checks: Checked) -> dict[str, str]:
    *lines, end, rest = metrics_of_changes(checks).decode().split("\n")
    assert (end, rest) == ("# EOF", "")
    found = [line for line in lines if not re.fullmatch(r"# (TYPE|HELP) [a-z_]+ [^\n]+", line)]
    assert [line for line in found if not SAMPLE.fullmatch(line)] == []
    values = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in found}
    assert len(values) == len(found), "labels are there twice"
    return values


@pytest.mark.parametrize(
    "text", ['"} 1', "\n# EOF\n", "\\", '\\"', 'a\\\nmatrix_alarm{cell="b"} 1', "\r", "{}", "\x00", "ä\u2028"]
)
def test_a_name_ends_no_label(text: str) -> None:
    run = replace(RUN, matrix=text, machine=text, host=text)
    assert len(samples(Checked(run, text, text, text, speed=1.0))) == 3


def test_a_changed_cell_with_the_name_of_the_one_before_is_one_sample() -> None:
    before, now = Checked(RUN, "a/seq", "read_bw", "old", speed=0.5), Checked(LATER, "a/seq", "read_bw", speed=1.0)
    found = samples(now, before)
    assert [value for name, value in found.items() if "ratio" in name] == ["1"]
    assert [value for name, value in found.items() if "alarm" in name] == ["0"]
