"""The output of a running run: a live bar, plain lines, JSON lines or only errors."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

from runner.cli.screen import WIDTH, RunOutput, columns_of, echo, print_sheet
from runner.engine.estimate import remaining_seconds
from runner.engine.recorder import BatchDone, BatchStarted, RigUp, RigWasLost, TrialDone, TrialHostLimited, TrialStarted
from runner.reports.terminal_text import BAD, DOUBT, about
from runner.results.record import Outcome

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from rich.progress import TaskID

    from runner.engine.recorder import Event
    from runner.guidelines.verdicts import Judgement
    from runner.results.record import Trial
    from runner.session.finish import Ending


class View(AbstractContextManager["View"], ABC):
    """Shows the events of a run of `planned` trials, of which `done` are recorded already."""

    def __init__(self, planned: int, done: int) -> None:
        self.planned, self.done = planned, done
        self.output = RunOutput()
        self._expected = 0.0

    def print_line(self, text: str) -> None:
        echo(text, stream=cast("TextIO", self.output))

    def start_run(self, folder: Path) -> None:
        self.notice(f"results go to {folder}/")

    def show_estimate(self, least: float, most: float) -> None:
        self._expected = most
        if self.done < self.planned:
            text, longest = about(least), about(most)
            self.notice(f"it takes {text}" if text == longest else f"it takes {text}, or up to {longest}")

    def end_run(self, end: Ending) -> None:
        from runner.reports.terminal import caption, table

        stream = cast("TextIO", self.output)
        print_sheet(table(end.content), stream)
        self.print_line(caption(end.content))
        if end.content.judgements:
            self._verdicts(end)
        for line in end.lines(columns_of(stream) or WIDTH):
            self.print_line(line)

    def _verdicts(self, end: Ending) -> None:
        from runner.reports.table import as_sheet
        from runner.reports.verdicts import verdict_table

        grid = verdict_table(end.content.judgements)
        print_sheet(as_sheet(grid), cast("TextIO", self.output))
        for note in grid.notes:
            self.print_line(note)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def _count(self) -> None:
        """Count a trial. Guidelines may add trials to the planned number."""
        self.done += 1
        self.planned = max(self.planned, self.done)

    @abstractmethod
    def event(self, event: Event) -> None:
        pass

    @abstractmethod
    def notice(self, text: str) -> None:
        pass

    def trouble(self, text: str) -> None:
        self.notice(text)

    @abstractmethod
    def progress(self, brief: str, fraction: float | None = None) -> None:
        """Show the progress of a long step before or between trials."""


def format_trial(trial: Trial) -> str:
    if trial.figures is None:
        return f"{trial.outcome}: {trial.reason}"
    parts = []
    for name, direction in (("read", trial.figures.read), ("write", trial.figures.write)):
        if direction is not None:
            parts.append(f"{name} {direction.bw / 1e6:,.1f} MB/s {direction.iops:,.0f} IOPS")
    return ", ".join(parts)


def format_repeat(event: TrialHostLimited) -> str:
    others = f"{event.beside} other{'s' if event.beside > 1 else ''}"
    return f"host-limited beside {others}, {event.overload}; it is measured again alone"


class QuietView(View):
    def event(self, event: Event) -> None:
        if isinstance(event, RigWasLost):
            echo(f"{event.name}: {event.reason}; {event.next}", err=True)
        elif isinstance(event, TrialDone) and event.trial.outcome is not Outcome.MEASURED:
            echo(f"{event.name}: {format_trial(event.trial)}", err=True)

    def notice(self, text: str) -> None:
        pass

    def trouble(self, text: str) -> None:
        echo(text, err=True)

    def progress(self, brief: str, fraction: float | None = None) -> None:
        pass

    def end_run(self, end: Ending) -> None:
        if end.failure:
            echo(end.failure, err=True)
        self.print_line(end.location)


class JsonView(View):
    def start_run(self, folder: Path) -> None:
        self._print(event="run", folder=str(folder), planned=self.planned, done=self.done)

    def end_run(self, end: Ending) -> None:
        from runner.reports.answer import as_objects
        from runner.studies.compare import tally

        self._print(
            event="end",
            folder=str(end.path),
            files=[str(path) for path in end.files],
            outcomes={outcome.value: end.outcomes.get(outcome, 0) for outcome in Outcome},
            planned=end.planned,
            finished=end.finished,
            until_not_reached=end.imprecise_cells,
            guidelines=[_verdict_row(one) for one in end.content.judgements],
            answer=as_objects(end.content.rankings),
            published={verdict.value: count for verdict, count in tally(end.comparisons).items()},
            exit=int(end.exit),
        )

    def show_estimate(self, least: float, most: float) -> None:
        self._print(event="estimate", seconds_least=least, seconds_most=most)

    def event(self, event: Event) -> None:
        if isinstance(event, TrialDone):
            self._count()
            count = {"done": self.done, "planned": self.planned}
            self._print(event="trial", name=event.name, stack=event.stack, **count, **_row(event.trial))
        elif isinstance(event, RigWasLost):
            self._print(event="rig-lost", name=event.name, stack=event.stack, reason=event.reason, next=event.next)
        elif isinstance(event, TrialHostLimited):
            beside = {"host_limited": event.overload, "beside": event.beside}
            self._print(event="host-limited", name=event.name, stack=event.stack, round=event.round, **beside)
        elif isinstance(event, RigUp):
            self._print(event="rig-up", stack=event.stack, seconds=event.seconds, facts=dict(event.facts))
        elif isinstance(event, BatchStarted):
            self._print(event="batch", round=event.round, stack=event.stack, cells=event.cells)
        elif isinstance(event, BatchDone):
            self._print(event="batch-done", round=event.round, stack=event.stack)

    def notice(self, text: str) -> None:
        self._print(event="notice", text=text)

    def progress(self, brief: str, fraction: float | None = None) -> None:
        self._print(event="progress", brief=brief, fraction=fraction)

    def _print(self, **fields: Any) -> None:
        import orjson

        self.print_line(orjson.dumps(fields).decode())


def _verdict_row(judgement: Judgement) -> dict[str, Any]:
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
    def __init__(self, planned: int, done: int) -> None:
        super().__init__(planned, done)
        self._last_brief = ""

    def event(self, event: Event) -> None:
        if isinstance(event, TrialDone):
            self._count()
            self.print_line(f"[{self.done}/{self.planned}] {event.name}: {format_trial(event.trial)}")
        elif isinstance(event, RigWasLost):
            self.print_line(f"{event.name}: {event.reason}; {event.next}")
        elif isinstance(event, TrialHostLimited):
            self.print_line(f"{event.name}: {format_repeat(event)}")

    def notice(self, text: str) -> None:
        self.print_line(text)

    def progress(self, brief: str, fraction: float | None = None) -> None:  # noqa: ARG002
        if brief != self._last_brief:
            self._last_brief = brief
            self.print_line(f"{brief} …")


class LiveView(View):
    def __init__(self, planned: int, done: int) -> None:
        super().__init__(planned, done)
        from runner.cli.screen import progress_bar

        self._bar = progress_bar(cast("TextIO", self.output))
        self._started, self._before = time.monotonic(), done
        self._trials: TaskID = self._bar.add_task("trials", total=planned, completed=done, left="", last="")
        self._long: TaskID | None = None
        #: The line and the activity of every stack under measurement.
        self._rigs: dict[str, TaskID] = {}
        self._activities: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def event(self, event: Event) -> None:
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
                last=f"last: {format_trial(event.trial)}",
            )
            if event.stack in self._rigs:
                self._bar.advance(self._rigs[event.stack])
            if event.trial.outcome is not Outcome.MEASURED:
                self._bar.console.print(f"{event.name}: {format_trial(event.trial)}", style=BAD, markup=False)
        elif isinstance(event, RigWasLost):
            self._bar.console.print(f"{event.name}: {event.reason}; {event.next}", style=DOUBT, markup=False)
        elif isinstance(event, BatchStarted):
            self._rigs[event.stack] = self._bar.add_task("", total=event.cells, visible=False, left="", last="")
            self._now(event.stack, f"building {event.stack}")
        elif isinstance(event, BatchDone):
            self._bar.remove_task(self._rigs.pop(event.stack))
            del self._activities[event.stack]
            self._show()

    def _now(self, stack: str, doing: str) -> None:
        self._activities[stack] = doing
        self._show()

    def _show(self) -> None:
        several = len(self._activities) > 1
        if self._activities:
            one = next(iter(self._activities.values()))
            self._bar.update(self._trials, description=f"{len(self._activities)} rigs" if several else one)
        for stack, line in self._rigs.items():
            self._bar.update(line, description=self._activities[stack], visible=several)

    def notice(self, text: str) -> None:
        self._bar.console.print(text, markup=False)

    def progress(self, brief: str, fraction: float | None = None) -> None:
        if self._long is None:
            self._long = self._bar.add_task(brief, total=100, left="", last="")
        total = None if fraction is None else 100
        self._bar.update(
            self._long, description=brief, total=total, completed=(fraction or 0) * 100, visible=fraction != 1.0
        )

    def show_estimate(self, least: float, most: float) -> None:
        super().show_estimate(least, most)
        self._bar.update(self._trials, left=self._left())

    def _left(self) -> str:
        if self.done >= self.planned:
            return ""
        share = (self.done - self._before) / (self.planned - self._before)
        seconds = int(remaining_seconds(self._expected, share, time.monotonic() - self._started))
        return f"{seconds // 60}:{seconds % 60:02} left"
