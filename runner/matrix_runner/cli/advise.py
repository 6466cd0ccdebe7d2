"""`matrix advise`: the text of the matrix is in space/advice.py. It runs as `matrix run --race` does."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.cli import options
from matrix_runner.cli.init import SCHEMA, write_schema
from matrix_runner.cli.screen import echo
from matrix_runner.space.advice import PURPOSES, DiskWish, matrix_for, parse_purposes

_EPILOG = """\b
Examples:
  matrix advise --list
  matrix advise --disks 6x4TB --for photos,vms
  matrix advise --disks 4x2TB --model sata-ssd --for database:3,backups --to db.yaml --yes
  matrix advise --disks 6x4TB --for office --no-run            only write the matrix

\b
It writes an ordinary matrix, and measures it as a race: stacks that cannot be the best leave early. The same command
continues a run that was interrupted.
"""
_FILES = ("ext4", "xfs", "btrfs", "f2fs")


def _file_systems(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in _FILES]:
        raise ValueError(f"there is no advice on {unknown[0]!r}; known are {', '.join(_FILES)}")
    return names


@click.command("advise", epilog=_EPILOG)
@click.option("--list", "listed", is_flag=True, help="List the work that --for knows.")
@click.option(
    "--disks", metavar="COUNTxSIZE", type=options.Parsed("disks", DiskWish.parsed), help="Your disks, e.g. 6x4TB."
)
@click.option("--model", default="nas-7200", show_default=True, help="The simulated disk; `matrix disks models`.")
@click.option(
    "--for",
    "weights",
    metavar="WORK[:WEIGHT],…",
    type=options.Parsed("work", parse_purposes),
    help="Work for the disks, e.g. photos:2,vms. Work with a larger weight counts more.",
)
@click.option(
    "--fs",
    metavar="FS,…",
    type=options.Parsed("file systems", _file_systems),
    default="ext4,xfs",
    show_default=True,
    help="The file systems to choose from.",
)
@click.option("--to", type=options.FILE, default=Path("advice.yaml"), show_default=True, help="The matrix to write.")
@click.option("--yes", is_flag=True, help="Run it without a question.")
@click.option("--no-run", is_flag=True, help="Only write the matrix, and say how long it takes.")
@options.on_host
@options.results
@options.store
@options.jobs_by_default("auto")
@options.budget
def command(*, listed: bool, yes: bool, no_run: bool, **values: Any) -> None:
    """Advise on RAID level, chunk size and file system for your disks and work, from a run.

    Writes a matrix, says how long it takes, measures it until the best stacks are known, and prints a table of them.
    """
    if listed:
        width = max(map(len, PURPOSES))
        for name, purpose in PURPOSES.items():
            echo(f"{name:{width}}  {purpose.about}")
        return
    wish = {name: values.pop(name) for name in ("disks", "model", "weights", "fs", "to")}
    _check(wish)
    if _write(wish, values["place"]) and _is_wanted(wish, values, yes=yes, no_run=no_run):
        from matrix_runner.cli.run import follow

        follow({"matrix": wish["to"], "race": (), **values}, quiet=False, as_json=False)


def _check(wish: Mapping[str, Any]) -> None:
    from matrix_runner.space.includes import models

    for name, option, example in (("disks", "--disks", "--disks 6x4TB"), ("weights", "--for", "--for photos,vms")):
        if not wish[name]:
            raise BadInput(
                f"{option} is missing", resolution=f"write e.g. {example}; `matrix advise --list` lists work"
            )
    if wish["model"] not in models():
        raise BadInput(f"there is no disk model {wish['model']!r}", resolution="`matrix disks models` lists them")


def _write(wish: Mapping[str, Any], place: Any) -> bool:
    """Write the matrix, checked; return whether its disks are simulated. The same one may be there from before."""
    from matrix_runner.machines import machine
    from matrix_runner.machines.base import MachineOptions
    from matrix_runner.space.load import parse

    to, simulated = wish["to"], machine(place.machine, MachineOptions()).brings_disks
    model = wish["model"] if simulated else None
    text = matrix_for(to.stem, SCHEMA, wish["disks"], model, wish["weights"], wish["fs"])
    parse(str(to), text)
    try:
        with to.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileNotFoundError:
        raise BadInput(
            f"--to {to}: there is no folder {to.parent}", resolution="make it, or name another file"
        ) from None
    except FileExistsError:
        if to.read_bytes() != text.encode():
            advice = f"choose another name with --to, or run it: matrix run --race {to}"
            raise BadInput(f"{to} exists already, with other content", resolution=advice) from None
        echo(f"{to} is there already, with the same content")
    else:
        echo(f"wrote {to}, an ordinary matrix that you can change")
    write_schema(to.parent)
    if not simulated:
        echo(f"next: `matrix disks` lists the disks here; matrix run --race --on {place} --destroy DISK-ID {to}")
    return simulated


def _is_wanted(wish: Mapping[str, Any], values: Mapping[str, Any], *, yes: bool, no_run: bool) -> bool:
    from matrix_runner.cli.plan import describe_race, prepare_plan
    from matrix_runner.session.run_request import RunOptions

    plan = prepare_plan(RunOptions(matrix=wish["to"], race=(), **values), each=False)
    echo(f"{plan.estimate.cells} cells on {plan.estimate.stacks} stacks; {describe_race(plan)}")
    if plan.options.budget.seconds < plan.seconds_of(plan.race.trials if plan.race else 0):
        echo("--budget ends it before that, with more stacks that cannot be told apart; the same command continues it")
    if not no_run and (yes or (sys.stdin.isatty() and click.confirm("run it now?", default=True))):
        return True
    echo(f"next: matrix run --race --on {values['place'].machine} --jobs {values['jobs']} {wish['to']}")
    return False
