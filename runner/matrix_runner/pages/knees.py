"""The results of searches (`find:`) as lines, as a table of the page, and as values for programs."""

from collections.abc import Iterator, Sequence

from matrix_runner.answers.knee import Found, Knee
from matrix_runner.pages.charts import interval
from matrix_runner.pages.table import Grid, Value, estimate_values
from matrix_runner.pages.terminal_text import figure

MOST_LINES = 20


def knee_lines(knees: Sequence[Knee], *, over: bool, synthetic: bool) -> Iterator[str]:
    if knees:
        yield f"Most work within a latency{' (synthetic)' * synthetic}:"
    for knee in knees[:MOST_LINES]:
        value, known, where = _texts(knee, over=over)
        yield f"  {knee.search.name}: {value}{f' ({known})' if known else ''} while {knee.search.find.limit}; {where}"
    if len(knees) > MOST_LINES:
        yield f"  {len(knees) - MOST_LINES:,} more searches are in found.csv."


def knee_table(knees: Sequence[Knee], *, over: bool) -> Grid:
    columns = ("search", "most work", "interval", "while", "where", "trials")
    rows: list[tuple[Value, ...]] = []
    for knee in knees:
        value, known, where = _texts(knee, over=over)
        rows.append((knee.search.name, value, known, knee.search.find.limit, where, str(knee.trials)))
    return Grid(columns, rows, (), frozenset(("most work", "interval", "trials")))


def knee_values(knee: Knee) -> dict[str, Value]:
    find = knee.search.find
    names = ("work", "work_low", "work_high", "work_rel")
    work: dict[str, Value] = dict(zip(names, estimate_values(knee.work), strict=True))
    about: dict[str, Value] = {"search": knee.search.name, "axis": find.axis, "while": find.limit, "metric": find.max}
    around: dict[str, Value] = {"within": knee.within, "beyond": knee.beyond, "trials": knee.trials}
    return {**about, "unit": find.metric.unit, "found": str(knee.found), **work, **around}


def _texts(knee: Knee, *, over: bool) -> tuple[str, str, str]:
    axis = knee.search.find.over or ""
    unit = knee.search.find.metric.unit
    if knee.work is None:
        return "not found", "", "too few of its trials have figures" if over else "the search is not finished"
    value, known = figure(knee.work.mean, unit), interval(knee.work, unit)
    match knee.found:
        case Found.ABOVE:
            return f"> {value}", known, f"even {axis} {knee.within}, the largest value, is within the limit"
        case Found.BELOW:
            return "none", "", f"even {axis} {knee.beyond}, the smallest value, is beyond the limit, with {value}"
        case _:
            doubt = f" (!) {knee.host_limited} trials host-limited" if knee.host_limited else ""
            return value, known, f"between {axis} {knee.within} and {knee.beyond}{doubt}"
