"""`matrix cluster`: its scheduler, its certificates, and what its hosts do. The work is in carry/cluster/.

The run on a cluster is in session/cluster.py.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.cli import options
from matrix_runner.cli.screen import echo, slow_start
from matrix_runner.cli.worker import until_stopped

if TYPE_CHECKING:
    from matrix_runner.session.cluster import ClusterOptions


@click.group("cluster")
def command() -> None:
    """Start the scheduler of a cluster, show its hosts, make its certificates."""


@command.command("scheduler")
@options.listening
def scheduler(cluster: ClusterOptions | None) -> None:
    """Start the scheduler, which connects `matrix run --cluster` and workers.

    A user with its certificates can run programs on all workers. With tcp://, so can each user who reaches it.
    """
    wanted = _remote(cluster)
    from matrix_runner.carry.cluster import members

    async def serve() -> None:
        async with members.scheduler(wanted.address.text, wanted.security()) as address:
            several = members.listens_everywhere(wanted.address.text)
            others = ", and at the other addresses of this host" if several else ""
            echo(f"the scheduler listens at {address}{others}", err=True)
            await asyncio.get_running_loop().create_future()

    until_stopped(serve())


@command.command("status")
@options.scheduler
def status(cluster: ClusterOptions | None) -> None:
    """Show the workers of a cluster: host, version, batches at a time, and how many batches they have now."""
    wanted = _remote(cluster)
    from matrix_runner.carry.cluster.status import query
    from matrix_runner.carry.cluster_interface import RECONNECT

    certificates = wanted.security()
    slow_start.begin(f"connecting to {wanted.address.text}, for up to {RECONNECT:g} s")
    found = asyncio.run(query(wanted.address.text, certificates))
    table = [("host", "rigs", "busy", "version", "tags", "address"), *found.rows()]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    if not found.workers:
        echo("no worker has joined: `matrix worker --cluster ADDRESS` on a host does that")


@command.command("certificates")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def certificates(folder: Path) -> None:
    """Make certificates for one cluster. Copy the folder to its scheduler, its workers and its users."""
    from matrix_runner.carry.cluster.address import make_certificates

    make_certificates(folder)
    echo(f"wrote {folder}/; copy it to all hosts of the cluster. A user who has it can run programs on all workers.")


def _remote(cluster: ClusterOptions | None) -> ClusterOptions:
    if cluster is None:
        raise BadInput("--cluster is missing", resolution="name the address of a scheduler: --cluster tls://HOST:8786")
    return cluster
