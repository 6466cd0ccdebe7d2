"""Published beside measured, as a table, for programs, and as a page."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.answers.published import compare_published
from matrix_runner.base.errors import BadInput
from matrix_runner.pages.study import (
    BEGIN,
    END,
    data_table,
    describe_run,
    display_table,
    new_page,
    page,
    replace_generated,
    summary_line,
)
from matrix_runner.pages.table import as_csv
from tests.answers.world import cells, run
from tests.support.studies import INVENTED, MISSED, PAIR, STUDY, published, times
from tests.support.verdicts import FAILS, HOLDS

MET = compare_published(STUDY, run(PAIR, times(2.0)))
ABOUT = describe_run("study-qemu-1", "2026-03-04", "qemu", ("6.1.0",), 10, 2, 0)


def test_the_number_of_met_ratios_is_one_line() -> None:
    assert (
        summary_line(MET)
        == "1 of 2 published ratios met within 15 % (1 not measured); 1 of the 2 that the source can tell"
    )
    assert (
        summary_line(MISSED)
        == "0 of 2 published ratios met within 15 % (1 not met, 1 not measured); 0 of the 2 that the source can tell"
    )
    assert summary_line([]) == "no published ratio"


@pytest.mark.parametrize(
    ("factor", "line_of_it", "said"),
    [
        (2.0, "1 undecided, estimates of 1 within", "undecided, estimate within"),
        (2.5, "1 undecided", "undecided, estimate not within"),
    ],
)
def test_undecided_ratios_state_their_figure(factor: float, line_of_it: str, said: str) -> None:
    unsure = compare_published(STUDY, run(PAIR, times(factor), noise=0.2))
    met = f"0 of 2 published ratios met within 15 % (1 not measured, {line_of_it})"
    assert summary_line(unsure) == f"{met}; 0 of the 2 that the source can tell"
    assert display_table(unsure).rows[1][-1] == said


def test_people_see_both_side_by_side_and_why_they_differ() -> None:
    grid = display_table(MISSED)
    table, where, published, measured, ratio, *_ = grid.rows[0]
    assert (table, where, published, measured, ratio) == ("one", "layout=single", "80 MB/s", "75.2 MB/s", "")
    assert grid.rows[1][4] == "2.00\u00d7"
    assert grid.rows[1][-1] == "not met"
    assert grid.notes == (
        summary_line(MISSED),
        "one: layout=raid0: it was <long> ago",
        "one: 240: a card that nobody has",
    )


def test_programs_get_plain_numbers() -> None:
    base, row, card = csv.DictReader(io.StringIO(as_csv(data_table("somebody", MET)).decode()))
    assert (row["published"], row["published_ratio"], row["verdict"], row["synthetic"]) == (
        "160.0",
        "2.0",
        "met",
        "false",
    )
    assert float(row["low"]) < float(row["ratio"]) < float(row["high"])
    assert float(row["measured"]) == pytest.approx(150e6, rel=0.05)
    assert (base["verdict"], base["published_ratio"], card["measured"], card["why"]) == (
        "",
        "",
        "",
        "a card that nobody has",
    )


def test_synthetic_ratios_are_marked_everywhere() -> None:
    assert summary_line(INVENTED).endswith("the figures are synthetic, so this is no result")
    assert display_table(INVENTED).rows[1][-1] == "synthetic: met"
    assert "synthetic: met" in page("somebody", INVENTED, [], "")


def test_a_page_has_the_run_the_tables_the_reasons_and_the_guidelines() -> None:
    text = page("somebody", MISSED, [HOLDS, FAILS], str(ABOUT))
    assert text.startswith(
        "Measured by the run `study-qemu-1` (qemu, Linux 6.1.0), begun 2026-03-04: 10 trials of 2 cells."
    )
    assert "### Sequential read\n\nTable 1, `read.bw`; 0 of 2 met." in text
    assert "not met:\n\n- layout=raid0: it was <long> ago\n- 240: a card that nobody has\n\n" in text
    assert "| good | holds |" in text
    assert "| one run |" in text


def test_host_limited_trials_of_a_study_are_counted() -> None:
    assert "3 of them are host-limited" in describe_run("r", "2026", "qemu", (), 10, 2, 3)


def test_ratios_with_host_limited_trials_are_marked() -> None:
    host_limited = compare_published(STUDY, [replace(one, host_limited=1) for one in run(PAIR, times(2.0))])
    assert display_table(host_limited).rows[1][-1] == "met (!)"
    assert display_table(host_limited).notes[-1].startswith("(!): uses host-limited trials")
    assert "(!): uses host-limited" in page("somebody", host_limited, [], "")
    assert "(!)" not in page("somebody", MET, [], "")


def test_the_generated_part_of_a_page_is_replaced() -> None:
    mine = f"# Mine\n\nmy words\n\n{BEGIN}\nold\n{END}\n\nmore words\n"
    once = replace_generated(mine, "new\n", "README.md")
    assert once == f"# Mine\n\nmy words\n\n{BEGIN}\n\nnew\n\n{END}\n\nmore words\n"
    assert replace_generated(once, "new\n", "README.md") == once


@given(st.text(), st.text(), st.text())
def test_somebodys_own_words_stay_as_they_are(before: str, after: str, made: str) -> None:
    text = replace_generated(f"{before}{BEGIN}{END}{after}", made, "README.md")
    assert text.startswith(f"{before}{BEGIN}")
    assert text.endswith(f"{END}{after}")
    assert made in text


@pytest.mark.parametrize("text", ["", "# no place", f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_one_place_for_it_is_left_alone(text: str) -> None:
    with pytest.raises(BadInput, match="place"):
        replace_generated(text, "new", "README.md")


def test_a_page_to_begin_with_has_a_place() -> None:
    assert "new" in replace_generated(new_page("study", "what for?"), "new", "README.md")
    assert new_page("study", "").startswith("# study\n\n<!--")


def test_a_row_without_cells_and_value_has_no_ratio() -> None:
    """A row with neither cells nor a value."""
    rows = [one.model_dump(exclude_defaults=True) for one in STUDY.tables[0].rows[:2]]
    named = published(*rows, {"unmeasured": "a card that nobody has"})
    held = compare_published(named, run(PAIR, times(2.0)))
    assert summary_line(held) == "1 of 1 published ratios met within 15 %; 1 of the 1 that the source can tell"
    assert display_table(held).rows[2][1:] == ("a card that nobody has", *[""] * 6)
    assert "| a card that nobody has |" in page("somebody", held, [], str(ABOUT))
    *_, card = csv.DictReader(io.StringIO(as_csv(data_table("somebody", held)).decode()))
    assert (card["verdict"], card["why"]) == ("", "a card that nobody has")


def test_a_ratio_that_the_source_cannot_tell_is_counted_apart_and_has_its_reason() -> None:
    limit = published(
        {"where": {"layout": "single"}, "value": 80},
        {"where": {"layout": "raid0"}, "value": 160, "assumed": "the limit of the bus"},
    )
    held = compare_published(limit, run(PAIR, times(2.0)))
    assert summary_line(held) == "1 of 1 published ratios met within 15 %; the source can tell none of them"
    assert display_table(held).rows[1][-1] == "the source cannot tell (met)"
    assert "- layout=raid0: it is no measurement: the limit of the bus" in page("x", held, [], ABOUT)
    _, row = csv.DictReader(io.StringIO(as_csv(data_table("x", held)).decode()))
    assert (row["verdict"], row["undecidable"]) == ("met", "no measurement")


def test_experiments_are_a_table_and_counted() -> None:
    whys = [{"where": {"layout": "raid0"}, "why": "old", "experiment": {"workload": "old"}}]
    rows = {"where": {"layout": "single"}, "value": 80}, {"where": {"layout": "raid0"}, "value": 320}
    tried = cells(layout=["single", "raid0"], workload=["read", "old"])
    factors = {("raid0", "read"): 2.0, ("raid0", "old"): 4.0}
    measured = run(tried, lambda axes: 75e6 * factors.get((axes["layout"], axes["workload"]), 1.0), noise=0.0001)
    held = compare_published(published(*rows, where={"workload": "read"}, whys=whys), measured)
    assert "and 1 more is explained at least by half by an experiment" in summary_line(held)
    shown = "| layout=raid0 | workload=old | 4.00× | 2.00× | 4.00× | 4.00× to 4.00× | 100 % |"
    assert shown in page("somebody", held, (), ABOUT)
