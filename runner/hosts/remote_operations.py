"""Disk operations on a host behind ssh, done by its agent with the locks of that host."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.hosts.agent.client import LOCKS, AgentLost
from runner.hosts.inventory import SECTOR
from runner.hosts.local_operations import lock_name, untrusted_locks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.hosts.agent.client import AgentClient
    from runner.hosts.exclusive import LeasedDisk
    from runner.hosts.inventory import Node


#: The field of written sectors in /sys/class/block/NAME/stat.
SECTORS_WRITTEN_FIELD = 6


@dataclass(frozen=True, slots=True)
class RemoteLock:
    agent: AgentClient
    release: str
    name: str

    def close(self) -> None:
        """Release it. An agent that is lost has released everything already."""
        with suppress(AgentLost):
            self.agent.ask(self.release, self.name)


@dataclass(frozen=True, slots=True)
class RemoteDisk(RemoteLock):
    def identify(self) -> Mapping[str, str]:
        _, number, size, sequence = _raise_if_failed(self.agent.ask("open", self.name))
        return dict(zip(("number", "size", "sequence"), map(bytes.decode, (number, size, sequence)), strict=True))

    def write(self, block: bytes, at: int) -> None:
        _raise_if_failed(self.agent.ask("write", self.name, str(at), block))

    def reread_partitions(self) -> None:
        _raise_if_failed(self.agent.ask("reread", self.name))


@dataclass(frozen=True, slots=True)
class RemoteOperations:
    agent: AgentClient

    def lock(self, identity: str, run: str) -> tuple[RemoteLock | None, str]:
        """Lock the same file as a run on that host itself."""
        name = lock_name(identity)
        whose = f"{f'the run {run}, ' if run else ''}{self.agent.connection.owner}"
        what, *answer = self.agent.ask("lock", name, whose)
        if what == b"taken":
            return None, answer[0].decode(errors="replace").strip() or "another run"
        if what == b"distrusted":
            raise untrusted_locks(LOCKS, f" on {self.agent.connection.name}", answer[0].decode())
        if what == b"failed":
            raise HarnessBroken(
                f"the lock of a disk cannot be taken: {answer[1].decode()}",
                details=f"{answer[2].decode()} on {self.agent.connection.name}",
                resolution="without the lock two runs could use one disk, so no disk was used; make it writable",
            )
        return RemoteLock(self.agent, "unlock", name), ""

    def open(self, node: Node) -> RemoteDisk:
        _raise_if_failed(self.agent.ask("open", node.path))
        return RemoteDisk(self.agent, "close", node.path)

    def find_users(self, dev: str, *, writing: bool = False) -> str:
        (answer, *_) = self.agent.ask("who", *dev.split(":"), "1" if writing else "0")
        return answer.decode(errors="replace")

    def hidden_processes(self) -> str:
        return ""

    def read_write_counters(self, disks: Sequence[LeasedDisk]) -> dict[str, int]:
        """Return the bytes that its kernel counted for each disk, by identity; empty while the connection is down."""
        answer = self.agent.ask_now("counted", *(one.node.name for one in disks))
        lines = [line.split() for line in answer.decode(errors="replace").split("\n")]
        fields = {
            one.node.identity: words
            for one, words in zip(disks, lines, strict=False)
            if len(words) > SECTORS_WRITTEN_FIELD
        }
        return {identity: int(words[SECTORS_WRITTEN_FIELD]) * SECTOR for identity, words in fields.items()}

    def limit_writes(self, disks: Sequence[LeasedDisk], most: Mapping[str, int]) -> bool:
        """Make the agent stop scripts at these counters while the connection is down.

        Return whether it received them.
        """
        named = {one.node.name: most[one.node.identity] // SECTOR for one in disks if one.node.identity in most}
        return self.agent.limit_writes(named)

    def run(self, script: str, patience: float) -> str:
        """Run the script to its end, even if the connection drops meanwhile."""
        done = self.agent.run_script(token_hex(8), script.encode(), patience)
        if done.timed_out:
            return f"it did not end within {patience:g} s"
        if not done.status:
            return ""
        return done.error_output.decode(errors="replace").strip()[-500:] or f"status {done.status}"

    def dismiss(self, run: str) -> None:
        self.agent.dismiss(run)


def _raise_if_failed(answer: Sequence[bytes]) -> Sequence[bytes]:
    """Raise the remote system's error, if the answer is one."""
    if answer[0] == b"failed":
        number, words, what = (one.decode(errors="replace") for one in answer[1:4])
        raise OSError(int(number), words, what)
    return answer
