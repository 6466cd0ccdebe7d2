"""`matrix run`."""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.host import boot_id, host_facts
from runner.cli.inputs import Asked, asked, check_jobs, kernel, matrix_file, on, only, results, templates
from runner.cli.view import JsonView, LiveView, PlainView, QuietView, View
from runner.errors import BadInput, Exit
from runner.execute.events import RigUp
from runner.execute.run import Execution, rig_spec
from runner.expand.variants import digest
from runner.machines import machine
from runner.machines.qemu.recipe import kernel_key, recipe_for
from runner.machines.seam import Wishes
from runner.render.environment import in_effect
from runner.reports.terminal import table
from runner.reports.write import recorded, write_reports
from runner.store.journal import Journal
from runner.store.record import Outcome
from runner.store.run import Manifest, RunFolder, create, find_unfinished

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.execute.events import Event
    from runner.machines.seam import Machine, RigSpec
    from runner.reports.recorded import Recorded

#: Facts of a rig that are no versions.
_PASSING = frozenset({"kernel", "ready", "up", "md"})

_EPILOG = """\b
Examples:
  matrix run matrix/chunk-sweep.yaml                    go on where an unfinished run stopped, or start one
  matrix run --fresh --only 'level=5' my.yaml           some of its cells, from the beginning
  matrix run --kernel debian-13 my.yaml                 under another kernel
"""


@click.command("run", epilog=_EPILOG)
@matrix_file
@only
@on
@kernel
@templates
@results
@click.option("--fresh", is_flag=True, help="Start anew, even if a run of this matrix is unfinished.")
@click.option("--cold", is_flag=True, help="Boot every machine from cold instead of restoring a saved one.")
@click.option("--quiet", is_flag=True, help="Say only what went wrong, and where the files are.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on standard output.")
def command(
    matrix: Path,
    only: tuple[str, ...],
    place: str,
    kernel: str | None,
    templates: Path | None,
    results: Path,
    fresh: bool,
    cold: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run a matrix. A run that was interrupted, killed or crashed is gone on with; nothing is measured twice."""
    request = asked(matrix, only)
    check_kernel(kernel, request.space.matrix.machine.kernel or ())
    unchecked = check_jobs(request)
    order = Order(request, place, kernel, templates, cold=cold)
    folder = _folder(order, results, fresh=fresh)
    with folder.locked(), Journal.open(folder.journal) as journal:
        with _view(order, len(journal.finished()), quiet=quiet, as_json=as_json) as view:
            if unchecked:
                view.notice(f"note: {unchecked}")
            view.notice(f"results go to {folder.path}/")
            finished, everything = _carry_out(order, folder, journal, view)
        if not (quiet or as_json):
            _closing(folder, everything)
        if not finished:
            click.echo(
                f"interrupted; {folder.path}/ holds what was measured, and the same command goes on from there",
                err=True,
            )
        raise click.exceptions.Exit(_verdict(everything) if finished else Exit.INTERRUPTED)


@dataclass(frozen=True)
class Order:
    """Everything that was asked for on the command line."""

    request: Asked
    machine: str
    kernel: str | None
    templates: Path | None
    cold: bool

    @property
    def planned(self) -> int:
        """Trials at most."""
        return self.request.selection.count() * self.request.plan.repeat.max

    def fingerprint(self) -> str:
        """Equal for two orders of which one may go on with the run of the other."""
        selection = self.request.selection
        rules = [
            [sorted((axis, sorted(values)) for axis, values in rule.items()) for rule in group]
            for group in selection.only
        ]
        matrix = self.request.space.matrix.model_dump(mode="json", exclude={"description"})
        kernels = [kernel_content(name) for name in (self.kernel, *(self.request.space.matrix.machine.kernel or ()))]
        return digest([matrix, self.machine, kernels, rules, in_effect(self.templates)]).hex()


def kernel_content(name: str | None) -> str | None:
    """A kernel as it counts for a run: a name stands for itself, an image for what is in it."""
    made = recipe_for(name)
    return kernel_key(made.suite, made.image) if made and made.image else name


def check_kernel(asked_for: str | None, declared: tuple[str, ...]) -> None:
    """Refuse a kernel on the command line where the matrix says which: rows would name one and another would run."""
    if asked_for is None or not declared or declared == (asked_for,):
        return
    raise BadInput(
        f"--kernel {asked_for}: the matrix itself names {' and '.join(declared)}",
        resolution=f"--only 'kernel={asked_for}' chooses among several"
        if asked_for in declared
        else "take `kernel:` out of its `machine:`, or add this one there",
    )


def _folder(order: Order, results: Path, *, fresh: bool) -> RunFolder:
    """The unfinished run of this order, or a new one."""
    fingerprint = order.fingerprint()
    if not fresh and (unfinished := find_unfinished(results, fingerprint)):
        return unfinished
    matrix = order.request.space.matrix
    manifest = Manifest(
        matrix=matrix.name,
        fingerprint=fingerprint,
        machine=order.machine,
        made_up=order.machine == "dry",
        seed=matrix.seed,
        command=tuple(sys.argv),
        text=order.request.declared.source.text,
        used=dict(order.request.declared.source.used),
        host=host_facts(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        planned=order.planned,
    )
    return create(results, manifest)


def _carry_out(order: Order, folder: RunFolder, journal: Journal, view: View) -> tuple[bool, Recorded]:
    """Run it to its end (True), or to where it was stopped; the outputs are written either way."""
    place = machine(order.machine, Wishes(order.cold, view.progress, view.notice))
    matrix = order.request.space.matrix
    refuse(place, {rig_spec(matrix, array, order.kernel) for array in order.request.space.arrays})
    versions = dict(folder.manifest.versions)

    def listen(event: Event) -> None:
        if isinstance(event, RigUp):
            versions[event.facts["kernel"]] = _versions(event.facts)
        view.event(event)

    execution = Execution(
        order.request.plan,
        place,
        journal,
        folder,
        folder.path,
        listen,
        boot_id=boot_id(),
        own_templates=order.templates,
        kernel=order.kernel,
    )
    finished = False
    try:
        finished = _until_stopped(execution)
    finally:
        folder = folder.with_manifest(versions=versions, finished=finished)
        everything = recorded(folder, journal, matrix.repeat.confidence)
        write_reports(folder, everything)
    return finished, everything


def _versions(facts: Mapping[str, str]) -> dict[str, str]:
    """What a rig is made of; not how it came up this time, nor what its disks are called."""
    return {name: text for name, text in facts.items() if name not in _PASSING and not name.startswith("matrix-")}


def _until_stopped(execution: Execution) -> bool:
    """Run to the end; False if Ctrl-C or a polite kill came first. Whatever is up is taken down on the way out."""

    async def stoppable() -> None:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(one, task.cancel)  # type: ignore[union-attr]
        await execution.run()

    try:
        asyncio.run(stoppable())
    except asyncio.CancelledError:
        return False
    return True


def refuse(place: Machine, specs: Iterable[RigSpec]) -> None:
    """Stop here if the machine says that it cannot do it, with everything that it says."""
    refusals = list(dict.fromkeys(refusal for spec in specs for refusal in place.refusals(spec)))
    if refusals:
        raise BadInput(
            f"the {place.name} machine cannot run this",
            details="\n".join(f"- {one.brief}" + (f": {one.resolution}" if one.resolution else "") for one in refusals),
            resolution="`matrix doctor` shows what every machine needs",
        )


def _verdict(everything: Recorded) -> Exit:
    """3 if any trial broke. Nothing yet can make it 1: there are no guidelines to fail."""
    broken = any(trial.outcome is Outcome.BROKEN for trial in everything.trials)
    return Exit.BROKEN if broken else Exit.ALL_MEASURED


def _view(order: Order, done: int, *, quiet: bool, as_json: bool) -> View:
    if as_json:
        return JsonView(order.planned, done)
    if quiet:
        return QuietView(order.planned, done)
    return (LiveView if sys.stdout.isatty() else PlainView)(order.planned, done)


def _closing(folder: RunFolder, everything: Recorded) -> None:
    """The table, and where everything is."""
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(table(everything))
    click.echo(f"{folder.path}/: trials.csv, summary.csv, junit.xml, and every script and raw output under cells/")
