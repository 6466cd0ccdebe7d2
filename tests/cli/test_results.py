"""`results`, `compare`, `history`, `import`: what many runs say, as a user asks for it."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.answers.stored_samples import METRICS, read_samples
from matrix_runner.records.address import address_of
from matrix_runner.records.environment import Host
from matrix_runner.records.record import UNSETTLED, CellRow, Outcome, Trial
from matrix_runner.records.run_folder import load
from matrix_runner.records.store import SharedStore
from matrix_runner.session.run_request import command_line
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.statistics.ratios import unpaired_ratio
from matrix_runner.work.fio.output import Figures
from tests.records import past
from tests.support.facts import noted
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from tests.support.command import Said

DATA = Path(__file__).parents[1] / "data"
Call = Callable[..., "Said"]


def cell(chunk: str, rw: str = "read", **axes: str) -> CellRow:
    where = {"layout": "raid5", "md.chunk": chunk, "workload": "seq", "workload.rw": rw, **axes}
    return CellRow(f"{chunk}-{rw}" + "-".join(axes.values()), f"raid5/chunk={chunk}/seq/rw={rw}", where)


SMALL_CHUNK, LARGE_CHUNK, WRITES = cell("64KiB"), cell("512KiB"), cell("64KiB", "write")
CELLS = (SMALL_CHUNK, LARGE_CHUNK, WRITES)
NOISE = (1.0, 1.004, 0.997, 1.002, 0.999)


def trials(times: float = 1.0, kernel: str = "6.1.0-28-amd64") -> list[Trial]:
    """Five of each cell, in five rounds; all of them so many times as fast."""
    found = []
    for round_number, noise in enumerate(NOISE, start=1):
        found.append(past.measured(SMALL_CHUNK.id, round_number, 1e8 * times * noise, kernel=kernel))
        found.append(past.measured(LARGE_CHUNK.id, round_number, 2e8 * times * noise, kernel=kernel))
        found.append(past.measured(WRITES.id, round_number, None, 5e7 * noise, kernel=kernel))
    return found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("recorded")
    past.recorded(results, trials(), 1, CELLS)
    slower = Host(kernel="6.1.0", cpu="another cpu", cores=2, memory=4 << 30, hostname="lab2")
    past.recorded(results, trials(0.8, "6.12.57+deb13-amd64"), 2, CELLS, host=slower)
    return results


@pytest.fixture
def two_runs(recorded: Path, tmp_path: Path) -> Path:
    return shutil.copytree(recorded, tmp_path / "results")


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_help_of_every_command_has_examples(call: Call) -> None:
    for command in ("results", "compare", "history", "import"):
        said = call(command, "--help")
        assert said.status == 0
        assert f"  matrix {command} " in said.out


def test_without_a_store_or_runs(call: Call) -> None:
    said = call("results")
    assert said.status == 2
    assert "no store at results/store.db, and no run below results/" in said.err


def test_results_of_all_runs(call: Call, two_runs: Path) -> None:
    said = call("results")
    assert said.status == 0
    assert said.out.count("raid5/chunk=512KiB/seq/rw=read") == 2
    assert "run-2" in said.out
    assert "synthetic" not in said.out


def test_results_as_csv_and_json(call: Call, two_runs: Path) -> None:
    found = rows(call("results", "run-1", "--only", "chunk=64KiB,rw=read", "--format", "csv").out)
    assert [(one["run"], one["name"], one["measured"], one["md.chunk"]) for one in found] == [
        ("run-1", SMALL_CHUNK.name, "5", "64KiB")
    ]
    assert float(found[0]["read_bw"]) == pytest.approx(1e8 * sum(NOISE) / 5)
    assert float(found[0]["read_bw_low"]) < 1e8 < float(found[0]["read_bw_high"])
    assert found[0]["write_bw"] == ""
    told = json.loads(call("results", "latest", "--format", "json", "--metric", "read_lat_p99").out)
    assert told["notes"] == []
    assert {row["read_lat_p99"] for row in told["rows"]} == {9e6, None}
    assert {row["host"] for row in told["rows"]} == {"lab2"}


def test_percentiles_are_of_all_requests_together(call: Call, tmp_path: Path) -> None:
    """A fast trial of many requests and a slow one of few."""
    fast, slow = Histogram.of({1_000_000: 9_000, 2_000_000: 600}), Histogram.of({50_000_000: 400})
    for number in (1, 2):
        both = [
            replace(
                past.measured(SMALL_CHUNK.id, round_number, 1e8),
                figures=Figures(past.direction(1e8, None, kept), None, 1, 3, 4, 0),
            )
            for round_number, kept in enumerate((fast, slow), start=1)
        ]
        past.recorded(tmp_path / "results", both, number, CELLS)
    asked = [word for name in ("p50", "p95", "p99", "p999", "p9999") for word in ("--metric", f"read_lat_{name}")]
    (row,) = rows(call("results", "latest", "--format", "csv", *asked).out)
    told = [row[f"read_lat_{name}"] for name in ("p50", "p95", "p99", "p999", "p9999")]
    assert told == ["1000000.0", "2000000.0", "50000000.0", "50000000.0", ""], "10,000 requests have no 99.99th"
    assert "50.0 ms" in call("results", "latest", "--metric", "read_lat_p99").out
    assert "50.0 ms" in call("results", "--pivot", "chunk", "--metric", "read_lat_p99").out
    assert (
        "of the requests of all trials together" in call("results", "--pivot", "chunk", "--metric", "read_lat_p99").out
    )
    assert "50.0 ms" in call("history", SMALL_CHUNK.name, "--metric", "read_lat_p99").out
    compared = call("compare", "latest~1", "latest", "--metric", "read_lat_p99")
    assert compared.out.count("50.0 ms") == 2
    assert "percentiles: of all requests of a side together" in compared.out


def test_percentiles_without_histograms_are_empty(call: Call, tmp_path: Path) -> None:
    old = [replace(one, figures=Figures(past.direction(1e8, None, None), None, 1, 3, 4, 0)) for one in trials()[::3]]
    past.recorded(tmp_path / "results", old, 1, CELLS)
    past.recorded(tmp_path / "results", old[:1], 2, CELLS)
    several, single = (
        rows(call("results", run, "--format", "csv", "--metric", "read_lat_p99").out)[0]["read_lat_p99"]
        for run in ("run-1", "run-2")
    )
    assert (several, single) == ("", "9000000.0")
    lines = call("compare", "run-1", "run-2", "--metric", "read_lat_p99", "--format", "csv").out
    assert [(row["a"], row["b"]) for row in rows(lines)] == [("", "9000000.0")]


def nights(results: Path, count: int, *, other: int | None = None) -> None:
    """Runs of which every other one is 4 % faster as a whole; one of them on another host."""
    for number in range(1, count + 1):
        changes = (
            {"host": Host(kernel="6.1.0", cpu="other", cores=2, memory=1, hostname="lab2")} if number == other else {}
        )
        past.recorded(results, trials(1.0 + 0.04 * (number % 2)), number, CELLS, seed=number, **changes)


def test_the_spread_of_runs_is_estimated_from_earlier_runs(call: Call, tmp_path: Path) -> None:
    nights(tmp_path / "results", 6)
    said = call("compare", "run-5", "run-6", "--metric", "read_bw", "--within", "1%")
    assert said.status == 0, "4 % are nothing there"
    assert "4 earlier runs in the same environment show the difference between whole runs" in said.out
    assert "2 cannot tell" in said.out
    asked = ("compare", "run-5", "run-6", "--metric", "read_bw", "--strict")
    assert [call(*asked, "--within", share).status for share in ("1%", "99%")] == [4, 0]
    found = rows(call("compare", "run-5", "run-6", "--metric", "read_bw", "--format", "csv").out)
    assert {row["earlier_runs"] for row in found} == {"4"}


def test_later_and_unlike_runs_do_not_affect_the_spread(call: Call, tmp_path: Path) -> None:
    nights(tmp_path / "results", 6, other=1)
    for later, told in (("run-3", "0"), ("run-6", "3")):
        found = rows(call("compare", "run-2", later, "--metric", "read_bw", "--format", "csv").out)
        assert {row["earlier_runs"] for row in found} == {told}, later
    said = call("compare", "run-2", "run-3", "--metric", "read_bw", "--within", "1%")
    assert "what differs between whole runs" in said.out
    assert "2 faster" in said.out, "as far as these two runs alone can tell"


def test_different_runs_use_the_history_of_either(call: Call, tmp_path: Path) -> None:
    for number, host in enumerate(("lab1", "lab2") * 4, start=1):
        of = Host(kernel="6.1.0", cpu="some", cores=2, memory=1, hostname=host)
        past.recorded(tmp_path / "results", trials(1.0 + 0.01 * (number % 3)), number, CELLS, host=of)
    said = call("compare", "run-7", "run-8", "--metric", "read_bw")
    assert "6 earlier runs in the same environment" in said.out


def test_cells_without_history_have_a_note(call: Call, tmp_path: Path) -> None:
    nights(tmp_path / "results", 5)
    new = cell("1MiB")
    for number in (6, 7):
        more = [past.measured(new.id, round_number, 1e8 * noise) for round_number, noise in enumerate(NOISE, start=1)]
        past.recorded(tmp_path / "results", [*trials(), *more], number, (*CELLS, new))
    said = call("compare", "run-6", "run-7", "--metric", "read_bw")
    assert "of 1 of 3 figures there are too few" in said.out
    lacking = call("compare", "run-5", "run-6", "--metric", "read_bw", "--within", "99%", "--strict")
    assert lacking.status == 4, "a cell of one side only is not decided"


def missed(trial: Trial) -> Trial:
    return replace(trial, **noted({**trial.notes, UNSETTLED: "iops:1% missed"}))


def test_unsettled_trials_are_shown_but_not_averaged(call: Call, tmp_path: Path) -> None:
    fast = [missed(replace(one, round=one.round + 5)) for one in trials(9.0)]
    past.recorded(tmp_path / "results", [*trials(), *fast], 1, CELLS)
    past.recorded(tmp_path / "results", [missed(one) for one in trials()], 2, CELLS)
    found = rows(call("results", "run-1", "--format", "csv").out)[0]
    assert (found["measured"], found["unsettled"]) == ("10", "5")
    assert float(found["read_bw"]) < 3e8
    assert "(!) 5 unsettled" in call("results", "run-1").out
    assert "(!) none settled" in call("results", "run-2").out
    assert "(!) unsettled" in call("results", "run-1", "--trials").out
    every = rows(call("results", "run-1", "--trials", "--format", "csv").out)
    assert [one["unsettled"] for one in every].count("true") == 15
    assert "(!) 5 unsettled" in call("history", SMALL_CHUNK.name, "--metric", "read_bw").out
    said = call("compare", "run-1", "run-2")
    assert said.status == 2
    assert "no common cell with figures on both sides" in said.err


def test_every_trial(call: Call, two_runs: Path) -> None:
    found = rows(call("results", "latest~1", "--trials", "--format", "csv").out)
    assert len(found) == 15
    assert found[0]["trial"] == "1"
    assert "5 │" in call("results", "latest", "--trials", "--metric", "read_bw").out.replace("  ", " ")


def test_a_pivot(call: Call, two_runs: Path) -> None:
    found = rows(call("results", "latest", "--pivot", "chunk", "--metric", "read_bw", "--format", "csv").out)
    assert len(found) == 1, "a row for what was not measured says nothing"
    assert found[0]["workload.rw"] == "read"
    assert float(found[0]["md.chunk=64KiB"]) < float(found[0]["md.chunk=512KiB"])
    assert float(found[0]["md.chunk=64KiB_low"]) < float(found[0]["md.chunk=64KiB"])
    assert found[0]["md.chunk=64KiB_trials"] == "5"
    shown = call("results", "latest", "--pivot", "chunk", "--metric", "read_bw").out
    assert shown.index("md.chunk=64KiB") < shown.index("md.chunk=512KiB"), "sizes are in their order"
    assert "read_bw: mean over trials, in bytes/s" in shown
    assert "1 of 3 cells have no read_bw" in shown
    assert call("results", "latest", "--pivot", "chunk", "--metric", "read.bw").out == shown, "as guidelines call it"
    assert call("results", "latest", "--pivot", "chunk", "--metric", "write_bw").status == 0
    assert "no selected cell has an axis 'x'" in call("results", "--pivot", "x").err


def test_latencies_of_a_row_have_one_unit(call: Call, tmp_path: Path) -> None:
    found = []
    for cell, nanoseconds in ((SMALL_CHUNK, 980_000), (LARGE_CHUNK, 1_200_000)):
        one = Figures(past.direction(1e8, None, Histogram.of({nanoseconds: 1000})), None, 1, 3, 4, 0)
        found += [replace(past.measured(cell.id, number, 1e8), figures=one) for number in (1, 2)]
    past.recorded(tmp_path / "results", found, 1, CELLS)
    asked = ("--metric", "read_lat_p99")
    assert re.search(r"980 µs.* 1,200 µs", call("results", "--pivot", "chunk", *asked).out)
    compared = call("compare", "--by", "chunk", "64KiB", "512KiB", *asked).out
    assert re.search(r"980 µs.* 1,200 µs", compared), compared


def stripes(count: int, rw: str) -> CellRow:
    axes = {"layout": "lvm", "lvm.stripes": str(count), "workload": "seq", "workload.rw": rw}
    return CellRow(f"{count}-{rw}", f"lvm/stripes={count}/seq/rw={rw}", axes)


def striped(factors: Mapping[int, float]) -> list[Trial]:
    """Reads of so many times 80 MB/s; rounds have a mood, which all of their cells share."""
    return [
        past.measured(stripes(count, "read").id, round_number, 8e7 * by * noise)
        for round_number, noise in enumerate((1.0, 1.1, 0.9), start=1)
        for count, by in factors.items()
    ]


def test_a_figure_scales_with_stripes(call: Call, tmp_path: Path) -> None:
    """The striping study: 1, 2.01 and 3.05 times, whatever the host's mood was."""
    cells_ = [stripes(count, "read") for count in (1, 2, 3)]
    past.recorded(tmp_path / "results", striped({1: 1, 2: 2.01, 3: 3.05}), 1, tuple(cells_))
    scale = ("results", "latest", "--pivot", "stripes", "--scale", "--metric", "read_bw")
    (row,) = rows(call(*scale, "--format", "csv").out)
    assert [row[f"lvm.stripes={n}_times"] for n in (1, 2)] == ["1.0", "2.01"]
    assert float(row["lvm.stripes=3_times_low"]) == pytest.approx(3.05)
    assert 1.0 < float(row["power_low"]) <= float(row["power"]) < 1.03
    shown = call(*scale).out
    assert "80.0 MB/s" in shown
    assert "2.01\u00d7 (2.01\u00d7 to 2.01\u00d7)" in shown
    assert "power: the figure is proportional to the axis to that power" in shown
    assert "2.01\u00d7" in call("results", "latest", "--pivot", "stripes", "--scale").out, (
        "the rates if nothing is asked for"
    )


def test_scaling_starts_with_the_first_measured_value(call: Call, tmp_path: Path) -> None:
    cells_ = tuple(stripes(count, "read") for count in (1, 2, 4))
    past.recorded(tmp_path / "results", striped({2: 2, 4: 4}), 1, cells_)
    scale = ("results", "latest", "--pivot", "stripes", "--scale", "--metric", "read_bw", "--format", "csv")
    (row,) = rows(call(*scale).out)
    assert (row["lvm.stripes=2_times"], row["lvm.stripes=4_times"]) == ("1.0", "2.0")
    assert float(row["power"]) == pytest.approx(1)


def test_scaling_of_words_and_of_single_trials(call: Call, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", [one for one in trials() if one.round == 1], 1, CELLS)
    told = call("results", "latest", "--pivot", "chunk", "--scale", "--metric", "read_bw")
    assert "2.00\u00d7" in told.out
    assert "2.00\u00d7 (" not in told.out
    (row,) = rows(
        call(
            "results",
            "latest",
            "--pivot",
            "layout",
            "--scale",
            "--only",
            "chunk=64KiB,rw=read",
            "--metric",
            "read_bw",
            "--format",
            "csv",
        ).out
    )
    assert (row["layout=raid5_times"], row["power"]) == ("1.0", "")
    said = call("results", "latest", "--scale")
    assert said.status == 2
    assert "--scale needs an axis" in said.err


def test_a_pivot_shows_the_figures_of_other_tables(call: Call, tmp_path: Path) -> None:
    large = [
        replace(one, figures=Figures(None, past.direction(5e7, 50), 1, 3, 4, 0)) if one.cell == WRITES.id else one
        for one in trials()
    ]
    mixed = cell("512KiB", "randrw")
    both = [
        past.measured(mixed.id, round_number, 4e6 * noise, 2e6 * noise)
        for round_number, noise in enumerate(NOISE, start=1)
    ]
    past.recorded(tmp_path / "results", [*large, *both], 1, (*CELLS, mixed))
    found = rows(call("results", "latest", "--pivot", "chunk", "--format", "csv").out)
    assert [(one["workload.rw"], one["metric"]) for one in found] == [
        ("read", "read_iops"),
        ("write", "write_bw"),
        ("randrw", "total_iops"),
        ("randrw", "read_iops"),
        ("randrw", "write_iops"),
    ], "as they were declared"
    assert found[1]["md.chunk=64KiB"] == "50000000.0"
    assert found[1]["md.chunk=512KiB"] == ""
    shown = call("results", "latest", "--pivot", "chunk").out
    assert "50.0 MB/s" in shown
    assert "IOPS ± 0.3" in shown
    assert "cells have no" not in shown


@pytest.fixture
def mixed_runs(tmp_path: Path) -> Path:
    """Two runs of mixed work: fio split it differently in every trial, and the total is 10 % lower in the second."""
    mixed = cell("512KiB", "randrw")
    shares = (0.62, 0.38, 0.6, 0.4, 0.5)
    for number, times in ((1, 1.0), (2, 0.9)):
        both = [
            past.measured(mixed.id, round_number, 1e7 * times * noise * share, 1e7 * times * noise * (1 - share))
            for round_number, (noise, share) in enumerate(zip(NOISE, shares, strict=True), start=1)
        ]
        past.recorded(tmp_path / "results", [*trials(), *both], number, (*CELLS, mixed))
    return tmp_path / "results"


def test_mixed_work_is_shown_compared_and_followed_by_its_total(call: Call, mixed_runs: Path) -> None:
    shown = call("results", "latest").out
    mix = next(line for line in shown.splitlines() if "randrw" in line)
    assert [word in shown for word in ("total", "read", "write")] == [True] * 3
    assert mix.count("IOPS") == 3
    assert "0.34 %" in mix
    told = rows(call("compare", "run-1", "run-2", "--format", "csv").out)
    verdicts = {(one["name"].partition("rw=")[2], one["metric"]): one["verdict"] for one in told}
    assert verdicts["randrw", "total_iops"] == "slower"
    assert verdicts["randrw", "read_iops"] == verdicts["randrw", "write_iops"] == "cannot tell"
    assert {metric for rw, metric in verdicts if rw != "randrw"} == {"read_iops", "write_iops"}, (
        "one direction has no total"
    )
    followed = rows(call("history", "--only", "rw=randrw", "--only", "rw=read", "--format", "csv").out)
    assert {(one["name"].partition("rw=")[2], one["figure"]) for one in followed} == {
        *(("randrw", metric) for metric in ("total_iops", "read_iops", "write_iops")),
        ("read", "read_iops"),
    }
    page = call("summary", "run-2", "--against", "run-1").out
    assert "total" in page


def test_a_requested_total_is_shown_for_every_cell(call: Call, mixed_runs: Path) -> None:
    told = rows(call("compare", "run-1", "run-2", "--metric", "total_bw", "--format", "csv").out)
    assert {one["name"].partition("rw=")[2] for one in told} == {"read", "write", "randrw"}


def test_the_interval_belongs_to_the_rate_beside_it(call: Call, tmp_path: Path) -> None:
    """Of large requests the bandwidth is told, of small ones how many there were."""
    steady, wild = (1e8, 1.001e8, 0.999e8), (1.0, 1.6, 0.5)
    kept = [
        replace(
            past.measured(of.id, round_number, 1e8),
            figures=Figures(past.direction(bw, bw / bs * off), None, 1, 3, 4, 0),
        )
        for of, bs in ((LARGE_CHUNK, 1 << 20), (SMALL_CHUNK, 1 << 12))
        for round_number, (bw, off) in enumerate(zip(steady, wild, strict=True), start=1)
    ]
    past.recorded(tmp_path / "results", kept, 1, (SMALL_CHUNK, LARGE_CHUNK))
    told = rows(call("results", "latest", "--format", "csv").out)
    shown = {
        line.split("│")[1].strip(): line for line in call("results", "latest").out.splitlines() if "chunk=" in line
    }
    assert [float(one["read_iops_rel"]) > 1 for one in told] == [True, True]
    assert "MB/s" in shown[LARGE_CHUNK.name]
    assert "0.25 %" in shown[LARGE_CHUNK.name]
    assert "IOPS" in shown[SMALL_CHUNK.name]
    assert "0.25 %" not in shown[SMALL_CHUNK.name]


def test_a_pivot_has_no_row_for_dependent_axes(call: Call, tmp_path: Path) -> None:
    """No cell of RAID 5 shares a level with one of RAID 10, and they are to stand beside each other all the same."""
    of_layout = {"bare": {}, "mirrors": {"md.level": "10"}, "parity": {"md.level": "5"}}
    cells = [
        CellRow(
            f"{layout}-{rw}", f"{layout}/seq/rw={rw}", {"layout": layout, **level, "workload": "seq", "workload.rw": rw}
        )
        for layout, level in of_layout.items()
        for rw in ("read", "write")
    ]
    past.recorded(tmp_path / "results", [past.measured(one.id, 1, 1e8) for one in cells], 1, cells)
    found = rows(call("results", "latest", "--pivot", "layout", "--metric", "read_bw", "--format", "csv").out)
    assert [one["workload.rw"] for one in found] == ["read", "write"]
    assert all(found[0][f"layout={layout}"] for layout in of_layout)
    assert "md.level" not in found[0]
    assert "goes with layout: md.level 10 (mirrors), 5 (parity)" in call("results", "latest", "--pivot", "layout").out
    assert "goes with workload" not in call("results", "latest", "--pivot", "rw").out


def test_a_metric_has_its_name_in_guidelines_or_tables(call: Call, two_runs: Path) -> None:
    dotted, plain = (
        call("results", "latest", "--metric", one, "--format", "csv").out for one in ("read.bw", "read_bw")
    )
    assert dotted == plain
    assert "read_bw" in dotted
    assert "there is no figure 'raed.bw'; did you mean read_bw" in call("results", "--metric", "raed.bw").err


def test_monitor_values_and_totals_are_metrics(call: Call, tmp_path: Path) -> None:
    beside = (
        {"iowait": "0.2500", "evenness": "0.980", "host_limited_share": "0.0010"},
        {"iowait": "0.3500", "evenness": "1.000"},
    )
    found = [
        replace(past.measured(SMALL_CHUNK.id, round_number, 1e8, 2e8), **noted({"kernel": "6.1.0", **notes}))
        for round_number, notes in enumerate(beside, start=1)
    ]
    past.recorded(tmp_path / "results", [*found, past.measured(WRITES.id, 1, None, 5e7)], 1, CELLS)
    asked = ("iowait", "disks.evenness", "disks.strain", "total.bw", "total_iops")
    words = [word for one in asked for word in ("--metric", one)]
    mixed, writes = rows(call("results", *words, "--format", "csv").out)
    names = ("iowait", "evenness", "host_limited_share", "total_bw", "total_iops")
    assert [float(mixed[name]) for name in names] == pytest.approx([0.3, 0.99, 0.001, 3e8, 3e8 / 4096])
    assert float(mixed["iowait_low"]) < 0.3 < float(mixed["iowait_high"])
    assert [writes[name] for name in names] == ["", "", "", "50000000.0", str(5e7 / 4096)]
    assert "30.0 %" in call("results", "--metric", "cpu.iowait").out
    assert [
        row["iowait"] for row in rows(call("results", "--metric", "iowait", "--trials", "--format", "csv").out)
    ] == [
        "0.25",
        "0.35",
        "",
    ]


def test_a_pivot_separates_different_workloads(call: Call, tmp_path: Path) -> None:
    """Each size of requests belongs to one workload; a single line of both would show what the size does not do."""
    cells = [
        CellRow(
            f"{workload}-{bs}",
            f"bare/{workload}/bs={bs}",
            {"layout": "bare", "workload": workload, "workload.iodepth": depth, "workload.bs": bs},
        )
        for workload, depth, sizes in (("seqread", "8", ("64KiB", "1MiB")), ("oltp", "64", ("4KiB", "16KiB")))
        for bs in sizes
    ]
    past.recorded(tmp_path / "results", [past.measured(one.id, 1, 1e8) for one in cells], 1, cells)
    found = rows(call("results", "latest", "--pivot", "bs", "--metric", "read_bw", "--format", "csv").out)
    assert [(one["workload"], one["workload.iodepth"]) for one in found] == [("seqread", "8"), ("oltp", "64")]
    told = call("results", "latest", "--pivot", "workload", "--metric", "read_bw").out
    assert "goes with workload: workload.iodepth 64 (oltp), 8 (seqread)" in told
    assert "workload.bs 4" not in told


def test_a_pivot_counts_cells_without_a_place(call: Call, tmp_path: Path) -> None:
    bare = CellRow("bare", "bare/seq", {"layout": "bare", "workload": "seq", "workload.rw": "read"})
    broken = Trial(LARGE_CHUNK.id, 1, Outcome.BROKEN, "the guest panicked")
    of_small = [one for one in trials() if one.cell == SMALL_CHUNK.id]
    past.recorded(tmp_path / "results", [*of_small, broken, past.measured("bare", 1, 1e8)], 1, (*CELLS, bare))
    said = call("results", "latest", "--pivot", "chunk").out
    assert "1 of 3 cells have no md.chunk" in said
    assert "1 of 2 cells have no figures" in said


def test_markdown_and_parquet(call: Call, two_runs: Path, tmp_path: Path) -> None:
    text = call("results", "latest", "--format", "md").out
    assert "| cell | read | write | ± | trials | outcome |\n| --- | ---: | ---: | ---: | ---: | --- |" in text
    assert call("results", "--format", "parquet", "--to", "all.parquet").status == 0
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(tmp_path / "all.parquet")
    assert table.num_rows == 6
    assert table.schema.field("read_bw").type == "double"


def test_the_suffix_of_the_file_selects_the_format(call: Call, two_runs: Path, tmp_path: Path) -> None:
    assert call("results", "--to", "all.csv").status == 0
    assert len(rows((tmp_path / "all.csv").read_text())) == 6
    assert call("compare", "--to", "all.json", "run-1", "run-1").status == 0
    assert json.loads((tmp_path / "all.json").read_text())["rows"]
    assert call("history", SMALL_CHUNK.name, "--to", "one.md").status == 0
    assert "| ---" in (tmp_path / "one.md").read_text()
    assert "note" not in call("results", "--to", "all.txt").err
    assert "│" in (tmp_path / "all.txt").read_text()
    call("results", "--format", "json", "--to", "odd.csv")
    assert json.loads((tmp_path / "odd.csv").read_text())["rows"], "what is said in so many words counts more"
    for name, what in (("all.xlsx", "the suffix `.xlsx`"), ("all", "a name without a suffix")):
        said = call("results", "--to", name)
        assert said.status == 2
        assert f"--to {name}: no format for {what}" in said.err
        assert ".csv, .json, .md, .parquet, .txt" in said.err
        assert not (tmp_path / name).exists()
    assert call("results", "--to", "all", "--format", "csv").status == 0
    said = call("results", "--to", "absent/all.csv")
    assert said.status == 2
    assert "name a file in a folder that exists" in said.err
    assert "--results" not in said.err


def test_cells_keep_their_declared_order(call: Call, tmp_path: Path) -> None:
    names = [f"{raid}/chunk={size}/seq" for raid in ("raid5", "raid10") for size in ("4KiB", "1MiB", "16KiB")]
    cells = [CellRow(f"{number:08}", name, {}) for number, name in enumerate(names)]
    measured_in = [past.measured(cells[at].id, 1, 1e8) for at in (3, 0, 5, 1, 4, 2)]
    past.recorded(tmp_path / "results", measured_in, 1, cells)
    assert [row["name"] for row in rows(call("results", "--format", "csv").out)] == names


def test_cells_without_an_order_are_sorted_by_size(tmp_path: Path) -> None:
    sizes = ("4KiB", "16KiB", "128KiB", "1MiB")
    names = [f"{raid}/chunk={size}/seq" for raid in ("raid5", "raid10") for size in sizes]
    with SharedStore.open(address_of(None, tmp_path)) as store:
        store._put_run(past.recorded(tmp_path / "results", (), 1), grows=True)
        for number, name in reversed([*enumerate(names)]):
            store.add("run1", [CellRow(f"{number:08}", name, {})], [past.measured(f"{number:08}", 1, 1e8)])
        found = read_samples(store, store.runs(), ("read_bw",))
    assert [one.cell.name for one in found] == names


def test_by_outcome(call: Call, tmp_path: Path) -> None:
    broken = Trial(SMALL_CHUNK.id, 6, Outcome.BROKEN, "the guest panicked")
    past.recorded(tmp_path / "results", [*trials(), broken], 1, CELLS)
    said = call("results", "--outcome", "broken")
    assert "broken: the guest panicked" in said.out
    assert LARGE_CHUNK.name not in said.out
    assert call("results", "--outcome", "skipped").status == 2


@pytest.mark.parametrize("outcome", ["measured", "broken"])
def test_the_stop_of_a_cell_does_not_depend_on_shown_figures(call: Call, tmp_path: Path, outcome: str) -> None:
    found = [one for one in trials() if one.cell == SMALL_CHUNK.id][:2]
    broken = Trial(SMALL_CHUNK.id, 3, Outcome.BROKEN, "the guest panicked")
    past.recorded(tmp_path / "results", [*found, broken], 1, CELLS, least=3, most=3)
    every, chosen = (
        rows(call("results", *words, "--format", "csv").out)[0]["stopped"] for words in ((), ("--outcome", outcome))
    )
    assert every == chosen == "fixed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("results", "absent"), "no run in the store matches 'absent'"),
        (("results", "latest~7"), "there are 2 runs, the latest of them run-2"),
        (("results", "--only", "chunk=3KiB"), "no cell has md.chunk=3KiB"),
        (("results", "--only", "nonsense"), "there is no layout, workload or other value nonsense"),
        (("results", "--metric", "raed_bw"), "did you mean read_bw"),
        (("results", "--pivot", "chunk", "--trials"), "--pivot cannot show single trials or several figures"),
        (("results", "--store", "oracle://x/y"), "'oracle' is not a supported database"),
        (("compare", "run-1", "nope"), "no run in the store matches 'nope'"),
        (("compare", "--by", "kernel", "5.10", "6.1"), "there are: 6.1.0-28-amd64, 6.12.57+deb13-amd64"),
        (("compare", "--by", "host", "lab1", "lab9"), "there are: lab1, lab2"),
        (("compare", "--by", "md.chunk", "64KiB", "1MiB"), "there are: 64KiB, 512KiB"),
        (("compare", "--runs", "latest", "run-1", "run-2"), "A and B name the runs"),
        (("compare", "run-1", "run-2", "--confidence", "100%"), "must lie between"),
        (("compare", "run-1", "run-2", "--within", "much"), "write it like 5%"),
        (("compare", "run-1", "run-2", "--metric", "read_ios"), "read_ios: not a figure of speed"),
        (("compare", "run-1", "run-2", "--metric", "iowait"), "iowait: not a figure of speed"),
        (("compare", "run-1", "run-2", "--metric", "runtime"), "use one of read_bw, write_bw, trim_bw, read_iops"),
        (("history", "raid5/chunk=64KiB/seq/rw=raed"), f"close to it: {SMALL_CHUNK.name}"),
    ],
)
def test_impossible_queries_are_bad_input(call: Call, two_runs: Path, arguments: tuple[str, ...], words: str) -> None:
    said = call(*arguments)
    assert said.status == 2
    assert words in said.err


def test_compare_also_writes_a_page_with_a_chart(call: Call, two_runs: Path, tmp_path: Path) -> None:
    said = call("compare", "run-1", "run-2", "--html", str(tmp_path / "changes.html"))
    assert said.status == 1
    assert "2 slower, 0 faster, 1 same" in said.out
    written = (tmp_path / "changes.html").read_text()
    assert [written.count(f'<g class="{verdict}"><title>') for verdict in ("slower", "same")] == [2, 1]
    assert "<title>run-2 against run-1</title>" in written


def test_compare_finds_slower_cells_and_differing_environments(call: Call, two_runs: Path) -> None:
    said = call("compare", "run-1", "run-2")
    assert said.status == 1
    assert "B against A: 2 slower, 0 faster, 1 same, 0 cannot tell" in said.out
    assert "host.cpu: some cpu → another cpu" in said.out
    assert "host.hostname: lab1 → lab2" in said.out
    assert "guest.kernel: 6.1.0-28-amd64 → 6.12.57+deb13-amd64" in said.out
    found = {
        (one["name"], one["metric"]): one for one in rows(call("compare", "run-1", "run-2", "--format", "csv").out)
    }
    assert found[SMALL_CHUNK.name, "read_iops"]["verdict"] == "slower"
    assert float(found[SMALL_CHUNK.name, "read_iops"]["ratio"]) == pytest.approx(0.8)
    assert found[WRITES.name, "write_iops"]["verdict"] == "same"


def test_compare_the_other_way_round(call: Call, two_runs: Path) -> None:
    said = call("compare", "latest", "latest~1")
    assert said.status == 0
    assert "0 slower, 2 faster, 1 same" in said.out
    assert call("compare", "run-1", "run-2", "--within", "50%", "--confidence", "99%").status == 0


def test_compare_a_run_with_itself(call: Call, two_runs: Path) -> None:
    said = call("compare", "run-1", "run-1")
    assert said.status == 0
    assert "0 slower, 0 faster, 3 same" in said.out
    assert "environment" not in said.out
    assert "A is its odd rounds and B its even ones, so what differs is noise" in said.out
    (row, *_) = rows(call("compare", "run-1", "run-1", "--only", "chunk=64KiB,rw=read", "--format", "csv").out)
    assert (row["values_a"], row["values_b"], row["paired"], row["stopped_a"]) == ("3", "2", "false", "fixed")
    odd, even = ([NOISE[round_number - 1] for round_number in rounds] for rounds in ((1, 3, 5), (2, 4)))
    assert float(row["ratio"]) == pytest.approx(geometric_mean(even) / geometric_mean(odd))
    assert "so what differs is noise" not in call("compare", "run-1", "run-2").out


@pytest.mark.parametrize(
    ("how", "stopped", "early"),
    [({}, "fixed", False), ({"until": 0.05}, "precise", True), ({"steered": True}, "decided", True)],
)
def test_a_comparison_respects_early_stops(
    call: Call, tmp_path: Path, how: dict[str, Any], stopped: str, early: bool
) -> None:
    for number, times in enumerate((1.0, 0.99), start=1):
        past.recorded(tmp_path / "results", trials(times), number, CELLS, least=3, most=len(NOISE), **how)
    row = rows(call("compare", "run-1", "run-2", "--format", "csv").out)[0]
    ratio = unpaired_ratio([1e8 * noise for noise in NOISE], [0.99e8 * noise for noise in NOISE], early=early)
    assert ratio
    assert (row["metric"], row["stopped_a"], row["stopped_b"]) == ("read_iops", stopped, stopped)
    assert [float(row[name]) for name in ("ratio_low", "ratio_high")] == pytest.approx([ratio.low, ratio.high])
    assert {one["stopped"] for one in rows(call("results", "--format", "csv").out)} == {stopped}


def test_compare_kernels_hosts_and_values_of_an_axis(call: Call, two_runs: Path) -> None:
    assert "2 slower" in call("compare", "--by", "kernel", "6.1.0", "6.12.57").out
    assert "2 slower" in call("compare", "--by", "host", "lab1", "lab2").out
    said = call("compare", "--by", "chunk", "64KiB", "512KiB", "--runs", "run-1", "--format", "json")
    (row,) = json.loads(said.out)["rows"][:1]
    assert (row["paired"], row["verdict"]) == (True, "faster"), "rounds of one run are compared round by round"
    assert row["ratio"] == pytest.approx(2.0)


def test_compare_by_an_axis_with_which_others_change(call: Call, tmp_path: Path) -> None:
    """Where layouts have names, the name and the level are one thing; a layout may have axes of its own."""

    def of(layout: str, chunk: str, **more: str) -> CellRow:
        axes = {"layout": layout, "md.level": layout[4:], "md.chunk": chunk, "workload": "seq", **more}
        return CellRow(f"{layout}-{chunk}", f"{layout}/chunk={chunk}/seq", axes)

    striped, parity = ([of(layout, chunk) for chunk in ("64KiB", "512KiB")] for layout in ("raid0", "raid5"))
    mirrored = [of("raid10", chunk, **{"md.layout": "n2"}) for chunk in ("64KiB", "512KiB")]
    odd = [of("raid6", chunk) for chunk in ("16KiB", "32KiB")]
    cells = [*striped, *parity, *mirrored, *odd]
    speeds = [1e8, 1e8, 5e7, 5e7, 2e8, 2e8, 1e8, 1e8]
    past.recorded(
        tmp_path / "results",
        [
            past.measured(one.id, round_number, speed * noise)
            for one, speed in zip(cells, speeds, strict=True)
            for round_number, noise in enumerate(NOISE, start=1)
        ],
        1,
        cells,
    )
    for words in (("layout", "raid0", "raid5"), ("md.level", "0", "5"), ("level", "0", "5")):
        said = call("compare", "--by", *words)
        assert said.status == 1
        assert "2 slower, 0 faster" in said.out
    assert "changes along with layout, and is compared with it: md.level (0 → 5)" in (
        call("compare", "--by", "layout", "raid0", "raid5").out
    )
    said = call("compare", "--by", "layout", "raid0", "raid10")
    assert "2 faster" in said.out
    assert "md.layout (none → n2), md.level (0 → 10)" in said.out
    said = call("compare", "--by", "layout", "raid0", "raid6")
    assert said.status == 2
    assert "they differ in md.chunk (64KiB, 512KiB → 16KiB, 32KiB)" in said.err
    said = call("compare", "--by", "md.chunk", "64KiB", "512KiB")
    assert "changes along" not in said.out


def test_cells_with_the_same_name_and_other_ids(call: Call, tmp_path: Path) -> None:
    for number in (1, 2):
        one = CellRow(f"{number}234567890", SMALL_CHUNK.name, SMALL_CHUNK.axes)
        found = [past.measured(one.id, round_number, 1e8 * noise) for round_number, noise in enumerate(NOISE)]
        past.recorded(tmp_path / "results", found, number, (one,), seed=number)
    said = call("compare", "run-1", "run-2")
    assert said.status == 2
    assert "1 cell has the same name on both sides but another id" in said.err
    assert "differs: seed: 1 → 2" in said.err
    assert "give both runs one `seed:`" in said.err
    listed = call("history", "--only", "chunk=64KiB").out
    assert f"{SMALL_CHUNK.name} (12345678)" in listed
    assert f"{SMALL_CHUNK.name} (22345678)" in listed


def test_kernels_that_the_matrix_names_are_compared_within_a_run(call: Call, tmp_path: Path) -> None:
    """The ids of such cells differ, as they cover the kernel."""
    old, new = cell("64KiB", kernel="debian-12"), cell("64KiB", kernel="debian-13")
    found = [
        past.measured(old.id, round_number, 1e8 * noise, kernel="6.1.0-28-amd64")
        for round_number, noise in enumerate(NOISE)
    ]
    found += [
        past.measured(new.id, round_number, 1.5e8 * noise, kernel="6.12.57") for round_number, noise in enumerate(NOISE)
    ]
    past.recorded(tmp_path / "results", found, 1, (old, new))
    for words in (("debian-12", "debian-13"), ("6.1.0", "6.12.57")):
        said = call("compare", "--by", "kernel", *words)
        assert said.status == 0
        assert "0 slower, 1 faster" in said.out


def test_compare_revisions(call: Call, tmp_path: Path) -> None:
    for number, times in ((1, 1.0), (2, 1.2)):
        revision = {"commit": f"{number}" * 40, "dirty": number == 2}
        past.recorded(tmp_path / "results", trials(times), number, CELLS, revision=revision)
    assert "2 faster" in call("compare", "--by", "revision", "1111", "2222").out
    assert "2 faster" in call("compare", "--by", "git", "1111111", "222222").out
    assert call("compare", "--by", "revision", "1", "2").status == 2, "a digit names too many"


def test_each_of_several_runs_on_a_side_counts_as_one_value(call: Call, tmp_path: Path) -> None:
    """Two runs of one host in two moods: their trials are sure of themselves, the comparison is not."""
    for number, times in enumerate((1.0, 1.3, 1.02, 1.28), start=1):
        host = Host(kernel="", cpu="", cores=1, memory=1, hostname=f"lab{(number + 1) // 2}")
        past.recorded(tmp_path / "results", trials(times), number, (SMALL_CHUNK, LARGE_CHUNK, WRITES), host=host)
    said = call("compare", "--by", "host", "lab1", "lab2")
    assert "2 cannot tell" in said.out
    assert "each run counts as one value" in said.out
    told = rows(call("compare", "--by", "host", "lab1", "lab2", "--format", "csv").out)
    counts = {tuple(one[f"{what}_{side}"] for what in ("trials", "values") for side in "ab") for one in told}
    assert counts == {("10", "10", "2", "2")}


def test_only_shared_rounds_are_compared(call: Call, tmp_path: Path) -> None:
    some = [one for one in trials() if one.cell == SMALL_CHUNK.id or one.round > 2]
    past.recorded(tmp_path / "results", some, 1, CELLS)
    said = call("compare", "--by", "md.chunk", "64KiB", "512KiB", "--metric", "read_bw", "--format", "csv")
    told, *_ = rows(said.out)
    assert told["paired"] == "true"
    assert [told[name] for name in ("trials_a", "trials_b", "values_a", "values_b")] == ["5", "3", "3", "3"]


def test_one_run_is_compared_with_the_spread_of_several(call: Call, tmp_path: Path) -> None:
    """Each run is in a mood of its own: trials pooled would be sure that the last one is another."""
    for number, times in enumerate((1.0, 1.3, 1.1, 1.2, 0.95), start=1):
        host = Host(kernel="", cpu="", cores=1, memory=1, hostname="lab2" if number == 5 else "lab1")
        past.recorded(tmp_path / "results", trials(times), number, CELLS, host=host)
    for sides in (("lab1", "lab2"), ("lab2", "lab1")):
        said = call("compare", "--by", "host", *sides)
        assert said.status == 0
        assert "0 slower, 0 faster, 1 same, 2 cannot tell" in said.out
        assert "one run against several" in said.out


def test_a_run_that_is_on_both_sides_counts_once(call: Call, tmp_path: Path) -> None:
    for number in range(1, 5):
        past.recorded(tmp_path / "results", trials(NOISE[number]), number, CELLS)
    for arguments, where in (
        (("run-*", "run-4"), "B alone: run-4"),
        (("run-[23]", "run-*"), "A alone: run-2, run-3"),
        (("run-[123]", "run-[34]"), "neither: run-3"),
    ):
        said = call("compare", *arguments)
        assert said.status == 0
        assert f"on both sides, so counted for {where}" in said.out
    same = call("compare", "run-*", "run-[1-4]")
    assert same.status == 2
    assert "run-* and run-[1-4] are the same 4 runs" in same.err


def test_many_unmatched_cells_take_one_line(call: Call, tmp_path: Path) -> None:
    more = [replace(WRITES, id=f"more{number}", name=f"more/{number}") for number in range(9)]
    lone = [past.measured(cell.id, 1, 1e8) for cell in more]
    past.recorded(tmp_path / "results", [*trials(), *lone], 1, [*CELLS, *more])
    past.recorded(tmp_path / "results", trials(), 2, CELLS)
    told = [line for line in call("compare", "run-1", "run-2").out.splitlines() if "no ratio" in line]
    assert told == ["no ratio of more/0, more/1, more/2, more/3, more/4 and 4 more: not there in B"]


def test_unmatched_cells_are_listed(call: Call, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", trials()[:1] + trials()[3:4], 1, CELLS)
    broken = [Trial(SMALL_CHUNK.id, round_number, Outcome.BROKEN, "it broke") for round_number in (1, 2)]
    past.recorded(tmp_path / "results", trials()[1:2], 2, CELLS)
    past.recorded(tmp_path / "results", [*broken, *trials()[1:2], *trials()[4:5]], 3, CELLS)
    assert "have no common cell" in call("compare", "run-1", "run-2").err
    said = call("compare", "run-2", "run-3")
    assert said.status == 0
    past.recorded(tmp_path / "results", trials(), 4, CELLS)
    said = call("compare", "run-4", "run-3")
    assert said.status == 3, "what broke is not what was measured"
    assert f"B has broken trials where A has figures: {SMALL_CHUNK.name};" in said.out
    assert call("compare", "run-3", "run-4").status == 0
    assert f"no ratio of {SMALL_CHUNK.name}: broken: it broke in B" in said.out
    assert f"no ratio of {WRITES.name}: not there in B" in said.out
    found = rows(call("compare", "run-4", "run-3", "--format", "csv").out)
    assert {one["verdict"] for one in found if not one["ratio"]} == {"broken: it broke in B", "not there in B"}


@pytest.mark.parametrize("form", ["table", "csv", "md", "json"])
def test_a_fully_broken_side_is_reported(call: Call, tmp_path: Path, form: str) -> None:
    broken = [Trial(cell.id, 1, Outcome.BROKEN, "no such device") for cell in CELLS]
    past.recorded(tmp_path / "results", trials(), 1, CELLS)
    past.recorded(tmp_path / "results", broken, 2, CELLS)
    said = call("compare", "run-1", "run-2", "--format", form)
    assert said.status == 3
    assert "B has broken trials where A has figures" in said.out + said.err
    assert "one run on each side" not in said.out + said.err, "there is no ratio"
    if form == "table":
        assert "B against A: no cell has figures on both sides" in said.out
        names = ", ".join(cell.name for cell in CELLS)
        assert f"no ratio of {names}: broken: no such device in B" in said.out
    if form == "csv":
        assert [one["verdict"] for one in rows(said.out)] == ["broken: no such device in B"] * 3
    other = call("compare", "run-2", "run-1")
    assert other.status == 2
    assert "have no common cell with figures on both sides" in other.err
    assert f"{WRITES.name}: broken: no such device in A" in other.err


def test_a_fully_broken_night_is_reported_beside_the_last_good_one(call: Call, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", trials(), 1, CELLS, exit=0)
    broken = [Trial(cell.id, 1, Outcome.BROKEN, "no such device") for cell in CELLS]
    past.recorded(tmp_path / "results", broken, 2, CELLS, exit=3)
    said = call("summary", "run-2")
    assert said.status == 3
    assert "B has broken trials where A has figures" in said.out


def test_an_unfinished_side_has_a_note(call: Call, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", trials(), 1, CELLS)
    past.recorded(tmp_path / "results", trials()[:7], 2, CELLS, finished=False, planned=15)
    said = call("compare", "run-1", "run-2", "--only", "chunk=512KiB")
    assert said.status == 0
    assert "B is not finished: 7 of 15 trials" in said.out
    assert "A is not finished" not in said.out
    assert "A is not finished: 7 of 15 trials" in call("compare", "run-2", "run-1", "--format", "csv").err


def host_limited(found: list[Trial], cell: str) -> list[Trial]:
    return [
        replace(one, **noted({**one.notes, "host_limited": "vda: 3 % late"}))
        if one.cell == cell and one.round < 4
        else one
        for one in found
    ]


def test_verdicts_that_rest_on_host_limited_trials_are_marked(call: Call, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", trials(), 1, CELLS)
    past.recorded(tmp_path / "results", host_limited(trials(0.8), LARGE_CHUNK.id), 2, CELLS)
    said = call("compare", "run-1", "run-2")
    assert said.status == 1
    assert [
        line.count("slower (!)")
        for line in said.out.splitlines()
        if "slower" in line and "raid5" in line and "slower together:" not in line
    ] in (
        [0, 1],
        [1, 0],
    )
    assert "B (run-2) in 3 of 15 trials; 1 of 3 verdicts use such trials" in said.out
    told = call("compare", "run-1", "run-2", "--format", "csv")
    assert {(one["name"], one["host_limited_a"], one["host_limited_b"]) for one in rows(told.out)} == {
        (SMALL_CHUNK.name, "0", "0"),
        (LARGE_CHUNK.name, "0", "3"),
        (WRITES.name, "0", "0"),
    }
    assert "(!) host-limited trials" in told.err
    assert "(!)" not in call("compare", "run-1", "run-1").out


def test_a_pivot_marks_host_limited_trials(call: Call, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", host_limited(trials(), LARGE_CHUNK.id), 1, CELLS)
    shown = call("results", "latest", "--pivot", "chunk").out
    assert "(!) 3 of 15 trials are host-limited: the host was too slow or too busy" in shown
    assert sum("IOPS" in line and line.count("(!)") == 1 for line in shown.splitlines()) == 1
    told = call("results", "latest", "--pivot", "chunk", "--format", "csv")
    assert [one["host_limited"] for one in rows(told.out)] == ["3", "0"]
    assert "(!) 3 of 15 trials are host-limited" in told.err
    assert "(!)" not in call("results", "latest", "--pivot", "chunk", "--metric", "write_bw").out


def test_synthetic_figures_are_never_mixed_with_measured_ones(call: Call, two_runs: Path) -> None:
    past.recorded(two_runs, trials(3.0), 3, CELLS, synthetic=True, machine="dry")
    said = call("compare", "run-1", "run-3")
    assert said.status == 2
    assert "synthetic figures cannot be compared with measured ones" in said.err
    assert "run-1: measured; run-3: synthetic" in said.err
    assert "2 slower" in call("compare", "--by", "host", "lab1", "lab2").out, "left out where nobody asked for them"
    told = json.loads(call("history", SMALL_CHUNK.name, "--format", "json").out)
    assert {row["run"] for row in told["rows"]} == {"run-1", "run-2"}
    both = call("history", SMALL_CHUNK.name, "--runs", "run-*")
    assert "measured and synthetic figures are mixed: those of run-3" in both.out
    assert "synthetic" in call("results", "run-3").out
    assert "synthetic" in call("results", "run-3", "--format", "csv").err
    alone = call("compare", "run-3", "run-3")
    assert alone.status == 0
    assert "figures are synthetic, from the dry machine" in alone.out


def test_left_out_synthetic_runs_have_a_note(call: Call, two_runs: Path) -> None:
    """Else one measured run makes all others invisible, and the answer sounds as if they were not there."""
    other = cell("64KiB", "trim")
    walked = [past.measured(other.id, round_number, 1e8 * noise) for round_number, noise in enumerate(NOISE, start=1)]
    past.recorded(two_runs, walked, 3, (other,), synthetic=True, machine="dry")
    said = call("history", other.name)
    assert said.status == 2
    assert "1 synthetic run left out; name them with --runs" in said.err
    assert call("history", other.name, "--runs", "run-3").status == 0
    assert "1 synthetic run left out" in call("history", SMALL_CHUNK.name).out
    assert "1 synthetic run left out" in call("history", SMALL_CHUNK.name, "--format", "csv").err
    said = call("compare", "--by", "layout", "raid0", "raid5")
    assert said.status == 2
    assert "1 synthetic run left out; name them with --runs" in said.err
    assert "1 synthetic run left out" in call("compare", "--by", "host", "lab1", "lab2").out
    assert "left out" not in call("compare", "run-1", "run-2").out


def test_a_history_with_a_change(call: Call, tmp_path: Path) -> None:
    for number in range(1, 25):
        times = (1.0 if number <= 12 else 0.7) * NOISE[number % 5]
        one = [
            past.measured(SMALL_CHUNK.id, round_number, 1e8 * times * noise) for round_number, noise in enumerate(NOISE)
        ]
        past.recorded(tmp_path / "results", one, number, (SMALL_CHUNK,))
    said = call("history", SMALL_CHUNK.name)
    assert said.status == 0
    assert "24 runs, 1 change of level" in said.out
    assert "1 % of histories without a change show a step by chance" in said.out
    (marked,) = (line for line in said.out.splitlines() if "slower from here on" in line)
    assert "run-13" in marked
    assert "|" in said.out
    told = rows(call("history", SMALL_CHUNK.id[:5], "--format", "csv").out)
    assert [row["run"] for row in told if row["change"]] == ["run-13"]
    assert float(told[0]["value_low"]) < float(told[0]["value"]) < float(told[0]["value_high"])
    done = call("history", SMALL_CHUNK.name, "--metric", "read_bytes").out
    assert "less from here on" in done, "which is neither faster nor slower"
    assert "slower" not in done
    short = call("history", "--only", "rw=read", "--metric", "read_bw", "--metric", "read_lat_p99").out
    assert "from 2026-03-13 on" in short


def test_without_arguments_every_cell_has_its_history(call: Call, two_runs: Path) -> None:
    said = call("history")
    assert said.status == 0
    assert SMALL_CHUNK.name in said.out
    assert call("history", "--rows", "1").out.count("raid5/") == 1


def test_each_host_has_its_own_history(call: Call, two_runs: Path) -> None:
    said = call("history", SMALL_CHUNK.name)
    assert "lab1 (qemu)" in said.out
    assert "lab2 (qemu)" in said.out


def test_a_run_of_the_dry_machine_is_in_the_store_at_once(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    assert call("run", "--on", "dry", "small.yaml").status == 0
    with SharedStore.existing(address_of(None, tmp_path / "results")) as store:
        (run,) = store.runs()
        assert (run.matrix, run.synthetic, run.finished, len([*store.trials(("cell",))])) == ("small", True, True, 8)
        assert run.environment["host.versions.matrix"]
        assert len(run.environment["digest.templates"]) == 32
        assert run.environment["disk0.bus"] == "virtio"
        assert store.complete_states() != {""}
    assert call("results", "small").status == 0


def test_another_store_by_option_and_by_environment(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    call("run", "--on", "dry", "--store", "lab/shared.db", "small.yaml")
    assert (tmp_path / "lab" / "shared.db").exists()
    assert not (tmp_path / "results" / "store.db").exists()
    monkeypatch.setenv("MATRIX_STORE", str(tmp_path / "lab" / "shared.db"))
    shutil.rmtree(tmp_path / "results")
    assert call("results", "latest").status == 0, "the store alone is enough to answer"


def test_a_mistyped_store_is_an_error_and_a_new_one_has_a_note(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    first = call("run", "--on", "dry", "--store", "lab.db", "small.yaml")
    assert "created a new store at lab.db" in first.out
    assert "new store" not in call("run", "--on", "dry", "--fresh", "--store", "lab.db", "small.yaml").out
    assert "new store" not in call("run", "--on", "dry", "--fresh", "small.yaml").out, "where it always is"
    for command in (("results",), ("compare", "latest", "latest"), ("history", "--only", "bs=4KiB")):
        said = call(*command, "--store", "lob.db")
        assert said.status == 2
        assert "there is no store at lob.db" in said.err
    monkeypatch.setenv("MATRIX_STORE", "lob.db")
    said = call("results")
    assert said.status == 2
    assert "there is no store at lob.db, named by MATRIX_STORE" in said.err
    assert not (tmp_path / "lob.db").exists()


def test_unfinished_runs_do_not_look_finished(call: Call, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", trials()[:6], 1, CELLS, finished=False, planned=15)
    past.recorded(tmp_path / "results", trials(), 2, CELLS, planned=15)
    note = "run-1 is not finished: 6 of 15 trials"
    assert note in call("results", "run-1").out
    said = call("results").out
    assert note in said
    assert "run-2 is not finished" not in said
    assert note in call("results", "run-1", "--pivot", "chunk").out
    assert note in call("results", "run-1", "--trials").out
    assert note in call("results", "run-1", "--format", "csv").err
    assert note in json.loads(call("results", "run-1", "--format", "json").out)["notes"]


def test_the_manifest_has_no_password() -> None:
    words = ("matrix", "run", "--store", "postgresql://me:se:cret@db/matrix", "--store=postgresql://db/x", "a:b@c.yaml")
    assert command_line(words)[3:] == ("postgresql://me:***@db/matrix", "--store=postgresql://db/x", "a:b@c.yaml")
    for url in ("db/m?user=a&password=secret", "lab:pa@secret@db/m", "db/m?sslpassword=secret", "lab:secret/m"):
        assert "secret" not in command_line((f"--store=postgresql://{url}",))[0]


def test_import(call: Call, tmp_path: Path) -> None:
    shutil.copy(DATA / "fio-libaio-jobs.json", tmp_path / "old.json")
    shutil.copy(DATA / "fio-psync-grouped.json", tmp_path / "grouped.json")
    said = call("import", "old.json", "grouped.json", "--name", "old", "--axis", "layout=hw-raid", "--host", "attic")
    assert said.status == 0
    assert "3 trials of 3 cells" in said.out
    told = rows(call("results", "old", "--format", "csv").out)
    assert {row["layout"] for row in told} == {"hw-raid"}
    assert {row["workload.bs"] for row in told} == {"4KiB", "8KiB|4KiB"}
    assert {row["host"] for row in told} == {"attic"}
    assert {row["synthetic"] for row in told} == {"false"}
    again = call("import", "grouped.json", "old.json", "--name", "old", "--axis", "layout=hw-raid", "--host", "attic")
    assert again.status == 2
    assert "imported already" in again.err
    (folder,) = (tmp_path / "results").glob("old-import-*")
    assert sorted(kept.read_bytes() for kept in folder.rglob("fio.json")) == sorted(
        (tmp_path / name).read_bytes() for name in ("old.json", "grouped.json")
    ), "each file once"
    told = rows(call("results", "old", "--trials", "--format", "csv").out)
    assert len(told) == 3


def test_import_reports_missing_figures(call: Call, tmp_path: Path) -> None:
    document = json.loads((DATA / "fio-psync-grouped.json").read_text())
    document["jobs"][0]["job options"] |= {"lat_percentiles": "0", "clat_percentiles": "1"}
    for side in ("read", "write"):
        del document["jobs"][0][side]["lat_ns"]["bins"]
        percentile = document["jobs"][0][side]["lat_ns"].pop("percentile")
        document["jobs"][0][side]["clat_ns"] = {"percentile": percentile}
    (tmp_path / "plain.json").write_text(json.dumps(document, indent=1))
    said = call("import", "plain.json")
    assert "1 of them lack the time of submission in percentiles" in said.err
    (row,) = rows(call("results", "imported", "--format", "csv", "--metric", "read_lat_p99", "--metric", "read_bw").out)
    assert row["measured"] == "1"
    assert row["read_lat_p99"], "that of completions, and the note says so"


def test_an_import_with_long_axes_is_read_again(call: Call, tmp_path: Path) -> None:
    document = json.loads((DATA / "fio-psync-grouped.json").read_text())
    (job,) = document["jobs"]
    several = [{**job, "job options": {"rw": f"{n:076}"}} for n in range(1000)]
    (tmp_path / "long.json").write_text(json.dumps({**document, "jobs": several}))
    assert call("import", "long.json", "--axis", f"note={70_000 * 'n'}").status == 0
    (row,) = rows(call("results", "imported", "--format", "csv").out)
    assert (len(row["workload.rw"]), len(row["note"])) == (76_999, 70_000)
    (run,) = (tmp_path / "results").glob("imported-*")
    assert call("report", str(run)).status == 0
    refused = call("import", "long.json", "--axis", f"note={(1 << 20) * 'n'}")
    assert refused.status == 2
    assert "has 1,048,581 characters; at most 1,048,576" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    "options", [("--name", "\udcff"), ("--axis", "k=\udcff"), ("--host", "\udcff"), ("--kernel", "\udcff")]
)
def test_import_refuses_texts_that_are_not_utf8(call: Call, options: tuple[str, str]) -> None:
    (Path("one.json")).write_text("{}")
    said = call("import", "one.json", *options)
    assert said.status == 2
    assert f"{options[0]}: it is not UTF-8" in said.err


def test_import_of_a_file_whose_name_is_not_utf8(call: Call, tmp_path: Path) -> None:
    shutil.copy(DATA / "fio-libaio-jobs.json", tmp_path / "\udcff.json")
    assert call("import", "\udcff.json", "--name", "-x").status == 0
    (run,) = (path.name for path in (tmp_path / "results").iterdir() if path.is_dir())
    assert run.startswith("x-import-")


def test_import_names_the_document_that_it_uses(call: Call, tmp_path: Path) -> None:
    document = (DATA / "fio-psync-grouped.json").read_text().rstrip() + "\n"
    (tmp_path / "two.json").write_text(document * 2)
    assert "note: two.json: 2 JSON documents: the last whole one is used" in call("import", "two.json").err
    (tmp_path / "one.json").write_text(document)
    assert "documents" not in call("import", "one.json").err


def test_an_import_of_one_trial_has_no_second_half_to_compare_with(call: Call, tmp_path: Path) -> None:
    shutil.copy(DATA / "fio-psync-grouped.json", tmp_path / "one.json")
    assert call("import", "one.json").status == 0
    said = call("compare", "latest", "latest")
    assert said.status == 2
    assert "a run compared with itself splits its rounds, and this cell has too few: none in B" in said.err


@pytest.mark.parametrize(
    "command",
    [
        "history --only layout=q",
        "recommend latest --for layout=q",
        "results --only q=q",
        "compare --by layout q r",
        "runs nothing",
    ],
)
def test_long_names_do_not_fill_a_message(call: Call, tmp_path: Path, command: str) -> None:
    shutil.copy(DATA / "fio-psync-grouped.json", tmp_path / "one.json")
    assert call("import", "one.json", "--axis", f"layout={'x' * 40_000}").status == 0
    said = call(*command.split())
    assert said.status == 2
    assert len(said.err) < 1000


def test_import_of_other_files(call: Call, tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("hello")
    said = call("import", "text.json")
    assert said.status == 2
    assert "text.json: fio printed no JSON" in said.err
    assert call("import", "text.json", "--axis", "nonsense").status == 2
    document = json.loads((DATA / "fio-psync-grouped.json").read_text())
    document["jobs"][0]["error"] = 5
    (tmp_path / "failed.json").write_text(json.dumps(document, indent=1))
    said = call("import", "failed.json")
    assert said.status == 3, "nothing of it was measured"
    assert "failed.json: fio job 'a' failed with EIO" in said.err
    assert "broken" in call("results", "imported").out


def fio(path: Path, *jobs: Mapping[str, str], bw: int | None = None) -> str:
    """A file of fio's JSON with a group for each of these jobs: `jobname`, and options of it."""
    document = json.loads((DATA / "fio-psync-grouped.json").read_text())
    (like,) = document["jobs"]
    if bw is not None:
        like["read"]["bw_bytes"] = bw
    document["jobs"] = [
        {
            **like,
            "jobname": job.get("jobname", "a"),
            "groupid": number,
            "job options": {**like["job options"], **{key: value for key, value in job.items() if key != "jobname"}},
        }
        for number, job in enumerate(jobs)
    ]
    path.write_text(json.dumps(document, indent=1))
    return path.name


def test_devices_of_one_file_are_separate_cells(call: Call, tmp_path: Path) -> None:
    jobs = ({"filename": "/dev/sda"}, {"filename": "/dev/sdb"}, {"filename": "/dev/sda", "jobname": "b"})
    assert "3 trials of 3 cells" in call("import", fio(tmp_path / "both.json", *jobs)).out
    found = rows(call("results", "imported", "--format", "csv").out)
    assert {(one["workload"], one["workload.filename"]) for one in found} == {
        ("a", "/dev/sda"),
        ("a", "/dev/sdb"),
        ("b", "/dev/sda"),
    }
    assert len({one["name"] for one in found if "_dev_sd" in one["name"]}) == 3


def test_an_axis_separates_devices_of_several_files(call: Call, tmp_path: Path) -> None:
    files = [fio(tmp_path / f"{name}.json", {"filename": f"/dev/{name}"}) for name in ("sda", "sdb")]
    said = call("import", *files)
    assert "2 trials of 1 cell" in said.out
    assert "has trials from /dev/sda, /dev/sdb: `--axis` separates imports" in said.err


def test_imports_that_overlap_count_once(call: Call, tmp_path: Path) -> None:
    one, two, three = (fio(tmp_path / f"{name}.json", {"bs": f"{name}k"}) for name in (4, 8, 16))
    shutil.copy(tmp_path / one, tmp_path / "copy.json")
    said = call("import", one, two, "copy.json", one)
    assert said.status == 0
    assert "2 trials of 2 cells" in said.out
    assert "note: copy.json is the same as 4.json: skipped" in said.err
    said = call("import", two, three)
    assert said.status == 0
    assert "1 trial of 1 cell\n" in said.out
    assert "note: 8.json is imported already, as imported-import-" in said.err
    assert len(rows(call("results", "--trials", "--format", "csv").out)) == 3
    assert call("import", "copy.json").status == 2
    assert len(list((tmp_path / "results").glob("imported-*"))) == 2


@pytest.mark.parametrize("name", [".", "..", "/", "", "ä"])
def test_any_name_of_a_job_can_be_imported(call: Call, tmp_path: Path, name: str) -> None:
    said = call("import", fio(tmp_path / "odd.json", {"jobname": name}), "--axis", "layout=.")
    assert said.status == 0, said.err
    assert len(rows(call("results", "imported", "--format", "csv").out)) == 1


def test_impossible_figures_are_refused_without_a_folder(call: Call, tmp_path: Path) -> None:
    said = call("import", fio(tmp_path / "odd.json", {}, bw=10**15), fio(tmp_path / "fine.json", {}))
    assert said.status == 2
    assert "odd.json: bw=" in said.err
    assert "is beyond any real measurement" in said.err
    assert not (tmp_path / "results").exists()


def test_impossible_figures_are_left_out_with_a_note(call: Call, tmp_path: Path) -> None:
    said = call("import", fio(tmp_path / "odd.json", {}, bw=-1), fio(tmp_path / "fine.json", {}))
    assert said.status == 3
    assert said.err == "note: odd.json: fio's JSON cannot be used: jobs[0].read.bw_bytes is -1\n"


def test_a_killed_import_is_continued(call: Call, tmp_path: Path) -> None:
    shutil.copy(DATA / "fio-libaio-jobs.json", tmp_path / "old.json")
    call("import", "old.json")
    (folder,) = (tmp_path / "results").glob("imported-*")
    load(folder).update_manifest(finished=False)
    assert call("import", "old.json").status == 0
    assert len(rows(call("results", "imported", "--trials", "--format", "csv").out)) == 2
    assert len(list((tmp_path / "results").glob("imported-*"))) == 1


def test_figures_have_units() -> None:
    assert set(METRICS.values()) <= {"bytes/s", "1/s", "ns", "bytes", "s", "%", "share", "per request", ""}


def test_latest_is_a_measured_run(call: Call, tmp_path: Path) -> None:
    """Whoever walks through a matrix on the dry machine has measured nothing that the next command could be about."""
    for number, machine in ((1, "qemu"), (2, "qemu"), (3, "dry")):
        trials = [past.measured("c1", round_number, 1e8 * number + round_number) for round_number in (1, 2)]
        past.recorded(tmp_path / "results", trials, number, machine=machine, synthetic=machine == "dry")
    for word, run in (("latest", "run-2"), ("latest~1", "run-1"), ("sweep", "run-2"), ("run-3", "run-3")):
        said = call("results", word, "--format", "csv")
        assert {row["run"] for row in rows(said.out)} == {run}
        assert ("run-3 is later, but synthetic" in said.err) == (word != "run-3")
    assert "run-3 is later, but synthetic" in call("compare", "latest~1", "latest").err
    both = call("compare", "run-1", "run-2").out
    assert "run-2" in both
    assert "synthetic" not in both


def test_latest_is_synthetic_without_measured_runs(call: Call, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", [past.measured("c1", 1, 1e8)], 1, machine="dry", synthetic=True)
    said = call("results", "latest", "--format", "csv")
    assert {row["run"] for row in rows(said.out)} == {"run-1"}
    assert "synthetic, from the dry machine" in said.err
    assert "is later" not in said.err
