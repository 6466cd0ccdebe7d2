"""Charts of the use of disks and processors, and the trials that they are of."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.pages import use
from matrix_runner.pages.axis_charts import MOST_SERIES
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.use import MOST_USES, choose_trials, describe_uses, uses
from matrix_runner.pages.write import load_run_data
from matrix_runner.records.cell_files import CellFolders
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import SLOW, UNSETTLED, CellRow, Trial
from matrix_runner.records.run_folder import create
from matrix_runner.records.usage import SAMPLES, SIMULATED, Usage
from tests.pages.samples import direction, measured
from tests.support.begun_runs import manifest
from tests.support.facts import noted
from tests.support.report_files import tree

if TYPE_CHECKING:
    from pathlib import Path


def cell(layout: str, workload: str = "work", bs: str = "4KiB") -> CellRow:
    axes = {"layout": layout, "workload": workload, "workload.bs": bs}
    return CellRow(f"{layout}-{workload}-{bs}", f"{layout}/{workload}/bs={bs}", axes)


def trial(of: CellRow, rate: float, round_number: int = 1) -> Trial:
    return measured(of.id, round_number, direction(rate, 4096))


def test_the_fastest_cell_of_each_stack_is_shown_in_the_declared_order() -> None:
    cells = [cell(layout, bs=bs) for layout in ("one", "two") for bs in ("4KiB", "8KiB")]
    rates = (3e6, 2e6, 4e6, 5e6)
    trials = [trial(of, rate, number) for of, rate in zip(cells, rates, strict=True) for number in (2, 1)]
    chosen = choose_trials(cells, trials)
    assert [of.name for of, _ in chosen] == ["one/work/bs=4KiB", "two/work/bs=8KiB"]
    assert [one.round for _, one in chosen] == [1, 1]
    lost = [replace(one, **noted({UNSETTLED: "by 9 %"})) if one.cell == cells[3].id else one for one in trials]
    assert [of.name for of, _ in choose_trials(cells, lost)] == ["one/work/bs=4KiB", "two/work/bs=4KiB"]


def test_the_median_trial_by_rate_is_shown() -> None:
    one = cell("one")
    for rates, median in (((3e6, 9e6, 1e6), 1), ((9e6, 1e6, 5e6), 3), ((1e6, 3e6, 9e6, 4e6), 2)):
        ((_, shown),) = choose_trials([one], [trial(one, rate, number) for number, rate in enumerate(rates, start=1)])
        assert shown.round == median


def test_many_stacks_are_cut_to_the_fastest_of_each_workload() -> None:
    cells = [cell(f"l{number}", work) for work in ("a", "b") for number in range(MOST_USES)]
    chosen = choose_trials(cells, [trial(of, 1e6 * (at + 1)) for at, of in enumerate(cells)])
    names = [of.axes["layout"] for of, _ in chosen]
    assert names == [f"l{number}" for number in range(MOST_USES // 2, MOST_USES)] * 2
    many = [cell("l", f"w{number}") for number in range(2 * MOST_USES)]
    assert len(choose_trials(many, [trial(of, 1e6) for of in many])) == MOST_USES
    assert choose_trials(cells, []) == []


def course(*values: float) -> tuple[tuple[float, float], ...]:
    return tuple((at, value) for at, value in enumerate(values, start=1))


@pytest.fixture(autouse=True)
def short_courses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use, "_LEAST_SAMPLES", 1)


def test_trials_with_few_samples_have_no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use, "_LEAST_SAMPLES", 2)
    assert [one.title for one in uses(of_two())] == ["one/work/bs=4KiB"]


SLOW_ONE = Usage({"disk0": course(5e7, 1e8)}, {"disk0": course(0.5, 1.0)}, {"iowait": course(0.4, 0.2)})
FAST_ONE = Usage({f"disk{n}": course(1e8 * n) for n in (1, 2)}, {f"disk{n}": course(0.5) for n in (1, 2)})


def of_two() -> RunData:
    cells = [cell("one"), cell("two")]
    found = {cells[0].id: SLOW_ONE, cells[1].id: FAST_ONE}
    return RunData("m", "qemu", False, cells, [trial(of, 1e8) for of in cells], usage=found)


def test_charts_of_a_workload_have_the_same_scales() -> None:
    one, two = uses(of_two())
    assert [plot.title for plot in one.plots] == [
        "one/work/bs=4KiB: rate of each disk",
        "one/work/bs=4KiB: busy time of each disk",
        "one/work/bs=4KiB: time of the processors",
    ]
    assert [plot.title.partition(": ")[2] for plot in two.plots] == ["rate of each disk", "busy time of each disk"]
    assert [series.path for series in one.plots[0].series] == ["50,75 100,50"]
    assert [series.path for series in two.plots[0].series] == ["50,50", "50,0"]
    assert one.plots[0].up == two.plots[0].up
    assert [series.path for series in one.plots[2].series] == ["50,60 100,80"]


def test_charts_of_a_host_limited_trial_are_marked() -> None:
    content = of_two()
    limited = replace(content, usage={**content.usage, cell("two").id: replace(FAST_ONE, is_host_limited=True)})
    one, two = uses(limited)
    assert not any("(!)" in plot.title for plot in one.plots)
    assert all(plot.title.endswith(" (!) host-limited") for plot in two.plots)


def test_latency_is_the_first_chart_with_the_line_of_the_stack_last() -> None:
    disks = {f"disk{n}": course(1e6 * n) for n in range(1, 4)}
    content = replace(of_two(), usage={cell("one").id: Usage(latencies={"stack": course(4e6), **disks})})
    (one,) = uses(content)
    assert [plot.title for plot in one.plots] == ["one/work/bs=4KiB: mean latency"]
    assert [(series.name, series.path) for series in one.plots[0].series] == [
        ("disk1", "100,75"),
        ("disk2", "100,50"),
        ("disk3", "100,25"),
        ("stack", "100,0"),
    ]
    assert one.plots[0].up[-1].text == "4.00 ms"
    many = {f"disk{n}": course(1e6) for n in range(MOST_SERIES)}
    content = replace(of_two(), usage={cell("one").id: Usage(latencies={"stack": course(4e6), **many})})
    assert [one.name for one in uses(content)[0].plots[0].series] == ["most", "median", "least", "stack"]


def test_too_many_disks_have_their_extremes_and_median() -> None:
    rates = {f"disk{n}": course(1e6 * n) for n in range(1, 10)}
    content = replace(of_two(), usage={cell("one").id: Usage(rates)})
    (one,) = uses(content)
    assert [(series.name, series.path) for series in one.plots[0].series] == [
        ("most", "100,0"),
        ("median", "100,44.44"),
        ("least", "100,88.89"),
    ]


def test_the_page_shows_some_uses_and_folds_the_others() -> None:
    cells = [cell(f"l{n}") for n in range(6)]
    content = RunData(
        "m", "qemu", False, cells, [trial(of, 1e8) for of in cells], usage={of.id: SLOW_ONE for of in cells}
    )
    (found,) = (one for one in tree(content).iter("section") if one.findtext("h2") == "Use over time")
    assert len(found.findall("div")) == 4
    assert len(found.findall("details/div")) == 2
    assert found.findtext("details/summary") == "2 more stacks"
    assert not [one for one in tree(replace(content, usage={})).iter("h2") if "over time" in str(one.text)]


def test_samples_come_from_the_folder_of_the_middle_trial(tmp_path: Path) -> None:
    folder = create(tmp_path, manifest())
    of = cell("one")
    rows = "seconds,disk,read_bytes,written_bytes,busy\n1.0,0,1,0,0.5\n2.0,0,{}000,0,0.5\n62.0,0,60000,0,0.5\n"
    with Journal.open(folder.journal) as journal:
        journal.add_cells([of])
        for number in (1, 2, 3):
            path = CellFolders(folder.path).put(
                of.name, number, {}, {SIMULATED: rows.format(number), SAMPLES: json.dumps("spoilt")}
            )
            journal.record(replace(trial(of, 1e6, number), folder=path, **noted({SLOW: "4"})))
        content = load_run_data(folder, journal, over=True)
    found = content.usage[of.id]
    assert found.rates == {"disk0": ((1.0, 2000.0), (61.0, 1000.0))}  # without the set-up
    assert found.source == SIMULATED


@pytest.mark.parametrize(
    ("found", "heading", "files", "words"),
    [
        (Usage(SLOW_ONE.rates, source=SIMULATED), "Use over time", {SIMULATED}, set[str]()),
        (replace(SLOW_ONE, source=SIMULATED), "Use over time", {SIMULATED, SAMPLES}, {"iowait"}),
        (Usage(latencies=SLOW_ONE.rates), "Latency and use over time", {SAMPLES}, {"Latency is"}),
    ],
)
def test_the_text_is_about_the_charts_that_are_there(
    found: Usage, heading: str, files: set[str], words: set[str]
) -> None:
    content = replace(of_two(), usage={cell("one").id: found})
    (section,) = (one for one in tree(content).iter("section") if "over time" in str(one.findtext("h2")))
    assert section.findtext("h2") == heading
    about = str(section.findtext("p"))
    assert {word for word in ("iowait", "Latency is") if word in about} == words
    hidden = " ".join(str(one.text) for one in section.iter("desc"))
    assert {file for file in (SIMULATED, SAMPLES) if file in hidden} == files


def test_the_text_counts_what_is_not_drawn() -> None:
    content = of_two()
    assert describe_uses(uses(content), content).startswith(
        "For each stack and workload, the fastest cell: its median trial, over time. The start of fio, "
    )
    assert " the last points may be low. Waiting" in describe_uses(uses(content), content)
    few = replace(content, usage={cell("one").id: SLOW_ONE})
    assert "1 of 2 are drawn: at most 12, and only trials with 1 samples or more." in describe_uses(uses(few), few)


def test_the_time_for_laying_out_files_is_noted() -> None:
    noted = "If fio first wrote its files, this is included, too."
    assert noted not in describe_uses(uses(of_two()), of_two())
    content = replace(of_two(), usage={cell("one").id: replace(SLOW_ONE, has_files=True)})
    assert noted in describe_uses(uses(content), content)
