"""Disks of a host behind ssh, in the hands of what holds them over there; its locks are those of that host itself."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.hosts.agent.client import LOCKS, Gone
from runner.hosts.inventory import SECTOR
from runner.hosts.local_operations import distrusted, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.hosts.agent.client import Holder
    from runner.hosts.exclusive import Held
    from runner.hosts.inventory import Node


#: Where the sectors that were written stand in what the kernel counts of a disk.
WRITTEN = 6


@dataclass(frozen=True, slots=True)
class Grip:
    """A lock, or an open disk."""

    holder: Holder
    release: str
    name: str

    def close(self) -> None:
        """What is no more let go of everything."""
        with suppress(Gone):
            self.holder.ask(self.release, self.name)


@dataclass(frozen=True, slots=True)
class OpenedThere(Grip):
    """A disk that is open."""

    def seen(self) -> Mapping[str, str]:
        """What the kernel over there says of it."""
        _, number, size, sequence = _heard(self.holder.ask("open", self.name))
        return dict(zip(("number", "size", "sequence"), map(bytes.decode, (number, size, sequence)), strict=True))

    def write(self, block: bytes, at: int) -> None:
        """By the descriptor that is open."""
        _heard(self.holder.ask("write", self.name, str(at), block))

    def reread(self) -> None:
        """Nobody else may, as nobody else has it."""
        _heard(self.holder.ask("reread", self.name))


@dataclass(frozen=True, slots=True)
class There:
    """Of that host."""

    holder: Holder

    def lock(self, identity: str, run: str) -> tuple[Grip | None, str]:
        """The same file as a run on that host itself takes."""
        name = plain(identity)
        whose = f"{f'the run {run}, ' if run else ''}{self.holder.line.whose}"
        what, *said = self.holder.ask("lock", name, whose)
        if what == b"taken":
            return None, said[0].decode(errors="replace").strip() or "another run"
        if what == b"distrusted":
            raise distrusted(LOCKS, f" on {self.holder.line.name}", said[0].decode())
        if what == b"failed":
            raise HarnessBroken(
                f"the lock of a disk cannot be taken: {said[1].decode()}",
                details=f"{said[2].decode()} on {self.holder.line.name}",
                resolution="without it two runs could use one disk, so nothing was used; make the folder writable",
            )
        return Grip(self.holder, "unlock", name), ""

    def open(self, node: Node) -> OpenedThere:
        """Alone."""
        _heard(self.holder.ask("open", node.path))
        return OpenedThere(self.holder, "close", node.path)

    def who_has(self, dev: str, *, writing: bool = False) -> str:
        """As `/proc` over there tells."""
        (said, *_) = self.holder.ask("who", *dev.split(":"), "1" if writing else "0")
        return said.decode(errors="replace")

    def unseen(self) -> str:
        """Over there it is root's."""
        return ""

    def written(self, disks: Sequence[Held]) -> dict[str, int]:
        """What the kernel over there counts for each disk, by its identity; nothing while the line is down."""
        said = self.holder.glance("counted", *(one.node.name for one in disks))
        lines = [line.split() for line in said.decode(errors="replace").split("\n")]
        fields = {one.node.identity: words for one, words in zip(disks, lines, strict=False) if len(words) > WRITTEN}
        return {identity: int(words[WRITTEN]) * SECTOR for identity, words in fields.items()}

    def bound(self, disks: Sequence[Held], most: Mapping[str, int]) -> bool:
        """Have it seen to over there that no more is written to each, by its identity, while the line is down."""
        named = {one.node.name: most[one.node.identity] // SECTOR for one in disks if one.node.identity in most}
        return self.holder.bound(named)

    def run(self, script: str, patience: float) -> str:
        """To its end, even if the line drops meanwhile."""
        done = self.holder.work(token_hex(8), script.encode(), patience)
        if done.late:
            return f"it did not end within {patience:g} s"
        if not done.status:
            return ""
        return done.complaint.decode(errors="replace").strip()[-500:] or f"status {done.status}"

    def dismiss(self, run: str) -> None:
        """What holds on for it until its lease ends."""
        self.holder.dismiss(run)


def _heard(said: Sequence[bytes]) -> Sequence[bytes]:
    """What was answered, or the error that it is, as the system over there calls it."""
    if said[0] == b"failed":
        number, words, what = (one.decode(errors="replace") for one in said[1:4])
        raise OSError(int(number), words, what)
    return said
