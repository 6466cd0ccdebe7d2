"""The coordinator's view of the workers of a cluster: checked or refused, present or absent, free or busy.

The processes themselves are in carry/cluster/members.py. What is lost with a host is handled in coordinator.py.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from secrets import token_hex

from matrix_runner.base.errors import BadInput
from matrix_runner.carry import batch_messages as messages
from matrix_runner.decide.placement import Refusals, impossible

PATIENCE = 60.0  # seconds after which the work of an absent host goes to another one
MOST_ASKED = 32  # workers that are checked at a time
CHECKS = 3  # how often a worker is asked before it is not used
MOST_DETAILS = 10  # lines of a refusal that are shown
_TAG = "start it with --tags, or name other tags"
_VERDICTS = frozenset({messages.CHECKED, messages.REFUSED})
_NOT_WHOLE = "it cannot measure all versions of the search"
RESTART = "correct this on its host, and start the worker again"


@dataclass
class HostState:
    refusals: Refusals = field(default_factory=dict)
    boot_id: str = ""
    seen: float = -inf  # when its last worker left


class Members:
    def __init__(
        self,
        cluster: messages.Cluster,
        order: messages.Order,
        notice: Callable[[str], None],
        clock: Callable[[], float],
        tags: frozenset[str] = frozenset(),
        whole: Collection[str] = (),
    ) -> None:
        self._cluster, self._order, self._notice, self._clock = cluster, order, notice, clock
        self._tags = tags  # that a worker must have
        self._whole = whole  # stacks that each worker must be able to run, all of them
        self._hosts: dict[str, HostState] = {}
        self._workers: dict[str, messages.Worker] = {}  # those in use, by address
        self._checked: dict[str, Refusals] = {}  # stacks that a worker cannot run, by address
        self._asked = set[str]()  # addresses of workers that are being checked
        self._unused: dict[str, messages.Message] = {}  # why others are not used
        self._failed = Counter[str]()  # checks of a worker that it did not survive
        self._busy = Counter[str]()  # batches of a worker
        self.free: dict[str, messages.Worker] = {}  # workers in use with a free slot
        self.refusals: dict[str, Refusals] = {}  # of hosts that cannot run all stacks
        self.present: frozenset[str] = frozenset()  # hosts with a worker in use
        self.absent: frozenset[str] = frozenset()  # hosts that were members and have no worker in use

    def newcomers(self) -> list[messages.Worker]:
        """Compare with the cluster. Return workers to check, once each, and a few at a time: trials need not wait."""
        present = {one.address: one for one in self._cluster.workers}
        for address in self._workers.keys() - present.keys():
            self._hosts[self._workers.pop(address).host].seen = self._clock()
            self.free.pop(address, None)
        self._note_hosts()
        for address in self._unused.keys() - present.keys():
            del self._unused[address]
        for address, one in present.items():
            if address not in self._unused and (missing := self._tags.difference(one.tags)):
                self.refuse(one, {"brief": f"it has no tag {', '.join(sorted(missing))}", "resolution": _TAG})
        known = {*self._workers, *self._unused, *self._asked}
        found = [one for address, one in present.items() if address not in known][: MOST_ASKED - len(self._asked)]
        self._asked.update(one.address for one in found)
        return found

    async def check(self, worker: messages.Worker) -> bool:
        """Ask a host what it can run. Return whether it was restarted since it was asked before."""
        found: list[messages.Message] = []
        request = messages.BatchRequest(token=token_hex(8), order=self._order)
        try:
            await self._cluster.carry_out(worker, request, lambda line: _add_verdict(found, messages.parsed(line)))
            if not any(message["event"] in _VERDICTS for message in found):
                raise messages.BadAnswer("it did not answer what it can run")
        except messages.SchedulerLost:
            pass  # the worker is asked again when the scheduler is back
        except messages.WorkerLost as lost:
            self._failed[worker.address] += CHECKS if isinstance(lost, messages.BadAnswer) else 1
            if self._failed[worker.address] >= CHECKS:
                self.refuse_for(worker, lost)
        finally:
            self._asked.discard(worker.address)
        if worker.address in self._unused:  # it sent wrong messages beside its answer
            return False
        for message in found:
            if message["event"] == messages.CHECKED:
                return self._accept(worker, message)
            if message["event"] == messages.REFUSED:
                self.refuse(worker, {**message, "resolution": _on_its_host(worker, message["resolution"])})
        return False

    def expect(self, host: str) -> None:
        """Wait for a host that an interrupted run used as for one that left."""
        if host:
            self._hosts[host] = HostState(seen=self._clock())
            self._note_hosts()

    def _accept(self, worker: messages.Worker, checked: messages.Message) -> bool:
        if lacking := [checked["refusals"][key] for key in self._whole if key in checked["refusals"]]:
            details = "\n".join(dict.fromkeys(lacking))
            self.refuse(worker, {"brief": _NOT_WHOLE, "details": details, "resolution": RESTART})
            return False
        before = self._hosts.get(worker.host)
        self._workers[worker.address] = worker
        self._checked[worker.address] = checked["refusals"]
        self._hosts[worker.host] = state = HostState(self._common_refusals(worker.host), checked["boot_id"])
        self.refusals = {host: one.refusals for host, one in self._hosts.items() if one.refusals}
        if worker.slots > 1 and (why := self._order.one_at_a_time):
            self._notice(f"{worker.host} gets one rig at a time: {why}")
            worker = replace(worker, slots=1)
        if worker.slots > checked["rigs"]:
            self._notice(f"{worker.host} has room for {checked['rigs']} of {worker.slots} rigs of this matrix")
            worker = replace(worker, slots=checked["rigs"])
        self._workers[worker.address] = worker
        self._update(worker)
        self._note_hosts()
        return before is not None and before.boot_id != state.boot_id

    def _common_refusals(self, host: str) -> Refusals:
        """Return the stacks that no worker of a host can run: each may call itself by the name of another host."""
        first, *others = [self._checked[one.address] for one in self._workers.values() if one.host == host]
        return {key: why for key, why in first.items() if all(key in refused for refused in others)}

    def refuse_for(self, worker: messages.Worker, lost: messages.WorkerLost, brief: str = "") -> None:
        self.refuse(worker, {"brief": brief + lost.brief, "details": lost.details, "resolution": RESTART})

    def refuse(self, worker: messages.Worker, why: messages.Message) -> None:
        if worker.address in self._unused:
            return
        self._workers.pop(worker.address, None)
        self.free.pop(worker.address, None)
        self._note_hosts()
        self._unused[worker.address] = why = {"host": worker.host, "details": "", **why}
        # Workers without the wanted tags are left out on purpose.
        remedy = f"\n→ {why['resolution']}" if why["resolution"] not in {"", _TAG} else ""
        self._notice(_with_details(f"a worker on {worker.host} is not used: {why['brief']}", why) + remedy)

    def _note_hosts(self) -> None:
        self.present = frozenset(one.host for one in self._workers.values())
        self.absent = frozenset(self._hosts.keys() - self.present)

    def begin(self, worker: messages.Worker) -> None:
        self._busy[worker.address] += 1
        self._update(worker)

    def end(self, worker: messages.Worker) -> None:
        self._busy[worker.address] -= 1
        self._update(worker)

    def _update(self, worker: messages.Worker) -> None:
        free = worker.address in self._workers and self._busy[worker.address] < worker.slots
        if free:
            self.free[worker.address] = worker
        else:
            self.free.pop(worker.address, None)

    @property
    def is_empty(self) -> bool:
        return not (self._workers or self._asked)

    def awaited(self) -> set[str]:
        """Return the hosts that are present or may come back soon."""
        absent = {host for host, state in self._hosts.items() if self._clock() - state.seen < PATIENCE}
        return absent | self.present

    def require_usable(self) -> None:
        """Raise BadInput if all workers are refused, and no host may come back soon."""
        if self._unused and self.is_empty and not self.awaited():
            raise _unusable(list(self._unused.values()))

    def can_run(self, stacks: Mapping[str, str]) -> bool:
        """Return whether each stack (label by key) has a host. Raise BadInput if no worker is left to ask."""
        known = {one.host: self._hosts[one.host].refusals for one in self._workers.values()}
        lines = list(impossible(stacks, known)) if known else []
        if known and not lines:
            return True
        if self._asked:
            return False
        if self._unused and not known:
            raise _unusable(list(self._unused.values()))
        if lines:
            raise BadInput(
                f"no host of the cluster can run {len(lines):,} of {len(stacks):,} stacks",
                details="\n".join(f"- {line}" for line in lines[:20]),
                resolution="start a worker on a host that can, or leave these stacks out with --only",
            )
        return False


def _add_verdict(found: list[messages.Message], message: messages.Message) -> None:
    if message["event"] in _VERDICTS:
        if found:
            raise messages.BadAnswer("it answered twice what it can run")
        found.append(message)


def _on_its_host(worker: messages.Worker, resolution: str) -> str:
    return f"on {worker.host}, {resolution}; then start its worker again" if resolution else RESTART


def _with_details(text: str, why: messages.Message) -> str:
    return "\n".join([text, *(f"  {line.strip()}" for line in why["details"].splitlines()[:MOST_DETAILS])])


def _unusable(reasons: list[messages.Message]) -> BadInput:
    first, *others = reasons
    if not others:
        return BadInput(f"{first['host']}: {first['brief']}", details=first["details"], resolution=first["resolution"])
    return BadInput(
        "no worker of the cluster can be used",
        details="\n".join(dict.fromkeys(_with_details(f"- {one['host']}: {one['brief']}", one) for one in reasons)),
        resolution=first["resolution"],
    )
