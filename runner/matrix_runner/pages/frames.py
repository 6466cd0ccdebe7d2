"""A recorded run as columns for notebooks: `matrix_runner.open_run`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from matrix_runner.base.errors import BadInput
from matrix_runner.pages.explore import COLUMNS, explored
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import Manifest, load


class Frame(dict[str, list[Any]]):
    """Columns of equal length, by name. A value that a row lacks is None."""

    def to_pandas(self) -> Any:
        try:
            pandas = import_module("pandas")  # this program does not require it
        except ImportError:
            raise BadInput("pandas is not installed", resolution="pip install pandas, or use the columns") from None
        return pandas.DataFrame(self)


@dataclass(frozen=True)
class RecordedRun:
    manifest: Manifest
    _data: RunData

    @cached_property
    def trials(self) -> Frame:
        """Return a row for each trial: cell, axes, outcome and figures in base units (bytes/s, 1/s, ns)."""
        cells = {cell.id: cell for cell in self._data.cells}
        rows = (dict(zip(COLUMNS, row, strict=True)) for row in explored(self._data, "").rows)
        return _frame({"name": cells[row["cell"]].name, **cells[row["cell"]].axes, **row} for row in rows)

    @cached_property
    def cells(self) -> Frame:
        """Return a row for each cell: axes, outcome, and each figure with the bounds of its interval."""
        return _frame(
            {
                "cell": one.cell.id,
                "name": one.cell.name,
                **one.cell.axes,
                "outcome": str(one.outcome or ""),
                "trials": len(self._data.by_cell[one.cell.id]),
                **{name: figure.mean for name, figure in one.figures.items()},
                **{f"{name}_low": figure.bounds[0] for name, figure in one.figures.items()},
                **{f"{name}_high": figure.bounds[1] for name, figure in one.figures.items()},
            }
            for one in self._data.summaries
        )


def _frame(rows: Iterable[Mapping[str, Any]]) -> Frame:
    known = list(rows)
    names = dict.fromkeys(name for row in known for name in row)
    return Frame({name: [row.get(name) for row in known] for name in names})


def open_run(path: str | Path) -> RecordedRun:
    """Read the run of a folder."""
    folder = load(Path(path))
    manifest = folder.manifest
    rule = {name: getattr(manifest, name) for name in ("confidence", "until", "least", "most", "steered")}
    with Journal.existing(folder.journal) as journal:
        cells, trials = journal.cells(), list(journal.trials())
    data = RunData(manifest.matrix, manifest.machine, manifest.synthetic, cells, trials, over=manifest.finished, **rule)
    return RecordedRun(manifest, data)
