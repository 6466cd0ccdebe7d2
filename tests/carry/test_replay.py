"""Trials that replay a trace: their figures, how late they were, and what that means."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.carry.trial import kept_pace, late_replay, loss_notes
from matrix_runner.carry.trial_result import Finding, finding, split_outputs
from matrix_runner.machines.base import StepResult
from matrix_runner.pages.junit import junit
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.terminal import table
from matrix_runner.records.record import HOST_LIMITED, REPLAY, SATURATED, CellRow, Outcome, Trial, TrialFacts
from matrix_runner.work.workload import ReplayReport
from tests.support.bearing import NOTHING
from tests.support.engine import Bench
from tests.support.facts import noted
from tests.support.traces import MATRIX, STEADY, declared

if TYPE_CHECKING:
    from collections.abc import Mapping

FIO = (Path(__file__).parents[1] / "data" / "fio-psync-grouped.json").read_text()
REPORT = {"requests": 1000, "late": 10, "worst": 0.05, "seconds": 4.0}
ON_TIME, BEHIND = ReplayReport(1000, 10, 0.05, 4.0), ReplayReport(1000, 11, 1.5, 5.0)


def found_in(line: str, slow: int = 1, status: int = 0) -> Finding:
    (cell,) = declared().space.cells()
    split = split_outputs([StepResult("measure", status, line + FIO, 1.0)], cell.work)
    return finding(split.steps, cell.work, slow, split.report)


def report(**changes: object) -> str:
    return f"replay\t{json.dumps({**REPORT, **changes})}\n"


def test_rates_are_over_the_time_of_the_replay() -> None:
    one = found_in(report()).result.figures
    assert one
    assert one.runtime == 4.0
    for side in one.sides.values():
        assert (side.iops, side.bw) == (side.ios / 4, side.bytes / 4)
        assert side.lat_p50


def test_slow_motion_is_not_in_the_figures() -> None:
    plain, slow = found_in(report()), found_in(report(), slow=4)
    assert plain.result.figures
    assert slow.result.figures
    assert slow.result.figures.runtime == 1.0
    assert slow.result.figures.total_iops == pytest.approx(4 * plain.result.figures.total_iops)
    assert slow.result.replay == ReplayReport(1000, 10, 0.0125, 1.0)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "the report of the replay is no JSON"),
        ("replay\t[]\n", "not as a script writes it"),
        (report(late="few"), "not as a script writes it"),
        (report(requests=0, late=0), "the replay began 0 requests"),
        (report(late=1001), "the replay began 1000 requests in 4 s"),
        (report(seconds=0), "in 0 s"),
    ],
)
def test_without_a_report_a_trial_is_broken(line: str, why: str) -> None:
    found = found_in(line)
    assert found.outcome is Outcome.BROKEN
    assert why in found.reason


def test_more_than_a_hundredth_of_late_requests_is_behind() -> None:
    assert not ON_TIME.fell_behind
    assert BEHIND.fell_behind
    assert late_replay(ON_TIME, 4.0, {}, kept_up=False) == {}
    assert loss_notes(TrialFacts(), ON_TIME, 4.0) == {
        REPLAY: "1.0% of 1,000 requests began over 10 ms late, at most 50 ms"
    }


def test_behind_is_saturated_if_the_host_kept_up_and_else_host_limited() -> None:
    why = "20.0% (the replay fell behind its trace: 1.1% of 1,000 requests began over 10 ms late, at most 1,500 ms)"
    limited = TrialFacts(**late_replay(BEHIND, 4.0, {}, kept_up=False))
    assert limited == TrialFacts(lost=0.2)
    assert loss_notes(limited, BEHIND, 4.0)[HOST_LIMITED] == why
    saturated = TrialFacts(**late_replay(BEHIND, 4.0, {}, kept_up=True))
    assert saturated == TrialFacts(saturated=True)
    assert loss_notes(saturated, BEHIND, 4.0) == {REPLAY: str(BEHIND), SATURATED: why}
    known: dict[str, Any] = {"lost": 0.09, "lost_late": 0.09}
    facts = TrialFacts(**late_replay(BEHIND, 4.0, known, kept_up=False))
    assert facts == TrialFacts(**known)
    assert loss_notes(facts, BEHIND, 4.0)[HOST_LIMITED] == "9.0% (answers late 9.0%)"


@pytest.mark.parametrize(
    ("lost", "kept_up"),
    [({}, True), ({"late": 0.3}, True), ({"late": 2.0}, False), ({"starved": 2.0}, False), ({"occupied": 8.0}, False)],
    ids=["no loss", "little loss", "late answers", "late requests", "idle disks"],
)
def test_the_host_kept_up_if_a_full_disk_lost_hardly_any_time(lost: Mapping[str, Any], kept_up: bool) -> None:
    done = replace(replace(NOTHING, owed=10.0, occupied=10.0), **lost)
    assert kept_pace([done], 0.05, seconds=10.0) is kept_up


def test_the_host_cannot_delay_disks_without_a_model() -> None:
    assert kept_pace([], 0.05, seconds=10.0)
    assert not kept_pace([NOTHING], 0.05, seconds=10.0)  # disks with a model that answered no request


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "web.log").write_text(STEADY)
    return Bench(
        tmp_path,
        MATRIX.replace("DISK", "bus: sata")
        .replace("LAYOUTS", "raw: [disk]")
        .replace("WORK", "replay: web.log, speed: [1, 2]"),
    )


def test_a_run_keeps_the_trace_once_and_the_reports_have_its_figures(bench: Bench) -> None:
    bench.run()
    trials = bench.trials
    assert {trial.outcome for trial in trials} == {Outcome.MEASURED}
    assert all(trial.notes[REPLAY].startswith("0.0% of 101 requests") for trial in trials)
    assert all("trace.txt" in kept for kept in bench.shelf.kept.values())
    cells = [CellRow(cell.id, cell.name, cell.axes) for cell in bench.plan.selection.cells()]
    recorded = RunData("replays", "dry", True, cells, trials)
    rates = [summary.figures["total_iops"].mean for summary in recorded.summaries]
    assert sorted(rates) == [pytest.approx(101), pytest.approx(202)]
    assert len({trial.figures.read.lat_mean for trial in trials if trial.figures and trial.figures.read}) == 4


def test_reports_show_saturated_replays() -> None:
    figures = found_in(report()).result.figures
    trial = Trial("c", 1, Outcome.MEASURED, figures=figures, **noted({SATURATED: "20.0% (why)"}))
    recorded = RunData("replays", "local", False, [CellRow("c", "raw/web", {})], [trial])
    assert [one.title for one in recorded.concerns] == ["Saturated"]
    assert "(!) 1 saturated" in str(table(recorded))
    assert b'name="saturated" value="1"' in junit(recorded)
