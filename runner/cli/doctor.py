"""`matrix doctor`."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.errors import Exit, HarnessBroken
from runner.machines import MACHINES, machine
from runner.process import run

if TYPE_CHECKING:
    from runner.machines.seam import Refusal


@click.command("doctor", epilog="Example:  matrix doctor --on qemu   (exit code 3 if that machine cannot be used)")
@click.option("--on", "place", type=click.Choice(list(MACHINES)), help="Judge by this machine alone.")
def command(place: str | None) -> None:
    """Say what this host can do, and what is missing for the rest. Starts nothing, changes nothing."""
    click.echo(f"host      Linux {platform.release()}, Python {platform.python_version()}")
    click.echo(f"fio       {_version('fio', '--version')}  (checks jobs before they run)")
    click.echo(f"results   {shutil.disk_usage('.').free / 1e9:,.0f} GB free for {Path('results').absolute()}/")
    click.echo(f"disks     {_modelled()}")
    missing = {name: _refusals(name) for name in ([place] if place else MACHINES)}
    for name, refusals in missing.items():
        click.echo(f"{name:<9} {'cannot be used' if refusals else 'ready'}")
        for one in refusals:
            click.echo(f"          - {one.brief}" + (f": {one.resolution}" if one.resolution else ""))
    if all(missing.values()):
        raise click.exceptions.Exit(Exit.BROKEN)


def _modelled() -> str:
    from runner.disks.server import TOOLS

    lacking = [packages for tool, packages in TOOLS.items() if shutil.which(tool) is None]
    return f"cannot be modelled: apt install {' '.join(lacking)}" if lacking else "can be modelled"


def _refusals(name: str) -> list[Refusal]:
    from runner.disks import Disk
    from runner.machines.seam import RigSpec, Wishes

    disks = tuple(Disk(1 << 30, "sata") for _ in range(4))
    return machine(name, Wishes()).refusals(RigSpec(disks, modules=("raid456",)))


def _version(*argv: str) -> str:
    try:
        return run(argv, timeout=10).stdout.split("\n")[0] or "does not answer"
    except HarnessBroken as broken:
        return broken.brief
