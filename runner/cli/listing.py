"""The disks of a host, as `matrix disks` shows them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from runner.base.errors import BadInput
from runner.cli.screen import echo
from runner.cli.screen import show as show_sheet
from runner.hosts import HOSTS_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.hosts.listing import ListedDisk
    from runner.language.hosts import Lab, LabHost


def show(hosts: Path | None, host: str | None, form: str) -> None:
    """Ask the host, judge each of its disks, and write down what came of it."""
    from runner.hosts.disk_ledger import own_marks, state_dir
    from runner.hosts.listing import list_disks
    from runner.hosts.probe import query_health, take_census
    from runner.scripts.inventory import census_script, smart_script
    from runner.session.host_connection import open_connection

    lab = lab_of(hosts)
    if lab is None:
        echo(f"note: there is no {HOSTS_FILE} here, so no disk may be used; docs/disks.md has an example", err=True)
    chosen = chosen_host(lab, host)
    reach = chosen.reach if chosen else "local"
    line = open_connection(reach)
    census = take_census(line, census_script())
    found = list_disks(
        census,
        chosen.claims if chosen else (),
        own_marks(state_dir(), reach=reach),
        query_health(line, smart_script([disk.path for disk in census.disks])),
    )
    click.echo(as_json(found), nl=False) if form == "json" else _table(found)


def lab_of(hosts: Path | None) -> Lab | None:
    """The lab that a file describes; none if no file was named and there is no usual one."""
    from runner.space.hosts_file import load_lab

    return load_lab(hosts or HOSTS_FILE) if hosts or HOSTS_FILE.exists() else None


def reach_of(lab: Lab | None, name: str | None) -> str:
    """How the host of that name is reached; without one, this one is."""
    chosen = chosen_host(lab, name) if name else None
    return chosen.reach if chosen else "local"


def chosen_host(lab: Lab | None, name: str | None) -> LabHost | None:
    """The host of that name; without one, the one that is this machine, if there is one."""
    if name is None:
        local = [one for one in (lab.hosts.values() if lab else ()) if one.reach == "local"]
        if len(local) > 1:
            raise BadInput(
                "hosts.yaml describes several hosts that are this machine", resolution="choose one with --host"
            )
        return local[0] if local else None
    if lab is None:
        raise BadInput(f"there is no {HOSTS_FILE}, so no host {name}", resolution="name the file with --hosts")
    if found := lab.called(name):
        return found
    raise BadInput(f"no host is called {name}", resolution=f"known are {', '.join(lab.hosts)}")


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
    show_sheet(Sheet(columns, [_row(one) for one in found]), sys.stdout)


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
