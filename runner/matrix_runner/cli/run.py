"""`matrix run`, and its stop by signals. The work is in session/prepare.py and session/run.py."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import click

from matrix_runner.base.errors import Exit
from matrix_runner.base.log import log_on_screen
from matrix_runner.base.quantities import parse_time
from matrix_runner.cli import options
from matrix_runner.cli.screen import echo, echo_whole, is_live_terminal, slow_start

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from matrix_runner.cli.progress import View
    from matrix_runner.session.run_request import RunRequest


def _kind_of_view(*, quiet: bool, as_json: bool, verbose: bool) -> type[View]:
    from matrix_runner.cli.progress import JsonView, LiveView, PlainView, QuietView

    if as_json:
        return JsonView
    if quiet:
        return QuietView
    return LiveView if is_live_terminal(sys.stdout) and not verbose else PlainView


def _continue_with(words: Iterable[str]) -> str:
    """Return the command that continues this run. These options would start another run, or repeat broken trials."""
    from matrix_runner.session.run_request import assign_state, command_line

    kept = (word for word in words if word not in {"--fresh", "--retry-broken"})
    return assign_state() + shlex.join(command_line([os.environ.get("MATRIX_COMMAND", "matrix"), *kept]))


def _print_command(why: str) -> None:
    echo(why, err=True)
    echo_whole(f"  {_continue_with(sys.argv[1:])}", err=True)


_EPILOG = """\b
Examples:
  matrix run raid.yaml                                  resume an interrupted run, or start one
  matrix run --fresh --only 'level=5' my.yaml           start a new run of some cells
  matrix run --shard 2/5 my.yaml                        the second of five parts, for five hosts
  matrix run --kernel debian-13 my.yaml                 under another kernel
  matrix run --jobs auto my.yaml                        several rigs in parallel, if all disks are simulated
  matrix run --cluster tls://lab:8786 --certificates lab my.yaml  on the hosts of a cluster
  matrix run --budget 2h my.yaml                        the narrowest intervals within two hours
  matrix run --on local --destroy wwn-0x5000c500a1b2c3d4 my.yaml  on disks of this host that hosts.yaml allows
  matrix run --on ssh:shelf my.yaml                     on disks of another host, over ssh
  matrix run --passthrough --destroy wwn-0x5000c500a1b2c3d4 my.yaml  on disks of this host, in a virtual machine
  matrix run --until-decided --budget 1h my.yaml        until its guidelines are decided, for an hour at most
  matrix run --confirm 20m my.yaml                      measure again at once what is slower than accepted
  matrix run --race my.yaml                             until the best stack for each workload is decided
  matrix run --race --for workload=oltp my.yaml         only for this workload; the others get their minimum
  matrix run --design screen:100 tunables.yaml          100 cells that show which axes matter
  matrix run --store postgresql://lab@db/matrix my.yaml  with a store that several hosts share
"""


@click.command("run", epilog=_EPILOG)
@options.matrix_file
@options.only
@options.shard
@options.on_host
@options.kernel
@options.templates
@options.results
@options.store
@options.jobs
@options.cluster
@options.wanted_tags
@options.budget
@options.passthrough
@options.hosts
@options.destroy
@click.option(
    "--until-decided",
    is_flag=True,
    help="After the minimum of every cell, add trials to cells of undecided guidelines until all are decided.",
)
@options.race
@click.option(
    "--confirm",
    metavar="TIME",
    type=options.Parsed("time", partial(options.positive, parse_time)),
    help="After the planned rounds, measure cells again that are slower than the accepted level, within this time. "
    "baselines.yaml and known-changes.yaml are beside MATRIX.",
)
@options.design
@click.option(
    "--folder-to", type=options.FILE, help="Write the name of the run folder to this file at the start, for scripts."
)
@click.option("--fresh", is_flag=True, help="Start a new run, even if a run of this matrix is interrupted.")
@click.option(
    "--retry-broken", is_flag=True, help="Continue the latest run, complete or not, and repeat its broken trials."
)
@click.option("--cold", is_flag=True, help="Boot each virtual machine instead of restoring a saved one.")
@click.option("--quiet", is_flag=True, help="Show only errors and the location of the reports.")
@click.option(
    "--verbose", is_flag=True, help="Show each started program, step and decision, and write them to matrix.log."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line on standard output.")
def command(*, quiet: bool, as_json: bool, **values: Any) -> None:
    """Run a matrix, or resume its interrupted run. Recorded trials are not repeated.

    MATRIX is a file, or a folder with a matrix.yaml.
    """
    follow(values, quiet=quiet, as_json=as_json)


def follow(values: Mapping[str, Any], *, quiet: bool, as_json: bool) -> NoReturn:
    """Run a matrix with these options, show its progress, and exit with its code."""
    raise click.exceptions.Exit(carry_out(values, quiet=quiet, as_json=as_json)[0])


def carry_out(values: Mapping[str, Any], *, quiet: bool, as_json: bool) -> tuple[Exit, Path]:
    """Run a matrix with these options and show its progress; return the exit code and the folder."""
    from matrix_runner.session.prepare import prepare
    from matrix_runner.session.run import run
    from matrix_runner.session.run_request import RunOptions

    wanted = RunOptions(**values)
    views: list[View] = []

    def view_of(order: RunRequest, done: int) -> View:
        views.append(_kind_of_view(quiet=quiet, as_json=as_json, verbose=wanted.verbose)(order.planned, done))
        return views[0]

    def announce_stop() -> None:
        for view in views:
            view.notice("stopping: the rigs end, and recorded trials are kept …")

    begin = (lambda _: None) if quiet else slow_start.begin
    prepared = prepare(wanted, lambda text: echo(text, err=True), begin)
    with log_on_screen() if wanted.verbose else nullcontext(), SignalStop(announce_stop) as stopping:
        end = run(prepared, view_of, stopping)
        if end.exit is Exit.INTERRUPTED:
            _print_command(f"interrupted; {end.path}/ holds {end.trials}; this command continues:")
        elif end.search and (version := end.search.boot_next):
            _print_command(f"boot {version}; then this command continues:")
    return max(end.exit, Exit.BROKEN) if views[0].output.has_failed else end.exit, end.path


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalStop:
    """Cancels the work in `run` at the first signal, its tear-down at the second; ignored ones (`nohup`) stay ignored.

    The signals are SIGINT (Ctrl-C), SIGTERM and SIGHUP; architecture.md has their effects ("Stop and kill").
    Outside of `run` the first signal is only recorded, so that reports are still written.
    """

    def __init__(self, announce: Callable[[], object]) -> None:
        self.requested = False
        self._announce = announce
        self._cancel: Callable[[bool], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        active = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
        self._before = {one: signal.signal(one, self._ask) for one in active}
        return self

    def __exit__(self, *error: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def run(self, work: Coroutine[Any, Any, None]) -> bool:
        try:
            asyncio.run(self._stoppable(work))
        except asyncio.CancelledError:
            return False
        finally:
            self._cancel = None
        return True

    async def _stoppable(self, work: Coroutine[Any, Any, None]) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()

        def stop(announce: bool) -> None:
            task.cancel()  # type: ignore[union-attr]
            if announce:
                self._announce()

        self._cancel = lambda announce: loop.call_soon_threadsafe(stop, announce)
        if self.requested:
            work.close()
            raise asyncio.CancelledError
        try:
            await work
        finally:
            self._cancel = None

    def _ask(self, number: int, frame: object) -> None:  # noqa: ARG002
        if self._cancel is not None:
            # After SIGHUP the terminal is closed.
            self._cancel(not self.requested and number != signal.SIGHUP)
        elif self.requested:
            raise KeyboardInterrupt
        self.requested = True
