from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.use import curves
from matrix_runner.pages.write import load_run_data
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import HOST_LIMITED, CellRow
from matrix_runner.records.run_folder import create
from matrix_runner.work.fio.output import Piece, parse_pieces, table_by_position, table_by_time
from tests.pages.samples import direction, measured
from tests.support.begun_runs import manifest
from tests.support.facts import noted
from tests.support.report_files import tree

if TYPE_CHECKING:
    from pathlib import Path

PLACES = CellRow("c1", "disk/whole", {"layout": "disk", "workload": "whole", "workload.profile": "position"})
GIB = 1 << 30
ZONES = table_by_position("".join(f"{n * GIB}\t{GIB}\t0\t{(n + 1) * 10_000}\n" for n in range(4)))


def of_tables(*tables: str) -> RunData:
    trials = [measured("c1", round_number, direction(1e8, 100)) for round_number, _ in enumerate(tables, start=1)]
    return RunData("m", "qemu", False, [PLACES], trials, courses={"c1": dict(enumerate(tables))})


def test_a_profile_round_trip() -> None:
    assert list(parse_pieces(ZONES))[1] == Piece("offset", GIB, GIB, "", GIB, 10.0)
    found = list(parse_pieces(table_by_time("1\t0\t2000\n1\t1\t1000\n2\t0\t3000\n", 0.5)))
    assert [(one.at, one.side, one.moved) for one in found] == [
        (0.5, "read", 2_048_000),
        (0.5, "write", 1_024_000),
        (1.0, "read", 3_072_000),
        (1.0, "write", 0),
    ]


def test_a_curve_of_host_limited_trials_is_marked() -> None:
    plain = of_tables(ZONES, ZONES)
    limited = [replace(one, **noted({HOST_LIMITED: "9 %"})) for one in plain.trials]
    titles = [curve.title for one in (plain, replace(plain, trials=limited)) for curve in curves(one)]
    assert titles == [
        "disk/whole: bandwidth over the device",
        "disk/whole: bandwidth over the device (!) 2 host-limited",
    ]


@pytest.mark.parametrize(
    "spoilt", ["", "offset,bytes\n1,2\n", "what,ever\n1,2\n", "offset,bytes,seconds,bw\nx,1,1,1\n"]
)
def test_invalid_profiles_are_not_drawn(spoilt: str) -> None:
    assert list(parse_pieces(spoilt)) == []
    assert list(curves(of_tables(spoilt))) == []


def test_each_place_has_the_median_rate_of_all_trials() -> None:
    slower = table_by_position("".join(f"{n * GIB}\t{GIB}\t0\t{(n + 1) * 30_000}\n" for n in range(4)))
    (one,) = curves(of_tables(ZONES, slower))
    assert one.title == "disk/whole: bandwidth over the device"
    assert one.lines == (("read", "0.5,0 25.5,0 50.5,0 75.5,0"),)
    assert [tick.text for tick in one.across] == ["0", "2,000 MB", "4,000 MB"]
    assert one.up[-1].x <= 100


def test_a_delay_by_the_host_in_one_trial_is_no_spike() -> None:
    late = table_by_position("".join(f"{n * GIB}\t{GIB}\t0\t{(n + 1) * 10_000 + (n > 1) * 50_000}\n" for n in range(4)))
    early = table_by_position("".join(f"{n * GIB}\t{GIB}\t0\t{(n + 1) * 10_000 - (n > 0) * 9_000}\n" for n in range(4)))
    (one,) = curves(of_tables(ZONES, late, early))
    assert one.lines == (("read", "0.5,0 25.5,0 50.5,0 75.5,0"),)


def of_places(*rates: float) -> str:
    """Return a profile of many places, each read in 10 s of 1 GiB but for a factor."""
    ends = [sum(10_000 / rate for rate in rates[: at + 1]) for at in range(len(rates))]
    return table_by_position("".join(f"{n * GIB}\t{GIB}\t0\t{end:.0f}\n" for n, end in enumerate(ends)))


def test_with_few_trials_the_neighbours_of_a_place_count_and_steps_stay() -> None:
    (one,) = curves(of_tables(of_places(*[2.0] * 40, 50.0, *[2.0] * 9, *[1.0] * 50)))
    ((_, points),) = one.lines
    assert {float(point.split(",")[1]) for point in points.split()} == {0, 50}
    assert [float(point.split(",")[1]) for point in points.split()][48:52] == [0, 0, 50, 50]


def test_with_three_trials_a_slow_place_is_one_of_the_disk() -> None:
    slow = of_places(*[2.0] * 40, 1.0, *[2.0] * 59)
    (one,) = curves(of_tables(slow, slow, slow))
    ((_, points),) = one.lines
    assert [point.split(",")[1] for point in points.split()].count("50") == 1


def test_time_has_a_line_for_each_direction_that_was_there() -> None:
    (mixed,) = curves(of_tables(table_by_time("1\t0\t2000\n1\t1\t1000\n2\t0\t1000\n2\t1\t500\n", 1)))
    assert mixed.lines == (("read", "50.5,0 99.5,50"), ("write", "50.5,50 99.5,75"))
    (reads,) = curves(of_tables(table_by_time("1\t0\t2000\n2\t0\t1000\n", 1)))
    assert [side for side, _ in reads.lines] == ["read"]
    assert reads.title == "disk/whole: bandwidth over time"


def test_the_page_has_a_section_for_rates_over_device_or_time() -> None:
    whole = tree(of_tables(ZONES))
    assert [line.get("points") for line in whole.iter("{*}polyline") if line.get("class") == "read"] == [
        "0.5,0 25.5,0 50.5,0 75.5,0"
    ]
    assert "Rates over device or time" in [heading.text for heading in whole.iter("{*}h2")]
    without = tree(replace(of_tables(ZONES), courses={}))
    assert "Rates over device or time" not in [heading.text for heading in without.iter("{*}h2")]


def test_it_is_read_from_the_folders_of_trials_that_count(tmp_path: Path) -> None:
    run = create(tmp_path, manifest(matrix="sweep"))
    trials = [measured("c1", round_number, direction(1e8, 100)) for round_number in (1, 2)]
    with Journal.open(run.journal) as journal:
        journal.add_cells([PLACES])
        for trial in trials:
            journal.record(trial)
        assert load_run_data(run, journal, over=True).courses == {"c1": {}}
        kept = run.path / trials[0].folder / "profile.csv"
        kept.parent.mkdir(parents=True)
        kept.write_text(ZONES)
        assert load_run_data(run, journal, over=True).courses == {"c1": {1: ZONES}}


def test_more_curves_than_two_are_behind_a_fold() -> None:
    cells = [replace(PLACES, id=f"c{n}", name=f"disk{n}/whole") for n in range(5)]
    trials = [measured(cell.id, 1, direction(1e8, 100)) for cell in cells]
    root = tree(RunData("m", "qemu", False, cells, trials, courses={cell.id: {1: ZONES} for cell in cells}))
    (found,) = (one for one in root.iter("section") if one.findtext("h2") == "Rates over device or time")
    assert len(found.findall("figure")) == 2
    assert len(found.findall("details/figure")) == 3
    assert found.findtext("details/summary") == "3 more charts"


def test_the_page_shows_at_most_a_dozen_charts_before_folds() -> None:
    cells = [
        CellRow(f"c{n}-{w}", f"l{n}/w{w}", {"layout": f"l{n}", "workload": f"w{w}", "workload.profile": "position"})
        for n in range(5)
        for w in range(4)
    ]
    trials = [measured(cell.id, 1, direction(1e8, 100)) for cell in cells]
    root = tree(RunData("m", "qemu", False, cells, trials, courses={cell.id: {1: ZONES} for cell in cells}))
    assert len([one for one in root.iter("figure") if not [*one.iterancestors("details")]]) == 12
