"""Tables of the jobs of cells, for the terminal and for the page: rates, p50 and p99 of each direction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from matrix_runner.answers.cell_figures import CellFigures
from matrix_runner.pages.charts import figure_and_interval
from matrix_runner.pages.table import Grid, Sheet
from matrix_runner.pages.terminal_text import displayed_rate, doubt
from matrix_runner.statistics.stopping import Estimate
from matrix_runner.work.metrics import ALL_SIDES

_ID = ("cell", "job", "direction")
#: Headings and units by the names of figures.
_SHOWN = {
    "iops": ("requests", "1/s"),
    "bw": ("bandwidth", "bytes/s"),
    "lat_p50": ("p50", "ns"),
    "lat_p99": ("p99", "ns"),
}


class _Row(NamedTuple):
    id: tuple[str, str, str]
    figures: Mapping[str, Estimate]  # by the names in `_SHOWN`

    def texts(self, name: str) -> tuple[str, str]:
        return figure_and_interval(self.figures.get(name), _SHOWN[name][1])

    def doubt(self, name: str) -> str:
        return doubt(self.figures.get(name))


def job_sheet(summaries: Iterable[CellFigures], *, rows: int = 50) -> Sheet | None:
    """Return the table for the terminal; None if no cell has several jobs."""
    found = list(_rows((one.cell.name, one) for one in summaries))
    if not found:
        return None
    columns = (*_ID, "requests", "bandwidth", "±", "p50", "± p50", "p99", "± p99")
    left = f"; {len(found) - rows:,} more rows in report.html" if len(found) > rows else ""
    return Sheet(
        columns,
        [_texts(row) for row in found[:rows]],
        right=frozenset(columns[len(_ID) :]),
        title=f"jobs of these cells{left}",
        spare=("± p50", "p50", "bandwidth", "± p99"),
    )


def _texts(row: _Row) -> tuple[str, ...]:
    requests, bandwidth, p50, p99 = (row.texts(name)[0] for name in _SHOWN)
    bw, iops = row.figures.get("bw"), row.figures.get("iops")
    doubt = row.doubt("bw" if displayed_rate(bw, iops) is bw else "iops")
    return (*row.id, requests, bandwidth, doubt, p50, row.doubt("lat_p50"), p99, row.doubt("lat_p99"))


def job_grid(named: Sequence[tuple[str, CellFigures]], *, rows: int) -> Grid | None:
    """Return the table for the page, from labels and summaries of cells; None if no cell has several jobs."""
    found = list(_rows(named))
    if not found:
        return None
    headings = [heading for title, _ in _SHOWN.values() for heading in (title, f"{title}, interval")]
    left = f"{len(found) - rows:,} more rows are left out; jobs.csv has the trials of all jobs"
    notes = (left,) if len(found) > rows else ()
    texts = [(*row.id, *(text for name in _SHOWN for text in row.texts(name))) for row in found[:rows]]
    return Grid((*_ID, *headings), texts, notes, right=frozenset(headings))


def _rows(named: Iterable[tuple[str, CellFigures]]) -> Iterator[_Row]:
    for label, summary in named:
        for job, figures in summary.jobs.items():
            for side in ALL_SIDES:
                if found := {name: one for name in _SHOWN if (one := figures.get(f"{side}_{name}"))}:
                    yield _Row((label, job, side), found)
