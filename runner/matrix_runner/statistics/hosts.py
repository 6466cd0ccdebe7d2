"""How the hosts of a run differ in speed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from matrix_runner.statistics.ratios import Ratio, paired_ratio


@dataclass(frozen=True, slots=True)
class HostRatio:
    """The rates of `host` are `ratio` times those of `other`, over the cells that both measured."""

    host: str
    other: str
    ratio: Ratio | None  # None: they measured no cell both
    cells: int


def host_ratios(cells: Iterable[Mapping[str, list[float]]], confidence: float = 0.95) -> list[HostRatio]:
    """Return each host against the one with the most trials. `cells`: the rates of each cell, by host."""
    means = [{host: exp(fmean(map(log, rates))) for host, rates in one.items()} for one in _positive(cells)]
    counts: dict[str, int] = {}
    for one in means:
        for host in one:
            counts[host] = counts.get(host, 0) + 1
    other, *hosts = sorted(counts, key=lambda host: (-counts[host], host)) or [""]
    found = []
    for host in hosts:
        both = {at: one for at, one in enumerate(means) if host in one and other in one}
        before, after = ({at: one[name] for at, one in both.items()} for name in (other, host))
        found.append(HostRatio(host, other, paired_ratio(before, after, confidence), len(both)))
    return found


def _positive(cells: Iterable[Mapping[str, list[float]]]) -> list[dict[str, list[float]]]:
    return [{host: rates for host, rates in one.items() if rates and min(rates) > 0} for one in cells]
