"""Protocols of disk operations, which the local host and the agents of remote hosts implement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.hosts.inventory import Node


class Lock(Protocol):
    def close(self) -> None:
        """Release the lock. Never raises: an agent that cannot be reached releases it by itself."""


class OpenDisk(Protocol):
    """A disk that is open for reading, exclusively."""

    def close(self) -> None:
        """Close it. Never raises."""

    def identify(self) -> Mapping[str, str]:
        """Return `number`, `size` and `sequence` of the open device; the last is empty before Linux 5.15."""

    def write(self, block: bytes, at: int) -> None:
        """Write the block durably."""

    def reread_partitions(self) -> None:
        """Make the kernel read the partition table again."""


class DiskOperations(Protocol):
    def lock(self, identity: str, run: str) -> tuple[Lock | None, str]:
        """Lock a disk by its identity. Return None and the holder if it is locked already."""

    def open(self, node: Node) -> OpenDisk:
        """Open it exclusively, without waiting; raise OSError."""

    def find_users(self, dev: str, *, writing: bool = False) -> str:
        """Return which visible processes, or kernel targets, have a device open (for writing)."""

    def hidden_processes(self) -> str:
        """Return whose open devices are not visible; empty if all are."""

    def run(self, script: str, patience: float) -> str:
        """Run a bash script to its end; return its error output if it failed."""

    def dismiss(self, run: str) -> None:
        """End the agent of a run whose runner is gone."""
