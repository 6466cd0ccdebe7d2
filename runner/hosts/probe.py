"""Asks a machine for its disks: the script is the same wherever they are, only who runs it differs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.hosts.inventory import parse
from runner.results.disk_health import parse_report

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from runner.hosts.agent.connection import Line
    from runner.hosts.inventory import Census
    from runner.results.disk_health import Smart

PATIENCE = 300.0


def here(script: str) -> Census:
    """The census of this machine."""
    return asked(None, script)


def asked(line: Line | None, script: str) -> Census:
    """The census of a host, by the line that leads to it; of this one by none."""
    return parse(told(line, script))


def healths(line: Line | None, script: str) -> dict[str, Smart]:
    """What disks of a host say of their health, by their paths; nothing of any if it does not tell."""
    with suppress(HarnessBroken):
        return parse_report(told(line, script))
    return {}


def told(line: Line | None, script: str) -> str:
    """What a script that only asks says on a host."""
    if line is None:
        return _told(process.run(["bash", "-c", script], timeout=PATIENCE), "this machine")
    return _told(line.told(script, PATIENCE), line.name)


def _told(answer: CompletedProcess[str], host: str) -> str:
    if answer.returncode:
        raise HarnessBroken(
            f"{host} does not tell what disks it has",
            details=answer.stderr[-2000:].strip() or f"the script that asks ended with status {answer.returncode}",
            resolution="`matrix doctor` says what is missing",
        )
    return answer.stdout
