"""The figures of a trial, their units and their better direction, and the usual rate of a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.language.metrics import BESIDE, OF_DIRECTION, RATES, SIDES, TOTAL, is_large, sides_of
from runner.results.fio_output import PERCENTILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.analysis.samples import Samples

#: Every figure of a trial, with its unit.
METRICS: dict[str, str] = {
    **{f"{side}_{name}": unit for name, unit in OF_DIRECTION.items() for side in SIDES},
    "cpu_usr": "%",
    "cpu_sys": "%",
    "runtime": "s",
    **{f"{TOTAL}_{name}": OF_DIRECTION[name] for name in RATES},
    **dict.fromkeys(BESIDE.values(), "share"),
}
#: Rates: more is better.
_RATES = ("_bw", "_iops")
#: Figures with a better direction. Amounts, durations and counters have none.
COMPARED = tuple(name for name in METRICS if name.endswith(_RATES) or "_lat_" in name or name.startswith("cpu"))


def figure_name(metric: str) -> str:
    return metric if metric in METRICS else BESIDE.get(metric, metric.replace(".", "_", 1))


def more_is_faster(metric: str) -> bool:
    return metric.endswith(_RATES)


def is_percentile(metric: str) -> bool:
    """Return whether it is a percentile, which is computed from all requests and never averaged over trials."""
    return metric.partition("_")[2] in PERCENTILES


#: Figures to read if the user requests none.
USUAL_RATES = tuple(f"{side}_{rate}" for rate in RATES for side in (*SIDES, TOTAL))


def rates_of(cells: Iterable[Samples]) -> list[str]:
    several = list(cells)
    mixed = any(TOTAL in sides_of([name for name in ("read_bw", "write_bw") if one.rounds(name)]) for one in several)
    sides = (*((TOTAL,) if mixed else ()), *SIDES)
    return [f"{side}_{'bw' if any(_is_large(one, side) for one in several) else 'iops'}" for side in sides]


def metrics_for(cells: Iterable[Samples], asked: Sequence[str]) -> Sequence[str]:
    return asked or rates_of(cells)


def _is_large(one: Samples, side: str) -> bool:
    bw, iops = (list(one.rounds(f"{side}_{name}").values()) for name in ("bw", "iops"))
    return bool(bw and iops) and is_large(sum(bw), sum(iops))
