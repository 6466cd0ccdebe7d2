"""Published studies, and runs beside them."""

from __future__ import annotations

from typing import Any

from matrix_runner.answers.published import compare_published
from matrix_runner.language.references import Published
from tests.answers.world import cells, run

PAIR = cells(layout=["single", "raid0"])


def published(*rows: dict[str, Any], **more: Any) -> Published:
    table = {"id": "one", "metric": "read.bw", "unit": "MB/s", "base": {"layout": "single"}, "rows": list(rows), **more}
    return Published.model_validate({"source": "somebody", "tables": [table]})


def times(factor: float) -> Any:
    return lambda axes: 75e6 * (factor if axes["layout"] == "raid0" else 1)


STUDY = published(
    {"where": {"layout": "single"}, "value": 80},
    {"where": {"layout": "raid0"}, "value": 160, "remark": "one run", "why": "it was <long> ago"},
    {"value": 240, "unmeasured": "a card that nobody has"},
    title="Sequential read",
    at="Table 1",
)


MISSED = compare_published(STUDY, run(PAIR, times(1.0)))


INVENTED = compare_published(STUDY, run(PAIR, times(2.0)), synthetic=True)
