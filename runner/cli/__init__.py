"""The `matrix` command. Nothing heavy is imported before a command needs it: `matrix --help` answers at once."""

from __future__ import annotations

import errno
import importlib
import sys

import click

from runner import __version__
from runner.base.errors import Exit, HarnessBroken, MatrixError
from runner.cli.help_format import Context, with_fitting_help
from runner.cli.screen import broken, columns_of, echo

_COMMANDS = {
    "init": "Write a small matrix to begin with.",
    "validate": "Check a matrix; every error with its place.",
    "plan": "Show what a run would do: cells, stacks, time, bytes written.",
    "render": "Write the scripts and fio jobs of cells without running them.",
    "run": "Run a matrix, or go on with an unfinished run of it.",
    "report": "Write the reports of a run anew from its journal.",
    "runs": "List the runs: their state, when they began, their cells and verdicts.",
    "status": "Show how far a run is that is under way, from another terminal.",
    "results": "Show what was measured, in one run or many: filtered, as a pivot, as CSV, JSON, Parquet.",
    "compare": "Say which cells are faster or slower: between runs, kernels, hosts, revisions.",
    "summary": "Say in Markdown what runs came to, and what changed since they last ended well.",
    "guidelines": "Judge advice by what was measured, and show which there is.",
    "study": "Put what a study published beside what was measured, and write that into its page.",
    "recommend": "Say which setting is best for some work, and how to have it.",
    "history": "Follow a cell through all runs, and where it changed.",
    "import": "Make a run of fio's JSON that was measured elsewhere.",
    "schema": "Print the JSON Schema of the matrix language.",
    "disks": "Show the disks of a host and why each may not be used; show and check disk models.",
    "clean": "Take away what a killed run left on disks that exist.",
    "doctor": "Say what this host can do, and what is missing for the rest.",
    "help": "Show the page about a topic.",
    "completion": "Print the completion script of a shell.",
}
#: Where a module cannot be called as its command.
_MODULES = {"import": "import_fio"}


class _LazyGroup(click.Group):
    context_class = Context

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"runner.cli.{_MODULES.get(cmd_name, cmd_name)}").command
        return with_fitting_help(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], _COMMANDS, n=1)
            ctx.fail(f"no command '{args[0]}'" + (f"; did you mean {near[0]}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


_EPILOG = """\b
Examples:
  matrix run matrix/chunk-sweep.yaml              run it in VMs made for it
  matrix run --on dry my.yaml                     walk through it; figures are synthetic
  matrix plan --only 'layout=parity' my.yaml      what would be run of it, and for how long
  matrix status                                   how far it is, from another terminal
  matrix results latest                           what the latest run came to
  matrix compare latest~1 latest                  what became faster or slower since the one before

\b
Exit codes: 0 all measured, 1 a guideline fails (run, guidelines), something is slower (compare, summary)
or no run is under way (status), 2 bad input, 3 something broke, nothing was measured, or a budget was too
small for every cell's minimum, 130 interrupted.
"""


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def _version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    """Print the versions that have a part in what is measured, and end."""
    if not wanted or context.resilient_parsing:
        return
    from runner.session.host_facts import program_versions

    click.echo("\n".join([f"matrix {__version__}", *(f"{name} {text}" for name, text in program_versions().items())]))
    context.exit()


@click.group(cls=_LazyGroup, epilog=_EPILOG, context_settings=_SETTINGS)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the versions."
)
def cli() -> None:
    """Measure RAID, LVM, file systems and their tunables: declared in YAML, built for real, driven by fio."""


def show(error: MatrixError) -> None:
    """An error as a user sees it: what happened, the evidence, what to do."""
    click.secho(broken(f"matrix: {error.brief}", columns_of(sys.stderr)), err=True, bold=True)
    if error.details:
        echo(error.details, err=True)
    if error.resolution:
        echo(f"→ {error.resolution}", err=True)


def _show_usage(error: click.ClickException) -> None:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context:
        echo(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n", err=True)
    echo(f"Error: {error.format_message()}", err=True)


def _carried_out() -> int:
    """Do what was asked; that the answer cannot be written down is an error like any other."""
    try:
        return cli.main(prog_name="matrix", standalone_mode=False) or 0
    except BrokenPipeError:
        raise
    except OSError as error:
        # What goes wrong with a file has its name.
        if error.filename is not None or error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise
        from runner.cli.output import abandon_stdout

        abandon_stdout()
        raise HarnessBroken(f"standard output cannot be written: {error.strerror}") from error


def main() -> None:
    """Entry point of the command."""
    try:
        sys.exit(_carried_out())
    except MatrixError as error:
        show(error)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.NoSuchOption as error:
        from runner.cli.unknown_option import no_such_option

        show(no_such_option(error))
        sys.exit(Exit.BAD_INPUT)
    except click.ClickException as error:
        _show_usage(error)
        sys.exit(2)
    except (KeyboardInterrupt, click.exceptions.Abort):
        echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; there is nobody left to tell
        sys.exit(141)
    except Exception as error:  # noqa: BLE001 - Python would exit with 1, which means that a claim failed
        show(_mistake(error))
        sys.exit(Exit.BROKEN)


def _mistake(error: Exception) -> MatrixError:
    """What nobody foresaw, told like everything else, with what is needed to put it right."""
    import traceback

    return MatrixError(
        f"a mistake in matrix itself: {type(error).__name__}: {error}",
        details="".join(traceback.format_exception(error)).rstrip(),
        resolution="please report it with all of the above; what was measured so far is kept",
    )
