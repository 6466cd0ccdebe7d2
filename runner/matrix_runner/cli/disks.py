"""`matrix disks`: the checks are in hosts/checks.py, the test of simulated disks in simdisks/check.py."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.base.quantities import format_size, parse_size
from matrix_runner.cli import calibrate, scratch
from matrix_runner.cli.options import FILE
from matrix_runner.cli.screen import WIDTH, echo, echo_whole, json_text, print_sheet
from matrix_runner.hosts import HOSTS_FILE
from matrix_runner.hosts.checks import ListedDisk, list_disks, query_health, take_census
from matrix_runner.hosts.disk_ledger import own_marks, state_dir
from matrix_runner.language.hosts import Lab, LabHost
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.pages.table import Sheet
from matrix_runner.pages.terminal_text import figures_from, spaced, volume
from matrix_runner.records.record import format_loss
from matrix_runner.simdisks.check import SHALLOW, ProbeResult, refuse_small, run_probes
from matrix_runner.simdisks.disk import Disk


def list_host_disks(hosts: Path | None, host: str | None) -> Sequence[ListedDisk]:
    from matrix_runner.scripts.jinja import census_script, smart_script
    from matrix_runner.session.disk_lease import open_connection

    lab = load_lab_file(hosts)
    if lab is None:
        echo(f"note: there is no {HOSTS_FILE} here, so no disk may be used; see `matrix help physical-disks`", err=True)
    declared = find_host(lab, host)
    reach = declared.reach if declared else "local"
    connection = open_connection(reach)
    census = take_census(connection, census_script())
    health = query_health(connection, smart_script([disk.path for disk in census.disks]))
    return list_disks(census, declared.claims if declared else (), own_marks(state_dir(), reach=reach), health)


def load_lab_file(hosts: Path | None) -> Lab | None:
    from matrix_runner.space.declared_files import load_lab

    return load_lab(hosts or HOSTS_FILE) if hosts or HOSTS_FILE.exists() else None


def find_host(lab: Lab | None, name: str | None) -> LabHost | None:
    if name is None:
        local = [one for one in (lab.hosts.values() if lab else ()) if one.reach == "local"]
        if len(local) > 1:
            raise BadInput("hosts.yaml declares several local hosts", resolution="choose one with --host")
        return local[0] if local else None
    if lab is None:
        raise BadInput(f"no host {name}: there is no {HOSTS_FILE}", resolution="name the file with --hosts")
    if found := lab.hosts.get(name):
        return found
    raise BadInput(f"no host is called {name}", resolution=did_you_mean(name, lab.hosts))


def _row(one: ListedDisk) -> tuple[str, ...]:
    labels = {"serial ": one.serial, "wwn ": one.wwn, "firmware ": one.firmware, "health: ": one.health}
    what = (one.kind, one.link, one.model, *(f"{label}{text}" for label, text in labels.items() if text))
    why = "\n".join(f"{refused.reason}: {refused.evidence}" for refused in one.refusals)
    names = [one.declared] if one.declared else list(one.names)
    usable = "yes" if one.usable else why
    return one.path or "not there", "\n".join(names) or "none", _size(one.size), "\n".join(filter(None, what)), usable


def _size(size: int) -> str:
    """Return the exact size, which `hosts.yaml` declares, below a readable one if it is not round."""
    round_ = format_size(size)
    return round_ if len(round_) < len("1000GiB") else f"{volume(size)}\n{size}B"


_EPILOG = """\b
Examples:
  matrix disks                                    all disks of this host, and why each may not be used
  matrix disks --hosts lab.yaml --host shelf      the disks of an ssh host
  matrix disks --format json                      the same, with the evidence, for programs

\b
Only reads. `matrix help physical-disk-safety` lists the checks before a disk is written.
"""

_CHECK_EPILOG = """Examples:  matrix disks check st3320620as;  matrix disks check mine.yaml --seconds 10

\b
Exit codes: 1 they differ by more than 3 %, 3 each such difference is only because the host was too slow.
"""


@click.group("disks", invoke_without_command=True, epilog=_EPILOG)
@click.option("--hosts", type=FILE, help="[default: hosts.yaml, if there is one]")
@click.option("--host", help="A host of hosts.yaml.  [default: this host]")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def command(ctx: click.Context, hosts: Path | None, host: str | None, form: str) -> None:
    """Show all disks of a host, and whether each may be used; or show and check disk models."""
    if ctx.invoked_subcommand is not None:
        return
    found = list_host_disks(hosts, host)
    if form == "json":
        rows = [
            asdict(one) | {"refusals": [{"why": why.reason, "evidence": why.evidence} for why in one.refusals]}
            for one in found
        ]
        echo_whole(json_text(rows, indent=True))
    else:
        columns = ("disk", "stable name", "size", "what", "may it be used?")
        print_sheet(Sheet(columns, [_row(one) for one in found]), sys.stdout)


command.add_command(calibrate.command)
command.add_command(scratch.command)


@command.command("models", epilog="Example:  matrix disks models")
def models() -> None:
    """List the disk models that come with matrix, each with the source of its figures."""
    from matrix_runner.space.includes import models as names
    from matrix_runner.space.load import disk_model

    found = ((name, disk_model(name)) for name in names())
    rows = [(name, one.kind, figures_from(one.fitted_to or ""), one.source or "") for name, one in found]
    print_sheet(Sheet(("model", "kind", "figures", "source"), rows), sys.stdout, WIDTH)


@command.command("check", epilog=_CHECK_EPILOG)
@click.argument("model")
@click.option(
    "--size",
    default="16GiB",
    show_default=True,
    help="The size of the simulated disk: large enough for all measurements.",
)
@click.option(
    "--seconds", type=click.FloatRange(min=0.5), default=3.0, show_default=True, help="The time of each measurement."
)
def check(model: str, size: str, seconds: float) -> None:
    """Measure a simulated disk of MODEL (a name or a file) with fio. Compare it with the prediction of its physics."""
    from matrix_runner.space.load import disk_model

    try:
        disk = Disk(parse_size(size), "virtio", disk_model(model).physics(1))
    except ValueError as error:
        raise BadInput(f"--size {size}: {error}") from None
    if disk.physics and disk.physics.kind == "ideal":
        raise BadInput(f"{model} has no physics: it is as fast as its server")
    refuse_small(disk)
    found = asyncio.run(_show_probes(disk, seconds))
    wrong = [one for one in found if not one.is_accurate]
    if not all(one.is_host_limited for one in wrong):
        raise click.exceptions.Exit(Exit.CLAIM_FAILED)
    if wrong:
        raise click.exceptions.Exit(Exit.BROKEN)


async def _show_probes(disk: Disk, seconds: float) -> list[ProbeResult]:
    from matrix_runner.simdisks.fit import time_text

    found: list[ProbeResult] = []
    echo_whole(f"{'':<28}{'predicted':>14}{'measured':>12}{'off':>9}")
    async for one in run_probes(disk, seconds):
        found.append(one)
        host_limited = (
            f"  host-limited: {spaced(format_loss(one.overload.share, one.overload.causes))}"
            if one.is_host_limited
            else ""
        )
        mark = "" if one.is_accurate else "  (!)"
        figures = f"{_rate(one, one.expected):>14}{_rate(one, one.measured):>12}{f'{one.deviation * 100:+.1f} %':>9}"
        echo_whole(f"{one.probe.name:<28}{figures}{mark}{host_limited}")
    turns = [one.turn for one in (each.probe for each in found) if one.pattern.random and one.pattern.depth <= SHALLOW]
    echo(
        f"Random work up to depth {SHALLOW} is predicted with the time that this host takes from an answer to the next "
        f"request, here {time_text(min(turns))} to {time_text(max(turns))}. A host that takes less gets higher rates."
    )
    return found


def _rate(one: ProbeResult, iops: float) -> str:
    job = one.probe.pattern
    return f"{iops:,.0f} IOPS" if job.random else f"{iops * job.block / 1e6:,.1f} MB/s"
