"""The legend of marks of doubtful figures."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from matrix_runner.base.errors import Exit
from matrix_runner.pages.html import page
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.terminal import outcome
from matrix_runner.pages.terminal_text import HOST_LIMITED, legend, unsettled_mark
from matrix_runner.records import record
from matrix_runner.session.finish import Ending
from tests.answers.rankings import run
from tests.pages import samples
from tests.pages.samples import direction, measured
from tests.records import past
from tests.support.facts import noted

WORDS = ("host-limited", "saturated", "unsettled", "two states", "on few requests")


def two_states(note: str = "") -> RunData:
    rates = [rate + step for rate, step in product((1e8, 2e8), range(4))]
    trials = [measured("c1", number, direction(rate, 1 << 20)) for number, rate in enumerate(rates, start=1)]
    trials = [replace(one, **noted({note: "9 %"} if note else {})) for one in trials]
    return RunData("m", "qemu", False, [samples.SEQ], trials, over=True)


@pytest.mark.parametrize(
    ("note", "word"),
    [("", ""), (record.HOST_LIMITED, "host-limited"), (record.SATURATED, "saturated"), (record.UNSETTLED, "unsettled")],
)
def test_each_mark_of_a_row_is_explained_once(note: str, word: str) -> None:
    found = legend([outcome(one) for one in two_states(note).summaries] * 2)
    assert [text.split(":")[0] for text in found] == [
        f"(!) {one}"
        for one in ("host-limited", "saturated", "unsettled", "two states")
        if one == word or (one == "two states" and word != "unsettled")
    ]


def test_few_requests_are_explained() -> None:
    recorded = RunData("m", "qemu", False, [samples.SEQ], [measured("c1", 1, replace(direction(2e8, 1 << 20), ios=1))])
    (text,) = legend(map(outcome, recorded.summaries))
    assert text.startswith("(!) on few requests only")


def test_only_marks_are_explained() -> None:
    assert legend(["measured", "broken: host-limited, and (no) two states", "(!) of another kind: saturated"]) == []
    assert legend([unsettled_mark(2, 2), unsettled_mark(1, 2)]) == legend([" (!) 1 unsettled"])


def test_one_legend_fits_counts_and_shares() -> None:
    assert legend(["between 4 and 8 (!) 3 trials host-limited", "measured (!) 3 host-limited: late"]) == [HOST_LIMITED]
    assert "A number counts such trials" in HOST_LIMITED
    assert "A percentage is the share of the time lost in such trials, on average over all trials" in HOST_LIMITED


def test_the_end_of_a_run_explains_its_marks_once() -> None:
    end = Ending(Path("results/run"), two_states(record.HOST_LIMITED), (), 8, Exit.ALL_MEASURED)
    assert [line for line in end.lines() if "(!)" in line] == legend(["(!) 8 host-limited (!) two states"])
    answered = replace(end, content=run({"raid5": {"mixed": 1.0}, "raid6": {"mixed": 1.0}}, host_limited={"raid5": 12}))
    assert " ".join(line.strip() for line in answered.lines()).count("(!) host-limited:") == 1


def test_the_page_explains_its_marks() -> None:
    text = page(two_states(), past.manifest(), "run").decode()
    assert "(!) two states: the trials fall into two" in text
    assert "two states" not in page(samples.RUN, past.manifest(), "run").decode()
