"""A run from its preparation to its end: lease disks, execute, report. The choice of the run to continue: prepare.py.

The signals that stop it: cli/run.py.
"""

import gc
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias

from matrix_runner.base.errors import Exit, MatrixError
from matrix_runner.base.files import write_output
from matrix_runner.base.log import LOG, LOG_FILE, SHOWN, command_text, log_level, log_to
from matrix_runner.base.version import matrix_version
from matrix_runner.carry.coordinator import Coordinator
from matrix_runner.carry.events import Event, PoolUsed, RigUp, TimeLeft, TrialDone, Waiting
from matrix_runner.carry.executor import LocalRun, RunInTurns
from matrix_runner.carry.past_timings import pace_of
from matrix_runner.carry.recorder import RunContext
from matrix_runner.decide.budget import ENDLESS, Cost, Spending
from matrix_runner.decide.concurrency import Level
from matrix_runner.decide.estimate import QUIET, Load, Pace, Slots, estimate
from matrix_runner.decide.scheduler import Scheduler
from matrix_runner.hosts.disk_ledger import run_within_budget
from matrix_runner.machines import machine
from matrix_runner.machines.base import Machine, MachineOptions
from matrix_runner.pages.bisect import write_search
from matrix_runner.pages.terminal_text import slow_motion
from matrix_runner.records.address import address_of, is_named
from matrix_runner.records.cell_files import CellFiles, open_files
from matrix_runner.records.environment import describe_missing_health
from matrix_runner.records.journal import Journal
from matrix_runner.records.observe import find_holder
from matrix_runner.records.record import UNCONFINED, CellRow
from matrix_runner.records.run_folder import RunFolder, runs
from matrix_runner.records.store_sync import Feed
from matrix_runner.scripts.cell import explain_missing_fio
from matrix_runner.session import disk_lease
from matrix_runner.session.cluster import connect, note_pool, order_for_batches, slots_of_hosts
from matrix_runner.session.confirm import Confirming
from matrix_runner.session.disk_lease import RunDisks
from matrix_runner.session.finish import Ending, report
from matrix_runner.session.host_facts import boot_id
from matrix_runner.session.prepare import PreparedRun, choose_run
from matrix_runner.session.run_request import RunOptions, RunRequest
from matrix_runner.session.version_search import exit_of, read_search, record_skipped
from matrix_runner.space.declared_files import Match, keep_accepted

#: Facts of one start of a rig, not versions.
_START_FACTS = frozenset({"kernel", "ready", "up", "md", "without"})


class Observer:
    """Shows the progress of a run of `planned` trials, of which `done` are recorded already."""

    def __init__(self, planned: int, done: int) -> None:
        self.planned, self.done = planned, done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def start_run(self, folder: Path) -> None:
        pass

    def end_run(self, end: Ending) -> None:
        pass

    def event(self, event: Event) -> None:
        pass

    def notice(self, text: str) -> None:
        pass

    def trouble(self, text: str) -> None:
        """Show a problem that does not stop the run."""
        self.notice(text)

    def progress(self, brief: str, fraction: float | None = None) -> None:
        """Show the progress of a long step before or between trials."""

    def show_estimate(self, least: float, most: float) -> None:
        pass


class _Logged(Observer):
    """Writes what an observer shows to the log, too."""

    def __init__(self, observer: Observer) -> None:
        super().__init__(observer.planned, observer.done)
        self._observer = observer
        self.start_run, self.progress = observer.start_run, observer.progress  # type: ignore[method-assign]

    def end_run(self, end: Ending) -> None:
        SHOWN.info("the run ends with exit code %d: %s", end.exit, end.trials)
        self._observer.end_run(end)

    def event(self, event: Event) -> None:
        SHOWN.info("%s: %s", event.word or type(event).__name__, _words(event))
        self._observer.event(event)

    def notice(self, text: str) -> None:
        SHOWN.info("%s", text)
        self._observer.notice(text)

    def trouble(self, text: str) -> None:
        SHOWN.warning("%s", text)
        self._observer.trouble(text)

    def show_estimate(self, least: float, most: float) -> None:
        SHOWN.info("estimated: %.0f to %.0f s", least, most)
        self._observer.show_estimate(least, most)


def _words(event: Event) -> str:
    """Return a line without figures: the journal has them, and a log is passed on."""
    if isinstance(event, TrialDone):
        return f"{event.name} round {event.trial.round}: {event.trial.outcome} {event.trial.reason}".rstrip()
    return event.text or event.activity or ", ".join(f"{name} {value}" for name, value in event.values.items())


class Stop(Protocol):
    def run(self, work: Coroutine[Any, Any, None]) -> bool:
        """Return whether the work completed."""


@dataclass
class _Run:
    options: RunOptions
    order: RunRequest
    level: Level
    folder: RunFolder
    journal: Journal
    observer: Observer
    stop: Stop
    disks: RunDisks = field(default_factory=RunDisks)
    short: int = 0  # trials of the minimum that a budget did not cover
    simulated: bool = True  # the disks end with their rig
    #: Why disks of hosts of a cluster were not returned the last time.
    unreturned: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def machine(self) -> Machine:
        order, disks, observer = self.order, self.disks, self.observer
        options = replace(disks.machine_options(order.match), cold=order.cold, images=order.images)
        options = replace(options, progress=observer.progress, notice=observer.notice)
        return machine(order.machine, order.versions.provided_to(options))


def run(prepared: PreparedRun, observer_of: Callable[[RunRequest, int], Observer], stop: Stop) -> Ending:
    options, order, level = prepared.options, prepared.order, prepared.level
    detail, manifest = log_level(verbose=options.verbose), order.manifest()
    choice = choose_run(options.results, manifest, fresh=options.fresh, retry_broken=options.retry_broken)
    folder = choice.folder
    if options.folder_to:
        write_output(options.folder_to, f"{folder.path}\n".encode())
    with ExitStack() as stack:
        stack.enter_context(folder.locked())
        stack.enter_context(log_to(folder.path / LOG_FILE, detail))
        journal = stack.enter_context(
            Journal.open(folder.journal, synthetic=folder.manifest.synthetic, run=folder.manifest.id)
        )
        LOG.info("matrix %s: %s", matrix_version(), command_text(manifest.command))
        folder = choice.prepare_folder(journal)  # first: withdrawn trials must not count as done
        if order.bisection and order.bisection.skip:
            journal.add_cells(CellRow(cell.id, cell.name, cell.axes) for cell in order.selected.selection.cells())
            record_skipped(order.bisection, journal)
        observer = observer_of(order, len(journal.recorded_identities()))
        simulated = machine(order.machine, MachineOptions()).brings_disks
        logged = _Logged(observer)
        this = _Run(options, order, level, folder, journal, logged, stop, simulated=simulated)
        with observer:
            for text in _notes(this, prepared.one_at_a_time, choice.message(observer.done)):
                logged.notice(text)
            logged.start_run(folder.path)
            end = _lease_and_execute(this)
        logged.end_run(end)
    return end


def _notes(this: _Run, one_at_a_time: str, choice: str) -> Iterator[str]:
    selected, store = this.order.selected, this.options.store
    declared = selected.space.notes_on(selected.selection.layouts(), simulated=this.simulated)
    for note in (*declared, explain_missing_fio(), one_at_a_time):
        if note:
            yield f"note: {note}"
    if part := str(selected.requested):
        yield f"{selected.selection.count():,} of {selected.space.count():,} cells: {part}"
    for run in () if this.folder.manifest.synthetic else runs(this.options.results):
        other = run.manifest
        if run.path == this.folder.path or other.finished or other.synthetic or other.waiting:
            continue
        if (holder := find_holder(run.path)) and holder.host in {"", socket.gethostname()}:
            yield f"note: process {holder.pid} is measuring {run.path}/ on this host: both runs will be slower"
    yield from _notes_on_search(this)
    if choice:
        yield choice
    address = address_of(store, this.options.results)
    if is_named(store) and address.file and not address.file.exists():
        yield f"created a new store at {address}"


def _notes_on_search(this: _Run) -> Iterator[str]:
    wanted, search = this.options.bisect, this.order.bisection
    if wanted is None or search is None:
        return
    ends = zip((wanted.good, wanted.bad), (search.names[0], search.names[-1]), strict=True)
    good, bad = (word if word == name else f"{word} ({name})" for word, name in ends)
    yield f"searching {len(search.names)} versions, from {good} to {bad}"
    if search.running is not None:
        boots = read_search(search, this.journal).boots_left
        yield f"{search.names[search.running]} runs; {boots} left, or up to twice as many for a change near the noise"


def _lease_and_execute(this: _Run) -> Ending:
    with ExitStack() as stack:
        observer, order = this.observer, this.order
        if order.match:
            lease = disk_lease.lease_run_disks(_disk_use(this, order.match), observer.notice, observer.trouble)
            disks = this.disks = stack.enter_context(lease)
            for warning in disks.warnings(this.folder.manifest.disks):
                observer.trouble(warning)
            if note := describe_missing_health(disks.health):
                observer.notice(note)
            # Before the first write.
            this.folder = this.folder.update_manifest(disks=disks.facts, health=disks.health)
        pace = _show_estimate(this)
        address = address_of(this.options.store, this.options.results)
        feed = stack.enter_context(Feed(address, this.folder, observer.trouble))
        return _execute(this, pace, feed)


def _disk_use(this: _Run, found: Match) -> disk_lease.DiskUse:
    selected, manifest = this.order.selected, this.folder.manifest
    return disk_lease.DiskUse(
        match=found,
        matrix=selected.space.matrix,
        stacks=tuple(selected.stacks()),
        machine=this.order.machine,
        run=manifest.id,
        folder=this.folder.path,
        destroy=this.options.destroy,
        health=manifest.health,
        only_read=this.options.only_read,
    )


def _show_estimate(this: _Run) -> Pace:
    order, observer = this.order, this.observer
    selected, here = order.selected, machine(order.machine, MachineOptions(cold=order.cold))
    load = QUIET if here.synthetic else Load.now()
    pace = pace_of(this.options.results, here, order.machine, selected.space.matrix, order.specs(), load)
    if load.note and not pace.runs:
        observer.notice(f"note: {load.note}")
    found = estimate(selected.plan, pace, _slots(this, synthetic=here.synthetic))
    if slow := slow_motion(found.factors):
        observer.notice(slow)
    left = max(0.0, 1 - observer.done / max(1, observer.planned))
    observer.show_estimate(found.seconds_least * left, found.seconds_most * left)
    this.folder = this.folder.update_manifest(
        expected=found.seconds_most * left, ends=None, waiting="", on_cluster=bool(this.options.cluster)
    )
    return pace


def _slots(this: _Run, *, synthetic: bool) -> Slots:
    if wanted := this.options.cluster:
        hosts = slots_of_hosts(wanted, this.options.tags)
        return Slots.of_cluster(hosts, this.order.selected.plan.repeat.min, bound=not synthetic)
    return Slots.of(this.level.now)


def _execute(this: _Run, pace: Pace, feed: Feed) -> Ending:
    done = False
    try:
        done = _measure(this, pace, feed)
    finally:
        returned = _return_disks(this)
        _free_memory()
        search = read_search(this.order.bisection, this.journal) if this.order.bisection else None
        is_open = search is not None and not search.standing.state.is_over
        end = _write_reports(this, feed, done=done, short=this.short + is_open)
        if search:
            code = exit_of(search) if done else end.exit
            end = replace(end, search=search, exit=code, files=(*end.files, *write_search(this.folder, search)))
        end = end if returned else replace(end, exit=max(end.exit, Exit.BROKEN))
        # Last: after a kill before this line, the same command writes the reports again.
        if not _close(this.folder, feed, end.exit, finished=end.finished):
            end = replace(end, exit=max(end.exit, Exit.BROKEN))  # its history would end without a word
    return end


def _free_memory() -> None:
    """Free what the trials needed: scheduler and executor refer to each other, and glibc keeps what is freed."""
    import ctypes  # here, as only runs need it

    gc.collect()
    with suppress(AttributeError):  # of other C libraries
        ctypes.CDLL(None).malloc_trim(0)


def _measure(this: _Run, pace: Pace, feed: Feed) -> bool:
    """Return whether all trials are recorded. The memory of a large run's records is free before its reports begin."""
    order, disks, observer = this.order, this.disks, this.observer
    spending = Spending(this.options.budget, pace, write_budget=disks.write_budget)
    confirming = _confirming(this, spending)
    steering = confirming.steering if confirming else order.steering()
    scheduler = Scheduler(order.selected.plan, spending=spending, steering=steering)
    if order.until_decided or order.bisection:
        this.folder = this.folder.update_manifest(steered=True)
    wear_stop, missing = "", 0
    try:
        with open_files(this.folder, writing=True) as files, ExitStack() as exits:
            executor = _executor(this, scheduler, _context(this, pace, feed, files), confirming, exits)
            done = this.stop.run(_work(executor, disks))
        wear_stop = disks.write_budget.stop_reason if disks.write_budget else ""
        missing = scheduler.count_missing() if done and not wear_stop else 0
    finally:
        this.short = scheduler.short + bool(wear_stop) + missing
        if missing:
            observer.trouble(f"{missing:,} trials of the minimum have no record; the same command continues the run")
        if wear_stop:
            observer.trouble(wear_stop)
        elif text := budget_message(scheduler.short, scheduler.left_out, spending.budget, this.options):
            (observer.trouble if scheduler.short else observer.notice)(text)
    return done


def _confirming(this: _Run, spending: Spending) -> Confirming | None:
    if this.options.confirm is None:
        return None
    keep_accepted(this.options.matrix.parent, this.folder.path)
    observer, plan = this.observer, this.order.selected.plan
    shown = observer.notice, observer.trouble, observer.event
    return Confirming(this.options, plan, this.machine, lambda: this.folder, this.journal, spending, *shown)


_Executor: TypeAlias = LocalRun | RunInTurns | Coordinator


def _executor(
    this: _Run, scheduler: Scheduler, context: RunContext, confirming: Confirming | None, exits: ExitStack
) -> _Executor:
    if wanted := this.options.cluster:
        order = order_for_batches(this.order)
        tags = frozenset(this.options.tags)
        one_host, notice = this.order.bisection is not None, this.observer.notice
        return Coordinator(scheduler, context, connect(wanted), order, notice, tags=tags, one_host=one_host)
    run = LocalRun(scheduler, context, this.level)
    if not (confirming and confirming.has_turns):
        return run
    return RunInTurns(run, partial(confirming.second, context, this.level, exits), confirming.give_up)


async def _work(executor: _Executor, disks: RunDisks) -> None:
    # A stop before the start closes only this coroutine, so the inner ones must not exist yet.
    await run_within_budget(executor.run(), disks.write_budget)


def _context(this: _Run, pace: Pace, feed: Feed, files: CellFiles) -> RunContext:
    order, disks, observer = this.order, this.disks, this.observer
    unconfined = set[str]()

    def listen(event: Event) -> None:
        if isinstance(event, RigUp):
            versions = dict(this.folder.manifest.versions)
            found = {event.facts["kernel"]: _versions(event.facts)}
            if versions | found != versions:
                # At once: after a kill, the next process may need no rig.
                this.folder = this.folder.update_manifest(versions=versions | found)
        elif isinstance(event, TrialDone):
            feed.copy_new()
            if (why := event.trial.notes.get(UNCONFINED)) and why not in unconfined:
                unconfined.add(why)
                observer.trouble(f"fio is not confined to its trial and the stack: {why}")
        elif isinstance(event, PoolUsed):
            this.folder = note_pool(this.folder, event, observer.trouble)
            this.unreturned[event.host] = event.unreturned
        elif isinstance(event, TimeLeft):
            end = datetime.now(UTC) + timedelta(seconds=event.seconds)
            this.folder = this.folder.update_manifest(ends=end)
        elif isinstance(event, Waiting):
            this.folder = this.folder.update_manifest(waiting=event.what)
        observer.event(event)

    return RunContext(
        machine=this.machine,
        journal=this.journal,
        shelf=files,
        scratch=this.folder.path,
        listen=listen,
        boot_id=disks.agent.boot_id if disks.agent else boot_id(),
        own_templates=order.templates,
        kernel=order.kernel,
        factors=pace.factors,  # so the budget knows what it learns
        leased=dict(zip(disks.paths, disks.leased, strict=False)),
        pools={host: tuple(one.serial for one in pool) for host, pool in this.folder.manifest.pools.items()},
    )


def _return_disks(this: _Run) -> bool:
    this.disks.give_back()
    found = this.disks.query_health()  # after the return: a VM that has the controller hides the disk
    for alarm in filter(None, (after.alarm for after in found)):
        this.observer.trouble(alarm)
    digests = this.order.digests().model_dump()
    health = found or this.folder.manifest.health  # that of disks of a cluster is recorded already
    this.folder = this.folder.update_manifest(digests=digests, health=health, **this.order.texts())
    return not (this.disks.unreturned or any(this.unreturned.values()))


def _write_reports(this: _Run, feed: Feed, *, done: bool, short: int) -> Ending:
    guidelines, study = this.order.selected.space.matrix.guidelines, this.order.study
    store = address_of(this.options.store, this.options.results)
    try:
        return report(this.folder, this.journal, guidelines, study, interrupted=not done, short=short, store=store)
    except (MatrixError, OSError):
        raise  # such as a full disk: the same command writes the reports again
    except Exception as mistake:
        # Finished all the same: the same command would fail here again.
        _close(this.folder, feed, Exit.BROKEN, finished=done and not short)
        mistake.add_note(f"there are no reports: once this is fixed, `matrix report {this.folder.path}` writes them")
        raise


def _close(folder: RunFolder, feed: Feed, end: Exit, *, finished: bool) -> bool:
    """Return whether the store has the run. The manifest has the code of the run itself."""
    ended = datetime.now(UTC).isoformat(timespec="milliseconds")
    return feed.end(folder.update_manifest(finished=finished, ended=ended, exit=int(end) if finished else None))


def _versions(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in facts.items() if name not in _START_FACTS and not name.startswith("matrix-")}


def budget_message(short: int, left_out: int, cost: Cost, options: RunOptions) -> str:
    if cost == ENDLESS or not left_out:
        return ""
    if short:
        return (
            f"the budget is used up: {short:,} trials of the minimum are missing; the same command with a larger "
            "budget continues the run, and `matrix plan` shows the time and bytes they take"
        )
    limit = "the budget" if options.confirm is None or options.budget != ENDLESS else "the time of --confirm"
    return f"{limit} is used up: every cell has its minimum; {left_out:,} further trials were planned"
