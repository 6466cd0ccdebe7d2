"""What is seen while a run goes on."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from rich.console import Console

from matrix_runner.carry.events import (
    BatchDone,
    BatchStarted,
    Event,
    RigUp,
    RigWasLost,
    RoundAdded,
    TimeLeft,
    TrialDone,
    TrialHostLimited,
    TrialStarted,
    Waiting,
)
from matrix_runner.cli.progress import JsonView, LiveView, PlainView, QuietView
from matrix_runner.records.record import HOST, Outcome, Trial
from tests.pages.samples import direction, measured
from tests.support.facts import noted

if TYPE_CHECKING:
    import pytest

RED = "raid5/[red]"
EVENTS: tuple[Event, ...] = (
    BatchStarted(1, RED, 2),
    RigUp(RED, 1.5, {"kernel": "6.1"}),
    TrialStarted("raid5/[red]/work", 1, RED),
    TrialDone("raid5/[red]/work", measured("c1", 1, direction(2e8, 1 << 20)), RED),
    RigWasLost("raid5/[red]/other", RED, "the guest panicked", "starting a fresh one"),
    TrialDone("raid5/[red]/other", Trial("c2", 1, Outcome.BROKEN, "the guest panicked"), RED),
    BatchDone(1, RED),
)


def test_plain_lines_count_on_from_what_was_recorded_before(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainView(planned=10, done=4) as view:
        for event in EVENTS:
            view.event(event)
    assert capsys.readouterr().out.splitlines() == [
        "[5/10] raid5/[red]/work: read 200.0 MB/s 191 IOPS",
        "raid5/[red]/other: the guest panicked; starting a fresh one",
        "[6/10] raid5/[red]/other: broken: the guest panicked",
    ]


def test_a_long_step_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
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
    assert [one["event"] for one in said] == [
        *("batch", "rig-up", "trial", "rig-lost", "trial", "batch-done", "notice", "progress")
    ]
    assert (said[2]["done"], said[2]["planned"], said[2]["read_bw"]) == (5, 10, 2e8)
    assert "write_bw" not in said[2]
    assert {one["stack"] for one in said[:6]} == {RED}
    assert (said[4]["outcome"], said[4]["reason"]) == ("broken", "the guest panicked")


def test_quiet_prints_only_losses_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    view = QuietView(10, 0)
    for event in EVENTS:
        view.event(event)
    view.notice("words")
    view.progress("booting")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "raid5/[red]/other: the guest panicked; starting a fresh one",
        "raid5/[red]/other: broken: the guest panicked",
    ]


def test_errors_stay_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr("matrix_runner.cli.progress.Console", lambda **_: console)
    with LiveView(planned=10, done=4) as view:
        for event in EVENTS:
            view.event(event)
        view.progress("building the appliance", 0.5)
        view.progress("building the appliance", 1.0)
        view.notice("a [word]")
        assert view.done == 6
    said = terminal.getvalue()
    assert "raid5/[red]/other: the guest panicked; starting a fresh one" in said
    assert "raid5/[red]/other: broken: the guest panicked" in said
    assert "a [word]" in said
    assert "6/10" in said
    assert "left" in said


HOST_LIMITED = TrialHostLimited("raid5/[red]/work", RED, 1, "9.0% (answers late 9.0%, disks left waiting 0.0%)", 3)


def test_a_repeated_trial_has_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    PlainView(10, 0).event(HOST_LIMITED)
    JsonView(10, 0).event(HOST_LIMITED)
    plain, line = capsys.readouterr().out.splitlines()
    assert plain == (
        "raid5/[red]/work: host-limited beside 3 others, 9.0 % (answers late 9.0 %, disks left waiting 0.0 %); "
        "it is measured again alone"
    )
    said = json.loads(line)
    assert (said["event"], said["name"], said["stack"], said["beside"]) == ("host-limited", HOST_LIMITED.name, RED, 3)


def test_each_of_several_rigs_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr("matrix_runner.cli.progress.Console", lambda **_: console)

    def seen(view: LiveView, *events: Event) -> str:
        for event in events:
            view.event(event)
        terminal.seek(0)
        terminal.truncate()
        view._bar.refresh()
        return terminal.getvalue()

    with LiveView(planned=10, done=0) as view:
        one = seen(view, BatchStarted(1, "raid5", 2))
        assert "building raid5" in one
        assert "rigs" not in one
        two = seen(view, BatchStarted(1, "raid6", 2), TrialStarted("raid6/work", 1, "raid6"))
        assert all(words in two for words in ("2 rigs", "building raid5", "raid6/work round 1"))
        again = seen(
            view, TrialStarted("raid5/work", 1, "raid5"), replace(HOST_LIMITED, stack="raid5", name="raid5/work")
        )
        assert "raid5/work round 1, again alone" in again
        left = seen(view, TrialDone("raid6/work", measured("c1", 1, direction(2e8, 1 << 20)), "raid6"))
        assert "1/2" in left
        last = seen(view, BatchDone(1, "raid6"))
        assert "rigs" not in last
        assert "again alone" in last


def test_an_estimate_is_one_line_and_counts_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    for view in (PlainView(10, 0), PlainView(10, 10), QuietView(10, 0), JsonView(10, 0)):
        view.show_estimate(100.0, 1000.0)
    plain, as_json = capsys.readouterr().out.splitlines()
    assert plain == "it takes about 1 min 30 s, or up to about 17 min"
    assert json.loads(as_json) == {"event": "estimate", "seconds_least": 100.0, "seconds_most": 1000.0}


def test_the_live_view_begins_with_the_estimate() -> None:
    view = LiveView(planned=2, done=0)
    screen = view._bar.console.file = io.StringIO()
    with view:
        view.show_estimate(265.0, 265.0)
        view._bar.refresh()
    assert "it takes about 4 min 30 s" in screen.getvalue()
    assert re.fullmatch(r"4:2[45] left", view._left())
    view.event(TrialDone("one", measured("c1", 1, direction(2e8, 1 << 20)), "array"))
    view.event(TrialDone("two", measured("c2", 1, direction(2e8, 1 << 20)), "array"))
    assert view._left() == ""


def test_the_time_left_counts_down_between_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("matrix_runner.cli.progress.time", SimpleNamespace(monotonic=lambda: now))
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr("matrix_runner.cli.progress.Console", lambda **_: console)
    with LiveView(planned=4, done=0) as view:
        view.show_estimate(80.0, 80.0)
        seen = []
        for now in (1000.0, 1007.0, 1020.0, 1049.0, 1060.0):  # noqa: B007 - the clock
            view._bar.refresh()
            seen.append(re.findall(r"(\d+:\d\d) left", terminal.getvalue())[-1])
        assert seen == ["1:20", "1:13", "1:00", "0:31", "0:30"], "half of the time of the trials after this one stays"
        view.event(TrialDone("one", measured("c1", 1, direction(2e8, 1 << 20)), "array"))
        assert view._left() == "1:48 left", "a late trial makes the estimate longer"
        view.event(TimeLeft(50.0))
        now = 1065.0
        assert view._left() == "0:45 left"


def test_an_added_round_raises_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    notice = "guidelines are not decided yet: round 4 adds 2 trials"
    PlainView(6, 6).event(RoundAdded(4, 2, "guidelines are not decided yet"))
    JsonView(6, 6).event(RoundAdded(4, 2, "guidelines are not decided yet"))
    plain, as_json = capsys.readouterr().out.splitlines()
    assert (plain, json.loads(as_json)) == (notice, {"event": "notice", "text": notice})
    view = LiveView(planned=6, done=6)
    screen = view._bar.console.file = io.StringIO()
    with view:
        view.show_estimate(60.0, 60.0)
        view.event(RoundAdded(4, 2, "guidelines are not decided yet"))
        assert view._bar.tasks[0].total == 8
    assert notice in screen.getvalue()


def test_the_start_of_a_machine_has_no_countdown(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("matrix_runner.cli.progress.time", SimpleNamespace(monotonic=lambda: now))
    view = LiveView(planned=4, done=0)
    view._bar.console.file = io.StringIO()
    line = view._bar.tasks[0]
    with view:
        view.show_estimate(80.0, 80.0)
        view.event(BatchStarted(1, "raid5", 1))
        view.progress("starting the virtual machine")
        assert (line.description, view._left()) == ("starting the virtual machine", "")
        now = 1045.0
        view.progress("the virtual machine is up", 1.0)
        assert (line.description, view._left()) == ("building raid5", "1:20 left")
        now = 1065.0
        view.event(TrialDone("one", measured("c1", 1, direction(2e8, 1 << 20)), "raid5"))
        assert view._left() == "1:00 left", "the start does not count as slow trials"
        view.progress("starting the virtual machine")
        now = 1100.0
        view.event(RigWasLost("raid5", "raid5", "QEMU ended", "trying again on a fresh one"))
        assert (line.description, view._left()) == ("building raid5", "1:00 left"), "a failed start ends, too"
        view.progress("starting the virtual machine")
        view.event(TrialDone("two", Trial("c2", 1, Outcome.BROKEN, "no rig came up"), "raid5"))
        assert line.description == "building raid5"


def test_time_stands_while_a_run_waits_for_workers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr("matrix_runner.cli.progress.time", SimpleNamespace(monotonic=lambda: now))
    view = LiveView(planned=4, done=0)
    view._bar.console.file = io.StringIO()
    line = view._bar.tasks[0]
    with view:
        view.show_estimate(80.0, 80.0)
        for seconds in (80.0, 50.0):  # of the run's estimate, then of the coordinator's
            view.event(Waiting("waiting for workers"))
            now += 1000.0
            assert (line.description, view._left()) == ("waiting for workers", "")
            view.event(Waiting(""))
            assert view._left() == f"{int(seconds // 60)}:{int(seconds % 60):02} left"
            view.event(TimeLeft(50.0))
    JsonView(4, 0).event(Waiting("waiting for workers"))
    assert json.loads(capsys.readouterr().out) == {"event": "waiting", "what": "waiting for workers"}


def test_the_reason_for_waiting_stays_while_lost_batches_end() -> None:
    view = LiveView(planned=4, done=0)
    view._bar.console.file = io.StringIO()
    line = view._bar.tasks[0]
    with view:
        for host in ("lab", "shelf"):
            view.event(BatchStarted(1, "raid5", 1, host))
        view.event(Waiting("waiting for the scheduler"))
        for host in ("lab", "shelf"):
            view.event(BatchDone(1, "raid5", host))
            assert line.description == "waiting for the scheduler"
        view.event(Waiting(""))
        view.event(BatchStarted(1, "raid5", 1, "lab"))
        assert line.description == "lab: building raid5"


def test_a_step_that_is_done_has_no_ellipsis(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView(1, 0)
    view.progress("appliance: packing the kernel", 0.8)
    view.progress("appliance: done", 1.0)
    assert capsys.readouterr().out == "appliance: packing the kernel …\nappliance: done\n"


def test_rounds_of_one_stack_on_a_cluster_have_lines_by_host(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr("matrix_runner.cli.progress.Console", lambda **_: console)

    def seen(view: LiveView, *events: Event) -> str:
        for event in events:
            view.event(event)
        terminal.seek(0)
        terminal.truncate()
        view._bar.refresh()
        return terminal.getvalue()

    with LiveView(planned=10, done=0) as view:
        started = (
            BatchStarted(1, "raid5", 2, "one"),
            BatchStarted(2, "raid5", 2, "two"),
            BatchStarted(3, "raid5", 2, "two"),
        )
        seen(view, *started)
        assert "two: raid5/work round 3" in seen(view, TrialStarted("raid5/work", 3, "raid5", "two"))
        on_two = replace(measured("c1", 2, direction(2e8, 1 << 20)), **noted({HOST: "two"}))
        assert "1/2" in seen(view, TrialDone("raid5/work", on_two, "raid5"))
        assert "two: raid5/work" in seen(view, BatchDone(2, "raid5", "two")), "another batch is under way there"
        rest = seen(view, BatchDone(3, "raid5", "two"))
        assert "one: building raid5" in rest
        assert "two:" not in rest
        seen(view, BatchDone(1, "raid5", "one"))


def test_the_forecast_of_a_cluster_replaces_the_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    JsonView(3, 0).event(TimeLeft(3600.0))
    assert json.loads(capsys.readouterr().out) == {"event": "time-left", "seconds": 3600.0}
    view = LiveView(planned=3, done=0)
    view.show_estimate(265.0, 265.0)
    view.event(TimeLeft(3600.0))
    view.event(TrialDone("one", measured("c1", 1, direction(2e8, 1 << 20)), "array"))
    assert re.fullmatch(r"(60:00|59:\d\d) left", view._left())


def test_a_live_view_shows_the_ranking_of_a_race() -> None:
    console = Console(file=io.StringIO(), width=100)
    with LiveView(2, 0) as live:
        for number, order in enumerate(["copy: raid10, raid5 0.951×", "copy: raid10; out: raid5"], start=3):
            live.event(RoundAdded(number, 2, "the race is not decided yet", (order,)))
            with console.capture() as shown:
                console.print(live._bar.get_renderable())
            assert f"so far {order}\n" in re.sub(" +\n", "\n", shown.get())
            assert shown.get().count("so far") == 1


def test_a_live_view_shows_a_reason_for_more_rounds_once(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveView(2, 0) as live:
        for number, reason in enumerate(["comparing a with b", "comparing a with b", "the odds are b 50 %"], start=1):
            live.event(RoundAdded(number, 2, reason))
    shown = capsys.readouterr().out
    assert shown.count("comparing a with b") == 1
    assert "the odds are b 50 %: round 3 adds 2 trials" in shown
