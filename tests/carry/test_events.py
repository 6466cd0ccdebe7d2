"""The table of events: a class is enough for an event."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from matrix_runner.carry.batch_messages import FROM_HOSTS, Outbox, event_of, parsed
from matrix_runner.carry.events import EVENTS, Event, RigUp, RigWasLost, TrialDone, TrialStarted
from matrix_runner.cli.progress import JsonView, LiveView, PlainView, QuietView
from matrix_runner.pages.terminal_text import DOUBT
from matrix_runner.records.record import TrialFacts
from tests.pages.samples import direction, measured

DOCUMENTED = (Path(__file__).parents[2] / "docs/reference/files.md").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Heat(Event):
    """An event that no other module knows."""

    word = "heat"
    stack: str
    degrees: int
    host: str = ""

    @property
    def text(self) -> str:
        return f"{self.stack}: {self.degrees} °C"

    @property
    def style(self) -> str:
        return DOUBT


def test_each_view_shows_an_added_event(capsys: pytest.CaptureFixture[str]) -> None:
    for view in (PlainView(2, 0), QuietView(2, 0), JsonView(2, 0)):
        view.event(Heat("raid5", 71))
    shown = capsys.readouterr()
    plain, as_json = shown.out.splitlines()
    assert plain == shown.err.strip() == "raid5: 71 °C"
    assert json.loads(as_json) == {"event": "heat", "stack": "raid5", "degrees": 71}
    with LiveView(2, 0) as live:
        live.event(Heat("raid5", 71))
    assert "raid5: 71 °C" in "".join(capsys.readouterr())


@pytest.mark.parametrize("event", [one for one in EVENTS if one.word and one.in_json])
def test_each_event_of_json_is_documented(event: type[Event]) -> None:
    assert f"`{event.word}`" in DOCUMENTED


@pytest.mark.parametrize(
    "event",
    [
        RigUp("raid5", 1.5, {"kernel": "6.1"}),
        TrialStarted("a", 1, "raid5"),
        RigWasLost("a", "raid5", "why", "what next"),
    ],
)
def test_an_event_of_a_batch_process_arrives_as_it_was_sent(event: Event) -> None:
    lines: list[bytes] = []
    Outbox(lines.append).send_event(event)
    assert event_of(parsed(lines[0])) == event
    assert type(event) is FROM_HOSTS[event.word]
    for one in fields(event):
        message = json.loads(lines[0])
        del message[one.name]
        with pytest.raises(Exception, match="does not fit"):
            parsed(json.dumps(message).encode())


@pytest.mark.parametrize(("crowded", "whose"), [(0.85, "host"), (0.0, "processor")])
def test_the_line_of_a_trial_says_that_it_lost_time(crowded: float, whose: str) -> None:
    trial = measured("c1", 1, direction(2e8, 1 << 20))
    assert "limited" not in TrialDone("a", trial, "raid5").text
    limited = replace(trial, facts=TrialFacts(lost=0.856, lost_crowded=crowded, lost_processor=0.85 - crowded))
    assert TrialDone("a", limited, "raid5").text.endswith(f", {whose}-limited: 86 % of the time lost")
