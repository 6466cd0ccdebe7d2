"""Verdicts as people, programs and CI are told of them."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from lxml import etree

from matrix_runner.answers.cell_figures import Measured, Verdict
from matrix_runner.answers.verdicts import Judgement
from matrix_runner.base.errors import Exit
from matrix_runner.language.guidelines import Guideline
from matrix_runner.pages.junit import junit
from matrix_runner.pages.table import as_csv, as_sheet, boxed_width
from matrix_runner.pages.verdicts import explain_verdict, verdict_rows, verdict_table
from matrix_runner.session.finish import exit_code as exit_of
from tests.answers.world import cells, guideline, run, verdict
from tests.pages.samples import RUN, SYNTHETIC, render_reports
from tests.support.report_files import SCHEMA
from tests.support.verdicts import ALL, FAILS, HOLDS, NEVER, OPEN, PAIR, claimed


def test_explanations_have_figures_and_the_remaining_effort() -> None:
    assert explain_verdict(HOLDS).startswith("read.bw 1.99\u00d7 (1.97\u00d7 to 2.01\u00d7), ")
    assert explain_verdict(HOLDS).endswith("wanted at least 1.50\u00d7; 5 trials of 2 cells")
    assert "more trials of each cell" in explain_verdict(OPEN)
    assert explain_verdict(NEVER) == "no cell has layout=far"
    assert "; more trials (with so few, their number is unknown)" in explain_verdict(claimed("one", 2.0, rounds=1))


def test_verdicts_on_several_runs_count_runs() -> None:
    def night(name: str, times: float) -> list[Measured]:
        return list(run(PAIR, lambda axes: times if axes["layout"] == "far" else 1.0, name=name))

    said = verdict(OPEN.guideline, [*night("one", 1.4), *night("two", 1.8), *night("three", 1.7)])
    assert "; 3 runs of 2 cells; about " in explain_verdict(said)
    assert explain_verdict(said).endswith(" more runs of each cell")


def test_slow_motion_is_named_if_the_host_took_time() -> None:
    found = [
        replace(one, host_limited=1, lost_share=0.1)
        for one in run(PAIRS, lambda axes: 1.3 if axes["layout"] == "far" else 1.0, noise=0.3)
    ]
    assert re.search(
        "about [0-9,]+ more trials of each cell, fewer with `slow:`", explain_verdict(verdict(EFFECT, found))
    )


def test_slow_motion_may_save_a_single_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        replace(one, host_limited=1, lost_share=0.1)
        for one in run(PAIRS, lambda axes: 1.3 if axes["layout"] == "far" else 1.0, noise=0.3)
    ]
    monkeypatch.setattr(Judgement, "more", 1)
    assert "about 1 more trial of each cell, or none with `slow:`" in explain_verdict(verdict(EFFECT, found))


def test_the_host_is_named_if_more_trials_are_no_use() -> None:
    found = [replace(one, lost_share=0.9) for one in run(cells(layout=["raid0", "far"]), lambda _: 1.0)]
    assert "to decide it: a faster host, or `slow:`" in verdict_table([verdict(EFFECT, found)]).notes[-1]


PAIRS = cells(layout=["raid0", "far"], md_chunk=["64KiB", "1MiB"])
EFFECT = guideline(
    ratio={"mean": True, "metric": "read.bw", "of": {"layout": "far"}, "to": {"layout": "raid0"}, "at_least": 1.5}
)


@pytest.mark.parametrize(
    ("claim", "shown"), [(OPEN.guideline, ", case shown: md.chunk="), (EFFECT, ", shown: mean over 2 pairs, ")]
)
def test_the_shown_figure_is_a_case_only_if_there_are_several(claim: Guideline, shown: str) -> None:
    assert shown in explain_verdict(verdict(claim, run(PAIRS, lambda _: 1.0)))


SMALL_CHUNKS = [one for one in PAIRS if one.axes["md.chunk"] == "64KiB"]


def nights(small: list[float], large: float) -> list[Measured]:
    """Small chunks in several nights, each time another factor; large ones in the first alone."""

    def truth(night: int) -> Callable[[dict[str, str]], float]:
        factors = {"64KiB": small[night], "1MiB": large}
        return lambda axes: factors[axes["md.chunk"]] if axes["layout"] == "far" else 1.0

    return [
        one
        for night in range(len(small))
        for one in run(SMALL_CHUNKS if night else PAIRS, truth(night), noise=0.2, rounds=9, name=f"night {night}")
    ]


def test_the_sample_unit_is_that_of_the_deciding_answer() -> None:
    of_trials = verdict(OPEN.guideline, nights([3.0, 3.1, 3.05], 1.6))
    assert [one.runs for one in of_trials.results] == [3, 1]
    assert "; 9 trials of 4 cells, 2 cases; about " in explain_verdict(of_trials)
    assert explain_verdict(of_trials).endswith(" more trials of each cell")
    of_runs = verdict(OPEN.guideline, nights([1.5, 1.9, 1.6], 9.0))
    assert "; 3 runs of 4 cells, 2 cases; about " in explain_verdict(of_runs)
    assert explain_verdict(of_runs).endswith(" more runs of each cell")


def test_the_remaining_effort_has_the_unit_of_the_deciding_answer() -> None:
    """Of what is inconclusive the one that takes longest is told of, and it lacks less, as it has so much already."""
    (many, few) = verdict(OPEN.guideline, nights([1.5, 1.9, 1.6], 1.6)).results
    both = replace(OPEN, results=(replace(many, enough=30), replace(few, enough=31)))
    assert both.telling is both.results[1]
    assert explain_verdict(both).endswith("; 9 trials of 4 cells, 2 cases; about 27 more runs of each cell")


def test_cells_without_figures_are_not_counted() -> None:
    without = [replace(one, columns={}) if "1MiB" in one.cell.id else one for one in nights([2.0, 2.1, 2.05], 2.0)]
    said = verdict(OPEN.guideline, without)
    assert set(said.cells) == {one.id for one in SMALL_CHUNKS}
    assert " of 2 cells" in explain_verdict(said)


def test_host_limited_evidence_is_marked() -> None:
    pair = [replace(one, host_limited=2) for one in run(PAIR, lambda axes: 2.0 if axes["layout"] == "far" else 1.0)]
    (row,) = verdict_table([verdict(HOLDS.guideline, pair)]).rows
    assert row[5] == "5 trials of 2 cells (!)"


def test_failed_guidelines_come_first_with_their_claim() -> None:
    grid = verdict_table(ALL)
    assert [row[1] for row in grid.rows] == ["fails", "inconclusive", "not tested", "holds"]
    assert grid.notes[0] == "guidelines: 1 holds, 1 fails, 1 inconclusive, 1 not tested"
    assert "bad: bad in words" in grid.notes


def test_the_terminal_has_the_remaining_effort_below_the_table_and_the_page_in_a_column() -> None:
    terminal, page = verdict_table(ALL), verdict_table(ALL, claims=False)
    assert page.columns == (*terminal.columns, "to decide it")
    assert any(re.search(r"; to decide it: about \d+ more trials of each cell", note) for note in terminal.notes)
    assert not [note for note in page.notes if "to decide it" in note]
    assert boxed_width(as_sheet(terminal)) <= 100 < boxed_width(as_sheet(page))


def test_a_program_gets_plain_numbers() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(verdict_rows(ALL)).decode())))
    good, bad, _, never = rows
    assert (good["verdict"], good["wanted_low"], good["wanted_high"], good["rounds"]) == ("holds", "1.5", "", "5")
    assert float(good["low"]) <= float(good["value"]) <= float(good["high"])
    assert bad["cells"].split() == ["layout=far", "layout=raid0"]
    assert (never["verdict"], never["value"], never["notes"]) == ("not tested", "", "no cell has layout=far")


def test_each_is_a_test_case_and_only_a_refuted_claim_is_a_failure() -> None:
    root = etree.fromstring(junit(replace(RUN, judgements=ALL)))
    SCHEMA.assertValid(root)
    suite = root[-1]
    assert suite.get("name") == "sweep on qemu: guidelines"
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "0", "2"]
    assert (root.get("tests"), root.get("failures")) == ("9", "1")
    cases = {case.get("name"): case for case in suite.iterfind("testcase")}
    assert cases["good"].find("failure") is cases["good"].find("skipped") is None
    failure, skipped = cases["bad"].find("failure"), cases["open"].find("skipped")
    assert failure is not None
    assert failure.get("message", "").startswith("fails: read.bw")
    assert skipped is not None
    assert skipped.get("message", "").startswith("inconclusive: read.bw")
    assert "[[PROPERTY|claim=bad in words]]" in (cases["bad"].findtext("system-out") or "")


def test_synthetic_verdicts_are_skipped_in_junit() -> None:
    synthetic = tuple(replace(one, synthetic=True) for one in ALL)
    root = etree.fromstring(junit(replace(SYNTHETIC, judgements=synthetic)))
    assert [root[-1].get(name) for name in ("failures", "skipped")] == ["0", "4"]
    assert "these verdicts do not count" in verdict_table(synthetic).notes[0]
    assert {row[1] for row in verdict_table(synthetic).rows} == {f"synthetic: {verdict}" for verdict in Verdict}


def test_a_file_is_written_only_where_there_are_guidelines() -> None:
    assert "verdicts.csv" in render_reports(replace(RUN, judgements=ALL))
    assert "verdicts.csv" not in render_reports(RUN)


def test_exit_codes_separate_failed_claims_from_broken_trials() -> None:
    sound = replace(RUN, trials=[one for one in RUN.trials if one.figures])
    assert exit_of(replace(sound, judgements=(HOLDS, OPEN, NEVER))) is Exit.ALL_MEASURED
    assert exit_of(replace(sound, judgements=ALL)) is Exit.CLAIM_FAILED
    assert exit_of(replace(RUN, judgements=ALL)) is Exit.BROKEN
    assert exit_of(replace(sound, judgements=(replace(FAILS, synthetic=True),))) is Exit.ALL_MEASURED
