"""The table of decisions as text, on the terminal and on the page."""

from __future__ import annotations

import re
from dataclasses import replace

from matrix_runner.pages.html import page
from matrix_runner.pages.ranking import beaten_rows, decision_grid, decision_text
from tests.answers.rankings import FACTS, TRUTH, run
from tests.pages.samples import render_reports
from tests.records import past

RUN = replace(
    run(TRUTH, rounds=5),
    losses={"raid5": 1, "raid6": 1, "raid10": 0},
    stacks=FACTS,
    weights={"sequential": 1.0, "random": 2.0},
)


def test_the_table_has_a_row_of_each_stack() -> None:
    assert RUN.decision
    text = "\n".join(decision_text(RUN.decision))
    assert text.splitlines()[0].split()[:4] == ["stack", "usable", "survives", "rebuild"]
    assert "no disk" in text
    assert "~ 1 min 40 s" in text
    assert "For all workloads together (sequential 1, random 2): raid10 is best" in text


def test_unknown_facts_have_no_column() -> None:
    found = replace(RUN, losses={}, stacks={}).decision
    assert found
    assert decision_grid(found).columns == ("stack", "sequential/rw=read", "random/rw=randwrite")


def test_beaten_stacks_are_marked_in_text_and_grey_on_terminal_and_page() -> None:
    assert RUN.decision
    assert beaten_rows(RUN.decision) == [2]
    assert decision_grid(RUN.decision).rows[2][0] == "raid6 (beaten)"
    assert re.findall(r'<tr class="faint">\s*<th scope="row">(\S+)', page(RUN, past.manifest(), "run").decode()) == [
        "raid6"
    ]


def test_a_long_table_counts_the_stacks_left_out() -> None:
    assert RUN.decision
    assert "2 more stacks in answer.txt." in decision_grid(RUN.decision, 1).notes


def test_the_answer_has_all_workloads_and_other_pages_the_weighed_ones_first() -> None:
    works = [*(f"random/rw=randwrite,iodepth={depth}" for depth in (1, 2, 4, 8, 16, 32)), "mixed"]
    truth = {stack: dict.fromkeys(works, rate) for stack, rate in (("raid5", 100.0), ("raid6", 50.0))}
    found = replace(run(truth, rounds=5), weights={"mixed": 1.0}).decision
    assert found
    grid = decision_grid(found)
    assert (len(grid.columns), grid.columns[1]) == (7, "mixed")
    assert grid.notes[-1] == "1 more workload in answer.txt."
    text = "\n".join(decision_text(found))
    assert all(work in text.splitlines()[0] for work in works)
    assert "more workload" not in text


def test_the_answer_and_the_page_begin_with_it() -> None:
    assert render_reports(RUN)["answer.txt"].decode().startswith("stack ")
    text = page(RUN, past.manifest(), "run").decode()
    assert text.index("Stacks to choose from") < text.index("Fastest stack by workload")


def test_stacks_that_cannot_be_told_apart_for_all_workloads_are_named_together() -> None:
    truth = {
        name: {"random/rw=randread": rate, "mixed": rate} for name, rate in (("a", 100.0), ("b", 99.9), ("c", 50.0))
    }
    found = replace(run(truth, rounds=5, noise=0.02), weights={"random": 1.0, "mixed": 2.0}).decision
    assert found
    text = "\n".join(decision_text(found)).replace("\u00a0", " ")
    assert re.search(
        r"^For all workloads together \(random 1, mixed 2\): (a and b|b and a) cannot be told apart "
        r"\(95 % confidence\)\.$",
        text,
        re.MULTILINE,
    )
