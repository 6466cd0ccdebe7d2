"""The time that a run on a cluster still takes, from the speed of each host so far. It does no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.engine.placement import OpenRound

INTERVAL = 5.0  # seconds between two forecasts


@dataclass(slots=True)
class _Host:
    done: float = 0.0  # the expected seconds of its trials
    busy: float = 0.0  # the seconds that they took
    last: float = 0.0  # the end of its last trial, or the start of its work
    batches: int = 0


class Forecast:
    """Trials have expected seconds. Only their relations matter: each host has a speed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._next = clock, clock()
        self._hosts: dict[str, _Host] = {}
        self._left: dict[int, float] = {}  # expected seconds of open rounds
        self._usual = 0.0  # of a whole round

    def open_round(self, number: int, expected: float) -> None:
        self._left[number] = expected
        self._usual = max(self._usual, expected)

    def close_rounds(self, open_rounds: Iterable[int]) -> None:
        self._left = {number: self._left.get(number, 0.0) for number in open_rounds}

    def begin_batch(self, host: str) -> None:
        one = self._hosts.setdefault(host, _Host())
        if not one.batches:
            one.last = self._clock()
        one.batches += 1

    def end_batch(self, host: str) -> None:
        self._hosts[host].batches -= 1

    def end_trial(self, host: str, round_number: int, expected: float) -> None:
        one, now = self._hosts[host], self._clock()
        one.done, one.busy, one.last = one.done + expected, one.busy + now - one.last, now
        if round_number in self._left:
            self._left[round_number] = max(0.0, self._left[round_number] - expected)

    def next_forecast(self, open_rounds: Iterable[OpenRound], later: int) -> float | None:
        """Return the seconds left if a forecast is due. `later`: the number of rounds to open."""
        now = self._clock()
        if now < self._next:
            return None
        self._next = now + INTERVAL
        return self.seconds_left({one.number: set(one.hosts.values()) for one in open_rounds}, later, now)

    def seconds_left(self, owners: dict[int, set[str]], later: int, now: float) -> float | None:
        """Return None if no host has a speed yet.

        `owners`: the hosts of open rounds, empty for rounds that are spread over all hosts.
        """
        known = [one.done / one.busy for one in self._hosts.values() if one.done and one.busy]
        if not known:
            return None
        usual = fmean(known)
        speeds = {host: one.done / one.busy if one.done and one.busy else usual for host, one in self._hosts.items()}
        credit = {host: now - one.last for host, one in self._hosts.items() if one.batches}
        if not any(owners.values()):
            under_way = sum(seconds * speeds[host] for host, seconds in credit.items())
            left = sum(self._left.values()) + later * self._usual - under_way
            return max(0.0, left / sum(speeds.values()))
        return self._last_end(owners, later, speeds, credit)

    def _last_end(
        self, owners: dict[int, set[str]], later: int, speeds: dict[str, float], credit: dict[str, float]
    ) -> float:
        free = dict.fromkeys(speeds, 0.0)
        for number, expected in self._left.items():
            for host in (several := owners.get(number, set()) & speeds.keys()):
                free[host] += expected / len(several) / speeds[host]
        ends = [(max(0.0, seconds - credit.get(host, 0.0)), host) for host, seconds in free.items()]
        last = max(seconds for seconds, _ in ends)
        heapify(ends)
        for _ in range(later):  # each goes to the host that is free first
            seconds, host = heappop(ends)
            seconds += self._usual / speeds[host]
            last = max(last, seconds)
            heappush(ends, (seconds, host))
        return last
