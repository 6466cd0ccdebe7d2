"""`matrix accept`: the alarms are in answers/history.py, the files in space/declared_files.py."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from math import exp
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.options import Parsed, Words, combined, only, run_argument, stored_text
from matrix_runner.cli.screen import echo, echo_whole
from matrix_runner.cli.store_options import Source, accepted, open_store, select_runs, source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matrix_runner.answers.comparison import Line
    from matrix_runner.answers.history import Alarm
    from matrix_runner.records.store import RunRow

_EPILOG = """\b
Examples:
  matrix accept latest --reason 'md counts requests since 6.12'   accept all figures that are slower
  matrix accept latest --only 'layout=raid5' --reason 'new chunk size' --link https://example.org/42
  matrix accept latest --reason 'until the new disks are here' --until 2026-12-31
  matrix accept latest --baseline --reason 'after the upgrade'    compare later runs with this one

\b
It adds an entry for each cause and figure to known-changes.yaml, or a baseline to baselines.yaml. Commit these files.
Without a baseline, the level is that of the first good runs. Imported runs are none of them: name one with --baseline.
"""


def _parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is no day such as 2026-12-31") from None


_DAY = Parsed("DAY", _parse_day)


@dataclass(frozen=True)
class Why:
    reason: str
    link: str
    since: date | None
    until: date | None

    def entry(self, first_day: date) -> dict[str, object]:
        since = self.since or first_day
        if self.until and self.until < since:
            raise BadInput(f"--until {self.until} is before {since}, the first day of the change")
        given = {"since": since, "until": self.until, "reason": self.reason, "link": self.link}
        return {key: value for key, value in given.items() if value}


_why = combined(
    "why",
    Why,
    reason=click.option("--reason", required=True, callback=stored_text, help="Why it is accepted; reports show it."),
    link=click.option("--link", default="", callback=stored_text, help="Where it is explained, e.g. an issue."),
    since=click.option("--since", type=_DAY, help="The first day with the change.  [default: that of RUN]"),
    until=click.option("--until", type=_DAY, help="The last day for which it is accepted.  [default: no limit]"),
)


@click.command("accept", epilog=_EPILOG)
@run_argument("run")
@_why
@click.option("--baseline", is_flag=True, help="Compare later runs with RUN itself.")
@only
@accepted
@source
def command(run: str, why: Why, baseline: bool, only: Words, accepted: Path, source: Source) -> None:
    """Accept that RUN is slower: later runs are compared with its level. Or make RUN the baseline of later ones."""
    from matrix_runner.answers.selectors import baseline_of
    from matrix_runner.space.declared_files import append_entries, load_accepted

    if not why.reason.strip():
        raise BadInput("--reason is empty", resolution="say why, in your own words")
    if baseline and (why.link or why.since or why.until or only):
        raise BadInput("--baseline takes only --reason", resolution="leave the other options out")
    with open_store(source) as shared:
        runs = select_runs(shared, [run])
    if len(runs) > 1:
        raise BadInput(f"{run} is {len(runs)} runs", resolution="name one of them; `matrix runs` lists them")
    (night,) = runs
    if not night.finished:
        raise BadInput(f"{night.name} is not finished", resolution="continue it, or name another run")
    if baseline:
        last = baseline_of(night, load_accepted(accepted).baselines.entries)
        if last and last.run in {night.name, night.id}:
            echo(f"{night.name} is the baseline already: {last.reason}")
            return
        kind, texts = "baselines", [_entry({**_of_run(night), "run": night.name, "reason": why.reason})]
    else:
        about = why.entry(date.fromisoformat(night.started[:10]))
        alarms = _alarms(night, only, accepted, source)
        entries = ({**_of_run(night), **values, **about} for one in alarms for values in _of_alarm(one))
        kind, texts = "known_changes", [*map(_entry, entries)]
    path = append_entries(kind, accepted, texts)
    echo_whole("".join(texts), newline=False)
    echo(f"added to {path}", err=True)


def _alarms(night: RunRow, only: Words, accepted: Path, source: Source) -> list[Alarm[Line]]:
    from matrix_runner.answers.history import find_alarms
    from matrix_runner.answers.selectors import ACCEPTED, run_words, select_cells
    from matrix_runner.cli.compare import ComparisonRequest, compare_runs
    from matrix_runner.space.declared_files import load_accepted

    request = ComparisonRequest(ACCEPTED, run_words([night]), source, accepted=load_accepted(accepted))
    lines = compare_runs(request).lines
    alarms = find_alarms(lines, select_cells(None, only, [line.pair.right[0].cell for line in lines]))
    if not alarms:
        raise BadInput(
            f"no figure of {night.name} is slower than the accepted level",
            resolution=f"`matrix compare {ACCEPTED} {night.name}` shows why; --baseline makes it the new level",
        )
    return alarms


def _of_run(night: RunRow) -> dict[str, object]:
    return {"matrix": night.matrix, **({"host": night.host} if night.host else {})}


def _of_alarm(alarm: Alarm[Line]) -> Iterator[dict[str, object]]:
    """Yield what is accepted of each figure."""
    from matrix_runner.answers.axes import grouped
    from matrix_runner.answers.stored_samples import metric_of
    from matrix_runner.language.references import format_change

    cells = {axis: values[0] if len(values) == 1 else values for axis, values in alarm.cause.shared.items()}
    for figure, lines in grouped((line.metric, line) for line in alarm.figures).items():
        change = format_change(exp(fmean(line.log_speed for line in lines)))
        yield {**({"cells": cells} if cells else {}), "metric": metric_of(figure), "change": change}


def _entry(values: Mapping[str, object]) -> str:
    """Return an entry as a line of YAML, of which JSON is a part."""
    import orjson

    first, *others = (f"{key}: {orjson.dumps(value).decode()}" for key, value in values.items())
    return "".join([f"- {first}\n", *(f"  {other}\n" for other in others)])
