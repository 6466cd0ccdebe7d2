"""Asks a machine for its disks: the script is the same wherever they are, only who runs it differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner import process
from runner.disks.real.census import parse
from runner.errors import HarnessBroken
from runner.ssh.line import line_to

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from runner.disks.real.census import Census

PATIENCE = 300.0


def here(script: str) -> Census:
    """The census of this machine."""
    return _told(process.run(["bash", "-c", script], timeout=PATIENCE), "this machine")


def asked(reach: str, script: str) -> Census:
    """The census of a host, reached as hosts.yaml says."""
    if reach == "local":
        return here(script)
    line = line_to(reach.removeprefix("ssh:"))
    # The script reads nothing, so it is all there is to read; bash has it as a whole before it begins.
    return _told(line.run(["bash", "-c", 'eval "$(cat)"'], stdin=script, timeout=PATIENCE), line.name)


def _told(answer: CompletedProcess[str], host: str) -> Census:
    if answer.returncode:
        raise HarnessBroken(
            f"{host} does not tell what disks it has",
            details=answer.stderr[-2000:].strip() or f"the script that asks ended with status {answer.returncode}",
            resolution="`matrix doctor` says what is missing",
        )
    return parse(answer.stdout)
