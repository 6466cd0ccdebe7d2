"""`matrix clean`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from secrets import token_hex
from threading import Thread
from typing import TYPE_CHECKING

import click

from runner.base.errors import Exit, MatrixError
from runner.cli.options import hosts
from runner.cli.screen import echo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.session.host_connection import HostConnection

_EPILOG = """\b
Examples:
  matrix clean --dry-run         what would be given back, and what would not
  matrix clean --host shelf      on a host of hosts.yaml that is reached by ssh
  matrix clean --every-host      on all of those at once, and on those that our records tell of

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
@hosts
@click.option("--host", help="On which host of hosts.yaml.  [default: this machine]")
@click.option(
    "--every-host",
    is_flag=True,
    help="On all of them that are reached by ssh. One that is not to be had stops no other.",
)
def command(dry_run: bool, labelled: tuple[str, ...], hosts: Path | None, host: str | None, every_host: bool) -> None:
    """Take away what a killed run left on the disks of a host; of this machine, containers too.

    Exit code 3 if something had to be left, or a host is not to be had.
    """
    from runner.hosts.disk_ledger import lease_records, state_dir

    if every_host and host:
        raise click.UsageError("--every-host has --host among them: give one of the two")
    if every_host:
        raise click.exceptions.Exit(Exit.BROKEN if _everywhere(hosts, state_dir(), labelled, dry=dry_run) else 0)
    state, reach = state_dir(), reach_for(hosts, host)
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        echo(text)

    # First: what works on a disk holds it.
    left = _swept(tell, dry=dry_run) if reach == "local" else False
    left |= _cleaned(state, reach, labelled, tell, dry_run=dry_run)
    for one in lease_records(state):
        if host is None and one.reach != reach:
            tell(f"{one.disk} of {one.reach}: with the run {one.run}; `matrix clean --host` is for other hosts")
    if not told:
        echo(f"nothing of ours is left on {host or 'this machine'}", err=True)
    if left:
        raise click.exceptions.Exit(Exit.BROKEN)


def reach_for(hosts: Path | None, host: str | None) -> str:
    """This machine is cleaned whatever stands in a file that happens to lie where we are, as in a job's checkout."""
    from runner.cli.listing import lab_of, reach_of

    return reach_of(lab_of(hosts), host) if host else "local"


def _swept(tell: Callable[[str], None], *, dry: bool) -> bool:
    """Take away what machines left beside disks; whether some of it stays."""
    from runner.machines import SWEEPERS, sweep

    found = [one for name in SWEEPERS for one in sweep(name, dry=dry)]
    for one in found:
        tell(one.message)
    return any(one.remains for one in found)


def reaches(hosts: Path | None, state: Path) -> dict[str, str]:
    """Every way to a host behind ssh, with the host's name: those of hosts.yaml, and those that runs had disks of."""
    from runner.cli.listing import lab_of
    from runner.hosts.disk_ledger import lease_records

    lab = lab_of(hosts)
    named = {one.reach: name for name, one in lab.hosts.items()} if lab else {}
    known = {one.reach: one.reach.removeprefix("ssh:") for one in lease_records(state)}
    return {reach: name for reach, name in (known | named).items() if reach != "local"}


def _everywhere(hosts: Path | None, state: Path, labelled: tuple[str, ...], *, dry: bool) -> bool:
    """On every host at once, as one of them may take its time, or have none to spare; whether anything stays.

    Nobody waits for those who are at it if all of it is to end: the hosts notice by themselves.
    """
    ways, stays = reaches(hosts, state), dict[str, bool]()

    def on(reach: str) -> None:
        stays[reach] = _there(state, reach, ways[reach], labelled, dry=dry)

    if not ways:
        echo("no host behind ssh is known, of hosts.yaml or of our records", err=True)
    working = [Thread(target=on, args=(reach,), daemon=True) for reach in ways]
    for one in working:
        one.start()
    for one in working:
        one.join()
    return any(stays.get(reach, True) for reach in ways)


def _there(state: Path, reach: str, name: str, labelled: tuple[str, ...], *, dry: bool) -> bool:
    """On one of several, of which every word is told with its name."""

    def tell(text: str) -> None:
        echo(f"{name}: {text}")

    try:
        return _cleaned(state, reach, labelled, tell, dry_run=dry)
    except MatrixError as error:
        tell(f"not cleaned, as {error.brief}{f' ({error.details.strip()})' if error.details else ''}")
        return True


def _cleaned(state: Path, reach: str, labelled: tuple[str, ...], tell: Callable[[str], None], *, dry_run: bool) -> bool:
    """Give back the disks of a host; whether some of them stay."""
    from runner.hosts.recovery import clean
    from runner.hosts.wear import night_of
    from runner.session.host_connection import connect_host, open_connection

    left = False
    with connect_host(reach, open_connection(reach), f"clean-{token_hex(4)}", partial(echo, err=True)) as there:
        if dry_run:
            _tell(there, state, tell)
            return False
        counted = there.boot_id, night_of(datetime.now(UTC))
        for found in clean(state, there.take_census, there.operations, reach=reach, labelled=labelled, counted=counted):
            left |= bool(found.refusal)
            done = f"given back by the run {found.run}; {found.scripts} tear-down scripts were run"
            tell(f"{found.disk}: {f'left, as {found.refusal}' if found.refusal else done}")
    return left


def _tell(there: HostConnection, state: Path, tell: Callable[[str], None]) -> None:
    from runner.hosts.disk_ledger import lease_records
    from runner.hosts.recovery import is_idle, unreturned_disks

    for one in unreturned_disks(there.take_census(), lease_records(state, there.reach), there.reach):
        at_it = "" if is_idle(one, there.operations) else ", which is at it"
        tell(f"{one.disk}: with the run {one.run}{at_it}")
