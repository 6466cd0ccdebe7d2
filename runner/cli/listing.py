"""The list of a host's disks, for `matrix disks`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from runner.base.errors import BadInput
from runner.cli.screen import echo, print_sheet
from runner.hosts import HOSTS_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.hosts.listing import ListedDisk
    from runner.language.hosts import Lab, LabHost


def show_disks(hosts: Path | None, host: str | None, form: str) -> None:
    from runner.hosts.disk_ledger import own_marks, state_dir
    from runner.hosts.listing import list_disks, query_health, take_census
    from runner.scripts.jinja import census_script, smart_script
    from runner.session.host_connection import open_connection

    lab = load_lab_file(hosts)
    if lab is None:
        echo(f"note: there is no {HOSTS_FILE} here, so no disk may be used; docs/disks.md has an example", err=True)
    declared = find_host(lab, host)
    reach = declared.reach if declared else "local"
    connection = open_connection(reach)
    census = take_census(connection, census_script())
    found = list_disks(
        census,
        declared.claims if declared else (),
        own_marks(state_dir(), reach=reach),
        query_health(connection, smart_script([disk.path for disk in census.disks])),
    )
    click.echo(as_json(found), nl=False) if form == "json" else _table(found)


def load_lab_file(hosts: Path | None) -> Lab | None:
    """Load a lab file; without a name hosts.yaml, if it exists."""
    from runner.space.hosts_file import load_lab

    return load_lab(hosts or HOSTS_FILE) if hosts or HOSTS_FILE.exists() else None


def reach_of(lab: Lab | None, name: str | None) -> str:
    """Return how a host is reached; `local` without a name."""
    host = find_host(lab, name) if name else None
    return host.reach if host else "local"


def find_host(lab: Lab | None, name: str | None) -> LabHost | None:
    """Return a host by name; without a name the local host, if the lab has one."""
    if name is None:
        local = [one for one in (lab.hosts.values() if lab else ()) if one.reach == "local"]
        if len(local) > 1:
            raise BadInput("hosts.yaml declares several local hosts", resolution="choose one with --host")
        return local[0] if local else None
    if lab is None:
        raise BadInput(f"no host {name}: there is no {HOSTS_FILE}", resolution="name the file with --hosts")
    if found := lab.called(name):
        return found
    raise BadInput(f"no host is called {name}", resolution=f"known hosts: {', '.join(lab.hosts)}")


def as_json(found: Sequence[ListedDisk]) -> str:
    from dataclasses import asdict

    import orjson

    rows = [
        asdict(one) | {"refusals": [{"why": refusal.reason, "evidence": refusal.evidence} for refusal in one.refusals]}
        for one in found
    ]
    return orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode() + "\n"


def _table(found: Sequence[ListedDisk]) -> None:
    from runner.reports.fit import Sheet

    columns = ("disk", "stable name", "size", "what", "may it be used?")
    print_sheet(Sheet(columns, [_row(one) for one in found]), sys.stdout)


def _row(one: ListedDisk) -> tuple[str, ...]:
    what = (
        one.kind,
        one.model,
        one.serial and f"serial {one.serial}",
        one.wwn and f"wwn {one.wwn}",
        one.firmware and f"firmware {one.firmware}",
        f"health: {one.health}" if one.health else "",
    )
    why = "\n".join(f"{refused.reason}: {refused.evidence}" for refused in one.refusals)
    names = [one.declared] if one.declared else list(one.names)
    usable = "yes" if one.usable else why
    return one.path or "not there", "\n".join(names) or "none", f"{one.size}B", "\n".join(filter(None, what)), usable
