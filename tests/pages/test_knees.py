"""The results of searches in all reports, and guidelines about them."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from matrix_runner.answers.cell_figures import Verdict
from matrix_runner.answers.knee import Searches
from matrix_runner.answers.verdicts import judge_guidelines
from matrix_runner.language.find import Find
from matrix_runner.language.guidelines import Guideline
from matrix_runner.pages.csv_files import FOUND, found_csv, summary_csv
from matrix_runner.pages.junit import junit
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.terminal import caption, shown_cells
from matrix_runner.pages.verdicts import knee_lines, knee_table
from matrix_runner.records.record import HOST_LIMITED, CellRow, Trial
from tests.pages.samples import direction, measured
from tests.support.facts import noted

#: By depth: thousands of requests per second, and p99 in milliseconds.
CURVE = {1: (10, 0.1), 2: (19, 0.11), 4: (30, 0.15), 8: (40, 0.4), 16: (44, 1.6)}
CELLS = [
    CellRow(f"c{depth}", f"raid5/oltp/iodepth={depth}", {"workload": "oltp", "workload.iodepth": str(depth)})
    for depth in (16, 1, 2, 4, 8)  # a search does not depend on their order
]


def trial(depth: int, round_number: int, factor: float = 1.0) -> Trial:
    rate, latency = CURVE[depth]
    return measured(f"c{depth}", round_number, direction(rate * 4096e3 * factor, 4096, p99=latency * 1e6 * factor))


ROUNDS = {1: (1, 16, 4, 8), 2: (4, 8), 3: (4, 8)}
TRIALS = [trial(depth, number, 1 + number / 500) for number, depths in ROUNDS.items() for depth in depths]


def run(limit: str = "read.p99 < 0.2ms", trials: list[Trial] | None = None) -> RunData:
    find = Find.model_validate({"max": "iops", "while": limit, "over": "iodepth"})
    trials = TRIALS if trials is None else trials
    return RunData("m", "qemu", False, CELLS, trials, least=3, most=3, over=True, finds={"oltp": find})


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (
            "read.p99 < 200us",
            "raid5/oltp: 33,024 IOPS (32,911 to 33,137 IOPS) while read.p99 < 200us; between iodepth 4 and 8",
        ),
        ("read.p99 < 9ms", "raid5/oltp: > 44,088 IOPS while read.p99 < 9ms; even iodepth 16, the largest value, is"),
        ("read.p99 < 1us", "raid5/oltp: none while read.p99 < 1us; even iodepth 1, the smallest value, is beyond the"),
    ],
)
def test_a_line_has_the_result(limit: str, said: str) -> None:
    title, line = knee_lines(run(limit).knees, over=True, synthetic=False)
    assert title == "Most work within a latency:"
    assert line.strip().startswith(said)


def test_an_unfinished_search_has_no_result() -> None:
    begun = run(trials=TRIALS[:2])
    assert (
        "not found while read.p99 < 0.2ms; the search is not finished"
        in [*knee_lines(begun.knees, over=False, synthetic=False)][1]
    )
    assert "too few trials with figures" in [*knee_lines(begun.knees, over=True, synthetic=False)][1]
    assert (
        found_csv(begun)
        .splitlines()[1]
        .startswith("raid5/oltp,qemu,false,workload.iodepth,read.p99 < 0.2ms,total.iops,1/s,unknown,,")
    )


def test_host_limited_trials_are_marked() -> None:
    limited = [replace(one, **noted({HOST_LIMITED: "7 %"})) if one.cell == "c8" else one for one in TRIALS]
    ((_, _, _, _, where, trials),) = knee_table(run(trials=limited).knees, over=True).rows
    assert (where, trials) == ("between iodepth 4 and 8 (!) 3 trials host-limited", "8")


def test_found_csv_has_a_row_for_each_search() -> None:
    (row,) = csv.DictReader(io.StringIO(found_csv(run())))
    assert [*row][: len(FOUND) - 1] == [column.name for column in FOUND[:-1]]
    assert (row["found"], row["within"], row["beyond"], row["trials"]) == ("between", "4", "8", "8")
    assert float(row["work_low"]) < float(row["work"]) < float(row["work_high"])
    assert row["workload"] == "oltp"
    assert found_csv(replace(run(), finds={})) == ""


def test_cells_that_a_search_does_not_need_are_marked() -> None:
    found = {one.cell.id: one for one in run().summaries}
    assert found["c2"].text_without_trials == "not needed"
    rows = {row["cell"]: row["stopped"] for row in csv.DictReader(summary_csv(run()))}
    assert (rows["c2"], rows["c16"], rows["c8"]) == ("decided", "decided", "fixed")
    assert {one.reaches(0.05) for one in found.values()} == {None}


def test_the_table_leaves_out_cells_that_a_search_does_not_need() -> None:
    recorded = run()
    assert {one.cell.id for one in shown_cells(recorded)} == {"c1", "c4", "c8", "c16"}
    assert "1 cells that searches did not need are left out." in caption(recorded)


def test_a_search_is_a_test_case() -> None:
    for content, skipped in ((run(), 0), (run(trials=TRIALS[:2]), 1)):
        root = ET.fromstring(junit(content))  # noqa: S314 - our own
        assert root.get("tests") == str(len(content.trials) + 1)
        (case,) = (one for one in root.iter("testcase") if one.get("classname") == "m.searches")
        assert len(case.findall("skipped")) == skipped
        assert "[[PROPERTY|while=read.p99 < 0.2ms]]" in (case.findtext("system-out") or "")


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ({"metric": "found.iops", "at_least": "30000 IOPS"}, Verdict.HOLDS),
        ({"metric": "found.iops", "at_least": "40000 IOPS"}, Verdict.FAILS),
        ({"metric": "found.bw", "at_least": "1MB/s"}, Verdict.NOT_TESTED),
        ({"metric": "total.iops", "at_least": "5000 IOPS"}, Verdict.HOLDS),
    ],
)
def test_a_guideline_may_be_about_the_result(claim: dict[str, str], verdict: Verdict) -> None:
    content = run()
    knees = [one.measured("run", content.rule) for one in content.knees]
    guideline = Guideline.model_validate({"id": "g", "bound": claim})
    if claim["metric"].startswith("found"):
        (judged,) = judge_guidelines([guideline], knees)
        assert judged.verdict is verdict
    else:
        assert not any(one.has(guideline.claimed.figure) for one in knees)


def test_a_limit_beyond_the_axis_is_no_figure_for_guidelines() -> None:
    content = run("read.p99 < 9ms")
    guideline = Guideline.model_validate({"id": "g", "bound": {"metric": "found.iops", "at_least": "1 IOPS"}})
    (judged,) = judge_guidelines([guideline], [one.measured("run", content.rule) for one in content.knees])
    assert judged.verdict is Verdict.NOT_TESTED


def test_later_rounds_do_not_add_trials_to_a_round() -> None:
    content = run()
    searches = Searches(CELLS, content.finds, content.rule)
    misjudged = 1.4  # beyond the limit in the first round only
    for one in (trial(1, 1), trial(16, 1), trial(4, 1, misjudged), trial(2, 1), trial(2, 2), trial(4, 2)):
        searches.add(one)
    assert searches.wanted("c4", 1) == []
    assert searches.wanted("c4", 2) == ["c8"]
    searches.add(trial(8, 2))
    assert searches.wanted("c4", 1) == searches.wanted("c4", 2) == []
    assert searches.wanted("c4", 3) == ["c4", "c8"]
