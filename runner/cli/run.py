"""`matrix run`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.base.atomic_files import write_atomically
from runner.base.errors import Exit, MatrixError
from runner.cli.budget import budget, short_of
from runner.cli.jobs import jobs, level_of
from runner.cli.options import kernel, lending, matrix_file, on_host, only, results, shard, store, templates
from runner.cli.progress import JsonView, LiveView, PlainView, QuietView, View
from runner.cli.signals import Stopping
from runner.engine.budget import Cost
from runner.engine.events import RigUp, TrialDone
from runner.engine.executor import Executor
from runner.engine.recorder import RunContext
from runner.engine.scheduler import Scheduler
from runner.engine.spending import Spending
from runner.hosts.write_budget import run_within_budget
from runner.machines import Where, machine, swept
from runner.machines.base import Wishes
from runner.results.disk_health import unknown
from runner.results.journal import Journal
from runner.results.live_sync import Feed
from runner.results.store_address import address_of, is_named
from runner.scripts.fio_check import missing
from runner.session.disk_lease import Borrowed, borrowed, check_destroy, check_zeroed, passing, precheck, wanted
from runner.session.finish import Ending, report
from runner.session.host_facts import boot_id, release_of
from runner.session.past_timings import recorded_pace
from runner.session.request import Checks, asked, check_names, check_templates, refuse
from runner.session.resume import begins_anew, chosen_run
from runner.session.run_request import Order, check_kernel
from runner.space.studies import study_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.cli.jobs import Asked as Jobs
    from runner.engine.concurrency_policy import Level
    from runner.engine.events import Event
    from runner.results.run_folder import RunFolder
    from runner.space.shard import Shard

#: Facts of a rig that are no versions.
_PASSING = frozenset({"kernel", "ready", "up", "md", "without"})

_EPILOG = """\b
Examples:
  matrix run matrix/chunk-sweep.yaml                    go on where an unfinished run stopped, or start one
  matrix run --fresh --only 'level=5' my.yaml           some of its cells, from the beginning
  matrix run --shard 2/5 my.yaml                        the second of five parts, for five machines
  matrix run --kernel debian-13 my.yaml                 under another kernel
  matrix run --jobs auto my.yaml                        several machines side by side, if all disks are modelled
  matrix run --budget 2h my.yaml                        as well as two hours can tell
  matrix run --on local --destroy wwn-0x5000c5 my.yaml  on disks of this host that hosts.yaml allows
  matrix run --on ssh:shelf my.yaml                     on disks of another host, by ssh
  matrix run --passthrough --destroy wwn-0x5000c5 my.yaml  the same, in a virtual machine
  matrix run --until-decided --budget 1h my.yaml        until its guidelines are decided, or the hour is over
  matrix run --store postgresql://lab@db/matrix my.yaml into a history that several hosts share
"""


@click.command("run", epilog=_EPILOG)
@matrix_file
@only
@shard
@on_host
@kernel
@templates
@results
@store
@jobs
@budget
@lending
@click.option(
    "--until-decided",
    is_flag=True,
    help="After every cell's minimum, measure where guidelines are not decided, until they are.",
)
@click.option(
    "--folder-to",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the folder of the run to this file, as soon as there is one: for scripts.",
)
@click.option("--fresh", is_flag=True, help="Start anew, even if a run of this matrix is unfinished.")
@click.option(
    "--retry-broken", is_flag=True, help="Go on with the latest run, finished or not, and try what broke once more."
)
@click.option("--cold", is_flag=True, help="Boot every machine from cold instead of restoring a saved one.")
@click.option("--quiet", is_flag=True, help="Say only what went wrong, and where the files are.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on standard output.")
def command(
    matrix: Path,
    only: tuple[str, ...],
    shard: Shard | None,
    place: Where,
    kernel: str | None,
    templates: Path | None,
    results: Path,
    store: str | None,
    jobs: Jobs,
    budget: float,
    bytes_budget: float,
    hosts: Path | None,
    destroy: tuple[str, ...],
    passthrough: bool,
    until_decided: bool,
    folder_to: Path | None,
    fresh: bool,
    retry_broken: bool,
    cold: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run a matrix. A run that was interrupted, killed or crashed is gone on with; nothing is measured twice."""
    address = address_of(store, results)
    place = Where(passing(place.machine)) if passthrough else place
    check_names(templates)
    request = asked(matrix, only, shard, Checks(place.machine, templates))
    check_kernel(kernel, request.space.matrix.machine.kernel or ())
    check_templates(request, templates)
    study = study_beside(matrix, request.space)
    order = Order(
        matrix, request, place.machine, kernel, templates, cold=cold, until_decided=until_decided, study=study
    )
    order.check()
    here, specs = machine(place.machine, Wishes()), order.specs()
    refuse(here, specs)
    check_zeroed(request, here)
    for one in swept(place.machine):
        click.echo(one.told, err=True)
    exist = None if here.brings_disks else wanted(request.space.matrix, hosts, place)
    check_destroy(destroy, exist, place.machine)
    order = replace(order, exist=exist, release=release_of(exist.ssh) if exist else "")
    if exist and exist.ssh:
        refuse(machine(place.machine, Wishes(where=exist.ssh)), specs)
    if exist and begins_anew(results, order.fingerprint(), fresh=fresh, retry_broken=retry_broken):
        precheck(exist, request.space.matrix, place.machine, destroy)
    level, alone = level_of(jobs, here, specs, request.arrays())
    with Stopping() as stopping:
        chosen = chosen_run(results, order.manifest(), fresh=fresh, retry_broken=retry_broken)
        folder = chosen.folder
        if folder_to:
            write_atomically(folder_to, f"{folder.path}\n".encode())
        with folder.locked(), Journal.open(folder.journal, made_up=folder.manifest.made_up) as journal:
            folder = chosen.prepared(journal)
            view = _view(order, len(journal.finished()), quiet=quiet, as_json=as_json)
            with view:
                for note in filter(None, (missing(), alone)):
                    view.notice(f"note: {note}")
                if told := chosen.told(view.done):
                    view.notice(told)
                if is_named(store) and address.file and not address.file.exists():
                    view.notice(f"new store made at {address}")
                view.begins(folder.path)
                with ExitStack() as stack:
                    disks = Borrowed()
                    if exist:
                        tell = view.notice, view.trouble
                        lease = borrowed(exist, order.request, place.machine, folder, destroy, *tell)
                        disks = stack.enter_context(lease)
                        folder = _received(disks, folder, view)
                    pace = recorded_pace(results, place.machine, request.space.matrix.name)
                    spending = Spending(Cost(budget, bytes_budget), pace, write_budget=disks.write_budget)
                    feed = stack.enter_context(Feed(address, folder, view.trouble))
                    end = _carry_out(order, level, spending, folder, journal, feed, view, stopping, disks)
            view.ends(end)
            if end.exit is Exit.INTERRUPTED:
                click.echo(
                    f"interrupted; {folder.path}/ holds {end.trials}, and the same command goes on from there",
                    err=True,
                )
    raise click.exceptions.Exit(max(end.exit, Exit.BROKEN) if view.voice.failed else end.exit)


def _carry_out(
    order: Order,
    level: Level,
    spending: Spending,
    folder: RunFolder,
    journal: Journal,
    feed: Feed,
    view: View,
    stopping: Stopping,
    disks: Borrowed,
) -> Ending:
    """Run it to its end, or to where it was stopped; the reports are written either way."""
    lent = disks.paths, disks.held, order.exist.ssh if order.exist else "", disks.agent
    place = machine(order.machine, Wishes(order.cold, view.progress, view.notice, *lent, images=order.images))
    versions = dict(folder.manifest.versions)

    def listen(event: Event) -> None:
        nonlocal folder
        if isinstance(event, RigUp):
            told = {event.facts["kernel"]: _versions(event.facts)}
            if versions | told != versions:
                # At once: whoever goes on after a kill may have nothing left to bring up a rig for.
                versions.update(told)
                folder = folder.with_manifest(versions=versions)
        elif isinstance(event, TrialDone):
            feed.add(event.trial)
        view.event(event)

    scheduler = Scheduler(order.request.plan, spending=spending, steering=order.steering())
    context = RunContext(
        machine=place,
        journal=journal,
        shelf=folder,
        scratch=folder.path,
        listen=listen,
        boot_id=disks.agent.boot_id if disks.agent else boot_id(),
        own_templates=order.templates,
        kernel=order.kernel,
        leased=disks.by_path,
    )
    if order.until_decided:
        folder = folder.with_manifest(steered=True)
    finished, done, worn = False, False, ""
    try:
        done = stopping.run(run_within_budget(Executor(scheduler, context, level).run(), disks.write_budget))
        worn = disks.write_budget.stop_reason if disks.write_budget else ""
        finished = done and not scheduler.short and not worn
    finally:
        if worn:
            view.trouble(worn)
        elif said := short_of(scheduler.short, scheduler.left_out, spending.budget):
            (view.trouble if scheduler.short else view.notice)(said)
        digests = order.digests().model_dump()
        kept = not disks.given_back()
        health = disks.examined()  # once they are back: what a virtual machine has with its controller, nobody can ask
        for one in filter(None, (after.alarm for after in health)):
            view.trouble(one)
        folder = folder.with_manifest(versions=versions, digests=digests, health=health, **order.texts())
        guidelines = order.request.space.matrix.guidelines
        short = scheduler.short + bool(worn)

        def telling() -> Ending:
            end = report(folder, journal, guidelines, order.study, interrupted=not done, short=short)
            return replace(end, exit=max(end.exit, Exit.BROKEN)) if kept else end

        end = _told(telling, folder, feed, finished=finished)
    return end


def _told(telling: Callable[[], Ending], folder: RunFolder, feed: Feed, *, finished: bool) -> Ending:
    """Have the reports written, and then noted down that it is over."""
    try:
        end = telling()
    except (MatrixError, OSError):
        raise  # a full disk is not full for ever: the same command goes on and makes the reports anew
    except Exception as mistake:
        # The same command would meet it again, and what is measured would never be finished.
        _close(folder, feed, Exit.BROKEN, finished=finished)
        mistake.add_note(f"there are no reports: once this is put right, `matrix report {folder.path}` makes them")
        raise
    # Last, so that whatever comes between, the same command goes on and makes the reports anew.
    _close(folder, feed, end.exit, finished=finished)
    return end


def _close(folder: RunFolder, feed: Feed, end: Exit, *, finished: bool) -> None:
    """Note down that nothing more will be measured, if so, and how it ended."""
    ended = datetime.now(UTC).isoformat(timespec="milliseconds")
    feed.end(folder.with_manifest(finished=finished, ended=ended, exit=int(end) if finished else None))


def _received(disks: Borrowed, folder: RunFolder, view: View) -> RunFolder:
    """What the disks of a run are, and how well, is noted down and told before anything is written on them."""
    for word in disks.warnings(folder.manifest.disks):
        view.trouble(word)
    if word := unknown(disks.health):
        view.notice(word)
    return folder.with_manifest(disks=disks.facts, health=disks.health)


def _versions(facts: Mapping[str, str]) -> dict[str, str]:
    """What a rig is made of; not how it came up this time, nor what its disks are called."""
    return {name: text for name, text in facts.items() if name not in _PASSING and not name.startswith("matrix-")}


def _view(order: Order, done: int, *, quiet: bool, as_json: bool) -> View:
    if as_json:
        return JsonView(order.planned, done)
    if quiet:
        return QuietView(order.planned, done)
    return (LiveView if sys.stdout.isatty() else PlainView)(order.planned, done)
