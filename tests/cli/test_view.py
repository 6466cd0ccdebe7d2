"""What is seen while a run goes on."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from rich.console import Console

from runner.cli.view import JsonView, LiveView, PlainView, QuietView
from runner.execute.events import Event, RigUp, RigWasLost, TrialDone, TrialStarted, VisitDone, VisitStarted
from runner.store.record import Outcome, Trial
from tests.reports.samples import direction, measured

if TYPE_CHECKING:
    import pytest

RED = "raid5/[red]"
EVENTS: tuple[Event, ...] = (
    VisitStarted(1, RED, 2),
    RigUp(RED, 1.5, {"kernel": "6.1"}),
    TrialStarted("raid5/[red]/work", 1, RED),
    TrialDone("raid5/[red]/work", measured("c1", 1, direction(2e8, 1 << 20)), RED),
    RigWasLost("raid5/[red]/other", "the guest panicked", "a fresh one comes up", RED),
    TrialDone("raid5/[red]/other", Trial("c2", 1, Outcome.BROKEN, "the guest panicked"), RED),
    VisitDone(1, RED),
)


def test_plain_lines_count_on_from_what_was_recorded_before(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainView(planned=10, done=4) as view:
        for event in EVENTS:
            view.event(event)
    assert capsys.readouterr().out.splitlines() == [
        "[5/10] raid5/[red]/work: read 200.0 MB/s 191 IOPS",
        "raid5/[red]/other: the guest panicked; a fresh one comes up",
        "[6/10] raid5/[red]/other: broken: the guest panicked",
    ]


def test_a_long_step_is_one_line_however_often_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView(1, 0)
    for fraction in (0.1, 0.2, 1.0):
        view.progress("building the appliance", fraction)
    view.progress("booting")
    assert capsys.readouterr().out.splitlines() == ["building the appliance …", "booting …"]


def test_json_has_a_line_for_every_event_but_the_start_of_a_trial(capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonView(10, 4)
    for event in EVENTS:
        view.event(event)
    view.notice("words")
    view.progress("booting", 0.5)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["event"] for one in said] == ["visit", "rig-up", "trial", "rig-lost", "trial", "notice", "progress"]
    assert (said[2]["done"], said[2]["planned"], said[2]["read_bw"]) == (5, 10, 2e8)
    assert "write_bw" not in said[2]
    assert (said[4]["outcome"], said[4]["reason"]) == ("broken", "the guest panicked")


def test_quiet_tells_losses_alone_and_not_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    view = QuietView(10, 0)
    for event in EVENTS:
        view.event(event)
    view.notice("words")
    view.progress("booting")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "raid5/[red]/other: the guest panicked; a fresh one comes up",
        "raid5/[red]/other: broken: the guest panicked",
    ]


def test_the_bar_keeps_what_went_wrong_above_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    with LiveView(planned=10, done=4) as view:
        for event in EVENTS:
            view.event(event)
        view.progress("building the appliance", 0.5)
        view.progress("building the appliance", 1.0)
        view.notice("a [word]")
        assert view.done == 6
    said = terminal.getvalue()
    assert "raid5/[red]/other: the guest panicked; a fresh one comes up" in said
    assert "raid5/[red]/other: broken: the guest panicked" in said
    assert "a [word]" in said
    assert "6/10" in said
    assert "left" in said
