"""A run from its options to its end: check, find the run to resume, lease disks, execute, write the reports."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol, Self

from runner.base.errors import BadInput, Exit, MatrixError
from runner.base.files import write_atomically
from runner.engine.budget import ENDLESS, Cost, Spending
from runner.engine.concurrency import Level, why_one_at_a_time
from runner.engine.estimate import QUIET, Load, estimate, pace_of
from runner.engine.executor import Executor
from runner.engine.recorder import RigUp, RunContext, TrialDone
from runner.engine.scheduler import Scheduler
from runner.hosts.write_budget import run_within_budget
from runner.machines import Where, machine, sweep
from runner.machines.base import MachineOptions
from runner.results.disk_health import describe_missing_health
from runner.results.journal import Journal
from runner.results.observe import find_holder
from runner.results.run_folder import runs
from runner.results.store_sync import Feed
from runner.results.store_tables import address_of, is_named
from runner.scripts.cell import explain_missing_fio
from runner.session.disk_lease import (
    RunDisks,
    check_destroy,
    check_zeroed,
    lease_run_disks,
    match_disks,
    passthrough_machine,
    precheck,
)
from runner.session.finish import Ending, report
from runner.session.host_facts import boot_id, kernel_release
from runner.session.request import Checks, check_machine, check_names, check_templates, load_request
from runner.session.run_request import RunRequest, check_kernel, choose_run, starts_new_run
from runner.space.studies import study_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Any

    from runner.engine.estimate import Pace
    from runner.engine.recorder import Event
    from runner.machines.base import Machine, RigSpec
    from runner.results.observe import Holder
    from runner.results.run_folder import RunFolder
    from runner.space.select import Shard
    from runner.space.space import Array

Jobs = int | Literal["auto"]
AUTO: Literal["auto"] = "auto"
#: Facts of one start of a rig, not versions.
_START_FACTS = frozenset({"kernel", "ready", "up", "md", "without"})


@dataclass(frozen=True)
class RunOptions:
    """The options of `matrix run`."""

    matrix: Path
    place: Where
    results: Path
    only: tuple[str, ...] = ()
    shard: Shard | None = None
    kernel: str | None = None
    templates: Path | None = None
    store: str | None = None
    jobs: Jobs = 1
    budget: Cost = ENDLESS
    hosts: Path | None = None
    destroy: tuple[str, ...] = ()
    passthrough: bool = False
    until_decided: bool = False
    folder_to: Path | None = None
    fresh: bool = False
    retry_broken: bool = False
    cold: bool = False


@dataclass(frozen=True)
class PreparedRun:
    """A run that passed every check, before its folder exists."""

    options: RunOptions
    order: RunRequest
    #: The number of parallel rigs.
    level: Level
    #: Why it is one although the user wants more.
    one_at_a_time: str = ""


class Observer(Protocol):
    """Shows the progress of a run."""

    planned: int
    done: int

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def start_run(self, folder: Path) -> None: ...
    def end_run(self, end: Ending) -> None: ...
    def event(self, event: Event) -> None: ...
    def notice(self, text: str) -> None: ...
    def trouble(self, text: str) -> None: ...
    def progress(self, brief: str, fraction: float | None = None) -> None: ...
    def show_estimate(self, least: float, most: float) -> None: ...


class Stop(Protocol):
    """Runs work until it ends or is asked to stop."""

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


def run(prepared: PreparedRun, observer_of: Callable[[RunRequest, int], Observer], stop: Stop) -> Ending:
    """Run a matrix, or resume its unfinished run."""
    options, order, level = prepared.options, prepared.order, prepared.level
    choice = choose_run(options.results, order.manifest(), fresh=options.fresh, retry_broken=options.retry_broken)
    folder = choice.folder
    if options.folder_to:
        write_atomically(options.folder_to, f"{folder.path}\n".encode())
    with folder.locked(), Journal.open(folder.journal, synthetic=folder.manifest.synthetic) as journal:
        folder = choice.prepare_folder(journal)  # first: withdrawn trials must not count as done
        observer = observer_of(order, len(journal.recorded_identities()))
        this = _Run(options, order, level, folder, journal, observer, stop)
        with observer:
            for text in _notes(this, prepared.one_at_a_time, choice.message(observer.done)):
                observer.notice(text)
            observer.start_run(folder.path)
            end = _lease_and_execute(this)
        observer.end_run(end)
    return end


def prepare(options: RunOptions, notice: Callable[[str], None]) -> PreparedRun:
    """Check all that is known before a run exists, and remove leftovers of killed runs from this machine."""
    place = Where(passthrough_machine(options.place.machine)) if options.passthrough else options.place
    check_names(options.templates)
    request = load_request(options.matrix, options.only, options.shard, Checks(place.machine, options.templates))
    matrix = request.space.matrix
    check_kernel(options.kernel, matrix.machine.kernel or ())
    check_templates(request, options.templates)
    order = RunRequest(
        options.matrix,
        request,
        place.machine,
        options.kernel,
        options.templates,
        cold=options.cold,
        until_decided=options.until_decided,
        study=study_beside(options.matrix, request.space),
    )
    order.check()
    here, specs = machine(place.machine, MachineOptions()), order.specs()
    check_machine(here, specs)
    check_zeroed(request, here)
    for leftover in sweep(place.machine):
        notice(leftover.message)
    match = None if here.brings_disks else match_disks(matrix, options.hosts, place)
    check_destroy(options.destroy, match, place.machine)
    order = replace(order, match=match, release=kernel_release(match.ssh) if match else "")
    if match and match.ssh:
        check_machine(machine(place.machine, MachineOptions(where=match.ssh)), specs)
    choice = {"fresh": options.fresh, "retry_broken": options.retry_broken}
    if match and starts_new_run(options.results, order.manifest(), **choice):
        precheck(match, matrix, place.machine, options.destroy)
    return PreparedRun(options, order, *choose_level(options.jobs, here, specs, request.arrays()))


def _notes(this: _Run, one_at_a_time: str, choice: str) -> Iterator[str]:
    request, store = this.order.request, this.options.store
    declared = request.space.notes_on(request.selection.layouts(), simulated=this.order.match is None)
    for note in (*declared, explain_missing_fio(), one_at_a_time):
        if note:
            yield f"note: {note}"
    if request.part:
        yield f"{request.selection.count():,} of {request.space.count():,} cells: {request.part}"
    if not this.folder.manifest.synthetic:
        for run, holder in _other_runs(this):
            yield f"note: process {holder.pid} is measuring {run.path}/ on this host: both runs will be slower"
    if choice:
        yield choice
    address = address_of(store, this.options.results)
    if is_named(store) and address.file and not address.file.exists():
        yield f"created a new store at {address}"


def _other_runs(this: _Run) -> Iterator[tuple[RunFolder, Holder]]:
    """Yield the runs of the same results folder that are under way on this host."""
    for run in runs(this.options.results):
        if run.path == this.folder.path or run.manifest.finished:
            continue
        if (holder := find_holder(run.path)) and holder.host in {"", socket.gethostname()}:
            yield run, holder


def _lease_and_execute(this: _Run) -> Ending:
    with ExitStack() as stack:
        observer, order = this.observer, this.order
        if order.match:
            show = observer.notice, observer.trouble
            lease = lease_run_disks(order.match, order.request, order.machine, this.folder, this.options.destroy, *show)
            this.disks = stack.enter_context(lease)
            _record_disks(this)
        pace = _show_estimate(this)
        spending = Spending(this.options.budget, pace, write_budget=this.disks.write_budget)
        address = address_of(this.options.store, this.options.results)
        feed = stack.enter_context(Feed(address, this.folder, observer.trouble))
        return _execute(this, spending, feed)


def _record_disks(this: _Run) -> None:
    """Record the facts and the health of the disks before the first write."""
    disks, observer = this.disks, this.observer
    for warning in disks.warnings(this.folder.manifest.disks):
        observer.trouble(warning)
    if note := describe_missing_health(disks.health):
        observer.notice(note)
    this.folder = this.folder.update_manifest(disks=disks.facts, health=disks.health)


def _show_estimate(this: _Run) -> Pace:
    """Show how long the run will take; return the pace behind the estimate."""
    order, observer = this.order, this.observer
    request, here = order.request, machine(order.machine, MachineOptions(cold=order.cold))
    load = QUIET if here.synthetic else Load.now()
    pace = pace_of(this.options.results, here, order.machine, request.space.matrix, order.specs(), load)
    if load.note and not pace.runs:
        observer.notice(f"note: {load.note}")
    found = estimate(request.plan, pace, this.level.now)
    left = 1 - observer.done / max(1, observer.planned)
    observer.show_estimate(found.seconds_least * left, found.seconds_most * left)
    this.folder = this.folder.update_manifest(expected=found.seconds_most * left)
    return pace


def _execute(this: _Run, spending: Spending, feed: Feed) -> Ending:
    """Execute until the end or a stop, then write the reports in both cases."""
    order, disks, observer = this.order, this.disks, this.observer
    scheduler = Scheduler(order.request.plan, spending=spending, steering=order.steering())
    if order.until_decided:
        this.folder = this.folder.update_manifest(steered=True)
    executor = Executor(scheduler, _context(this, feed), this.level)
    done, wear_stop = False, ""
    try:
        done = this.stop.run(_work(executor, disks))
        wear_stop = disks.write_budget.stop_reason if disks.write_budget else ""
    finally:
        if wear_stop:
            observer.trouble(wear_stop)
        elif text := budget_message(scheduler.short, scheduler.left_out, spending.budget):
            (observer.trouble if scheduler.short else observer.notice)(text)
        returned = _return_disks(this)
        short = scheduler.short + bool(wear_stop)
        end = _write_reports(
            lambda: _report(this, done=done, short=short, returned=returned),
            this.folder,
            feed,
            finished=done and not short,
        )
    return end


async def _work(executor: Executor, disks: RunDisks) -> None:
    await run_within_budget(executor.run(), disks.write_budget)


def _context(this: _Run, feed: Feed) -> RunContext:
    order, disks, observer = this.order, this.disks, this.observer
    leased = disks.paths, disks.leased, order.match.ssh if order.match else "", disks.agent
    place = machine(
        order.machine, MachineOptions(order.cold, observer.progress, observer.notice, *leased, images=order.images)
    )

    def listen(event: Event) -> None:
        if isinstance(event, RigUp):
            versions = dict(this.folder.manifest.versions)
            found = {event.facts["kernel"]: _versions(event.facts)}
            if versions | found != versions:
                # At once: after a kill, the next process may need no rig.
                this.folder = this.folder.update_manifest(versions=versions | found)
        elif isinstance(event, TrialDone):
            feed.add(event.trial)
        observer.event(event)

    return RunContext(
        machine=place,
        journal=this.journal,
        shelf=this.folder,
        scratch=this.folder.path,
        listen=listen,
        boot_id=disks.agent.boot_id if disks.agent else boot_id(),
        own_templates=order.templates,
        kernel=order.kernel,
        leased=disks.by_path,
    )


def _return_disks(this: _Run) -> bool:
    """Return the leased disks and record their health; report whether all could be returned."""
    returned = this.disks.return_disks()
    health = this.disks.query_health()  # after the return: a VM that has the controller hides the disk
    for alarm in filter(None, (after.alarm for after in health)):
        this.observer.trouble(alarm)
    digests = this.order.digests().model_dump()
    this.folder = this.folder.update_manifest(digests=digests, health=health, **this.order.texts())
    return returned


def _report(this: _Run, *, done: bool, short: int, returned: bool) -> Ending:
    guidelines = this.order.request.space.matrix.guidelines
    end = report(this.folder, this.journal, guidelines, this.order.study, interrupted=not done, short=short)
    return end if returned else replace(end, exit=max(end.exit, Exit.BROKEN))


def _write_reports(reports: Callable[[], Ending], folder: RunFolder, feed: Feed, *, finished: bool) -> Ending:
    """Write the reports, then record that the run is over."""
    try:
        end = reports()
    except (MatrixError, OSError):
        raise  # such as a full disk: the same command writes the reports again
    except Exception as mistake:
        # Finished all the same: the same command would fail here again.
        _close(folder, feed, Exit.BROKEN, finished=finished)
        mistake.add_note(f"there are no reports: once this is fixed, `matrix report {folder.path}` writes them")
        raise
    # Last: after a kill before this line, the same command writes the reports again.
    _close(folder, feed, end.exit, finished=finished)
    return end


def _close(folder: RunFolder, feed: Feed, end: Exit, *, finished: bool) -> None:
    """Record whether all trials are done, and how the run ended."""
    ended = datetime.now(UTC).isoformat(timespec="milliseconds")
    feed.end(folder.update_manifest(finished=finished, ended=ended, exit=int(end) if finished else None))


def _versions(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the versions among the facts of a rig."""
    return {name: text for name, text in facts.items() if name not in _START_FACTS and not name.startswith("matrix-")}


def choose_level(jobs: Jobs, place: Machine, specs: Collection[RigSpec], arrays: Iterable[Array]) -> tuple[Level, str]:
    """Return the first number of parallel rigs, and a note if `auto` allows only one."""
    if jobs == 1:
        return Level.of(1), ""
    kinds = set(specs)
    why = why_one_at_a_time(place, kinds, arrays)
    room = min(map(place.max_rigs, kinds))
    if jobs == AUTO:
        why = why or ("this host has no room for a second such machine" if room == 1 else "")
        return (Level.of(1), f"one rig at a time: {why}") if why else (Level.up_to(room), "")
    if why:
        raise BadInput(
            f"--jobs {jobs}: {why}",
            resolution="leave --jobs out, or choose other cells with --only",
        )
    if jobs > room:
        one = next(iter(kinds))
        size = f"{one.memory // 2**20}MiB, {one.cpus} processors and the overhead of the emulator each"
        raise BadInput(
            f"--jobs {jobs}: this host has room for {room} machines at a time, with {size}",
            resolution="use `--jobs auto`, or smaller machines: `machine:` in the matrix sets their size",
        )
    return Level.of(jobs), ""


def budget_message(short: int, left_out: int, cost: Cost) -> str:
    """Return the message of a run that stopped for its budget; empty if it did not."""
    if cost == ENDLESS or not left_out:
        return ""
    if short:
        return (
            f"the budget is used up: {short:,} trials of the minimum are missing; the same command with a larger "
            "budget continues the run, and `matrix plan` shows the time and bytes they take"
        )
    return f"the budget is used up: every cell has its minimum; {left_out:,} further trials were planned"
