"""Which host measures which part of a round. It does no I/O.

A host is a blocking factor: cells that are compared with each other are measured on one host within a round. So a round
belongs to a host. Stacks that this host cannot run go together to another one. Synthetic figures do not depend on the
host, so their rounds are spread over all hosts.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

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
