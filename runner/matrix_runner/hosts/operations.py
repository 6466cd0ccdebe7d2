"""Disk operations: lock, open, write, on this host or by an agent (agent/agent.py) on another host."""

import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from matrix_runner.base import process
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts import SECTOR
from matrix_runner.hosts.agent import agent
from matrix_runner.hosts.agent.client import LOCKS, AgentClient, AgentLost
from matrix_runner.hosts.inventory import Node

LOCK_FOLDER = Path(LOCKS)
#: Tries, and seconds between them, while a lock or device is held by a process that is exiting or cannot be seen.
OPEN_TRIES, OPEN_PAUSE = 20, 0.1
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
        return agent.reopen_for_writing(self.number)

    def reread_partitions(self) -> None:
        agent.reread_partitions(self.number)


@dataclass(frozen=True, slots=True)
class LocalOperations:
    locks: Path = LOCK_FOLDER

    def lock(self, identity: str, run: str) -> tuple[Descriptor | None, str]:
        """Lock a disk; return None and the holder if it is locked. A process that inherits the lock keeps it."""
        holder = ""
        for left in reversed(range(OPEN_TRIES)):
            try:
                self.locks.parent.mkdir(parents=True, exist_ok=True)
                found = agent.lock_disk(str(self.locks), lock_name(identity), run and f"the run {run}")
            except OSError as error:
                raise lock_failure(error.strerror or "", str(error.filename or self.locks)) from None
            if isinstance(found, int):
                return Descriptor(found), ""
            holder = read_holder(*found, self.locks)
            process_id = agent.process_of(holder)
            # If the holder was killed, a virtual machine that inherited its lock may still be exiting.
            if not left or not process_id or Path("/proc", str(process_id)).exists():
                break
            time.sleep(OPEN_PAUSE)
        return None, holder

    def open(self, node: Node) -> Descriptor:
        return Descriptor(os.open(node.path, os.O_RDONLY | os.O_EXCL))

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
            done = process.run([*alone, "bash", "-c", 'eval "$(cat)"'], stdin=script, timeout=patience)
        except process.TimedOut:
            return f"it did not end within {patience:g} s"
        return (done.stderr.strip()[-500:] or f"status {done.returncode}") if done.returncode else ""

    def dismiss(self, run: str) -> None:
        """Do nothing: no local script outlives its runner."""


LOCAL = LocalOperations()


def lock_name(identity: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", identity)


def read_holder(what: str, words: str, locks: Path | str, where: str = "") -> str:
    if what == "taken":
        return words or "another run"
    raise HarnessBroken(
        f"the locks of disks in {locks}{where} cannot be trusted: {words}",
        details="a user could hold the lock of any disk, or let two runs use one disk, so no disk was used",
        resolution=f"check who created it; then, as root and with no run active: `rm -r {locks}`; the next run of root "
        "makes it",
    )


def find_character_device_users(file: Path) -> str:
    with suppress(OSError):
        return ", ".join(agent.find_processes(file.stat().st_rdev, stat.S_ISCHR))
    return ""


def lock_failure(why: str, where: str) -> HarnessBroken:
    return HarnessBroken(
        f"the lock of a disk cannot be taken: {why}",
        details=where,
        resolution="without the lock two runs could use one disk, so no disk was used; root can take it, and if the "
        "folder exists, members of the group `disk`",
    )


@dataclass(frozen=True, slots=True)
class RemoteLock:
    agent: AgentClient
    release: str
    name: str

    def close(self) -> None:
        with suppress(AgentLost):
            self.agent.ask(self.release, self.name)


@dataclass(frozen=True, slots=True)
class RemoteDisk(RemoteLock):
    def identify(self) -> Mapping[str, str]:
        _, *words = _raise_if_failed(self.agent.ask("open", self.name))
        return dict(zip(IDENTITY, map(bytes.decode, words), strict=True))

    def write(self, block: bytes, at: int) -> None:
        _raise_if_failed(self.agent.ask("write", self.name, str(at), block))

    def reread_partitions(self) -> None:
        _raise_if_failed(self.agent.ask("reread", self.name))


@dataclass(frozen=True, slots=True)
class RemoteOperations:
    agent: AgentClient

    def lock(self, identity: str, run: str) -> tuple[RemoteLock | None, str]:
        """Lock the same file as a run on that host itself."""
        name, connection = lock_name(identity), self.agent.connection
        answer = self.agent.ask("lock", name, f"{run and f'the run {run}, '}{connection.owner}")
        what, *words = (one.decode(errors="replace") for one in answer)
        if what == "had":
            return RemoteLock(self.agent, "unlock", name), ""
        if what == "failed":
            raise lock_failure(words[1], f"{words[2]} on {connection.name}")
        return None, read_holder(what, words[0].strip(), LOCKS, f" on {connection.name}")

    def open(self, node: Node) -> RemoteDisk:
        _raise_if_failed(self.agent.ask("open", node.path))
        return RemoteDisk(self.agent, "close", node.path)

    def find_users(self, dev: str, *, writing: bool = False) -> str:
        (answer, *_) = self.agent.ask("who", *dev.split(":"), "1" if writing else "0")
        return answer.decode(errors="replace")

    def hidden_processes(self) -> str:
        return ""

    def read_write_counters(self, disks: Sequence[Node]) -> dict[str, int]:
        answer = self.agent.ask_now("counted", *(disk.name for disk in disks)).split()
        found = {disk.identity: int(sectors) * SECTOR for disk, sectors in zip(disks, answer, strict=False)}
        return {identity: written for identity, written in found.items() if written >= 0}

    def limit_writes(self, disks: Sequence[Node], most: Mapping[str, int]) -> bool:
        """Make the agent stop scripts at these counters while the connection is down; return its consent."""
        named = {disk.name: most[disk.identity] // SECTOR for disk in disks if disk.identity in most}
        return self.agent.limit_writes(named)

    def run(self, script: str, patience: float) -> str:
        done = self.agent.run_script(token_hex(8), script.encode(), patience)
        if done.timed_out:
            return f"it did not end within {patience:g} s"
        if not done.status:
            return ""
        return done.error_output.decode(errors="replace").strip()[-500:] or f"status {done.status}"

    def dismiss(self, run: str) -> None:
        self.agent.dismiss(run)


def _raise_if_failed(answer: Sequence[bytes]) -> Sequence[bytes]:
    if answer[0] == b"failed":
        number, words, what = (one.decode(errors="replace") for one in answer[1:4])
        raise OSError(int(number), words, what)
    return answer


#: `close` of these never raises. Opening raises OSError, and does not wait.
Lock = Descriptor | RemoteLock
OpenDisk = Descriptor | RemoteDisk
DiskOperations = LocalOperations | RemoteOperations
