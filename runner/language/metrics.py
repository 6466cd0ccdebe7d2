"""The figures that are kept of every direction of a trial, and those that guidelines may be about: named here alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: Of reading and of writing: name and unit.
OF_DIRECTION: dict[str, str] = {
    "bw": "bytes/s",
    "iops": "1/s",
    "bytes": "bytes",
    "ios": "",
    "lat_mean": "ns",
    "lat_p50": "ns",
    "lat_p90": "ns",
    "lat_p95": "ns",
    "lat_p99": "ns",
    "lat_p999": "ns",
    "lat_p9999": "ns",
    "lat_max": "ns",
}
SIDES = ("read", "write")
#: From requests of this size on, bandwidth says more than a rate of requests.
LARGE = 64 * 1024
_SECTOR = 512
#: Both directions together: what mixed work is known by.
TOTAL = "total"
#: Of these more is better, of latencies less.
RATES = ("bw", "iops")
#: What was counted beside the work: shares, and the notes of a trial that hold them.
BESIDE: dict[str, str] = {"cpu.iowait": "iowait", "disks.evenness": "evenness", "disks.strain": "strain"}
#: Of these less is better, as of latencies.
LOST = ("cpu.iowait", "disks.strain")
#: To so many decimals these notes are written.
DECIMALS: dict[str, int] = {"iowait": 4, "evenness": 3, "strain": 4}


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a trial: the sum of what stands in these columns."""

    name: str
    columns: tuple[str, ...]
    unit: str

    @property
    def more_is_better(self) -> bool:
        """Whether a larger value is the better one."""
        return self.unit != "ns" and self.name not in LOST

    @property
    def floor(self) -> float:
        """What nothing counts as: of a share, half of the least that can be told from it; of all else it is no figure.

        Disks that stood still and processors that never waited are what was seen, and ratios need more than 0.
        """
        return 0.5 * 10 ** -DECIMALS[self.columns[0]] if self.unit == "share" else 0.0


def _known() -> dict[str, Metric]:
    judged = {name: unit for name, unit in OF_DIRECTION.items() if unit in {"bytes/s", "1/s", "ns"}}
    found = [Metric(f"{side}.{name}", (f"{side}_{name}",), unit) for name, unit in judged.items() for side in SIDES]
    found += [Metric(f"total.{name}", tuple(f"{side}_{name}" for side in SIDES), judged[name]) for name in RATES]
    found += [Metric(name, (note,), "share") for name, note in BESIDE.items()]
    return {one.name: one for one in found}


def is_large(bw: float, iops: float) -> bool:
    """Return whether requests of these rates are large enough to be shown as bandwidth."""
    # fio cuts a bandwidth down to whole bytes per second, so requests of 64 KiB would come out a hair smaller.
    return bw >= (LARGE - _SECTOR / 2) * iops


def sides_of(figures: Collection[str]) -> tuple[str, ...]:
    """List the sides to show of a cell with these figures, the headline first: the total, if the work is mixed."""
    found = tuple(side for side in SIDES if f"{side}_bw" in figures)
    return (TOTAL, *found) if len(found) > 1 else found


def headline(rates: Mapping[str, float]) -> str | None:
    """Name the figure that a cell is ranked, shown and stopped by; `rates`: its `read_bw`, `read_iops` and so on.

    It is the total of mixed work, because fio's random generator decides the split; else the one direction. It is
    bandwidth of large requests, and requests per second of small ones. None: the cell has no figures.
    """
    sides = sides_of(rates)
    if not sides:
        return None
    bw, iops = (sum(rates.get(f"{side}_{rate}", 0.0) for side in SIDES) for rate in RATES)
    return f"{sides[0]}_{'bw' if is_large(bw, iops) else 'iops'}"


#: By the name that guidelines have for it: `read.bw`; `total.bw` is that of both directions together.
KNOWN: dict[str, Metric] = _known()
