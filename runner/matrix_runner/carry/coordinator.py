"""Execution of a plan on a cluster. The scheduler decides, workers carry out, and only this process writes records.

Which host gets what: placement.py. The other end, in the worker: carry/cluster/seats.py.

Each batch that goes out has a token. Records with another token, or of a trial that is recorded, are refused.
Over 400 lines: each message of a worker can change flights, rounds and records at once.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import cached_property, partial
from itertools import islice
from math import inf, isfinite
from secrets import token_hex
from typing import Any

from matrix_runner.carry import batch_messages as messages
from matrix_runner.carry import events, members
from matrix_runner.carry.flight import Flight, Flights, Inbox
from matrix_runner.carry.members import Members
from matrix_runner.carry.recorder import RunContext, RunRecorder, now
from matrix_runner.decide.budget import Cost, Spending
from matrix_runner.decide.placement import Forecast, OpenRound, RepeatsAlone
from matrix_runner.decide.plan import Batch
from matrix_runner.decide.scheduler import TRIES, Scheduler
from matrix_runner.machines.base import RigLost
from matrix_runner.records.record import HOST, HOST_LIMITED, SPREAD, Attempt, Trial
from matrix_runner.space.space import Cell
from matrix_runner.work.slow import FACTORS

#: How often the process of a trial may die before this counts as a lost attempt. Operators kill processes, too.
DEATHS = 5
#: How many cells go to a host at once. Their records may arrive sooner than the journal takes them, and wait in memory:
#: with 500, a run of 20,000 trials that take no time needed 230 MB, and with 100 180 MB.
MOST_CELLS = 200


class Awaited(Enum):
    """What a run waits for, with the words for observers."""

    NOTHING = ""
    SCHEDULER = "waiting for the scheduler"
    WORKERS = "waiting for workers"
    HOSTS = f"waiting up to {members.PATIENCE:g} s for"


_NO_SCHEDULER = (
    f"the scheduler of the cluster is gone; the run waits up to {messages.RECONNECT:g} s for it: "
    "start it again with `matrix cluster scheduler`"
)
_NO_WORKER = "waiting for workers: `matrix worker --cluster ADDRESS` on a host joins it; Ctrl-C ends the run"
_NO_WORKER_LEFT = "no worker is left; waiting for one to come back; Ctrl-C ends the run"
MOST_NOTICES = 100  # of a batch
MOST_AGAIN = 1000  # lines of a batch that are repeated, or of another batch
#: How often a batch begins a trial or sends its files: for each factor of slow motion, and for lost attempts.
MOST_PUTS = 4 * TRIES + len(FACTORS)
_OUR_NOTES = frozenset({HOST, SPREAD, "beside", "repeated"})  # which no worker decides
_GOES_ON = "the run goes on"


class Coordinator:
    def __init__(
        self,
        scheduler: Scheduler,
        context: RunContext,
        cluster: messages.Cluster,
        order: messages.Order,
        notice: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        tags: frozenset[str] = frozenset(),
        *,
        one_host: bool = False,
    ) -> None:
        """`one_host`: a search, which compares its versions with each other, stays on one host as long as it can."""
        self.scheduler, self._cluster, self._order = scheduler, cluster, order
        self._inbox = Inbox(context.journal, context.listen, self._start)
        self._context = context = replace(context, listen=self._inbox.listen)
        self._notice = notice
        self._noticed: set[str] = set()
        self._forecast = Forecast(clock)
        self._pools = dict(context.pools)
        selection = scheduler.plan.selection
        self._stacks = {one.key: one.label for one in selection.space.stacks if selection.count_of(one)}
        self._members = Members(cluster, order, notice, clock, tags, self._stacks if one_host else ())
        self._one_host, self._host = one_host, ""  # of the search
        self._recorder = RunRecorder(scheduler, context)
        self._rounds = self._recorder.rounds()
        self._opened = 0
        self._open: list[OpenRound] = []
        self._flights = Flights()
        self._tasks = set[asyncio.Task[None]]()
        self._ended: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._members_changed = True
        self._starved = set[str]()  # addresses of workers for which there was no work
        self._repeats = RepeatsAlone()
        self._deaths = Counter[tuple[str, int]]()
        self._fruitless = Counter[str]()  # batches of a worker, by address, since its last trial began
        self._crashed: dict[str, list[tuple[str, int, str]]] = {}  # trials under way when a host was lost
        self._waits_for = Awaited.NOTHING, ""  # that observers know, with the names of hosts
        self._stopped = False  # the user knows that nothing runs

    @property
    def refused(self) -> int:
        """Return the number of records with an unknown token, or of a trial that was recorded."""
        return self._flights.refused

    async def run(self) -> None:
        """Measure all trials that are not recorded yet. A cancellation or a kill may stop it at any point."""
        self._recorder.start()
        if self._one_host:
            hosts = [one.facts.host for one in self._context.journal.trials() if one.facts.host]
            self._host = hosts[-1] if hosts else ""
            self._members.expect(self._host)
        async with self._cluster.open(self._note_members):
            try:
                await self._work()
            finally:
                for task in self._tasks:
                    task.cancel()
                if self._tasks:
                    await asyncio.wait(self._tasks)
                self._inbox.settle()
                self._report_unreturned()

    def _note_members(self) -> None:
        self._members_changed = True
        self._changed.set()

    async def _work(self) -> None:
        while True:
            self._changed.clear()
            if self._members_changed:
                self._members_changed = False
                for worker in self._members.newcomers():
                    self._start(self._check(worker))
            if self._opened or self._members.can_run(self._stacks):
                self._give_out()
                if not self._tasks and all(one.over for one in self._open) and self._open_round() is None:
                    return
            if not self._tasks:
                self._members.require_usable()
            self._show_waiting()
            await self._wait()

    def _show_waiting(self) -> None:
        if self._stopped and any(one.running for one in self._open):
            self._stopped = False
            self._notice(_GOES_ON)
        what, hosts = self._awaited()
        if (what, hosts) == self._waits_for:
            return
        self._waits_for = what, hosts
        self._context.listen(events.Waiting(" ".join(filter(None, (what.value, hosts)))))
        if what in {Awaited.SCHEDULER, Awaited.WORKERS}:
            self._stopped = self._stopped or self._opened > 0
            no_worker = _NO_WORKER_LEFT if self._opened else _NO_WORKER
            self._notice(_NO_SCHEDULER if what is Awaited.SCHEDULER else no_worker)

    def _awaited(self) -> tuple[Awaited, str]:
        if not self._cluster.connected:
            return Awaited.SCHEDULER, ""
        if any(one.running for one in self._open):
            return Awaited.NOTHING, ""
        if self._members.is_empty:
            return (Awaited.NOTHING if self._tasks else Awaited.WORKERS), ""
        wanted = {*self._repeats.hosts, *(host for one in self._open for host in one.owners)}
        hosts = sorted(wanted & self._members.absent & self._members.awaited())
        return (Awaited.HOSTS if hosts else Awaited.NOTHING), ", ".join(hosts)

    async def _wait(self) -> None:
        """Wait for a change; while work waits for an absent host, not longer than the patience."""
        may_move = bool(self._members.absent and self._members.free)
        held = may_move and any(one.waiting or one.held for one in self._open)
        with suppress(TimeoutError):
            # Without a worker, the next look may find that none is awaited any more.
            patience = members.PATIENCE if held or self._members.is_empty else None
            async with asyncio.timeout(patience):  # noqa: TID251 - what is due is looked at in any case
                await self._changed.wait()
        if held:
            self._move_work()
        ended, self._ended = self._ended, []
        for task in ended:
            task.result()

    def _move_work(self) -> None:
        """Free the work of hosts that are not awaited, for others."""
        awaited = self._members.awaited()
        for one in self._open:
            one.release(awaited)
        for opened, batch in self._repeats.release(awaited):
            opened.give_back(batch, self._members.refusals)
        self._starved.clear()

    async def _check(self, worker: messages.Worker) -> None:
        rebooted = await self._members.check(worker)
        self._members_changed = True  # a worker that was lost is asked again
        self._look_again()
        for cell, round_number, started in self._crashed.pop(worker.host, []):
            if rebooted and (cell, round_number) not in self.scheduler.records.trials:
                self._recorder.lose(cell, round_number, started, RigLost(f"{worker.host} went down during the trial"))

    # --- work ---

    def _look_again(self) -> None:
        """There may be work again for idle workers."""
        self._starved.clear()
        self._changed.set()

    def _give_out(self) -> None:
        for worker in [self._members.free[one] for one in self._members.free if one not in self._starved]:
            if found := self._repeats.take(worker.host):
                self._dispatch(worker, *found, alone=True)
            while worker.address in self._members.free and not self._repeats.forbids(worker.host):
                if not (found := self._next_work(worker)):
                    self._starved.add(worker.address)
                    break
                self._dispatch(worker, *found)

    def _next_work(self, worker: messages.Worker) -> tuple[OpenRound, Batch] | None:
        refused = self._members.refusals.get(worker.host, {})
        for one in self._open:
            if one.waiting and (batch := one.take(worker.host, refused)):
                return one, batch
        while opened := self._open_round():
            if batch := opened.take(worker.host, refused):
                return opened, batch
        return None

    def _open_round(self) -> OpenRound | None:
        """Open the next round. Rounds beyond the minimum, and of a search, depend on the results before."""
        if any(one.over for one in self._open):
            self._open = [one for one in self._open if not one.over]
            self._forecast.close_rounds(one.number for one in self._open)
        plan = self.scheduler.plan
        if self._open and (self._opened >= plan.repeat.min or plan.searches_best):
            return None
        for number, batches in self._rounds:
            self._opened = number
            hosts = {frozenset[str](): self._host} if self._host in self._members.awaited() else {}
            opened = OpenRound(number, bound=not self._context.machine.synthetic, hosts=hosts)
            for batch, wanted in batches:
                several = iter(wanted)
                while part := tuple(islice(several, MOST_CELLS)):
                    opened.add(replace(batch, cells=part), self._members.refusals)
                for cell in wanted:
                    self._forecast.expect(number, cell.id, partial(self.scheduler.spending.expected_of, cell))
            if opened.waiting:
                self._open.append(opened)
                self._look_again()
                return opened
        return None

    def _dispatch(self, worker: messages.Worker, opened: OpenRound, batch: Batch, *, alone: bool = False) -> None:
        cells = self._charge(batch)
        if not cells:
            return
        batch = replace(batch, cells=cells)
        if self._one_host and opened.bound and worker.host != self._host:
            self._host = worker.host
            self._notice(f"{worker.host} measures the versions")
        left, names = {one.id: one for one in cells}, {one.name: one.id for one in cells}
        flight = Flight(token_hex(8), worker, opened, batch, left, names, alone=alone)
        flight.beside = self._repeats.begin(worker.host, alone=alone)
        self._flights.add(flight)
        opened.running += 1
        self._forecast.begin_batch(worker.host)
        self._members.begin(worker)
        self._context.listen(events.BatchStarted(batch.round, batch.stack.label, len(cells), worker.host))
        self._start(self._carry_out(flight))

    def _charge(self, batch: Batch) -> tuple[Cell, ...]:
        """Charge the cells that are still wanted and within the budget. Return them."""
        number, scheduler = batch.round, self.scheduler
        self._recorder.conclude(batch.cells, number)
        cells, chosen = deque(one for one in batch.cells if scheduler.is_wanted(one, number)), list[Cell]()
        if scheduler.charge(cells, number, batch.stack):
            while scheduler.charge(cells, number):
                chosen.append(cells.popleft())
        return tuple(chosen)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._end_task)
        self._tasks.add(task)
        return task

    def _end_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._ended.append(task)
        self._changed.set()

    def _request(self, flight: Flight) -> messages.BatchRequest:
        records, number = self.scheduler.records, flight.round.number
        seconds = self.scheduler.spending.left.seconds
        return messages.BatchRequest(
            token=flight.token,
            order=self._order,
            round=number,
            stack=flight.batch.stack.key,
            cells=tuple(flight.left),
            attempts=tuple(one for cell in flight.left for one in records.attempts(cell, number)),
            retried={cell: count for cell in flight.left if (count := records.retried.get((cell, number), 0))},
            seconds=seconds if isfinite(seconds) else None,
            disks=self._pools.get(flight.worker.host, ()),
        )

    async def _carry_out(self, flight: Flight) -> None:
        lost: messages.WorkerLost | None = None
        flight.task = task = asyncio.current_task()
        assert task  # noqa: S101 - for the type checker
        try:
            try:
                await self._cluster.carry_out(flight.worker, self._request(flight), partial(self._receive, flight))
            except messages.WorkerLost as error:
                lost = error
            except asyncio.CancelledError:
                if not flight.lie or task.uncancel():
                    raise
            flight.task = None
            await self._inbox.settled()
            if isinstance(lost, messages.BatchLost):
                self._flights.lose(flight)
        finally:
            self._inbox.settle()  # what arrived before a cancellation
            self._flights.remove(flight)
            flight.round.running -= 1
            self._members.end(flight.worker)
            self._forecast.end_batch(flight.worker.host)
            self._repeats.end(flight.worker.host, alone=flight.alone)
        self._finish(flight, flight.lie or lost)

    def _finish(self, flight: Flight, lost: messages.WorkerLost | None) -> None:
        """Put what has no record back into its round."""
        if not (lost or flight.ended or flight.refused):  # a process that dies is a loss, with its reason
            lost = messages.BadAnswer("it sent no end of its batch")
        if isinstance(lost, messages.BadAnswer):
            self._leave_out(flight, lost)
        elif flight.refused:
            self._members.refuse(flight.worker, flight.refused)
        elif flight.ended and (not flight.left or self._exceeds_budget(flight)):
            self.scheduler.leave_out(flight.left.values(), flight.round.number)  # the budget ended
            flight.left = {}
        else:
            self._lose(flight, lost or messages.BatchLost("its worker left out trials"))
        if flight.left:
            rest = replace(flight.batch, cells=tuple(flight.left.values()))
            if flight.alone:
                self._repeats.add(flight.worker.host, flight.round, rest)
            else:
                flight.round.give_back(rest, self._members.refusals)
        if flight.left or flight.alone or flight.round.over:
            self._look_again()
        self._context.listen(events.BatchDone(flight.round.number, flight.batch.stack.label, flight.worker.host))

    def _exceeds_budget(self, flight: Flight) -> bool:
        """Return whether its worker, by its own estimates, cannot measure any of what it left out."""
        spending = self.scheduler.spending
        theirs = Spending(replace(spending.left, written=inf))
        set_up = max(one.of_stack(flight.batch.stack).seconds for one in (spending, theirs))
        cells = flight.left.values()
        return spending.is_limited and not any(theirs.affords(theirs.of_cell(one) + Cost(set_up)) for one in cells)

    def _leave_out(self, flight: Flight, lie: messages.BadAnswer) -> None:
        """Refuse a worker that sends wrong messages. Its trials do not count."""
        host, again = flight.worker.host, "other workers continue the batch" if flight.left else "it had no trial left"
        stack = flight.batch.stack.label
        self._context.listen(events.RigWasLost(stack, stack, f"{host}: {lie.brief}", again))
        self._members.refuse_for(flight.worker, lie)
        for other in self._flights.of_worker(flight.worker):
            self._abandon(other, lie)
        self._move_work()

    def _abandon(self, flight: Flight, lie: messages.BadAnswer) -> None:
        if flight.task and not flight.lie:
            flight.task.cancel()
        flight.lie = flight.lie or lie

    def _lose(self, flight: Flight, lost: messages.WorkerLost) -> None:
        number, host, reason = flight.round.number, flight.worker.host, lost.brief
        name = flight.left[flight.begun].name if flight.begun in flight.left else flight.batch.stack.label
        if not isinstance(lost, messages.SchedulerLost):  # one notice is enough for all batches
            again = _after_loss(flight, lost) if flight.left else "it had no trial left"
            self._context.listen(events.RigWasLost(name, flight.batch.stack.label, f"{host}: {reason}", again))
        if flight.begun not in flight.left:
            if isinstance(lost, messages.BatchLost):
                self._count_fruitless(flight, lost)
            return
        self._crashed.setdefault(host, []).append((flight.begun, number, flight.began))
        self._deaths[flight.begun, number] += 1
        if self._deaths[flight.begun, number] % DEATHS == 0:
            brief = f"the process that measured it ended {DEATHS} times: {reason}"
            self._recorder.lose(flight.begun, number, flight.began, RigLost(brief))

    def _count_fruitless(self, flight: Flight, lost: messages.BatchLost) -> None:
        """Refuse a worker whose batches end again and again before their first trial."""
        self._fruitless[flight.worker.address] += 1
        if self._fruitless[flight.worker.address] == DEATHS:
            self._members.refuse_for(flight.worker, lost, f"{DEATHS} of its batches ended before their first trial: ")

    # --- records ---

    def _receive(self, flight: Flight, line: bytes) -> None:
        if flight.lie:
            raise flight.lie
        message = messages.parsed(line)
        if self._flights.takes(flight, message):
            self._inbox.add(partial(self._take, flight, message), len(line))
        else:
            _count(flight, "lines of other numbers", MOST_AGAIN)

    def _take(self, flight: Flight, message: messages.Message) -> None:
        if not flight.lie:
            try:
                self._takers[message["event"]](flight, message)
            except messages.BadAnswer as lie:
                self._abandon(flight, lie)

    @cached_property
    def _takers(self) -> Mapping[str, Callable[[Flight, messages.Message], None]]:
        return {
            **dict.fromkeys(messages.FROM_HOSTS, self._pass_on),
            events.TrialStarted.word: self._begin,
            messages.FILES: self._keep,
            messages.TRIAL: self._record,
            messages.LOST: self._lose_attempt,
            events.RigUp.word: self._set_up,
            messages.CHECKED: lambda *_: _refuse_if(True, "an answer to another question"),
            messages.NOTICE: self._show_notice,
            messages.POOL: self._note_pool,
            messages.REFUSED: self._end_refused,
            messages.END: self._end,
        }

    def _show_notice(self, flight: Flight, message: messages.Message) -> None:
        """Show a notice of a host once: each batch process has the same ones."""
        _count(flight, "notices", MOST_NOTICES)
        text = f"{flight.worker.host}: {message['text']}"
        if text not in self._noticed:
            self._noticed.add(text)
            self._notice(text)

    def _note_pool(self, flight: Flight, message: messages.Message) -> None:
        _count(flight, "its disks", 2)  # leased, and returned
        used = messages.pool_from(message, flight.worker.host)
        self._pools[used.host] = tuple(disk.serial for disk in used.disks)
        self._flights.note_pool(flight, used)
        self._context.listen(used)

    def _report_unreturned(self) -> None:
        for host, used in self._flights.unreturned.items():
            text = "a batch was lost before it returned its disks; `matrix clean` on that host returns them"
            self._notice(f"{host}: {text}")
            self._context.listen(replace(used, unreturned=(text,)))

    def _end_refused(self, flight: Flight, message: messages.Message) -> None:
        flight.refused = message

    def _end(self, flight: Flight, _message: messages.Message) -> None:
        flight.ended = flight.refused is None

    def _pass_on(self, flight: Flight, message: messages.Message) -> None:
        _count(flight, f"{message['event']} events", _most_events(flight))
        self._context.listen(messages.event_of({**message, "stack": flight.batch.stack.label}))

    def _begin(self, flight: Flight, message: messages.Message) -> None:
        known = flight.names.get(message["name"], "") in flight.left and message["round"] == flight.round.number
        _refuse_if(not known, "the beginning of a trial that it was not given")
        _count(flight, f"the beginning of {message['name']}", MOST_PUTS)
        self._fruitless.pop(flight.worker.address, None)
        flight.begun, flight.began = flight.names.get(message["name"], ""), now()
        shown = {"host": flight.worker.host, "stack": flight.batch.stack.label}
        self._context.listen(messages.event_of({**message, **shown}))

    def _keep(self, flight: Flight, message: messages.Message) -> None:
        cell = flight.names.get(message["cell"], "")
        _refuse_if(not cell or message["round"] != flight.round.number, "files of a trial that it was not given")
        _count(flight, f"files of {message['cell']}", MOST_PUTS)
        put = self._context.shelf.put
        flight.folders[cell] = put(message["cell"], message["round"], message["scripts"], message["outputs"])

    def _record(self, flight: Flight, message: messages.Message) -> None:
        trial: Trial = message[messages.RECORD]
        _refuse_if(trial.cell not in flight.left, "a trial that it was not given, or a second time")
        _refuse_if(trial.round != flight.round.number, f"a trial of round {trial.round}, not {flight.round.number}")
        known = not trial.outcome.counts or trial.figures is not None
        _refuse_if(not known, "a measured trial without figures")
        cell = flight.left.pop(trial.cell)
        notes = {HOST: flight.worker.host, **({"beside": str(flight.beside)} if flight.beside else {})}
        notes |= {} if flight.round.bound else {SPREAD: "yes"}
        if trial.facts.is_host_limited and trial.outcome.counts and flight.beside:
            self._repeat_alone(flight, cell, trial.notes.get(HOST_LIMITED, ""))
            return
        notes |= self._recorder.end_repeat(cell, trial.round)
        self._forecast.end_trial(flight.worker.host, trial.round, cell.id)
        own = {name: text for name, text in trial.notes.items() if name not in _OUR_NOTES}
        facts = replace(trial.facts, host=flight.worker.host, spread=not flight.round.bound)
        folder = flight.folders.get(cell.id, "")
        self._recorder.record(cell, replace(trial, notes={**own, **notes}, folder=folder, facts=facts))
        later = max(0, self.scheduler.plan.repeat.max - self._opened)
        if (left := self._forecast.next_forecast(self._open, later, self._members.present)) is not None:
            self._context.listen(events.TimeLeft(left))
        if following := self.scheduler.following(cell, trial.round, list(flight.left.values())):
            flight.round.add(replace(flight.batch, cells=tuple(following)), self._members.refusals)
            self._look_again()

    def _repeat_alone(self, flight: Flight, cell: Cell, overload: str) -> None:
        self._repeats.add(flight.worker.host, flight.round, replace(flight.batch, cells=(cell,)))
        self._look_again()
        self._recorder.repeat_alone(cell, flight.round.number, overload, flight.beside)

    def _lose_attempt(self, flight: Flight, message: messages.Message) -> None:
        attempt = Attempt(**messages.content_of(message))
        known = attempt.cell in flight.left and attempt.round == flight.round.number
        _refuse_if(not known, "an attempt at a trial that it was not given")
        _count(flight, f"attempts at {attempt.cell}", TRIES)
        # A crash of another host may have cost an attempt meanwhile.
        attempt = replace(attempt, number=self.scheduler.records.next_attempt(attempt.cell, attempt.round))
        self.scheduler.lose(attempt)
        self._context.journal.record_lost(attempt)

    def _set_up(self, flight: Flight, message: messages.Message) -> None:
        stack = flight.batch.stack
        _count(flight, "rigs", _most_events(flight))
        self._recorder.record_set_up(stack, flight.round.number, message["seconds"])
        self._context.listen(messages.event_of({**message, "stack": stack.label}))


def _refuse_if(is_lie: bool, what: str) -> None:
    if is_lie:
        raise messages.BadAnswer(f"it sent {what}")


def _count(flight: Flight, what: str, most: int) -> None:
    flight.sent[what] += 1
    _refuse_if(flight.sent[what] > most, f"{what} more than {most} times")


def _most_events(flight: Flight) -> int:
    return 1 + max(TRIES, len(FACTORS)) * len(flight.names)


def _after_loss(flight: Flight, lost: messages.WorkerLost) -> str:
    if lost.resolution:
        return lost.resolution
    if isinstance(lost, messages.BatchLost):
        return "another process continues the batch"
    if flight.round.bound:
        patience = f"up to {members.PATIENCE:g} s after all other work"
        return f"its round waits for {flight.worker.host}, {patience}, then goes to another host"
    return "another worker continues the batch"
