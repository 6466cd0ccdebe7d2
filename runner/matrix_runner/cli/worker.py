"""`matrix worker`: join this host to a cluster. The work is in carry/cluster/members.py and carry/cluster/seats.py."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

import matrix_runner
from matrix_runner.base.errors import BadInput
from matrix_runner.cli import options
from matrix_runner.cli.screen import echo, echo_whole

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from matrix_runner.session.cluster import ClusterOptions

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


def _found_tags() -> tuple[str, ...]:
    from matrix_runner.machines.qemu.host import expected_accelerator

    accelerator = expected_accelerator()
    return (accelerator,) if accelerator == "kvm" else ()


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
def command(
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
        program = Path(sys.argv[0]).resolve()
        echo_whole(UNIT.read_text().replace("ExecStart=matrix ", f"ExecStart={program} "))
        return
    if cluster is None:
        raise BadInput("matrix worker needs --cluster with the address of a scheduler")
    from matrix_runner.carry.cluster.members import Membership, stay_member

    member = Membership(host, resources, tuple(dict.fromkeys([*tags, *_found_tags()])), hosts)
    certificates = cluster.security()
    until_stopped(stay_member(cluster.address.text, member, certificates, lambda text: echo(text, err=True)))
