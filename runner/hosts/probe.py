"""Queries to a host, by one script for local and remote ones: its disks and their health."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.hosts.inventory import parse_census
from runner.results.disk_health import heard

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from runner.hosts.agent.connection import Connection
    from runner.hosts.inventory import Census
    from runner.results.disk_health import Smart

PATIENCE = 300.0


def local_census(script: str) -> Census:
    return take_census(None, script)


def take_census(connection: Connection | None, script: str) -> Census:
    """Return the census of a host; of this one if there is no connection."""
    return parse_census(run_query(connection, script))


def query_health(connection: Connection | None, script: str) -> dict[str, Smart]:
    """Return the health that each disk reports, by path; empty if the host cannot report it."""
    with suppress(HarnessBroken):
        return heard(run_query(connection, script))
    return {}


def run_query(connection: Connection | None, script: str) -> str:
    """Return the output of a read-only script on a host."""
    if connection is None:
        return _check_answer(process.run(["bash", "-c", script], timeout=PATIENCE), "this machine")
    return _check_answer(connection.query(script, PATIENCE), connection.name)


def _check_answer(answer: CompletedProcess[str], host: str) -> str:
    if answer.returncode:
        raise HarnessBroken(
            f"{host} cannot list its disks",
            details=answer.stderr[-2000:].strip() or f"the inventory script ended with status {answer.returncode}",
            resolution="`matrix doctor` shows what is missing",
        )
    return answer.stdout
