"""`matrix disks`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.base.errors import BadInput, Exit

if TYPE_CHECKING:
    from runner.simdisks.check import ProbeResult
    from runner.simdisks.disk import Disk


_EPILOG = """\b
Examples:
  matrix disks                                    all disks of this machine, and why each may not be used
  matrix disks --hosts lab.yaml --host shelf      the disks of an ssh host
  matrix disks --format json                      the same, with the evidence, for programs

\b
Only reads. docs/disks.md lists the checks before a disk is written.
"""


@click.group("disks", invoke_without_command=True, epilog=_EPILOG)
@click.option("--hosts", type=click.Path(path_type=Path, dir_okay=False), help="[default: hosts.yaml, if there is one]")
@click.option("--host", help="A host of hosts.yaml.  [default: this machine]")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def command(ctx: click.Context, hosts: Path | None, host: str | None, form: str) -> None:
    """Show all disks of a host, and whether each may be used; or show and check disk models."""
    if ctx.invoked_subcommand is None:
        from runner.cli.listing import show_disks

        show_disks(hosts, host, form)


@command.command("models", epilog="Example:  matrix disks models")
def models() -> None:
    """List the disk models that come with matrix, each with the source of its figures."""
    from runner.cli.screen import print_sheet
    from runner.reports.fit import Sheet
    from runner.space.includes import models as names
    from runner.space.load import disk_model

    rows = [(name, model.kind, model.source or "") for name, model in ((name, disk_model(name)) for name in names())]
    print_sheet(Sheet(("model", "kind", "source of its figures"), rows), sys.stdout)


@command.command(
    "check", epilog="Examples:  matrix disks check st3320620as;  matrix disks check mine.yaml --seconds 10"
)
@click.argument("model")
@click.option("--size", default="16GiB", show_default=True, help="Of the disk: large enough for all probes.")
@click.option("--seconds", type=click.FloatRange(min=0.5), default=3.0, show_default=True, help="For each probe.")
def check(model: str, size: str, seconds: float) -> None:
    """Measure MODEL (a name, or a file) with fio at its socket, and compare with the prediction of its physics.

    Exit code 1 if they differ by more than 3 %; 3 if all such differences are host-limited.
    """
    from runner.base.quantities import parse_size
    from runner.simdisks.check import refuse_small
    from runner.simdisks.disk import Disk
    from runner.space.load import disk_model

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
    from runner.simdisks.check import run_probes

    found = []
    click.echo(f"{'':<28}{'predicted':>14}{'measured':>12}{'off':>9}")
    async for one in run_probes(disk, seconds):
        found.append(one)
        host_limited = f"  host-limited: {one.overload}" if one.is_host_limited else ""
        mark = "" if one.is_accurate else "  (!)"
        figures = f"{_rate(one, one.expected):>14}{_rate(one, one.measured):>12}{one.deviation:>+9.1%}"
        click.echo(f"{one.probe.name:<28}{figures}{mark}{host_limited}")
    return found


def _rate(one: ProbeResult, iops: float) -> str:
    return f"{iops:,.0f} IOPS" if one.probe.job.random else f"{iops * one.probe.job.block / 1e6:,.1f} MB/s"
