"""Faults of a disk during a measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FaultKind = Literal["dies", "slow", "stalls", "medium"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one disk of a rig."""

    disk: int
    kind: FaultKind
    #: Seconds: in a declaration since the workload began, on a rig since the rig started.
    at: float
    #: None: until the end.
    seconds: float | None = None
    #: How many times slower.
    factor: float = 1.0
    #: The range of bytes that cannot be read until they are written again.
    where: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if self.kind == "stalls" and self.seconds is None:
            raise ValueError("a disk that stalls for good is one that dies")

    def __str__(self) -> str:
        what = {
            "dies": "dies",
            "slow": f"is {self.factor:g} times slower",
            "stalls": "stalls",
            "medium": f"cannot be read from {self.where[0]} to {self.where[1]}",
        }[self.kind]
        lasting = "" if self.seconds is None else f" for {self.seconds:g} s"
        return f"disk {self.disk} {what} at {self.at:g} s{lasting}"

    def content(self) -> list[object]:
        return [self.disk, self.kind, self.at, self.seconds, self.factor, *self.where]
