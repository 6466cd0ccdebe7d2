"""Disk operations on a host behind ssh, done by its agent with the locks of that host."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING

from runner.hosts.agent.client import LOCKS, AgentLost
from runner.hosts.inventory import SECTOR
from runner.hosts.local_operations import IDENTITY, lock_failure, lock_name, read_holder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.hosts.agent.client import AgentClient
    from runner.hosts.exclusive import LeasedDisk
    from runner.hosts.inventory import Node


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

    def read_write_counters(self, disks: Sequence[LeasedDisk]) -> dict[str, int]:
        """Return the bytes that its kernel counted for each disk, by identity; empty while the connection is down."""
        answer = self.agent.ask_now("counted", *(one.node.name for one in disks)).split()
        found = {one.node.identity: int(sectors) * SECTOR for one, sectors in zip(disks, answer, strict=False)}
        return {identity: written for identity, written in found.items() if written >= 0}

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
