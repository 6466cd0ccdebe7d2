"""The page to explore trials: views that select for each other, in one file, with the trials as columns."""

import base64
import hashlib
import json
import os
import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import nan
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from matrix_runner.answers.axes import grouped
from matrix_runner.answers.stored_samples import declared_order
from matrix_runner.base.errors import MatrixError
from matrix_runner.base.files import write_atomically
from matrix_runner.base.text import printable
from matrix_runner.pages.axis_charts import colour_axis, in_size_order, independent
from matrix_runner.pages.run_data import RunData, without_gc
from matrix_runner.records.files import ARCHIVE
from matrix_runner.records.record import COUNTED, HOST_LIMITED, UNSETTLED, CellRow, Trial
from matrix_runner.records.rows import row_of
from matrix_runner.records.store import RunRow, SharedStore
from matrix_runner.work.metrics import (
    FLUSH,
    OF_A_SIDE,
    OF_A_TRIAL,
    OF_DIRECTION,
    OF_FLUSH,
    OF_SYNC,
    OF_THE_MONITORS,
    RATES,
    SIDES,
    SYNC,
    TOTAL,
    is_large,
)

#: Latencies of the direction that is slower, for runs with both.
_WORST = {f"worst_{name}": name for name in ("lat_mean", "lat_p99")}
_OF_SIDE = {one.name: one.unit for one in OF_A_SIDE if one.better}
_OF_TRIAL = {one.name: one.unit for one in sorted(OF_A_TRIAL, key=lambda one: one.better) if one.unit}
#: The figures of a trial, with their units.
FIGURES: dict[str, str] = {
    **{f"{TOTAL}_{name}": OF_DIRECTION[name] for name in RATES},
    **{f"{side}_{name}": unit for side in SIDES for name, unit in _OF_SIDE.items()},
    **{f"{SYNC}_{name}": unit for name, unit in OF_SYNC.items()},
    **{f"{FLUSH}_{name}": unit for name, unit in _OF_SIDE.items() if name in OF_FLUSH},
    **{one.name: one.unit for one in OF_THE_MONITORS},
    **_OF_TRIAL,
}
_UNITS = FIGURES | dict.fromkeys(_WORST, "ns")
#: The columns of a row: those of the store.
COLUMNS = ("cell", "round", "outcome", "reason", HOST_LIMITED, UNSETTLED, *FIGURES)
Row = tuple[Any, ...]
_HEAD = COLUMNS.index(next(iter(FIGURES)))
_TOTALS = [f"{TOTAL}_{name}" for name in RATES]
_FOLDER = Path(__file__).parent
_SCRIPTS = ("explore_data.js", "explore_views.js", "explore_page.js")


@dataclass(frozen=True, slots=True)
class Explored:
    """The trials of one run. `rows` have the COLUMNS; `folder` leads from the page to the run, None if it cannot."""

    run: str
    synthetic: bool
    cells: Sequence[CellRow]
    rows: Sequence[Row]
    folder: str | None = None
    part: str = ""  # which cells it has, if not all


@without_gc()
def explored(recorded: RunData, run: str) -> Explored:
    rows = [_row(trial) for trial in recorded.trials]
    part = recorded.part.text if recorded.part else ""
    return Explored(run, recorded.synthetic, recorded.cells, rows, None if recorded.archived else "", part)


def _row(trial: Trial) -> Row:
    figures = trial.figures
    totals = (figures.total_bw, figures.total_iops) if figures and figures.sides else (None, None)
    return tuple(map((row_of(trial) | dict(zip(_TOTALS, totals, strict=True))).get, COLUMNS))


def page(runs: Sequence[Explored], title: str, *, report: bool = False, library: str = "") -> bytes:
    """Return the page of the trials of some runs. `report`: report.html is beside it."""
    return b"".join(parts_of_page(runs, title, report=report, library=library))


def shared_library(page: Path, results: Path) -> str:
    """Put the chart library into the folder of all runs, and return its address for a page below that folder.

    It is empty for other pages, and if the folder cannot be written: these contain the library.
    """
    if not page.parent.resolve().is_relative_to(results.resolve()):
        return ""
    path = results / f"echarts-{_version()}.min.js"
    content = (_FOLDER / "echarts" / "echarts.min.js").read_bytes()
    try:
        if not path.is_file() or path.stat().st_size != len(content):
            write_atomically(path, content)
    except (MatrixError, OSError):
        return ""
    return quote(os.path.relpath(path.resolve(), page.parent.resolve()), errors="replace")


@without_gc()
def parts_of_page(
    runs: Sequence[Explored], title: str, *, report: bool, library: str = ""
) -> tuple[bytes, bytes, bytes]:
    """Return the page in parts: the data of 100,000 trials have 50 MB, and a copy is not needed.

    `library`: the address of the chart library; if empty, the page contains it.
    """
    own, program = _scripts()
    synthetic = sorted({run.run for run in runs if run.synthetic})
    which = "Every figure on this page is" if len(synthetic) == len(runs) else f"Figures of {', '.join(synthetic)} are"
    same, content = _content(runs)
    content |= {"title": printable(title), "file": re.sub(r"[^\w.-]+", "-", title)[:80]}
    text = (
        _environment()
        .get_template("explore.html.j2")
        .render(
            title=printable(title),
            synthetic=f"{printable(which)} invented by the dry machine. Nothing was measured." if synthetic else "",
            report=report,
            part="; ".join(run.part for run in runs if run.part),
            same=", ".join(f"{name}={value}" for name, value in same.items()),
            scripts=" ".join(("'self' file:" if library else script_hash(own), script_hash(program))),
            library=library,
            own="" if library else own,
            program=program,
            version=_version(),
        )
    )
    before, _, after = text.encode().partition(b"<!--data-->")
    return before, orjson.dumps(content).replace(b"<", b"\\u003c"), after


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_FOLDER / "page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )


@cache
def _scripts() -> tuple[str, str]:
    library = (_FOLDER / "echarts" / "echarts.min.js").read_text(encoding="utf-8")
    parts = "\n".join((_FOLDER / "page" / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return library, f'"use strict";\n(() => {{\n{parts}}})();\n'


@cache
def _version() -> str:
    return str(json.loads((_FOLDER / "echarts" / "lock.json").read_bytes())["version"])


def script_hash(script: str) -> str:
    """Name a script in the security policy of the page, which runs no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _content(runs: Sequence[Explored]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the axes with one value, and the columns of all trials."""
    cells = [(run, cell) for run in runs for cell in run.cells]
    places = {(run.run, cell.id): at for at, (run, cell) in enumerate(cells)}
    known = [(places[run.run, row[0]], row) for run in runs for row in run.rows if (run.run, row[0]) in places]
    known.sort(key=lambda one: (one[0], one[1][1]))  # by cell and round
    rows = [row for _, row in known]
    same, axes = _axes(cells, several=len(runs) > 1)
    columns = list(zip(*rows, strict=True)) or [() for _ in COLUMNS]
    states = [_state(row) for row in rows]
    texts = {"state": states} | ({"reason": list(columns[3])} if any(columns[3]) else {})
    figures = dict(_figures(columns))
    measured = [name for name, numbers in figures.items() if name in FIGURES]
    return same, {
        "count": len(rows),
        "names": [printable(cell.name) for _, cell in cells],
        "runs": [{"synthetic": run.synthetic, "folder": run.folder} for run in runs],
        "run": _packed("i", [at for at, run in enumerate(runs) for _ in run.cells]),
        "cell": _packed("i", [place for place, _ in known]),
        "axes": [_dictionary(name, values) for name, values in axes.items()],
        "texts": [_dictionary(name, values) for name, values in texts.items()],
        "figures": [
            {"name": name, "unit": _UNITS.get(name, ""), "numbers": _packed("d", numbers)}
            for name, numbers in figures.items()
        ]
        if measured
        else [],
        **_first_choices(axes, columns, figures),
    }


def _axes(cells: Sequence[tuple[Explored, CellRow]], *, several: bool) -> tuple[dict[str, str], dict[str, list[str]]]:
    names = dict.fromkeys(name for _, cell in cells for name in cell.axes)
    taken = {*FIGURES, "state", "reason", "trial", *(("run",) if several else ())}
    axes = {"run": [run.run for run, _ in cells]} if several else {}
    same = {}
    for name in names:
        values = [cell.axes.get(name, "") for _, cell in cells]
        shown = printable(f"axis.{name}" if name in taken else name)
        if len(set(values)) > 1:
            axes[shown] = values
        else:
            same[shown] = printable(values[0])
    return same, axes


def _state(row: Row) -> str:
    if row[2] in COUNTED:
        return "unsettled" if row[5] else "host-limited" if row[4] else str(row[2])
    return str(row[2])


def _figures(columns: Sequence[Sequence[Any]]) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield the figures that some trial has. With one direction only, totals are the same as its rates."""
    by_name = dict(zip(COLUMNS[_HEAD:], columns[_HEAD:], strict=True))
    known = {name for name, values in by_name.items() if any(value is not None for value in values)}
    one_side = len({f"{side}_bw" for side in SIDES} & known) < 2
    for name, values in by_name.items():
        if name in known and not (one_side and name.startswith(TOTAL)):
            yield name, [nan if value is None else value for value in values]
    if not one_side:
        for name, of in _WORST.items():
            sides = zip(*(by_name[f"{side}_{of}"] for side in SIDES), strict=True)
            yield name, [max((value for value in values if value is not None), default=nan) for values in sides]
    yield "trial", columns[1]


def _packed(kind: str, values: Iterable[float]) -> str:
    column = array(kind, values)
    if sys.byteorder == "big":
        column.byteswap()
    return base64.b64encode(column).decode()


def _dictionary(name: str, values: Sequence[str]) -> dict[str, Any]:
    known = {value: code for code, value in enumerate(in_size_order(dict.fromkeys(values)))}
    return {
        "name": name,
        "values": [printable(value) for value in known],
        "codes": _packed("i", map(known.__getitem__, values)),
    }


def _first_choices(
    axes: Mapping[str, Sequence[str]], columns: Sequence[Sequence[Any]], figures: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """Choose what the views show at first."""
    metric = _headline(columns, figures)
    side = metric.partition("_")[0]
    tails = [f"{one}_lat_p99" for one in (FLUSH, "worst", side, *SIDES)]
    tail = next((name for name in tails if name in figures), metric)
    free = independent(axes)
    wide = sorted((name for name in free if name != "run"), key=lambda name: -len(set(axes[name])))
    across, down = ([*wide[:2], *("state", "")][:2]) if len(wide) < 2 else wide[:2]
    return {
        "metric": metric,
        "tail": tail,
        "across": across,
        "down": "" if down == "state" else down,
        "colour": colour_axis(axes),
        "parallel": [*(free[:7] or ["state"]), *dict.fromkeys((metric, tail if tail != metric else "trial"))],
    }


def _headline(columns: Sequence[Sequence[Any]], figures: Mapping[str, Sequence[float]]) -> str:
    if f"{SYNC}_bw" in figures:
        return f"{SYNC}_bw"
    side = TOTAL if f"{TOTAL}_bw" in figures else next((one for one in SIDES if f"{one}_bw" in figures), "")
    if not side:
        return next(iter(figures))
    bw, iops = (columns[COLUMNS.index(f"{TOTAL}_{rate}")] for rate in RATES)
    sizes = Counter(is_large(*pair) for pair in zip(bw, iops, strict=True) if None not in pair)
    return f"{side}_{'bw' if sizes[True] >= sizes[False] else 'iops'}"


def read_explored(store: SharedStore, runs: Sequence[RunRow], results: Path, beside: Path) -> list[Explored]:
    """Read the runs. Links from a page in the folder `beside` lead to those that have a folder below `results`."""
    return store.read_undamaged(lambda some: _read_runs(store, some, results, beside), runs)


def _read_runs(store: SharedStore, runs: Sequence[RunRow], results: Path, beside: Path) -> list[Explored]:
    ids = {run.id for run in runs}
    rows = {run: list(several) for run, several in groupby(store.trials(("run", *COLUMNS), ids), key=itemgetter(0))}
    cells = grouped((one.run, one.cell) for one in store.cells(ids))
    return [
        Explored(
            run.name,
            run.synthetic,
            sorted(cells[run.id], key=declared_order),
            [row[1:] for row in rows[run.id]],
            _link(results / run.name, beside),
        )
        for run in runs
        if run.id in rows
    ]


def _link(folder: Path, beside: Path) -> str | None:
    if not folder.is_dir() or (folder / ARCHIVE).exists():  # an archive has no folders of cells
        return None
    path = os.path.relpath(folder.resolve(), beside.resolve())
    return "" if path == "." else f"{quote(path, errors='replace')}/"


def title_of(runs: Sequence[RunRow]) -> str:
    """Name a run as its report does, and several runs by their matrices."""
    if len(runs) == 1:
        return f"{runs[0].matrix} on {runs[0].machine}"
    return f"{len(runs)} runs of {', '.join(dict.fromkeys(run.matrix for run in runs))}"
