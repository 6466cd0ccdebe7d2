"""Asks a machine for its disks: the script is the same wherever they are, only who runs it differs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from runner import process
from runner.disks.real.census import parse
from runner.disks.real.smart import heard
from runner.errors import HarnessBroken
from runner.ssh.line import line_to

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from runner.disks.real.census import Census
    from runner.disks.real.smart import Smart

PATIENCE = 300.0


def here(script: str) -> Census:
    """The census of this machine."""
    return asked("local", script)


def asked(reach: str, script: str) -> Census:
    """The census of a host, reached as hosts.yaml says."""
    return parse(told(reach, script))


def healths(reach: str, script: str) -> dict[str, Smart]:
    """What disks of a host say of their health, by their paths; nothing of any if it does not tell."""
    with suppress(HarnessBroken):
        return heard(told(reach, script))
    return {}


def told(reach: str, script: str) -> str:
    """What a script that only asks says on a host."""
    if reach == "local":
        return _told(process.run(["bash", "-c", script], timeout=PATIENCE), "this machine")
    line = line_to(reach.removeprefix("ssh:"))
    # The script reads nothing, so it is all there is to read; bash has it as a whole before it begins.
    return _told(line.run(["bash", "-c", 'eval "$(cat)"'], stdin=script, timeout=PATIENCE), line.name)


def _told(answer: CompletedProcess[str], host: str) -> str:
    if answer.returncode:
        raise HarnessBroken(
            f"{host} does not tell what disks it has",
            details=answer.stderr[-2000:].strip() or f"the script that asks ended with status {answer.returncode}",
            resolution="`matrix doctor` says what is missing",
        )
    return answer.stdout
