"""The output of a running run: a live bar, plain lines, JSON lines or only errors."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TextIO, cast

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TaskID
from rich.text import Text
from rich.theme import Theme

from matrix_runner.answers.published import tally
from matrix_runner.base.text import printable
from matrix_runner.carry.events import (
    BatchDone,
    BatchStarted,
    Event,
    RoundAdded,
    TimeLeft,
    TrialDone,
    Waiting,
)
from matrix_runner.cli.screen import WIDTH, RunOutput, columns_of, echo, json_text, print_sheet
from matrix_runner.decide.estimate import count_down, remaining_seconds
from matrix_runner.pages import bisect
from matrix_runner.pages.answer import as_objects
from matrix_runner.pages.pts import has_tables, pts_sheets
from matrix_runner.pages.ranking import MOST_STACKS, beaten_rows, decision_grid
from matrix_runner.pages.sections import job_sheet
from matrix_runner.pages.study import WORDS
from matrix_runner.pages.table import Grid, as_sheet
from matrix_runner.pages.terminal import caption, shown_cells, table
from matrix_runner.pages.terminal_text import GOOD, about
from matrix_runner.pages.verdicts import explain_verdict, knee_values, verdict_table
from matrix_runner.records.record import Outcome
from matrix_runner.session.finish import Ending
from matrix_runner.session.run import Observer

_FOR_BAR, _FOR_FIGURES = 80, 140  # the terminal widths from which the bar, and the figures of the last trial, have room
_BAR = 16
_SPINNER = 2  # the spinner and the space after it
_ECHO = 2  # `^C`, which a terminal adds to the line; it must not begin another
_Rig = tuple[str, str]  # host and stack
_THEME = Theme({"progress.spinner": GOOD})


def progress_bar(stream: TextIO) -> Progress:
    console = Console(file=stream, theme=_THEME, highlight=False)
    # No redirection: `RunOutput` writes to sys.stdout, which must not lead back to this console.
    # Not expanded: a padded line would wrap and leave remains when the terminal becomes narrower.
    return Progress(
        SpinnerColumn(), _Line(console), transient=True, console=console, redirect_stdout=False, redirect_stderr=False
    )


class _Line(ProgressColumn):
    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def render(self, task: Task) -> Text:
        room, seconds = self._console.width - _SPINNER - _ECHO, int(task.elapsed or 0)
        if task.total is None:
            whole = printable(task.description)
            return Text(whole if len(whole) <= room else f"{whole[: room - 1]}…", no_wrap=True)
        total = str(int(task.total))
        elapsed = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts = [f"{int(task.completed):{len(total)}}/{total}", elapsed, task.fields["left"]()]
        if self._console.width >= _FOR_BAR:
            done = int(_BAR * task.percentage / 100) if task.total else 0
            parts.insert(1, "━" * done + "─" * (_BAR - done))
        line = " ".join(filter(None, parts))
        line = f"{line} {shorten(printable(task.description), max(0, room - len(line) - 1))}"
        text = Text(line[:room], no_wrap=True)
        if self._console.width >= _FOR_FIGURES and task.fields["last"]:
            text.append(f"  {printable(task.fields['last'])}"[: room - len(text)], style=GOOD)
        return text


def shorten(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    tail = width // 2
    return f"{text[: max(width - tail - 1, 0)]}…{text[len(text) - tail :]}"


class View(Observer):
    def __init__(self, planned: int, done: int) -> None:
        super().__init__(planned, done)
        self.output = RunOutput()
        self.stream = cast("TextIO", self.output)
        self._expected = 0.0

    def print_line(self, text: str) -> None:
        echo(text, stream=self.stream)

    def start_run(self, folder: Path) -> None:
        self.notice(f"results go to {folder}/")

    def show_estimate(self, least: float, most: float) -> None:
        self._expected = most
        if self.done < self.planned:
            text, longest = about(least), about(most)
            self.notice(f"it takes {text}" if text == longest else f"it takes {text}, or up to {longest}")

    def end_run(self, end: Ending) -> None:
        if end.search:
            print_sheet(as_sheet(bisect.table(end.search)), self.stream)
            for line in bisect.answer_lines(end.search):
                self.print_line(line)
            self.print_line(f"{end.path}/: {', '.join(bisect.FILES)}, report.html")
        else:
            self._show_figures(end)

    def _show_figures(self, end: Ending) -> None:
        sheet = table(end.content)
        if not end.finished:
            sheet = replace(sheet, title=f"{sheet.title}; incomplete: {end.trials}")
        print_sheet(sheet, self.stream)
        self.print_line(caption(end.content))
        if jobs := job_sheet(one for one in shown_cells(end.content) if not has_tables(one.cell)):
            print_sheet(jobs, self.stream)
        for sheet in pts_sheets(end.content):
            print_sheet(sheet, self.stream)
        if end.content.judgements:
            self._show(verdict_table(end.content.judgements))
        if found := end.content.decision:
            self._show(decision_grid(found, MOST_STACKS), beaten_rows(found))
        for line in end.lines(columns_of(self.stream) or WIDTH):
            self.print_line(line)

    def _show(self, grid: Grid, faint: Sequence[int] = ()) -> None:
        print_sheet(as_sheet(grid, faint), self.stream)
        for note in grid.notes:
            self.print_line(note)

    def event(self, event: Event) -> None:
        self.done, self.planned = event.advance(self.done, self.planned)


class QuietView(View):
    def event(self, event: Event) -> None:
        if event.style:
            echo(event.text, err=True)

    def trouble(self, text: str) -> None:
        echo(text, err=True)

    def end_run(self, end: Ending) -> None:
        if end.failure:
            echo(end.failure, err=True)
        for line in bisect.answer_lines(end.search) if end.search else ():
            self.print_line(line)
        self.print_line(end.location)


class JsonView(View):
    def start_run(self, folder: Path) -> None:
        self._print(event="run", folder=str(folder), planned=self.planned, done=self.done)

    def end_run(self, end: Ending) -> None:
        self._print(
            event="end",
            folder=str(end.path),
            files=[str(path) for path in end.files],
            outcomes={outcome.value: end.outcomes.get(outcome, 0) for outcome in Outcome},
            planned=end.planned,
            finished=end.finished,
            until_not_reached=end.content.imprecise,
            guidelines=[
                {
                    "id": judgement.guideline.id,
                    "verdict": judgement.verdict.value,
                    "synthetic": judgement.synthetic,
                    "why": explain_verdict(judgement),
                }
                for judgement in end.content.judgements
            ],
            answer=as_objects(end.content.rankings),
            found=[knee_values(knee) for knee in end.content.knees],
            published={WORDS[verdict]: count for verdict, count in tally(end.comparisons).items()},
            **({"search": bisect.search_values(end.search)} if end.search else {}),
            exit=int(end.exit),
        )

    def show_estimate(self, least: float, most: float) -> None:
        self._print(event="estimate", seconds_least=least, seconds_most=most)

    def event(self, event: Event) -> None:
        super().event(event)
        if event.word and event.in_json:
            values = event.values
            if event.is_trial:
                first = {name: values.pop(name) for name in ("name", "stack")}
                values = {**first, "done": self.done, "planned": self.planned, **values}
            self._print(event=event.word, **values)

    def notice(self, text: str) -> None:
        self._print(event="notice", text=text)

    def progress(self, brief: str, fraction: float | None = None) -> None:
        self._print(event="progress", brief=brief, fraction=fraction)

    def _print(self, **fields: Any) -> None:
        self.print_line(json_text(fields))


class PlainView(View):
    def __init__(self, planned: int, done: int) -> None:
        super().__init__(planned, done)
        self._last_brief = ""

    def event(self, event: Event) -> None:
        super().event(event)
        if event.text:
            self.print_line(f"{f'[{self.done}/{self.planned}] ' * event.is_trial}{event.text}")

    def notice(self, text: str) -> None:
        self.print_line(text)

    def progress(self, brief: str, fraction: float | None = None) -> None:
        if brief != self._last_brief:
            self._last_brief = brief
            self.print_line(brief if fraction == 1 else f"{brief} …")


class LiveView(View):
    def __init__(self, planned: int, done: int) -> None:
        super().__init__(planned, done)
        self._bar = progress_bar(self.stream)
        self._started, self._before = time.monotonic(), done
        self._of_cluster = False  # the estimate is of the coordinator of a cluster
        self._waits_for = ""  # what a run on a cluster waits for
        self._reason = ""  # of the last added round
        #: The latest estimate of the seconds left, and when it was made.
        self._estimate, self._estimated = 0.0, self._started
        self._ranking: list[TaskID] = []  # the lines of a race
        self._trials: TaskID = self._bar.add_task("trials", total=planned, completed=done, left=self._left, last="")
        self._long: TaskID | None = None
        self._step_began: float | None = None  # of the long step that goes on
        #: By host and stack under measurement: its line, the number of its batches, and its activity.
        self._rigs: dict[_Rig, TaskID] = {}
        self._batches = Counter[_Rig]()
        self._activities: dict[_Rig, str] = {}

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def event(self, event: Event) -> None:
        known = self.done, self.planned
        super().event(event)
        if event.activity:
            self._now(self._rig_of(event), event.activity)
        if known != (self.done, self.planned):
            self._bar.update(self._trials, completed=self.done, total=self.planned)
            self._estimate_rest()
        if isinstance(event, TrialDone):
            self._end_trial(event)
        elif isinstance(event, RoundAdded):
            self._rank(event.ranking)
        elif isinstance(event, BatchStarted):
            self._begin((event.host, event.stack), event.cells)
        elif isinstance(event, BatchDone):
            self._end((event.host, event.stack))
        elif isinstance(event, TimeLeft | Waiting):
            self._show_cluster(event)
        if event.style:
            self._end_step()
        if event.style is not None and not self._is_repeated(event):
            self._print(event.text, event.style or None)

    def _is_repeated(self, event: Event) -> bool:
        """Return whether a round is added for the same reason as the one before: the bar shows that it goes on."""
        before, self._reason = self._reason, event.reason if isinstance(event, RoundAdded) else self._reason
        return isinstance(event, RoundAdded) and before == self._reason

    def _rank(self, lines: Sequence[str]) -> None:
        for one in self._ranking:
            self._bar.remove_task(one)
        self._ranking = [self._bar.add_task(f"so far {line}", total=None, left=str, last="") for line in lines]

    def _show_cluster(self, event: TimeLeft | Waiting) -> None:
        if isinstance(event, TimeLeft):
            self._of_cluster = True
            self._estimate, self._estimated = event.seconds, time.monotonic()
            return
        self._waits_for = event.what
        if event.what:
            self.progress(event.what)
        else:
            self._end_step()

    def _end_trial(self, event: TrialDone) -> None:
        self._bar.update(self._trials, last=f"last: {event.result}")
        rig = event.trial.facts.host, event.stack
        if rig in self._rigs:
            self._bar.advance(self._rigs[rig])

    def _rig_of(self, event: Event) -> _Rig:
        """Return the rig of its stack: that of its host, if it names one."""
        stack, host = getattr(event, "stack", ""), getattr(event, "host", None)
        found = (one for one in self._rigs if one[1] == stack)
        return next(found, ("", stack)) if host is None else (host, stack)

    def _begin(self, rig: _Rig, cells: int) -> None:
        self._batches[rig] += 1
        if rig not in self._rigs:
            self._rigs[rig] = self._bar.add_task("", total=cells, visible=False, left=str, last="")
        self._now(rig, f"building {rig[1]}")

    def _end(self, rig: _Rig) -> None:
        self._batches[rig] -= 1
        if not self._batches[rig]:
            self._bar.remove_task(self._rigs.pop(rig))
            del self._activities[rig]
        self._show_rigs()

    def _now(self, rig: _Rig, doing: str) -> None:
        host, _ = rig
        self._activities[rig] = f"{host}: {doing}" if host else doing
        self._show_rigs()

    def _show_rigs(self) -> None:
        several = len(self._activities) > 1
        if self._activities and not self._waits_for:
            one = next(iter(self._activities.values()))
            self._bar.update(self._trials, description=f"{len(self._activities)} rigs" if several else one)
        for rig, line in self._rigs.items():
            self._bar.update(line, description=self._activities[rig], visible=several)

    def notice(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str, style: str | None = None) -> None:
        self._bar.console.print(printable(text), style=style, markup=False)

    def progress(self, brief: str, fraction: float | None = None) -> None:
        if self._step_began is None:
            self._step_began = time.monotonic()
        if fraction is None:
            self._bar.update(self._trials, description=brief)
        else:
            if self._long is None:
                self._long = self._bar.add_task(brief, total=100, left=str, last="")
            self._bar.update(self._long, description=brief, completed=fraction * 100, visible=fraction != 1.0)
        if fraction == 1.0:
            self._end_step()

    def _end_step(self) -> None:
        """End a long step, also one that failed. Its time is no sign of slow trials."""
        if self._step_began is None:
            return
        took, self._step_began = time.monotonic() - self._step_began, None
        self._started, self._estimated = self._started + took, self._estimated + took
        self._estimate_rest()
        if self._long is not None:
            self._bar.update(self._long, visible=False)
        self._bar.update(self._trials, description="trials")
        self._show_rigs()

    def show_estimate(self, least: float, most: float) -> None:
        super().show_estimate(least, most)
        self._estimate_rest()

    def _estimate_rest(self) -> None:
        if self._of_cluster or self.done >= self.planned:
            return
        share, self._estimated = (self.done - self._before) / (self.planned - self._before), time.monotonic()
        self._estimate = remaining_seconds(self._expected, share, self._estimated - self._started)

    def _left(self) -> str:
        if not self._estimate or self.done >= self.planned or self._step_began is not None:
            return ""
        seconds = int(count_down(self._estimate, time.monotonic() - self._estimated, self.planned - self.done))
        return f"{seconds // 60}:{seconds % 60:02} left"
