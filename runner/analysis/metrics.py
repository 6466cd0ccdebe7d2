"""The figures that can be asked for, their units, and which way is better."""

from __future__ import annotations

from runner.language.metrics import BESIDE, OF_DIRECTION, RATES, SIDES, TOTAL
from runner.results.fio_json import PERCENTILES

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
#: Of rates more is better.
_RATES = ("_bw", "_iops")
#: Those of which more or less is faster or slower; how much was done, how long, and with what beside it, is neither.
COMPARED = tuple(name for name in METRICS if name.endswith(_RATES) or "_lat_" in name or name.startswith("cpu"))


def written(metric: str) -> str:
    """A figure as it is called here, where guidelines call it otherwise (`read.bw`, `cpu.iowait`)."""
    return metric if metric in METRICS else BESIDE.get(metric, metric.replace(".", "_", 1))


def more_is_faster(metric: str) -> bool:
    """Whether a larger value is the better one."""
    return metric.endswith(_RATES)


def is_percentile(metric: str) -> bool:
    """Whether it is read off all requests together; a mean of the trials' own would be nothing."""
    return metric.partition("_")[2] in PERCENTILES
