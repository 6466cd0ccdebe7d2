"""fio's JSON into the figures we keep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Direction:
    """What fio says of one direction. Rates are per second of fio's run time; percentiles are of completion latency."""

    bw: float  # bytes/s
    iops: float
    bytes: int
    ios: int
    lat_mean: float  # ns, total latency
    lat_p50: float
    lat_p99: float
    lat_p999: float
    lat_p9999: float
    lat_max: float


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one measured trial. A direction that did no I/O is None, never a zero."""

    read: Direction | None
    write: Direction | None
    runtime: float  # s
    cpu_usr: float  # %
    cpu_sys: float  # %
    errors: int
