"""Published and measured figures as text, as data, and as the page of a study."""

import re
from collections.abc import Iterable, Sequence
from math import inf

from matrix_runner.answers.cell_figures import Verdict
from matrix_runner.answers.published import ComparedFigure, tally
from matrix_runner.answers.verdicts import Judgement
from matrix_runner.base.errors import BadInput
from matrix_runner.base.model import Condition
from matrix_runner.language.references import Table, Undecidable
from matrix_runner.pages.run_data import Section
from matrix_runner.pages.table import Grid, Value, as_csv, as_markdown
from matrix_runner.pages.terminal_text import figure, times, times_between
from matrix_runner.pages.verdicts import verdict_table
from matrix_runner.space.basis import Basis, MeasuredPage

#: The generated part of a page is between these lines. People write the rest.
BEGIN, END = "<!-- measured: made by `matrix study`, do not edit -->", "<!-- end of measured -->"
#: Whether its figures are out of date, for `matrix study --check --page`.
STATE, END_STATE = "<!-- state: made by `matrix study --check --page`, do not edit -->", "<!-- end of state -->"
_COLUMNS = (
    *("source", "table", "at", "metric", "where", "published", "unit", "measured", "measured_unit"),
    *("published_ratio", "ratio", "low", "high", "verdict", "synthetic", "rounds", "host_limited", "cells"),
    *("remark", "why", "undecidable"),
)
WORDS = {
    Verdict.HOLDS: "met",
    Verdict.FAILS: "not met",
    Verdict.INCONCLUSIVE: "undecided",
    Verdict.NOT_TESTED: "not measured",
}
CANNOT_TELL = "the source cannot tell"
_SHOWN = ("where", "published", "measured", "ratio published", "ratio measured", "interval", "verdict")
_RIGHT = frozenset(_SHOWN[1:6])
_RULES = {
    "repeat": "it contradicts its own repeat",
    "doubted": "it doubts the figure itself",
    "no measurement": "it is no measurement",
    "input": "the disk model is made from it",
}
_TRIED = ("where", "cause", "published", "without it", "with it", "interval", "explained")
_EXPERIMENTS = (
    "Experiments: the ratio without the suspected cause and with it, and the share of the distance that it explains "
    "(0 % if the interval contains the ratio without it):"
)
#: An experiment explains a ratio from this share of its distance on.
_HALF = 0.5
_REASONS = "Probable reasons. That of an undecided ratio counts only if the ratio is not met:"


def describe_run(
    run: str, started: str, machine: str, kernels: Sequence[str], trials: int, cells: int, host_limited: int
) -> str:
    doubt = f"; {host_limited} of them {'is' if host_limited == 1 else 'are'} host-limited" if host_limited else ""
    place = f"{machine}, Linux {' and '.join(kernels)}" if kernels else machine
    return f"Measured by the run `{run}` ({place}), begun {started}: {trials:,} trials of {cells:,} cells{doubt}."


def summary_line(held: Sequence[ComparedFigure]) -> str:
    counts = tally(held)
    ratios = sum(counts.values())
    if not ratios:
        return "no published ratio"
    decided = tally(one for one in held if not one.undecidable)
    order = (Verdict.FAILS, Verdict.NOT_TESTED, Verdict.INCONCLUSIVE)
    others = ", ".join(f"{counts[verdict]} {WORDS[verdict]}" for verdict in order if counts[verdict])
    if near := sum(one.near for one in held if one.verdict is Verdict.INCONCLUSIVE):
        others += f", estimates of {near} within"
    rest = f" ({others})" if others else ""
    synthetic = "; the figures are synthetic, so this is no result" if any(one.synthetic for one in held) else ""
    told = f"{decided[Verdict.HOLDS]} of the {decided.total()} that the source can tell"
    told = told if decided else "the source can tell none of them"
    if explained := sum((one.explained or 0) >= _HALF for one in held if not one.undecidable):
        told += (
            f", and {explained} more {'is' if explained == 1 else 'are'} explained at least by half by an experiment"
        )
    return f"{counts[Verdict.HOLDS]} of {ratios} published ratios met within 15 %{rest}; {told}{synthetic}"


def display_table(held: Sequence[ComparedFigure]) -> Grid:
    rows = [(one.table.id, *_shown_row(one)) for one in held]
    return Grid(("table", *_SHOWN), rows, (summary_line(held), *_reasons(held), *_host_limited(held)), _RIGHT)


def _host_limited(held: Sequence[ComparedFigure]) -> list[str]:
    marked = any(one.verdict and one.result and one.result.host_limited for one in held)
    return ["(!): uses host-limited trials: the host was too slow or too busy"] if marked else []


def data_table(source: str, held: Sequence[ComparedFigure]) -> Grid:
    return Grid(_COLUMNS, [_tidy_row(source, one) for one in held])


def page(source: str, held: Sequence[ComparedFigure], judgements: Sequence[Judgement], about: str) -> str:
    parts = [about, f"**{summary_line(held)}.** Source: {source}.", *_host_limited(held)]
    for name in dict.fromkeys(one.table.id for one in held):
        rows = [one for one in held if one.table.id == name]
        parts += _of_table(rows[0].table, rows)
    if judgements:
        parts += ["### Guidelines", _markdown(verdict_table(judgements))]
    return "\n\n".join(parts) + "\n"


def section(source: str, held: Sequence[ComparedFigure], judgements: Sequence[Judgement], about: str) -> Section:
    files = {
        "published.md": page(source, held, judgements, about).lstrip().encode(),
        "published.csv": as_csv(data_table(source, held)),
    }
    return Section("Published and measured", source, display_table(held), files)


def new_page(name: str, description: str) -> str:
    return "\n\n".join(filter(None, (f"# {name}", description, f"{BEGIN}\n{END}"))) + "\n"


def state_line(shown: MeasuredPage, now: Basis) -> str:
    if not (changes := shown.changes(now)):
        return ""
    return f"**Out of date: measured with other {' and '.join(changes)}.**"


def check_table(outdated: Sequence[tuple[str, MeasuredPage, Sequence[str]]], studies: int) -> Grid:
    rows = [
        (folder, *map(", ".join, (shown.names, [day[:10] for day in shown.age], changes)))
        for folder, shown, changes in outdated
    ]
    summary = f"{len(rows)} of {studies} {'study is' if studies == 1 else 'studies are'} out of date"
    return Grid(("study", "run", "begun", "measured with other"), rows, (summary,))


def replace_state(text: str, state: str) -> str:
    """Replace the line on the state of a page, or add it where its generated part begins."""
    block = f"{STATE}\n\n{state}\n\n{END_STATE}" if state else f"{STATE}{END_STATE}"
    known = re.compile(re.escape(STATE) + ".*?" + re.escape(END_STATE), re.DOTALL)
    if known.search(text):
        return known.sub(lambda _: block, text, count=1)
    return text.replace(BEGIN, f"{BEGIN}\n\n{block}", 1)


def replace_generated(text: str, made: str, name: str) -> str:
    found = list(re.finditer(re.escape(BEGIN) + ".*?" + re.escape(END), text, re.DOTALL))
    if len(found) != 1:
        places = "several places" if found else "no place"
        raise BadInput(
            f"{name} has {places} for measured figures",
            resolution=f"it needs these two lines exactly once:\n{BEGIN}\n{END}",
        )
    return f"{text[: found[0].start()]}{BEGIN}\n\n{made}\n{END}{text[found[0].end() :]}"


def _of_table(table: Table, held: Sequence[ComparedFigure]) -> list[str]:
    remarks = any(one.row.remark for one in held)
    rows = [(*_shown_row(one), *((one.row.remark,) if remarks else ())) for one in held]
    counts = tally(held)
    grid = Grid((*_SHOWN, *(("remark",) if remarks else ())), rows, right=_RIGHT)
    about = ", ".join(filter(None, (table.at, f"`{table.metric}`", cells_text(table.where))))
    met = f"; {counts[Verdict.HOLDS]} of {counts.total()} met" if counts else ""
    parts = [f"### {table.title or table.id}", f"{about}{met}.", _markdown(grid)]
    if doubts := _doubts(held):
        parts += ["The source cannot tell these ratios, which do not count as met or not met:", "\n".join(doubts)]
    if reasons := [f"- {'; '.join(names)}: {why}" for (_, why), names in _rows_by_reason(held).items()]:
        parts += [_REASONS, "\n".join(reasons)]
    if tried := [one for one in held if one.experiment and one.experiment.value and one.verdict is not Verdict.HOLDS]:
        parts += [
            _EXPERIMENTS,
            _markdown(Grid(_TRIED, [_tried_row(one) for one in tried], right=frozenset(_TRIED[2:]))),
        ]
    return parts


def _tried_row(held: ComparedFigure) -> tuple[Value, ...]:
    assert held.result  # noqa: S101 - only such rows are shown
    assert held.experiment  # noqa: S101
    ratios = held.ratio, held.result.value, held.experiment.value
    return (
        *(cells_text(held.row.where), cells_text(held.table.experiment(held.row)[0])),
        *(times(one) if one else "" for one in ratios),
        times_between(held.experiment.low, held.experiment.high),
        "" if held.explained is None else f"{max(held.explained, 0) * 100:.0f} %",
    )


def _markdown(grid: Grid) -> str:
    return as_markdown(grid).decode().rstrip("\n")


def _reasons(held: Iterable[ComparedFigure]) -> list[str]:
    return [f"{table}: {'; '.join(names)}: {why}" for (table, why), names in _rows_by_reason(held).items()]


def _rows_by_reason(held: Iterable[ComparedFigure]) -> dict[tuple[str, str], list[str]]:
    rows: dict[tuple[str, str], list[str]] = {}
    for one in held:
        is_undecided = one.verdict is Verdict.INCONCLUSIVE
        if one.verdict in {Verdict.FAILS, Verdict.NOT_TESTED} or (is_undecided and one.why):
            name = cells_text(one.row.where) or f"{one.row.value:.10g}"
            undecided = " (undecided)" if is_undecided else ""
            rows.setdefault((one.table.id, one.why or "no reason is known"), []).append(f"{name}{undecided}")
    return rows


def _doubts(held: Iterable[ComparedFigure]) -> list[str]:
    found: dict[Undecidable, list[str]] = {}
    for one in held:
        if one.undecidable:
            found.setdefault(one.undecidable, []).append(cells_text(one.row.where) or f"{one.row.value:.10g}")
    return [f"- {'; '.join(names)}: {_RULES[doubt.rule]}: {doubt.reason}" for doubt, names in found.items()]


def cells_text(where: Condition) -> str:
    values = {key: one if isinstance(one, tuple) else (one,) for key, one in where.items()}
    return ", ".join(f"{key}={'|'.join(map(str, one))}" for key, one in values.items())


def _shown_row(held: ComparedFigure) -> tuple[Value, ...]:
    result, unit = held.result, held.table.figure.unit
    ratio = interval = ""
    if result and result.value is not None:
        ratio = times(result.value)
        interval = "unbounded" if result.high == inf else times_between(result.low, result.high)
    return (
        cells_text(held.row.where) or held.row.unmeasured,
        "" if held.row.value is None else f"{held.row.value:,.10g} {held.table.unit}",
        figure(held.level.value, unit) if held.level else "",
        times(held.ratio) if held.ratio is not None else "",
        *(ratio, interval, _verdict_text(held)),
    )


def _verdict_text(held: ComparedFigure) -> str:
    if held.verdict is None:
        return ""
    host_limited = " (!)" if held.result and held.result.host_limited else ""
    estimate = ""
    if held.verdict is Verdict.INCONCLUSIVE and held.result and held.result.value is not None:
        estimate = f", estimate {'within' if held.near else 'not within'}"
    text = f"{WORDS[held.verdict]}{estimate}{host_limited}"
    return f"{'synthetic: ' if held.synthetic else ''}{f'{CANNOT_TELL} ({text})' if held.undecidable else text}"


def _tidy_row(source: str, held: ComparedFigure) -> tuple[Value, ...]:
    table, row, result = held.table, held.row, held.result
    known = result if result and result.value is not None else None
    return (
        *(source, table.id, table.at, table.metric, cells_text({**table.where, **row.where})),
        *(row.value, table.unit, held.level.value if held.level else None, table.figure.unit),
        held.ratio,
        *((known.value, known.low or None, None if known.high == inf else known.high) if known else (None,) * 3),
        *(WORDS[held.verdict] if held.verdict else None, held.synthetic),
        *((known.n, known.host_limited, " ".join(known.case.cells)) if known else (None,) * 3),
        *(row.remark, held.why, held.undecidable.rule if held.undecidable else None),
    )
