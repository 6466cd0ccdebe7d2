"""Tables of results: a row for each cell of a run, or for each trial."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from matrix_runner.answers.axes import Axes, common_aliases, names_of, with_aliases
from matrix_runner.answers.selectors import describe_synthetic
from matrix_runner.answers.stored_samples import METRICS, USUAL_RATES, Sample, Samples, unit_of
from matrix_runner.base.text import of_planned
from matrix_runner.pages.table import HINT, Grid, Value, estimate_values
from matrix_runner.pages.terminal_text import MARK, doubt, figure, host_limited_mark, legend, rate, unsettled_mark
from matrix_runner.records.record import Outcome
from matrix_runner.work.metrics import SYNC, TOTAL, headline, shown_sides, sides_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matrix_runner.records.store import RunRow

_CELL = ("run", "cell", "name", "machine", "synthetic", "host", "kernel", "revision", "started")
_OUTCOMES = tuple(one.value for one in Outcome)
_NONE = (0,) * len(_OUTCOMES)
_OUTCOME_COLUMNS = (*_OUTCOMES, "reason", "host_limited", "unsettled", "stopped")


def cells_grid(found: Sequence[Samples], metrics: Sequence[str]) -> Grid:
    axes, axis_columns = _axes_and_columns(found)
    columns = (*_CELL, *_OUTCOME_COLUMNS, *axis_columns, *(f"{one}{end}" for one in metrics for end in ENDS))
    # Compute once for each distinct cell, because many runs share cells.
    places = {id(one.cell): tuple(map(with_aliases(one.cell.axes).get, axes)) for one in found}
    rows = [
        (
            *_who(one),
            *map(one.counts.get, _OUTCOMES, _NONE),
            *("; ".join(one.reasons), one.host_limited, one.unsettled, one.stopped.value),
            *places[id(one.cell)],
            *chain.from_iterable([estimate_values(one.estimate(metric)) for metric in metrics]),
        )
        for one in found
    ]
    return Grid(columns, rows, describe_synthetic(one.run for one in found))


ENDS = ("", "_low", "_high", "_rel")


def trials_grid(found: Sequence[Samples], metrics: Sequence[str]) -> Grid:
    axes, axis_columns = _axes_and_columns(found)
    columns = (*_CELL, "trial", "outcome", "reason", "host_limited", "unsettled", *axis_columns, *metrics)
    rows: list[tuple[Value, ...]] = [
        (
            *_who(one),
            *(trial.round, trial.outcome, trial.reason, trial.host_limited, trial.unsettled),
            *map(with_aliases(one.cell.axes).get, axes),
            *trial.values,
        )
        for one in found
        for trial in one.trials
    ]
    return Grid(columns, rows, describe_synthetic(one.run for one in found))


def display_table(
    found: Sequence[Samples],
    metrics: Sequence[str],
    *,
    most: int | None,
    unread: tuple[int, int] = (0, 0),
    hint: str = HINT,
) -> Grid:
    """`unread`: cells and runs that are not in `found`."""
    left, runs = unread
    several = runs > 0 or len({one.run.id for one in found}) > 1
    cut = found if most is None else found[:most]
    usual = set(metrics) == set(USUAL_RATES)
    means = [_means(one) for one in cut] if usual else []
    syncs = (SYNC,) if any(f"{SYNC}_bw" in one for one in means) else ()
    totals = (TOTAL,) if any(TOTAL in sides_of(one) for one in means) else ()
    sides = (*syncs, *totals, *shown_sides(means))
    heads = (*sides, "±") if usual else tuple(head for one in metrics for head in (one, "±"))
    columns = (*(("run",) if several else ()), "cell", *heads, "trials", "outcome")
    rows: list[tuple[Value, ...]] = []
    for one in cut:
        name = (one.run.name, one.cell.name) if several else (one.cell.name,)
        measured = one.measured
        reason = f": {'; '.join(one.reasons)}" if one.reasons else ""
        marks = host_limited_mark(one.host_limited, one.processor_limited) + unsettled_mark(one.unsettled, measured)
        outcome = f"{one.outcome}{marks}{reason}"
        rows.append((*name, *(_usual(one, sides) if usual else _asked(one, metrics)), str(measured), outcome))
    left += len(found) - len(cut)
    rest = (f"{left:,} more cells" if left else "", f"{runs} more runs" if runs else "")
    more = (f"{' and '.join(filter(None, rest))}; {hint}",) if any(rest) else ()
    title = () if several or not found else (f"run {found[0].run.name}",)
    notes = (*describe_synthetic(one.run for one in found), *title, *more, *legend(str(row[-1]) for row in rows))
    return Grid(columns, rows, notes, frozenset({*heads, "trials"}))


def _marks(trial: Sample) -> str:
    limited = "processor-limited" if trial.processor_limited else "host-limited" if trial.host_limited else ""
    marks = (limited, "unsettled" if trial.unsettled else "")
    return "".join(f" {MARK} {mark}" for mark in marks if mark)


def display_trials(found: Sequence[Samples], metrics: Sequence[str], *, most: int) -> Grid:
    several = len({one.run.id for one in found}) > 1
    columns = (*(("run",) if several else ()), "cell", "trial", *metrics, "outcome")
    rows: list[tuple[Value, ...]] = []
    for one in found:
        for trial in one.trials:
            run = (one.run.name,) if several else ()
            figures = (figure(value, unit_of(metric)) for metric, value in zip(metrics, trial.values, strict=True))
            reason = f": {trial.reason}" if trial.reason else ""
            rows.append((*run, one.cell.name, str(trial.round), *figures, f"{trial.outcome}{_marks(trial)}{reason}"))
    left = (f"{len(rows) - most:,} more trials; {HINT}",) if len(rows) > most else ()
    notes = (*describe_synthetic(one.run for one in found), *left, *legend(str(row[-1]) for row in rows[:most]))
    return Grid(columns, rows[:most], notes, frozenset({*metrics, "trial"}))


def describe_unfinished(runs: Iterable[RunRow], recorded: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(
        f"{run.name} is not finished: "
        f"{of_planned(recorded.get(run.id, 0), run.planned, 'at most ' if run.until else '')} trials"
        for run in {run.id: run for run in runs}.values()
        if not run.finished
    )


def distinct_axes(found: Iterable[Samples]) -> list[Axes]:
    return list({id(one.cell): one.cell.axes for one in found}.values())


def _axes_and_columns(found: Iterable[Samples]) -> tuple[list[str], list[str]]:
    """Return all axes and shared names, and their columns: an axis whose name equals one of ours gets a prefix."""
    cells = distinct_axes(found)
    axes = [*names_of(cells), *common_aliases(cells)]
    taken = {*_CELL, *_OUTCOME_COLUMNS, *METRICS, "trial", "outcome"}
    return axes, [f"axis.{axis}" if axis in taken else axis for axis in axes]


def _who(one: Samples) -> tuple[Value, ...]:
    run, cell = one.run, one.cell
    kernels = ", ".join(one.kernels)
    return (run.name, cell.id, cell.name, run.machine, run.synthetic, run.host, kernels, run.revision, run.started)


def _usual(one: Samples, shown: Sequence[str]) -> tuple[str, ...]:
    means = _means(one)
    sides = (SYNC, *sides_of(means))
    rates = [_usual_rate(means, side) if side in sides else "" for side in shown]
    return (*rates, doubt(one.estimate(name) if (name := headline(means)) else None))


def _usual_rate(means: Mapping[str, float], side: str) -> str:
    bw = means.get(f"{side}_bw")
    return figure(bw, "bytes/s") if side == SYNC else rate(bw, means.get(f"{side}_iops"))


def _means(one: Samples) -> dict[str, float]:
    return {metric: found.mean for metric in USUAL_RATES if (found := one.estimate(metric))}


def _asked(one: Samples, metrics: Iterable[str]) -> Iterable[str]:
    for metric in metrics:
        found = one.estimate(metric)
        yield figure(found.mean, unit_of(metric)) if found else ""
        yield doubt(found)
