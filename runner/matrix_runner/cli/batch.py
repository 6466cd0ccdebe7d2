"""`matrix batch`, which workers of a cluster start: requests in, records out. The work is in session/batch.py."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from matrix_runner.cli.options import hosts
from matrix_runner.session.batch import serve

if TYPE_CHECKING:
    from pathlib import Path


@click.command("batch", hidden=True)
@hosts
def command(hosts: Path | None) -> None:
    """Measure batches: read requests as JSON lines, write records as JSON lines."""
    records = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not get among the records
    with records:
        serve(sys.stdin.buffer, records, hosts)
