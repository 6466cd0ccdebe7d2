"""The figures that can be asked for, their units, and which way is better."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.language.metrics import BESIDE, OF_DIRECTION, RATES, SIDES, TOTAL
from runner.results.fio_json import PERCENTILES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

#: Of both directions together.
_TOTALS = {f"{TOTAL}_{name}": OF_DIRECTION[name] for name in RATES}
#: Every figure of a trial by name, and its unit.
METRICS: dict[str, str] = {
    **{f"{side}_{name}": unit for name, unit in OF_DIRECTION.items() for side in SIDES},
    "cpu_usr": "%",
    "cpu_sys": "%",
    "runtime": "s",
    **_TOTALS,
    **dict.fromkeys(BESIDE.values(), "share"),
}
#: What is compared and followed by default; the total only of mixed work, see `distinct`.
USUAL = ("total_bw", "read_bw", "write_bw")
#: All rates, which a table of cells chooses from.
ALL_RATES = tuple(f"{side}_{name}" for name in RATES for side in (*SIDES, TOTAL))
#: Of rates more is better.
_RATES = ("_bw", "_iops")
#: Those of which more or less is faster or slower; how much was done, how long, and with what beside it, is neither.
COMPARED = tuple(name for name in METRICS if name.endswith(_RATES) or "_lat_" in name or name.startswith("cpu"))


def written(metric: str) -> str:
    """A figure as it is called here, where guidelines call it otherwise (`read.bw`, `cpu.iowait`)."""
    return metric if metric in METRICS else BESIDE.get(metric, metric.replace(".", "_", 1))


def distinct(metrics: Sequence[str], figures: Collection[str]) -> list[str]:
    """Choose the metrics that a cell has figures of, without totals that repeat its only direction beside them."""
    return [metric for metric in metrics if metric in figures and not _repeats(metric, metrics, figures)]


def _repeats(metric: str, metrics: Collection[str], figures: Collection[str]) -> bool:
    directions = [f"{side}_{metric.partition('_')[2]}" for side in SIDES]
    return metric in _TOTALS and set(directions) <= set(metrics) and not set(directions) <= set(figures)


def more_is_faster(metric: str) -> bool:
    """Whether a larger value is the better one."""
    return metric.endswith(_RATES)


def is_percentile(metric: str) -> bool:
    """Whether it is read off all requests together; a mean of the trials' own would be nothing."""
    return metric.partition("_")[2] in PERCENTILES
