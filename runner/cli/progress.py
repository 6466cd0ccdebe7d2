"""What a user sees while a run goes on: a live bar on a terminal, plain lines in a pipe, JSON lines, or nothing."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

from runner.cli.output import Voice
from runner.cli.screen import WIDTH, columns_of, echo, show
from runner.engine.estimate import remaining_seconds
from runner.engine.events import BatchDone, BatchStarted, RigUp, RigWasLost, TrialDone, TrialHostLimited, TrialStarted
from runner.reports.number_format import about
from runner.reports.terminal_text import BAD, DOUBT
from runner.results.record import Outcome

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from rich.progress import TaskID

    from runner.engine.events import Event
    from runner.guidelines.verdicts import Judgement
    from runner.results.record import Trial
    from runner.session.finish import Ending


class View(AbstractContextManager["View"], ABC):
    """Shows events of a run of `planned` trials, of which `done` are recorded from before."""

    def __init__(self, planned: int, done: int) -> None:
        self.planned, self.done = planned, done
        self.voice = Voice()
        self._expected = 0.0

    def say(self, text: str) -> None:
        """A line on standard output, while there is one."""
        echo(text, stream=cast("TextIO", self.voice))

    def start_run(self, folder: Path) -> None:
        """The run begins, or goes on; `folder` is where everything goes."""
        self.notice(f"results go to {folder}/")

    def show_estimate(self, least: float, most: float) -> None:
        """Tell how long what is left of the run takes, in seconds."""
        self._expected = most
        if self.done < self.planned:
            text, longest = about(least), about(most)
            self.notice(f"it takes {text}" if text == longest else f"it takes {text}, or up to {longest}")

    def end_run(self, end: Ending) -> None:
        """The reports are written: the table, and where everything is."""
        from runner.reports.terminal import caption, table

        stream = cast("TextIO", self.voice)
        show(table(end.content), stream)
        self.say(caption(end.content))
        if end.content.judgements:
            self._verdicts(end)
        for line in end.lines(columns_of(stream) or WIDTH):
            self.say(line)

    def _verdicts(self, end: Ending) -> None:
        from runner.reports.table import as_sheet
        from runner.reports.verdicts import verdict_table

        grid = verdict_table(end.content.judgements)
        show(as_sheet(grid), cast("TextIO", self.voice))
        for note in grid.notes:
            self.say(note)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def _count(self) -> None:
        """One more is done; where guidelines want more than was planned, that is the plan."""
        self.done += 1
        self.planned = max(self.planned, self.done)

    @abstractmethod
    def event(self, event: Event) -> None:
        """Something happened."""

    @abstractmethod
    def notice(self, text: str) -> None:
        """One line worth knowing."""

    def trouble(self, text: str) -> None:
        """One line about something that went wrong, and is gone on without."""
        self.notice(text)

    @abstractmethod
    def progress(self, brief: str, fraction: float | None = None) -> None:
        """Something long, before or between trials."""


def rate(trial: Trial) -> str:
    """What a trial came to, in a few words."""
    if trial.figures is None:
        return f"{trial.outcome}: {trial.reason}"
    parts = []
    for name, direction in (("read", trial.figures.read), ("write", trial.figures.write)):
        if direction is not None:
            parts.append(f"{name} {direction.bw / 1e6:,.1f} MB/s {direction.iops:,.0f} IOPS")
    return ", ".join(parts)


def again(event: TrialHostLimited) -> str:
    """Why a trial is measured once more."""
    others = f"{event.beside} other{'s' if event.beside > 1 else ''}"
    return f"host-limited beside {others}, {event.overload}; it is measured again alone"


class QuietView(View):
    """Nothing but what went wrong, and where the files are."""

    def event(self, event: Event) -> None:
        """Losses, and trials without figures."""
        if isinstance(event, RigWasLost):
            echo(f"{event.name}: {event.reason}; {event.next}", err=True)
        elif isinstance(event, TrialDone) and event.trial.outcome is not Outcome.MEASURED:
            echo(f"{event.name}: {rate(event.trial)}", err=True)

    def notice(self, text: str) -> None:
        """Nothing."""

    def trouble(self, text: str) -> None:
        """A line."""
        echo(text, err=True)

    def progress(self, brief: str, fraction: float | None = None) -> None:
        """Nothing."""

    def end_run(self, end: Ending) -> None:
        """One line; and that it was in vain, if it was."""
        if end.failure:
            echo(end.failure, err=True)
        self.say(end.location)


class JsonView(View):
    """One JSON object a line, for programs that watch."""

    def start_run(self, folder: Path) -> None:
        """Where everything goes, and what is there already."""
        self._say(event="run", folder=str(folder), planned=self.planned, done=self.done)

    def end_run(self, end: Ending) -> None:
        """What became of it all."""
        from runner.reports.answer import as_objects
        from runner.studies.compare import tally

        self._say(
            event="end",
            folder=str(end.path),
            files=[str(path) for path in end.files],
            outcomes={outcome.value: end.outcomes.get(outcome, 0) for outcome in Outcome},
            planned=end.planned,
            finished=end.finished,
            until_not_reached=end.imprecise_cells,
            guidelines=[_said(one) for one in end.content.judgements],
            answer=as_objects(end.content.rankings),
            published={said.value: count for said, count in tally(end.comparisons).items()},
            exit=int(end.exit),
        )

    def show_estimate(self, least: float, most: float) -> None:
        """The estimate."""
        self._say(event="estimate", seconds_least=least, seconds_most=most)

    def event(self, event: Event) -> None:
        """Every event as it is."""
        if isinstance(event, TrialDone):
            self._count()
            count = {"done": self.done, "planned": self.planned}
            self._say(event="trial", name=event.name, stack=event.stack, **count, **_row(event.trial))
        elif isinstance(event, RigWasLost):
            self._say(event="rig-lost", name=event.name, stack=event.stack, reason=event.reason, next=event.next)
        elif isinstance(event, TrialHostLimited):
            beside = {"host_limited": event.overload, "beside": event.beside}
            self._say(event="host-limited", name=event.name, stack=event.stack, round=event.round, **beside)
        elif isinstance(event, RigUp):
            self._say(event="rig-up", stack=event.stack, seconds=event.seconds, facts=dict(event.facts))
        elif isinstance(event, BatchStarted):
            self._say(event="batch", round=event.round, stack=event.stack, cells=event.cells)
        elif isinstance(event, BatchDone):
            self._say(event="batch-done", round=event.round, stack=event.stack)

    def notice(self, text: str) -> None:
        """A notice."""
        self._say(event="notice", text=text)

    def progress(self, brief: str, fraction: float | None = None) -> None:
        """A step of something long."""
        self._say(event="progress", brief=brief, fraction=fraction)

    def _say(self, **fields: Any) -> None:
        import orjson

        self.say(orjson.dumps(fields).decode())


def _said(judgement: Judgement) -> dict[str, Any]:
    from runner.reports.verdicts import explain_verdict

    return {
        "id": judgement.guideline.id,
        "verdict": judgement.verdict.value,
        "synthetic": judgement.synthetic,
        "why": explain_verdict(judgement),
    }


def _row(trial: Trial) -> dict[str, Any]:
    figures = trial.figures
    row: dict[str, Any] = {
        "cell": trial.cell,
        "round": trial.round,
        "outcome": trial.outcome.value,
        "reason": trial.reason,
    }
    for name, direction in (("read", figures and figures.read), ("write", figures and figures.write)):
        if direction:
            row |= {f"{name}_bw": direction.bw, f"{name}_iops": direction.iops}
    return row


class PlainView(View):
    """Log lines."""

    def __init__(self, planned: int, done: int) -> None:
        super().__init__(planned, done)
        self._said = ""

    def event(self, event: Event) -> None:
        """A line for every trial, every loss and every repetition; each begins with its cell."""
        if isinstance(event, TrialDone):
            self._count()
            self.say(f"[{self.done}/{self.planned}] {event.name}: {rate(event.trial)}")
        elif isinstance(event, RigWasLost):
            self.say(f"{event.name}: {event.reason}; {event.next}")
        elif isinstance(event, TrialHostLimited):
            self.say(f"{event.name}: {again(event)}")

    def notice(self, text: str) -> None:
        """A line."""
        self.say(text)

    def progress(self, brief: str, fraction: float | None = None) -> None:  # noqa: ARG002
        """A line when something new begins, not for every step of it."""
        if brief != self._said:
            self._said = brief
            self.say(f"{brief} …")


class LiveView(View):
    """A line with the trial under way and how long it will take; where several rigs are at work, a line for each."""

    def __init__(self, planned: int, done: int) -> None:
        super().__init__(planned, done)
        from runner.cli.bar import progress_bar

        self._bar = progress_bar(cast("TextIO", self.voice))
        self._began, self._before = time.monotonic(), done
        self._trials: TaskID = self._bar.add_task("trials", total=planned, completed=done, left="", last="")
        self._long: TaskID | None = None
        #: Of every stack that is being measured: its line, and what is going on there.
        self._rigs: dict[str, TaskID] = {}
        self._doing: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def event(self, event: Event) -> None:
        """Move the bar."""
        if isinstance(event, TrialStarted):
            self._now(event.stack, f"{event.name} round {event.round}")
        elif isinstance(event, TrialHostLimited):
            self._now(event.stack, f"{event.name} round {event.round}, again alone")
        elif isinstance(event, TrialDone):
            self._count()
            self._bar.update(
                self._trials,
                completed=self.done,
                total=self.planned,
                left=self._left(),
                last=f"last: {rate(event.trial)}",
            )
            if event.stack in self._rigs:
                self._bar.advance(self._rigs[event.stack])
            if event.trial.outcome is not Outcome.MEASURED:
                self._bar.console.print(f"{event.name}: {rate(event.trial)}", style=BAD, markup=False)
        elif isinstance(event, RigWasLost):
            self._bar.console.print(f"{event.name}: {event.reason}; {event.next}", style=DOUBT, markup=False)
        elif isinstance(event, BatchStarted):
            self._rigs[event.stack] = self._bar.add_task("", total=event.cells, visible=False, left="", last="")
            self._now(event.stack, f"building {event.stack}")
        elif isinstance(event, BatchDone):
            self._bar.remove_task(self._rigs.pop(event.stack))
            del self._doing[event.stack]
            self._show()

    def _now(self, stack: str, doing: str) -> None:
        self._doing[stack] = doing
        self._show()

    def _show(self) -> None:
        """One rig has the line of the bar itself."""
        several = len(self._doing) > 1
        if self._doing:
            one = next(iter(self._doing.values()))
            self._bar.update(self._trials, description=f"{len(self._doing)} rigs" if several else one)
        for stack, line in self._rigs.items():
            self._bar.update(line, description=self._doing[stack], visible=several)

    def notice(self, text: str) -> None:
        """A line above the bar."""
        self._bar.console.print(text, markup=False)

    def progress(self, brief: str, fraction: float | None = None) -> None:
        """A bar of its own while it lasts."""
        if self._long is None:
            self._long = self._bar.add_task(brief, total=100, left="", last="")
        total = None if fraction is None else 100
        self._bar.update(
            self._long, description=brief, total=total, completed=(fraction or 0) * 100, visible=fraction != 1.0
        )

    def show_estimate(self, least: float, most: float) -> None:
        """Begin with the estimate; what was measured then corrects it."""
        super().show_estimate(least, most)
        self._bar.update(self._trials, left=self._left())

    def _left(self) -> str:
        if self.done >= self.planned:
            return ""
        share = (self.done - self._before) / (self.planned - self._before)
        seconds = int(remaining_seconds(self._expected, share, time.monotonic() - self._began))
        return f"{seconds // 60}:{seconds % 60:02} left"
