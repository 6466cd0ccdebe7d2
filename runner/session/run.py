"""A run from its options to its end: check, find the run to resume, lease disks, execute, write the reports."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol, Self

from runner.base.atomic_files import write_atomically
from runner.base.errors import BadInput, Exit, MatrixError
from runner.engine.budget import ENDLESS, Cost
from runner.engine.concurrency_policy import AdaptiveLevel, FixedLevel, why_one_at_a_time
from runner.engine.estimate import estimate
from runner.engine.events import RigUp, TrialDone
from runner.engine.executor import Executor
from runner.engine.recorder import RunContext
from runner.engine.scheduler import Scheduler
from runner.engine.spending import Spending
from runner.hosts.write_budget import run_within_budget
from runner.machines import Where, machine, sweep
from runner.machines.base import MachineOptions
from runner.results.disk_health import describe_missing_health
from runner.results.journal import Journal
from runner.results.live_sync import Feed
from runner.results.store_address import address_of, is_named
from runner.scripts.fio_check import explain_missing_fio
from runner.session.disk_lease import Borrowed, borrowed, check_destroy, check_zeroed, passing, precheck, wanted
from runner.session.finish import Ending, report
from runner.session.host_facts import boot_id, release_of
from runner.session.past_timings import QUIET, Load, pace_of
from runner.session.request import Checks, asked, check_names, check_templates, refuse
from runner.session.resume import begins_anew, chosen_run
from runner.session.run_request import Order, check_kernel
from runner.space.studies import study_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Any

    from runner.engine.concurrency_policy import Level
    from runner.engine.estimate import Pace
    from runner.engine.events import Event
    from runner.machines.base import Machine, RigSpec
    from runner.results.run_folder import RunFolder
    from runner.space.shard import Shard
    from runner.space.space import Array

Jobs = int | Literal["auto"]
AUTO: Literal["auto"] = "auto"
#: Facts of a rig that are no versions.
_PASSING = frozenset({"kernel", "ready", "up", "md", "without"})


@dataclass(frozen=True)
class RunOptions:
    """Everything that a user asks of a run."""

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
class Prepared:
    """A run that passed every check, before its folder exists."""

    options: RunOptions
    order: Order
    #: How many rigs work at a time, and why it is one although more were asked for; empty if it is not so.
    level: Level
    one_at_a_time: str = ""


class Observer(Protocol):
    """Shows a run while it goes on."""

    planned: int
    done: int

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def begins(self, folder: Path) -> None: ...
    def ends(self, end: Ending) -> None: ...
    def event(self, event: Event) -> None: ...
    def notice(self, text: str) -> None: ...
    def trouble(self, text: str) -> None: ...
    def progress(self, brief: str, fraction: float | None = None) -> None: ...
    def expects(self, least: float, most: float) -> None: ...


class Stop(Protocol):
    """Runs work until it ends or is asked to stop."""

    def run(self, work: Coroutine[Any, Any, None]) -> bool:
        """Return whether the work came to its end."""


@dataclass
class _Run:
    """One run with everything that carries it out."""

    options: RunOptions
    order: Order
    level: Level
    folder: RunFolder
    journal: Journal
    observer: Observer
    stop: Stop
    disks: Borrowed = field(default_factory=Borrowed)


def run(prepared: Prepared, observer_of: Callable[[Order, int], Observer], stop: Stop) -> Ending:
    """Run a matrix, or resume its unfinished run."""
    options, order, level = prepared.options, prepared.order, prepared.level
    chosen = chosen_run(options.results, order.manifest(), fresh=options.fresh, retry_broken=options.retry_broken)
    folder = chosen.folder
    if options.folder_to:
        write_atomically(options.folder_to, f"{folder.path}\n".encode())
    with folder.locked(), Journal.open(folder.journal, synthetic=folder.manifest.synthetic) as journal:
        folder = chosen.prepared(journal)  # first: it takes back what is to be tried again
        observer = observer_of(order, len(journal.recorded_identities()))
        this = _Run(options, order, level, folder, journal, observer, stop)
        with observer:
            for text in _notes(this, prepared.one_at_a_time, chosen.message(observer.done)):
                observer.notice(text)
            observer.begins(folder.path)
            end = _with_disks(this)
        observer.ends(end)
    return end


def prepare(options: RunOptions, notice: Callable[[str], None]) -> Prepared:
    """Check everything that can be checked before a run exists, and remove what killed runs left on this machine."""
    place = Where(passing(options.place.machine)) if options.passthrough else options.place
    check_names(options.templates)
    request = asked(options.matrix, options.only, options.shard, Checks(place.machine, options.templates))
    matrix = request.space.matrix
    check_kernel(options.kernel, matrix.machine.kernel or ())
    check_templates(request, options.templates)
    order = Order(
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
    refuse(here, specs)
    check_zeroed(request, here)
    for leftover in sweep(place.machine):
        notice(leftover.message)
    exist = None if here.brings_disks else wanted(matrix, options.hosts, place)
    check_destroy(options.destroy, exist, place.machine)
    order = replace(order, exist=exist, release=release_of(exist.ssh) if exist else "")
    if exist and exist.ssh:
        refuse(machine(place.machine, MachineOptions(where=exist.ssh)), specs)
    anew = {"fresh": options.fresh, "retry_broken": options.retry_broken}
    if exist and begins_anew(options.results, order.manifest(), **anew):
        precheck(exist, matrix, place.machine, options.destroy)
    return Prepared(options, order, *level_of(options.jobs, here, specs, request.arrays()))


def _notes(this: _Run, one_at_a_time: str, resumed: str) -> Iterator[str]:
    request, store = this.order.request, this.options.store
    declared = request.space.notes_on(request.selection.layouts(), simulated=this.order.exist is None)
    for note in (*declared, explain_missing_fio(), one_at_a_time):
        if note:
            yield f"note: {note}"
    if resumed:
        yield resumed
    address = address_of(store, this.options.results)
    if is_named(store) and address.file and not address.file.exists():
        yield f"new store made at {address}"


def _with_disks(this: _Run) -> Ending:
    """Lease the physical disks, if any, and carry the run out on them."""
    with ExitStack() as stack:
        observer, order = this.observer, this.order
        if order.exist:
            tell = observer.notice, observer.trouble
            lease = borrowed(order.exist, order.request, order.machine, this.folder, this.options.destroy, *tell)
            this.disks = stack.enter_context(lease)
            _record_disks(this)
        pace = _tell_estimate(this)
        spending = Spending(this.options.budget, pace, write_budget=this.disks.write_budget)
        address = address_of(this.options.store, this.options.results)
        feed = stack.enter_context(Feed(address, this.folder, observer.trouble))
        return _carry_out(this, spending, feed)


def _record_disks(this: _Run) -> None:
    """Record what the disks are, and their health, before the first write."""
    disks, observer = this.disks, this.observer
    for word in disks.warnings(this.folder.manifest.disks):
        observer.trouble(word)
    if word := describe_missing_health(disks.health):
        observer.notice(word)
    this.folder = this.folder.update_manifest(disks=disks.facts, health=disks.health)


def _tell_estimate(this: _Run) -> Pace:
    """Tell how long the run will take; return what that is based on."""
    order, observer = this.order, this.observer
    request, here = order.request, machine(order.machine, MachineOptions(cold=order.cold))
    load = QUIET if here.synthetic else Load.now()
    pace = pace_of(this.options.results, here, order.machine, request.space.matrix, order.specs(), load)
    if load.note and not pace.runs:
        observer.notice(f"note: {load.note}")
    found = estimate(request.plan, pace, this.level.now)
    left = 1 - observer.done / max(1, observer.planned)
    observer.expects(found.seconds_least * left, found.seconds_most * left)
    this.folder = this.folder.update_manifest(expected=found.seconds_most * left)
    return pace


def _carry_out(this: _Run, spending: Spending, feed: Feed) -> Ending:
    """Run to the end, or to where it was stopped; the reports are written either way."""
    order, disks, observer = this.order, this.disks, this.observer
    scheduler = Scheduler(order.request.plan, spending=spending, steering=order.steering())
    if order.until_decided:
        this.folder = this.folder.update_manifest(steered=True)
    executor = Executor(scheduler, _context(this, feed), this.level)
    done, worn = False, ""
    try:
        done = this.stop.run(_work(executor, disks))
        worn = disks.write_budget.stop_reason if disks.write_budget else ""
    finally:
        if worn:
            observer.trouble(worn)
        elif text := short_of(scheduler.short, scheduler.left_out, spending.budget):
            (observer.trouble if scheduler.short else observer.notice)(text)
        kept = _return_disks(this)
        short = scheduler.short + bool(worn)
        end = _write_reports(
            lambda: _report(this, done=done, short=short, kept=kept), this.folder, feed, finished=done and not short
        )
    return end


async def _work(executor: Executor, disks: Borrowed) -> None:
    await run_within_budget(executor.run(), disks.write_budget)


def _context(this: _Run, feed: Feed) -> RunContext:
    order, disks, observer = this.order, this.disks, this.observer
    leased = disks.paths, disks.held, order.exist.ssh if order.exist else "", disks.agent
    place = machine(
        order.machine, MachineOptions(order.cold, observer.progress, observer.notice, *leased, images=order.images)
    )

    def listen(event: Event) -> None:
        if isinstance(event, RigUp):
            versions = dict(this.folder.manifest.versions)
            found = {event.facts["kernel"]: _versions(event.facts)}
            if versions | found != versions:
                # At once: a process that resumes after a kill may not bring up a rig any more.
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
    """Return the leased disks and record their health; whether some stay with the run."""
    kept = not this.disks.given_back()
    health = this.disks.examined()  # after the return: a disk that a VM has with its controller cannot be asked
    for alarm in filter(None, (after.alarm for after in health)):
        this.observer.trouble(alarm)
    digests = this.order.digests().model_dump()
    this.folder = this.folder.update_manifest(digests=digests, health=health, **this.order.texts())
    return kept


def _report(this: _Run, *, done: bool, short: int, kept: bool) -> Ending:
    guidelines = this.order.request.space.matrix.guidelines
    end = report(this.folder, this.journal, guidelines, this.order.study, interrupted=not done, short=short)
    return replace(end, exit=max(end.exit, Exit.BROKEN)) if kept else end


def _write_reports(reports: Callable[[], Ending], folder: RunFolder, feed: Feed, *, finished: bool) -> Ending:
    """Write the reports, then record that the run is over."""
    try:
        end = reports()
    except (MatrixError, OSError):
        raise  # such as a full disk: the same command writes the reports again
    except Exception as mistake:
        # The same command would fail again, and the run would never be finished.
        _close(folder, feed, Exit.BROKEN, finished=finished)
        mistake.add_note(f"there are no reports: once this is fixed, `matrix report {folder.path}` writes them")
        raise
    # Last: after a kill before this line, the same command writes the reports again.
    _close(folder, feed, end.exit, finished=finished)
    return end


def _close(folder: RunFolder, feed: Feed, end: Exit, *, finished: bool) -> None:
    """Record whether anything is still to be measured, and how the run ended."""
    ended = datetime.now(UTC).isoformat(timespec="milliseconds")
    feed.end(folder.update_manifest(finished=finished, ended=ended, exit=int(end) if finished else None))


def _versions(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of what a rig is made of, without facts of this one start."""
    return {name: text for name, text in facts.items() if name not in _PASSING and not name.startswith("matrix-")}


def level_of(asked: Jobs, place: Machine, specs: Collection[RigSpec], arrays: Iterable[Array]) -> tuple[Level, str]:
    """Return the number of rigs to begin with, and a note why it is one; a number that is impossible is bad input."""
    if asked == 1:
        return FixedLevel(1), ""
    kinds = set(specs)
    why = why_one_at_a_time(place, kinds, arrays)
    room = min(map(place.max_rigs, kinds))
    if asked == AUTO:
        why = why or ("this host has no room for a second such machine" if room == 1 else "")
        return (FixedLevel(1), f"one rig at a time: {why}") if why else (AdaptiveLevel.up_to(room), "")
    if why:
        raise BadInput(
            f"--jobs {asked}: {why}",
            resolution="leave --jobs out, or choose cells with --only for which that is not so",
        )
    if asked > room:
        one = next(iter(kinds))
        size = f"{one.memory // 2**20}MiB and {one.cpus} processors, and what each takes beside that"
        raise BadInput(
            f"--jobs {asked}: this host has room for {room} at a time of machines with {size}",
            resolution="`--jobs auto` takes as many as there is room for; their size is the matrix's `machine:`",
        )
    return FixedLevel(asked), ""


def short_of(short: int, left_out: int, cost: Cost) -> str:
    """Return the message of a run that stopped for its budget; empty if it did not."""
    if cost == ENDLESS or not left_out:
        return ""
    if short:
        return (
            f"the budget is used up: {short:,} trials of the minimum are missing; a larger one, or none, goes on with "
            "them, and `matrix plan` tells what they take"
        )
    return f"the budget is used up: every cell has its minimum, and {left_out:,} trials more were wanted"
