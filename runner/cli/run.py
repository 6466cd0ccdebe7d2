"""`matrix run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.base.errors import Exit
from runner.cli.budget import budget
from runner.cli.jobs import jobs
from runner.cli.options import kernel, lending, matrix_file, on_host, only, results, shard, store, templates
from runner.cli.progress import JsonView, LiveView, PlainView, QuietView, View
from runner.cli.screen import echo, moves
from runner.cli.signals import Stopping
from runner.engine.budget import Cost
from runner.session.run import RunOptions, prepare, run

if TYPE_CHECKING:
    from runner.session.run_request import RunRequest

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
  matrix run --store postgresql://lab@db/matrix my.yaml  into a history that several hosts share
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
def command(*, budget: float, bytes_budget: float, quiet: bool, as_json: bool, **options: Any) -> None:
    """Run a matrix, or resume its interrupted run; nothing is measured twice."""
    wanted = RunOptions(budget=Cost(budget, bytes_budget), **options)
    views: list[View] = []

    def view_of(order: RunRequest, done: int) -> View:
        views.append(_view(order, done, quiet=quiet, as_json=as_json))
        return views[0]

    prepared = prepare(wanted, lambda text: echo(text, err=True))
    with Stopping() as stopping:
        end = run(prepared, view_of, stopping)
        if end.exit is Exit.INTERRUPTED:
            echo(f"interrupted; {end.path}/ holds {end.trials}; the same command continues", err=True)
    raise click.exceptions.Exit(max(end.exit, Exit.BROKEN) if views[0].voice.failed else end.exit)


def _view(order: RunRequest, done: int, *, quiet: bool, as_json: bool) -> View:
    if as_json:
        return JsonView(order.planned, done)
    if quiet:
        return QuietView(order.planned, done)
    return (LiveView if moves(sys.stdout) else PlainView)(order.planned, done)
