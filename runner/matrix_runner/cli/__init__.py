"""The `matrix` command: its commands (imported when needed, so that help is fast), errors and exit codes.

Each command is in the module of its name, or in that of `_MODULES`. Signals, such as Ctrl-C: run.py, cluster.py.
"""

import errno
import importlib
import io
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from matrix_runner.base import add_sbin
from matrix_runner.base.errors import BadInput, Exit, HarnessBroken, MatrixError, UnfitFile, file_errors
from matrix_runner.cli.screen import Context, Ending, abandon, echo, echo_whole, slow_start, with_fitting_help

_COMMANDS = {
    "init": "Write a small matrix as a start.",
    "advise": "Advise on RAID level, chunk and file system for your disks and work.",
    "validate": "Check a matrix; every error has its line and column.",
    "plan": "Show what a run would do: cells, stacks, time, bytes written.",
    "render": "Write the scripts and fio jobs of cells without running them.",
    "run": "Run a matrix, or resume its interrupted run.",
    "show": "Show the scripts that ran and the raw output of cells.",
    "report": "Write the reports of a run again from its journal.",
    "merge": "Join the runs of all shards of a matrix into one run.",
    "salvage": "Write what can be read of a damaged journal into a new run.",
    "runs": "List runs: state, start time, cells and verdicts.",
    "status": "Show the progress of a running run, from another terminal.",
    "explore": "Write a page that shows all trials in charts that filter each other, and open it.",
    "results": "Show results of one run or many: filtered, as a pivot, as CSV, JSON or Parquet.",
    "chart": "Draw one figure of a run for a slide, as SVG or PNG.",
    "compare": "Show which cells are faster or slower: between runs, kernels, hosts, revisions.",
    "site": "Write a static site of many runs: results, history, verdicts, comparisons.",
    "summary": "Summarise runs in Markdown: results, and changes from the accepted level.",
    "accept": "Accept that a run is slower, or make it the baseline of later ones.",
    "guidelines": "List guidelines, and judge them by results.",
    "study": "Compare the published figures of a study with results, and write its page.",
    "recommend": "Recommend the best setting for a workload, with the commands to build it.",
    "bisect": "Find the kernel, or the value of an axis, at which a figure became worse.",
    "history": "Follow a cell through all runs, with its changes of level.",
    "import": "Import fio JSON from elsewhere as a run.",
    "schema": "Print the JSON Schema of the matrix language.",
    "disks": "Show the disks of a host and why each may not be used; show and check disk models.",
    "clean": "Remove what a killed run left on physical disks.",
    "nightly": "Run a matrix each night by systemd, after checks of what it needs.",
    "worker": "Join this host to a cluster.",
    "cluster": "Start the scheduler of a cluster, show its hosts, make its certificates.",
    "doctor": "Show what this host can run, and what is missing for the rest.",
    "bug-report": "Write an archive about a run for a bug report, without names of your host.",
    "help": "Show the page on a topic; without one, list the topics.",
    "completion": "Print the completion script of a shell.",
}
#: What commands do that may need more than a second.
_ACTIVITIES = {
    "validate": "checking the matrix",
    "plan": "checking the matrix and estimating its run",
    "render": "making the scripts",
    **dict.fromkeys(("run", "bisect", "advise"), "checking the matrix and this host"),
    "show": "reading the run",
    "report": "reading the run and writing its reports",
    "merge": "joining the runs",
    "salvage": "reading the journal",
    **dict.fromkeys(("runs", "status"), "reading the runs"),
    "explore": "reading the runs and writing the page",
    **dict.fromkeys(("results", "chart", "compare", "site", "summary", "accept", "recommend"), "reading the results"),
    "history": "reading the results",
    "guidelines": "reading the guidelines and results",
    "study": "reading the study and results",
    "import": "reading the files",
    "disks": "looking at the disks",
    "clean": "looking for what runs left",
    "nightly": "checking the matrix and this host",
    "doctor": "checking this host",
    "bug-report": "reading the run and checking this host",
}
_FEWEST_FILES = 64  # that a program may open: the shell that relays the agent takes numbers up to here
_HIDDEN = frozenset({"batch"})  # commands for other programs
#: Commands in a module of another name: there they are `NAME_command`, if the module has a command of its own name.
_MODULES = {
    "import": "import_fio",
    "bug-report": "report",
    "batch": "cluster",
    "worker": "cluster",
    "completion": "help",
    "merge": "salvage",
    "history": "compare",
    "status": "show",
    "explore": "results",
    "chart": "site",
}


@contextmanager
def _exit_without_reader() -> Iterator[None]:
    """Exit with 141 if the reader of the output is gone."""
    try:
        yield
    except BrokenPipeError:
        abandon(sys.stdout, sys.stderr)
        sys.exit(141)


def load_command(name: str) -> click.Command:
    module = importlib.import_module(f"matrix_runner.cli.{_MODULES.get(name, name)}")
    command: click.Command = getattr(module, f"{name.replace('-', '_')}_command", None) or module.command
    return command


class _LazyGroup(click.Group):
    context_class = Context

    # `main` of click exits with 1 on a closed pipe, so the error must not reach it.
    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with _exit_without_reader():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        if isinstance(ctx.obj, Ending):  # not in tests of the group itself
            ctx.obj.begin()
        with _exit_without_reader():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS and cmd_name not in _HIDDEN:
            return None
        return with_fitting_help(load_command(cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = super().resolve_command(ctx, args)  # loads the module; a wrong option has to be refused without a note
        if args and args[0] in _ACTIVITIES and not (ctx.resilient_parsing or {"-h", "--help", "--quiet"} & {*args}):
            slow_start.begin(_ACTIVITIES[args[0]])
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


_EPILOG = """\b
Examples:
  matrix init                                     write raid.yaml, a small matrix as a start
  matrix run raid.yaml                            run it in new virtual machines
  matrix run --on dry raid.yaml                   rehearse it; figures are synthetic
  matrix plan --only 'layout=raid5' raid.yaml     cells, time and bytes of a part of it
  matrix status                                   progress of a running run
  matrix results latest                           results of the latest run
  matrix compare latest~1 latest                  changes since the run before

\b
Exit codes: 0 success, 1 a guideline fails (run, summary, guidelines check), a cell is slower (compare, summary), no
run is running (status), a disk model is inaccurate (disks check) or no version is to blame (bisect), 2 bad input, or a
machine or disk that is refused, 3 the harness failed: a trial broke, no trial was measured, a budget was too small for
every cell's minimum, or a machine, host or disk failed, 4 cannot tell (bisect, compare --strict), 130 interrupted, 141
the reader of the output closed the pipe.
"""


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def _version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from matrix_runner.base.version import matrix_version
    from matrix_runner.session.host_facts import program_versions

    versions = {"matrix": matrix_version(), "kernel": os.uname().release, **program_versions()}
    echo_whole("\n".join(f"{name} {text}" for name, text in versions.items()))
    context.exit()


@click.group(cls=_LazyGroup, epilog=_EPILOG, context_settings=_SETTINGS)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the versions."
)
def cli() -> None:
    """Measure RAID, LVM, file systems and their tunables: declared in YAML, built for real, driven by fio."""


def show_error(error: MatrixError) -> None:
    echo(f"matrix: {error.brief}", err=True, bold=True)
    if error.details:
        echo(error.details, err=True)
    if error.resolution:
        echo(error.advice, err=True)


def _too_few_files() -> MatrixError:
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return HarnessBroken(
        f"this shell lets a program open {allowed} files, which is too few",
        resolution="raise the limit: `ulimit -n 4096`",
    )


def _run_command(ending: Ending) -> int:
    """Run the command. A full disk behind standard output becomes an ordinary error."""
    if 0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _FEWEST_FILES:
        raise _too_few_files()
    try:
        Path.cwd()  # raises if the folder was removed
    except FileNotFoundError:
        raise BadInput("the working directory does not exist any more", resolution="change to another one") from None
    try:
        status: int = cli.main(prog_name="matrix", standalone_mode=False, obj=ending) or 0
        if sys.stdout:
            sys.stdout.flush()
    except UnfitFile as error:
        raise BadInput(f"{error.path} cannot be read", details=str(error)) from error
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise _too_few_files() from error
        if error.filename is not None:  # then it is not about standard output
            with file_errors(error.filename):
                raise
        if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise
        abandon(sys.stdout)
        raise HarnessBroken(f"standard output cannot be written: {error.strerror}") from error
    return status


def _open_standard_streams() -> None:
    """Open the closed ones of the standard streams: a file with such a number would get the output of programs."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
    sys.stdout, sys.stderr = sys.stdout or os.fdopen(1, "w"), sys.stderr or os.fdopen(2, "w")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="replace")  # signs such as ± are in few other encodings


def main(begin: Callable[[], None] = lambda: None) -> None:
    """Run the command. It calls `begin` before the first work that an interrupt has to end in order."""
    _open_standard_streams()
    add_sbin()
    with _exit_without_reader():
        try:
            ending = Ending(begin)
            status = _run_and_show_error(ending)
            sys.exit(Exit.BROKEN if ending.is_damaged and status != Exit.INTERRUPTED else status)
        finally:
            slow_start.end()


def _run_and_show_error(ending: Ending) -> int:
    try:
        return _run_command(ending)
    except MatrixError as error:
        show_error(error)
        return error.exit_code
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        echo_whole(error.format_message())
        return Exit.BAD_INPUT
    except click.ClickException as error:
        from matrix_runner.cli.options import usage_error

        show_error(usage_error(error))
        return Exit.BAD_INPUT
    except (KeyboardInterrupt, click.exceptions.Abort):
        echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - Python would exit with 1, which means that a guideline fails
        show_error(
            MatrixError(
                f"a mistake in matrix itself: {type(error).__name__}: {error}",
                details="".join(traceback.format_exception(error)).rstrip(),
                resolution="please report it with all of the above and `matrix bug-report`; recorded trials are safe",
            )
        )
        return Exit.BROKEN
