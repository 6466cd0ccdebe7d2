"""How the program recognises its own work on a physical disk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ours:
    """By what we know our own work on a disk again."""

    #: The run that asks; a disk that it holds already is its own.
    run: str = ""
    #: UUIDs of what our runs made (arrays, groups, file systems, tables).
    marks: frozenset[str] = frozenset()
    #: Identities of disks that were handed to it and not given back: bytes on them that nothing recognises are its own.
    recorded: frozenset[str] = frozenset()
    #: Those that other runs were handed and did not give back, with the run.
    others: frozenset[tuple[str, str]] = frozenset()
    #: Names of disks that runs took with their controllers, so that this host does not see them; with the run.
    away: frozenset[tuple[str, str]] = frozenset()


NOTHING = Ours()


def plain_mark(text: str) -> str:
    """The digits alone: mdadm, mkfs and blkid each write a UUID in another way."""
    return "".join(char for char in text.lower() if char.isalnum())


def plain_wwn(wwn: str) -> str:
    """The number alone: `naa.5000…`, `0x5000…` and `5000…` are one."""
    return wwn.lower().removeprefix("naa.").removeprefix("eui.").removeprefix("nvme.").removeprefix("0x")
