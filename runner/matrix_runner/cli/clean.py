"""`matrix clean`: the work is in hosts/recovery.py for disks, and `sweep` of the machines in `SWEEPERS`."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from threading import Thread

import click

from matrix_runner.base.errors import Exit, MatrixError
from matrix_runner.cli.disks import find_host, load_lab_file
from matrix_runner.cli.options import hosts
from matrix_runner.cli.screen import echo
from matrix_runner.hosts.disk_ledger import lease_records, night_of, state_dir
from matrix_runner.hosts.recovery import clean, is_idle, unreturned_disks
from matrix_runner.machines import SWEEPERS, sweep
from matrix_runner.session.disk_lease import connect_host, open_connection

_EPILOG = """\b
Examples:
  matrix clean --dry-run         list leased disks without changing anything
  matrix clean --host shelf      clean an ssh host of hosts.yaml
  matrix clean --every-host      clean all ssh hosts of hosts.yaml and of earlier leases

\b
Cleans only disks that a record on this host still leases to a killed run, and removes only the work of that run. If a
disk has other content, `clean` leaves it, and does not release the disk.

\b
Exit codes: 3 something could not be removed, a disk was not released, or a host is not reachable.
"""


@click.command("clean", epilog=_EPILOG)
@click.option("--dry-run", is_flag=True, help="Only list disks that are still leased to a killed run.")
@click.option(
    "--labelled",
    multiple=True,
    metavar="DISK",
    help="Also release this disk, although only its label names a run. First check that no other host uses it.",
)
@hosts
@click.option("--host", help="A host of hosts.yaml.  [default: this host]")
@click.option("--every-host", is_flag=True, help="Clean all ssh hosts. An unreachable host does not stop the others.")
def command(dry_run: bool, labelled: tuple[str, ...], hosts: Path | None, host: str | None, every_host: bool) -> None:
    """Remove what a killed run left on the disks of a host; on this host, also containers and virtual machines."""
    if every_host and host:
        raise click.UsageError("--every-host includes --host: use one of the two")
    if every_host:
        raise click.exceptions.Exit(Exit.BROKEN if _clean_all_hosts(hosts, state_dir(), labelled, dry=dry_run) else 0)
    state, reach = state_dir(), reach_for(hosts, host)
    notices: list[str] = []

    def notice(text: str) -> None:
        notices.append(text)
        echo(text)

    # First: a leftover machine keeps its disks open.
    leftovers = [one for name in SWEEPERS for one in sweep(name, dry=dry_run)] if reach == "local" else []
    for leftover in leftovers:
        notice(leftover.message)
    remains = any(leftover.remains for leftover in leftovers)
    remains |= _clean_disks(state, reach, labelled, notice, dry_run=dry_run)
    for one in lease_records(state):
        if host is None and one.reach != reach:
            notice(f"{one.disk} of {one.reach}: leased by the run {one.run}; clean it with `matrix clean --host`")
    if not notices:
        echo(f"{host or 'this host'} is clean: no leftovers of runs", err=True)
    if remains:
        raise click.exceptions.Exit(Exit.BROKEN)


def reach_for(hosts: Path | None, host: str | None) -> str:
    found = find_host(load_lab_file(hosts), host) if host else None
    return found.reach if found else "local"


def list_hosts(hosts: Path | None, state: Path) -> dict[str, str]:
    lab = load_lab_file(hosts)
    declared = {one.reach: name for name, one in lab.hosts.items()} if lab else {}
    recorded = {one.reach: one.reach.removeprefix("ssh:") for one in lease_records(state)}
    return {reach: name for reach, name in (recorded | declared).items() if reach != "local"}


def _clean_all_hosts(hosts: Path | None, state: Path, labelled: tuple[str, ...], *, dry: bool) -> bool:
    """Clean hosts in parallel, in daemon threads: after an interrupt, hosts notice the lost connection themselves."""
    names, remains = list_hosts(hosts, state), dict[str, bool]()

    def clean_host(reach: str) -> None:
        def notice(text: str) -> None:
            echo(f"{names[reach]}: {text}")

        try:
            remains[reach] = _clean_disks(state, reach, labelled, notice, dry_run=dry)
        except MatrixError as error:
            notice(f"not cleaned: {error.brief}{f' ({error.details.strip()})' if error.details else ''}")
            remains[reach] = True

    if not names:
        echo("no ssh host in hosts.yaml or in recorded leases", err=True)
    threads = [Thread(target=clean_host, args=(reach,), daemon=True) for reach in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return any(remains.get(reach, True) for reach in names)


def _clean_disks(
    state: Path, reach: str, labelled: tuple[str, ...], notice: Callable[[str], None], *, dry_run: bool
) -> bool:
    remains = False
    with connect_host(reach, open_connection(reach), f"clean-{token_hex(4)}", partial(echo, err=True)) as host:
        if dry_run:
            for one in unreturned_disks(host.take_census(), lease_records(state, reach), reach):
                activity = "" if is_idle(one, host.operations) else ", which uses it now"
                notice(f"{one.disk}: leased by the run {one.run}{activity}")
            return False
        counted = host.boot_id, night_of(datetime.now(UTC))
        for found in clean(state, host.take_census, host.operations, reach=reach, labelled=labelled, counted=counted):
            remains |= bool(found.refusal)
            done = f"returned from the run {found.run}; {found.scripts} tear-down scripts were run"
            notice(f"{found.disk}: {f'not returned: {found.refusal}' if found.refusal else done}")
    return remains
