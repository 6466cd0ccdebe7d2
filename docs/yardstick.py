"""The yardstick of the studies: each published ratio, and whether its source can tell it. From the sources alone."""

from functools import cache
from pathlib import Path

from matrix_runner.pages.study import cells_text
from matrix_runner.pages.table import Grid, Value, as_csv
from matrix_runner.space.declared_files import MATRIX, PUBLISHED, study_beside
from matrix_runner.space.load import load

STUDIES = Path(__file__).parents[1] / "matrix" / "studies"
FILE = STUDIES / "yardstick.csv"
_COLUMNS = ("study", "table", "where", "published_ratio", "decidable", "rule", "reason")


@cache
def yardstick() -> Grid:
    return Grid(_COLUMNS, [row for path in sorted(STUDIES.glob(f"**/{PUBLISHED}")) for row in _rows(path.parent)])


def yardstick_text() -> bytes:
    return as_csv(yardstick())


def _rows(folder: Path) -> list[tuple[Value, ...]]:
    study = study_beside(folder / MATRIX, load(folder / MATRIX).space)
    published = study.published if study else None
    found: list[tuple[Value, ...]] = []
    for table in published.tables if published else ():
        for row in table.rows:
            ratio = table.ratio_of(row)
            if published and ratio is not None:
                doubt = published.undecidable(table, row)
                name = str(folder.relative_to(STUDIES)), table.id, cells_text({**table.where, **row.where})
                found.append((*name, round(ratio, 4), doubt is None, *(doubt or ("", ""))))
    return found
