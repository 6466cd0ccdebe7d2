"""`matrix cluster` (scheduler, certificates, state), `matrix worker`, and `matrix batch`, which workers start.

The work is in carry/cluster/ and session/batch.py. The run on a cluster is in session/cluster.py.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

import matrix_runner
from matrix_runner.base.errors import BadInput
from matrix_runner.cli import options
from matrix_runner.cli.options import hosts
from matrix_runner.cli.screen import echo, echo_whole, slow_start

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from matrix_runner.session.run_request import ClusterOptions


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
    from matrix_runner.carry.batch_messages import RECONNECT
    from matrix_runner.carry.cluster.relayed import query

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
@click.argument("folder", type=options.TO_FOLDER)
def certificates(folder: Path) -> None:
    """Make certificates for one cluster. Copy the folder to its scheduler, its workers and its users."""
    from matrix_runner.carry.cluster.connection import make_certificates

    make_certificates(folder)
    echo(f"wrote {folder}/; copy it to all hosts of the cluster. A user who has it can run programs on all workers.")


def _remote(cluster: ClusterOptions | None) -> ClusterOptions:
    if cluster is None:
        raise BadInput("--cluster is missing", resolution="name the address of a scheduler: --cluster tls://HOST:8786")
    return cluster


RIG = "rig"  # the resource of which a batch takes one
UNIT = Path(matrix_runner.__path__[0]) / "carry" / "cluster" / "matrix-worker.service"
_EPILOG = """\b
Examples:
  matrix worker --cluster tls://lab:8786 --certificates lab           join a cluster
  matrix worker --cluster tcp://127.0.0.1:8786 --insecure             on a host where you trust each user
  matrix worker --cluster tls://lab:8786 --resources rig=2 --host r7  two batches at a time, as the host r7

Whoever has the certificates of the cluster can run programs here as the user of this worker; with --insecure, whoever
reaches the scheduler can. Use a user without other rights.
"""


def _parse_resources(text: str) -> int:
    slots = 1
    for part in filter(None, text.split(",")):
        name, equals, number = part.partition("=")
        if not (name.isidentifier() and equals and number.isdecimal() and 1 <= int(number) <= 1024):
            raise ValueError(f"{part!r}: write NAME=NUMBER, for example rig=2")
        if name != RIG:
            raise ValueError(f"{part!r}: `{RIG}` is the only resource; --tags names other properties of this host")
        slots = int(number)
    return slots


def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run until SIGINT or SIGTERM, which end it in order."""

    async def run() -> None:
        task = asyncio.ensure_future(work)
        for one in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(one, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            echo("stopped", err=True)

    asyncio.run(run())


@click.command("worker", epilog=_EPILOG)
@options.scheduler
@click.option(
    "--resources",
    type=options.Parsed("resources", _parse_resources),
    default="rig=1",
    show_default=True,
    metavar="NAME=NUMBER,…",
    help="What this host has: `rig` is the number of batches at a time.",
)
@options.own_tags
@options.pool
@click.option("--host", default=socket.gethostname, help="The name of this host in results.  [default: its host name]")
@click.option("--unit", is_flag=True, help="Print a systemd unit that starts a worker at each boot.")
def worker_command(
    *,
    cluster: ClusterOptions | None,
    resources: int,
    tags: tuple[str, ...],
    hosts: Path | None,
    host: str,
    unit: bool,
) -> None:
    """Join this host to a cluster, as a worker that measures batches until it is stopped."""
    if unit:
        from matrix_runner.cli.nightly import unit_word

        program = unit_word(str(Path(sys.argv[0]).resolve()))
        echo_whole(UNIT.read_text().replace("ExecStart=matrix ", f"ExecStart={program} "))
        return
    if cluster is None:
        raise BadInput("matrix worker needs --cluster with the address of a scheduler")
    from matrix_runner.carry.cluster.members import Membership, stay_member
    from matrix_runner.machines.qemu.host import expected_accelerator

    kvm = ["kvm"] if expected_accelerator() == "kvm" else []
    member = Membership(host, resources, tuple(dict.fromkeys([*tags, *kvm])), hosts)
    certificates = cluster.security()
    until_stopped(stay_member(cluster.address.text, member, certificates, lambda text: echo(text, err=True)))


@click.command("batch", hidden=True)
@hosts
def batch_command(hosts: Path | None) -> None:
    """Measure batches: read requests as JSON lines, write records as JSON lines."""
    from matrix_runner.session.batch import serve

    records = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not get among the records
    with records:
        serve(sys.stdin.buffer, records, hosts)
