"""What has to be done to disks where they are; `here.py` does it to those of this host, `there.py` to another's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.hosts.inventory import Node


class Lock(Protocol):
    """A disk is nobody else's, as far as they ask."""

    def close(self) -> None:
        """Let others have it. Never fails: what cannot be told any more is let go by itself."""


class Opened(Protocol):
    """A disk that is open for reading, exclusively."""

    def close(self) -> None:
        """Let it go. Never fails."""

    def seen(self) -> Mapping[str, str]:
        """Of what is open: its `number`, `size`, and `sequence`, if the kernel knows of such."""

    def write(self, block: bytes, at: int) -> None:
        """Write this to it, durably."""

    def reread(self) -> None:
        """Make the kernel look for partitions again."""


class Hands(Protocol):
    """Of a host."""

    def lock(self, identity: str, run: str) -> tuple[Lock | None, str]:
        """The lock of a disk, or None and who has it. By what the disk is, whatever it is called."""

    def open(self, node: Node) -> Opened:
        """Open it, at once or not at all; raises OSError."""

    def who_has(self, dev: str, *, writing: bool = False) -> str:
        """Who has a device open, or open for writing, as far as one may look; the kernel itself may, too."""

    def unseen(self) -> str:
        """Whose open devices cannot be seen, in words; empty if everybody's can."""

    def run(self, script: str, patience: float) -> str:
        """Run a bash script to its end; what it complained of if it failed."""

    def dismiss(self, run: str) -> None:
        """End what still works for a run whose runner is gone."""
