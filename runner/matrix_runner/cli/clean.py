"""`matrix clean`: the work is in hosts/recovery.py for disks, and `sweep` of the machines in `SWEEPERS`."""

import shutil
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from threading import Thread

import click

from matrix_runner.base.cache import cache_entries, lock_cache
from matrix_runner.base.errors import BadInput, Exit, MatrixError
from matrix_runner.cli.disks import find_host, load_lab_file
from matrix_runner.cli.options import hosts
from matrix_runner.cli.screen import confirm_removal, echo
from matrix_runner.hosts.disk_ledger import lease_records, night_of, state_dir
from matrix_runner.hosts.recovery import clean, is_idle, unreturned_disks
from matrix_runner.machines import SWEEPERS, sweep
from matrix_runner.pages.terminal_text import volume
from matrix_runner.records.run_folder import folder_size
from matrix_runner.session.disk_lease import connect_host, open_connection

_CACHE, _ALL = "cache", "all"

_EPILOG = """\b
Examples:
  matrix clean --dry-run         list leased disks without changing anything
  matrix clean --host shelf      clean an ssh host of hosts.yaml
  matrix clean --every-host      clean all ssh hosts of hosts.yaml and of earlier leases
  matrix clean --cache           also free the space of appliances and saved virtual machines
  matrix clean --all --dry-run   list all that matrix has stored on this host outside of results and its own folder

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
@click.option("--cache", "extent", flag_value=_CACHE, help="Also remove the cache; the next run fills it again.")
@click.option(
    "--all",
    "extent",
    flag_value=_ALL,
    help="Also remove the cache, container images, the pool of libvirt, and the records of leases and wear.",
)
@click.option("--yes", is_flag=True, help="Do not ask before `--all`.")
def command(
    dry_run: bool,
    labelled: tuple[str, ...],
    hosts: Path | None,
    host: str | None,
    every_host: bool,
    extent: str | None,
    yes: bool,
) -> None:
    """Remove what a killed run left on the disks of a host; on this host, also containers and virtual machines."""
    _check_extent(extent, host, every_host=every_host)
    if every_host:
        raise click.exceptions.Exit(Exit.BROKEN if _clean_all_hosts(hosts, state_dir(), labelled, dry=dry_run) else 0)
    if extent == _ALL and not (yes or dry_run):
        confirm_removal("Remove all that matrix stored on this host, except results?", "caches and records")
    state, reach = state_dir(), reach_for(hosts, host)
    notices: list[str] = []

    def notice(text: str) -> None:
        notices.append(text)
        echo(text)

    # First: a leftover machine keeps its disks open.
    remains = reach == "local" and _sweep_machines(notice, dry_run=dry_run, everything=extent == _ALL)
    remains |= _clean_disks(state, reach, labelled, notice, dry_run=dry_run)
    for one in lease_records(state):
        if host is None and one.reach != reach:
            notice(f"{one.disk} of {one.reach}: leased by the run {one.run}; clean it with `matrix clean --host`")
    if extent:
        _discard_stored(() if extent == _CACHE or lease_records(state) else (state,), notice, dry_run=dry_run)
    if not notices:
        echo(f"{host or 'this host'} is clean: no leftovers of runs", err=True)
    if remains:
        raise click.exceptions.Exit(Exit.BROKEN)


def _check_extent(extent: str | None, host: str | None, *, every_host: bool) -> None:
    if every_host and host:
        raise BadInput("--every-host includes --host", resolution="use one of the two")
    if extent and (every_host or host):
        raise BadInput("--cache and --all are for this host", resolution="log in to the other one, and run it there")


def _sweep_machines(notice: Callable[[str], None], *, dry_run: bool, everything: bool) -> bool:
    leftovers = [one for name in SWEEPERS for one in sweep(name, dry=dry_run, everything=everything)]
    for leftover in leftovers:
        notice(leftover.message)
    return any(leftover.remains for leftover in leftovers)


def _discard_stored(folders: Iterable[Path], notice: Callable[[str], None], *, dry_run: bool) -> None:
    """Remove the cache and these folders."""
    with nullcontext() if dry_run else lock_cache():
        for path in (*cache_entries(), *filter(Path.exists, folders)):
            title = f"{path}, {volume(folder_size(path))}"
            if not dry_run:
                shutil.rmtree(path)
            notice(title if dry_run else f"{title}: removed")


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
