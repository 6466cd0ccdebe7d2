"""Marks by which the program recognises its own work on a physical disk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OwnMarks:
    """What identifies our own work on a disk."""

    #: The current run; its own lease of a disk is no obstacle.
    run: str = ""
    #: UUIDs of what our runs made (arrays, groups, file systems, tables).
    marks: frozenset[str] = frozenset()
    #: Identities of disks that it leased and did not release: unrecognised bytes on them are its own.
    recorded: frozenset[str] = frozenset()
    #: Identities of disks that other runs did not release, with the run.
    others: frozenset[tuple[str, str]] = frozenset()
    #: Names of disks that went with their controllers, so that the host does not see them, with the run.
    detached: frozenset[tuple[str, str]] = frozenset()


NO_MARKS = OwnMarks()


def plain_mark(text: str) -> str:
    """Return only letters and digits: mdadm, mkfs and blkid each format a UUID in another way."""
    return "".join(char for char in text.lower() if char.isalnum())


def plain_wwn(wwn: str) -> str:
    """Return only the number: `naa.5000...`, `0x5000...` and `5000...` are equal."""
    return wwn.lower().removeprefix("naa.").removeprefix("eui.").removeprefix("nvme.").removeprefix("0x")
