"""Disk operations on this host. The kernel releases locks and exclusive opens when the process is killed."""

from __future__ import annotations

import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.hosts.agent import agent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.hosts.inventory import Node

LOCKS = Path("/run/lock/matrix")
#: Tries, and seconds between them, while a lock or device is held by a process that is exiting or cannot be seen.
OPEN_TRIES, OPEN_PAUSE = 20, 0.1
#: What identifies an open disk, in the order of the agent's answer.
IDENTITY = ("number", "size", "sequence")


@dataclass(frozen=True, slots=True)
class Descriptor:
    number: int

    def close(self) -> None:
        os.close(self.number)

    def identify(self) -> Mapping[str, str]:
        return dict(zip(IDENTITY, agent.identify_disk(self.number), strict=True))

    def write(self, block: bytes, at: int) -> None:
        agent.write_block(self.number, at, block)

    def writable(self) -> int:
        """Return another descriptor of the same device, for writing; the caller closes it."""
        return agent.reopen_for_writing(self.number)

    def reread_partitions(self) -> None:
        agent.reread_partitions(self.number)


@dataclass(frozen=True, slots=True)
class LocalOperations:
    """`locks` is the folder that all runs of this host share."""

    locks: Path = LOCKS

    def lock(self, identity: str, run: str) -> tuple[Descriptor | None, str]:
        """Return the lock as a descriptor: a process that inherits it keeps the disk locked."""
        return take_lock(identity, self.locks, run)

    def open(self, node: Node) -> Descriptor:
        return Descriptor(agent.open_disk(node.path))

    def find_users(self, dev: str, *, writing: bool = False) -> str:
        major, minor = map(int, dev.split(":"))
        return agent.find_users(os.makedev(major, minor), writing=writing)

    def hidden_processes(self) -> str:
        return "" if os.geteuid() == 0 else "processes of other users"

    def run(self, script: str, patience: float) -> str:
        """Run the script as a child that is killed with this process, as the lock is released then."""
        # Only root can have a process namespace, and only root can take anything apart.
        alone = process.PID_NAMESPACE if os.geteuid() == 0 else ()
        try:
            done = process.run(
                process.dies_with_parent([*alone, "bash", "-c", 'eval "$(cat)"']), stdin=script, timeout=patience
            )
        except process.TimedOut:
            return f"it did not end within {patience:g} s"
        return (done.stderr.strip()[-500:] or f"status {done.returncode}") if done.returncode else ""

    def dismiss(self, run: str) -> None:
        """Do nothing: no local script outlives its runner."""


LOCAL = LocalOperations()


def lock_name(identity: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", identity)


def take_lock(identity: str, locks: Path, run: str) -> tuple[Descriptor | None, str]:
    holder = ""
    for left in reversed(range(OPEN_TRIES)):
        try:
            locks.parent.mkdir(parents=True, exist_ok=True)
            found = agent.lock_disk(str(locks), lock_name(identity), run and f"the run {run}", {os.geteuid()})
        except OSError as error:
            raise lock_failure(error.strerror or "", str(error.filename or locks)) from None
        if isinstance(found, int):
            return Descriptor(found), ""
        holder = read_holder(*found, locks)
        if not left or not _is_dead(holder):
            break
        time.sleep(OPEN_PAUSE)
    return None, holder


def _is_dead(holder: str) -> bool:
    """The holder was killed, but a virtual machine that inherited its lock is still exiting."""
    found = re.search(r"process (\d+)$", holder)
    return found is not None and not Path("/proc", found[1]).exists()


def read_holder(what: str, words: str, locks: Path | str, where: str = "") -> str:
    """Return who holds a lock that the agent did not take; raise HarnessBroken if its folder is unsafe."""
    if what == "taken":
        return words or "another run"
    raise HarnessBroken(
        f"the locks of disks in {locks}{where} cannot be trusted: {words}",
        details="a user who can delete a lock file could let two runs use one disk, so no disk was used",
        resolution="check who created it; then, as root and with no run active: "
        f"`rm -r {locks} && install -d -m 1777 {locks}`",
    )


def find_character_device_users(file: Path) -> str:
    """Return which processes have a character device open."""
    try:
        number = file.stat().st_rdev
    except OSError:
        return ""
    return ", ".join(agent.find_processes(number, stat.S_ISCHR))


def lock_failure(why: str, where: str) -> HarnessBroken:
    return HarnessBroken(
        f"the lock of a disk cannot be taken: {why}",
        details=where,
        resolution="without the lock two runs could use one disk, so no disk was used; make it writable",
    )
