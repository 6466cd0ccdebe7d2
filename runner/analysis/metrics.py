"""The figures of a trial, their units and their better direction."""

from __future__ import annotations

from runner.language.metrics import BESIDE, OF_DIRECTION, RATES, SIDES, TOTAL
from runner.results.fio_output import PERCENTILES

#: Sums over both directions.
_TOTALS = {f"{TOTAL}_{name}": OF_DIRECTION[name] for name in RATES}
#: Every figure of a trial, with its unit.
METRICS: dict[str, str] = {
    **{f"{side}_{name}": unit for name, unit in OF_DIRECTION.items() for side in SIDES},
    "cpu_usr": "%",
    "cpu_sys": "%",
    "runtime": "s",
    **_TOTALS,
    **dict.fromkeys(BESIDE.values(), "share"),
}
#: Rates: more is better.
_RATES = ("_bw", "_iops")
#: Figures with a better direction. Amounts, durations and counters have none.
COMPARED = tuple(name for name in METRICS if name.endswith(_RATES) or "_lat_" in name or name.startswith("cpu"))


def figure_name(metric: str) -> str:
    """Return the name of a figure here for its name in guidelines (`read.bw`, `cpu.iowait`)."""
    return metric if metric in METRICS else BESIDE.get(metric, metric.replace(".", "_", 1))


def more_is_faster(metric: str) -> bool:
    return metric.endswith(_RATES)


def is_percentile(metric: str) -> bool:
    """Return whether it is a percentile, which is computed from all requests and never averaged over trials."""
    return metric.partition("_")[2] in PERCENTILES
