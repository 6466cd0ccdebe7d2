"""The time that a run on a cluster still takes, from the speed of each host and its trials so far. It does no I/O."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import repeat
from math import exp, log
from statistics import fmean, pvariance

from matrix_runner.decide.placement import OpenRound

INTERVAL = 5.0  # seconds between two forecasts
_SHORT = 1.0  # records of shorter trials may arrive together
ESTIMATE_ERROR = 0.2  # usual relative error of the first estimate of a cell


@dataclass(slots=True)
class _Host:
    done: float = 0.0  # the estimated seconds of its trials
    busy: float = 0.0  # the seconds that they took
    last: float = 0.0  # the end of its last trial, or the start of its work
    batches: int = 0
    trials: int = 0

    @property
    def speed(self) -> float:
        return self.done / self.busy if self.done and self.busy else 0.0


class Estimates:
    """Seconds of a trial of each cell on a host of speed 1: the first estimate, corrected by trials of the cell.

    Cells without a trial keep their first estimate, because a mean error of all cells counts as the speed of hosts.
    """

    def __init__(self) -> None:
        self._first: dict[str, float] = {}
        self._ratios: dict[str, tuple[float, int]] = {}  # sum and number

    def __contains__(self, cell: str) -> bool:
        return cell in self._first

    def add(self, cell: str, seconds: float) -> None:
        self._first[cell] = seconds

    def correct(self, cell: str, seconds: float) -> None:
        if first := self._first.get(cell):
            total, count = self._ratios.get(cell, (0.0, 0))
            self._ratios[cell] = total + seconds / first, count + 1

    def of(self, cell: str) -> float:
        total, count = self._ratios.get(cell, (1.0, 1))
        return self._first.get(cell, 0.0) * total / count

    def sum_of(self, cells: Iterable[str] | None = None) -> float:
        """Return the sum of some cells, or of all."""
        return sum(map(self.of, self._first if cells is None else cells))


class Forecast:
    """Only the relations of estimates matter: each host has a speed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._next = clock, clock()
        self._hosts: dict[str, _Host] = {}
        self._estimates = Estimates()
        self._left: dict[int, set[str]] = {}  # cells of open rounds without a record

    def expect(self, number: int, cell: str, estimate: Callable[[], float]) -> None:
        """Add a cell to an open round. `estimate` is called once for each cell."""
        if cell not in self._estimates:
            self._estimates.add(cell, estimate())
        self._left.setdefault(number, set()).add(cell)

    def close_rounds(self, open_rounds: Iterable[int]) -> None:
        self._left = {number: self._left.get(number, set()) for number in open_rounds}

    def begin_batch(self, host: str) -> None:
        one = self._hosts.setdefault(host, _Host())
        if not one.batches:
            one.last = self._clock()
        one.batches += 1

    def end_batch(self, host: str) -> None:
        self._hosts[host].batches -= 1

    def end_trial(self, host: str, round_number: int, cell: str) -> None:
        one, now = self._hosts[host], self._clock()
        took = now - one.last
        one.done, one.busy, one.last = one.done + self._estimates.of(cell), one.busy + took, now
        one.trials += 1
        if one.batches == 1 and took > _SHORT:
            self._estimates.correct(cell, took * one.speed)
        self._left.get(round_number, set()).discard(cell)

    def next_forecast(self, open_rounds: Iterable[OpenRound], later: int, present: Collection[str]) -> float | None:
        """Return the seconds left if a forecast is due. `later`: the rounds to open; `present`: the hosts that work."""
        now = self._clock()
        if now < self._next:
            return None
        self._next = now + INTERVAL
        owners = {one.number: set(one.hosts.values()).intersection(present) for one in open_rounds}
        return self._seconds_left(owners, later, present, now)

    def _speeds(self) -> dict[str, float]:
        """Return the speed of each host; empty if none is known.

        A few trials show it badly, as their estimates are wrong. So as long as the hosts differ no more than that,
        their speeds are drawn towards the mean.
        """
        known = {host: log(one.speed) for host, one in self._hosts.items() if one.speed}
        if not known:
            return {}
        mean = fmean(known.values())
        doubt = {host: ESTIMATE_ERROR**2 / self._hosts[host].trials for host in known}
        spread = max(0.0, pvariance(known.values()) - fmean(doubt.values()))
        found = dict.fromkeys(self._hosts, exp(mean))
        for host, one in known.items():
            found[host] = exp(mean + (one - mean) * spread / (spread + doubt[host]))
        return found

    def _seconds_left(
        self, owners: dict[int, set[str]], later: int, present: Collection[str], now: float
    ) -> float | None:
        """Return None if no host has a speed yet.

        `owners`: the hosts of open rounds. A round has none if it is spread over all hosts, has not begun, or lost its
        host.
        """
        speeds = {host: speed for host, speed in self._speeds().items() if host in present}
        if not speeds:
            return None
        credit = {host: now - self._hosts[host].last for host in speeds if self._hosts[host].batches}
        if not any(owners.values()):
            under_way = sum(seconds * speeds[host] for host, seconds in credit.items())
            left = sum(map(self._estimates.sum_of, self._left.values())) - under_way
            left += later * self._estimates.sum_of()
            return max(0.0, left / sum(speeds.values()))
        return self._last_end(owners, later, speeds, credit)

    def _last_end(
        self, owners: dict[int, set[str]], later: int, speeds: dict[str, float], credit: dict[str, float]
    ) -> float:
        free, without_host = dict.fromkeys(speeds, 0.0), []
        for number, cells in self._left.items():
            several, work = owners.get(number, set()) & speeds.keys(), self._estimates.sum_of(cells)
            for host in several:
                free[host] += work / len(several) / speeds[host]
            if not several:
                without_host.append(work)
        ends = [(max(0.0, seconds - credit.get(host, 0.0)), host) for host, seconds in free.items()]
        last = max(seconds for seconds, _ in ends)
        heapify(ends)
        # Each of these rounds goes to the host that is free first.
        for work in [*without_host, *repeat(self._estimates.sum_of(), later)]:
            seconds, host = heappop(ends)
            seconds += work / speeds[host]
            last = max(last, seconds)
            heappush(ends, (seconds, host))
        return last
