"""`matrix clean`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from runner.errors import Exit

_EPILOG = """\b
Example:  matrix clean --dry-run      what would be given back, and what would not

\b
Only what our records and our labels say was handed to a run that is gone: its own tear-down scripts take apart what
carries their UUIDs, then the disk is labelled as free. What is not ours, or stands on a disk still, is left and told.
"""


@click.command("clean", epilog=_EPILOG)
@click.option("--dry-run", is_flag=True, help="Only say which disks are still with a run that is gone.")
@click.option(
    "--labelled",
    multiple=True,
    metavar="DISK",
    help="Give this disk back too, though only its label tells of a run: nobody else, on another machine, is at it.",
)
def command(dry_run: bool, labelled: tuple[str, ...]) -> None:
    """Take away what a killed run left on the disks of this machine, and its containers.

    Exit code 3 if something had to be left.
    """
    from runner.cli.host import boot_id
    from runner.disks.real.ask import here
    from runner.disks.real.wear import night_of
    from runner.execute.leftovers import clean, idle, left_behind
    from runner.machines import SWEEPERS, swept
    from runner.render.census import census_script
    from runner.store.lab import handed, state_dir

    state, script = state_dir(), census_script()
    # First: what works on a disk holds it.
    left = False
    for one in (one for name in SWEEPERS for one in swept(name, dry=dry_run)):
        left |= one.stays
        click.echo(one.told)
    if dry_run:
        for disk in left_behind(here(script), handed(state)):
            click.echo(f"{disk.disk}: with the run {disk.run}" + ("" if idle(disk) else ", which is at it"))
        return
    counted = boot_id(), night_of(datetime.now(UTC))
    for found in clean(state, lambda: here(script), labelled=labelled, counted=counted):
        left |= bool(found.left)
        done = f"given back by the run {found.run}; {found.scripts} tear-down scripts were run"
        click.echo(f"{found.disk}: {f'left, as {found.left}' if found.left else done}")
    if left:
        raise click.exceptions.Exit(Exit.BROKEN)
