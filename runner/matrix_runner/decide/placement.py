"""Which host measures which part of a round, and the time that the run still takes. It does no I/O.

A host is a blocking factor: cells that are compared with each other are measured on one host within a round. So a round
belongs to a host. Stacks that this host cannot run go together to another one. Synthetic figures do not depend on the
host, so their rounds are spread over all hosts.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import repeat
from math import exp, log
from statistics import fmean, pvariance

from matrix_runner.decide.plan import Batch

Unit = frozenset[str]  # the hosts that cannot run some stacks, which stay together
Refusals = dict[str, str]  # why a host cannot run stacks, by stack


@dataclass
class OpenRound:
    number: int
    bound: bool  # whether a host keeps a unit that it began
    waiting: dict[Unit, deque[Batch]] = field(default_factory=dict)
    hosts: dict[Unit, str] = field(default_factory=dict)
    running: int = 0
    held: int = 0  # trials that wait to be repeated alone

    def add(self, batch: Batch, refusals: Mapping[str, Refusals]) -> None:
        self._queue(batch, refusals).append(batch)

    def give_back(self, batch: Batch, refusals: Mapping[str, Refusals]) -> None:
        self._queue(batch, refusals).appendleft(batch)

    def _queue(self, batch: Batch, refusals: Mapping[str, Refusals]) -> deque[Batch]:
        key = batch.stack.key
        unit = frozenset(host for host, refused in refusals.items() if key in refused)
        return self.waiting.setdefault(unit, deque())

    def take(self, host: str, refused: Refusals) -> Batch | None:
        """Remove and return work for a host: of a unit that it began, or of one that no host has yet."""
        for unit in sorted(self.waiting, key=lambda one: self.hosts.get(one) != host):
            queue = self.waiting[unit]
            if self.hosts.get(unit, host) != host or queue[0].stack.key in refused:
                continue
            batch = queue.popleft()
            if not queue:
                del self.waiting[unit]
            if self.bound:
                self.hosts[unit] = host
            return batch
        return None

    def release(self, present: Collection[str]) -> None:
        """Free what an absent host has not begun, so that another host measures it."""
        self.hosts = {unit: host for unit, host in self.hosts.items() if host in present}

    @property
    def owners(self) -> set[str]:
        """Return the hosts that began units with work that waits."""
        return {self.hosts[unit] for unit in self.waiting if unit in self.hosts}

    @property
    def over(self) -> bool:
        return not (self.waiting or self.running or self.held)


class RepeatsAlone:
    """Trials to repeat alone on their host, because it could not keep up with several; and who is on a host now."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[OpenRound, Batch]]] = {}
        self._on_host = Counter[str]()
        self._alone = set[str]()  # hosts with a trial that must be alone

    def add(self, host: str, opened: OpenRound, batch: Batch) -> None:
        opened.held += 1
        self._waiting.setdefault(host, deque()).append((opened, batch))

    def take(self, host: str) -> tuple[OpenRound, Batch] | None:
        """Return work if the host is idle now."""
        if self._on_host[host] or not self._waiting.get(host):
            return None
        opened, batch = self._waiting[host].popleft()
        opened.held -= 1
        return opened, batch

    def forbids(self, host: str) -> bool:
        """Return whether other work must not begin on the host."""
        return host in self._alone or bool(self._waiting.get(host))

    def begin(self, host: str, *, alone: bool) -> int:
        """Return how many others are on the host."""
        self._on_host[host] += 1
        if alone:
            self._alone.add(host)
        return self._on_host[host] - 1

    def end(self, host: str, *, alone: bool) -> None:
        self._on_host[host] -= 1
        if alone:
            self._alone.discard(host)

    @property
    def hosts(self) -> Collection[str]:
        """Return the hosts for which work waits."""
        return {host for host, waiting in self._waiting.items() if waiting}

    def release(self, present: Collection[str]) -> Iterator[tuple[OpenRound, Batch]]:
        """Give up what waits for absent hosts."""
        for host in self._waiting.keys() - present:
            for opened, batch in self._waiting.pop(host):
                opened.held -= 1
                yield opened, batch


def impossible(stacks: Mapping[str, str], refusals: Mapping[str, Refusals]) -> Iterator[str]:
    """Yield a line for each stack (label by key) that no host can run, with the reason of each host."""
    for key, label in stacks.items():
        if all(key in refused for refused in refusals.values()):
            reasons = dict.fromkeys(f"{host}: {refused[key]}" for host, refused in refusals.items())
            yield f"{label}: {'; '.join(reasons)}"


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
