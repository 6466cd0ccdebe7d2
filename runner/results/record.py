"""The records of a trial and of the environment of a run. Runs are compared by the differences of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.results.fio_output import Figures

UNSETTLED = "unsettled"  # the note of a trial that did not reach its steady state
#: The note of a trial whose host could not keep up with its simulated disks: by how much.
HOST_LIMITED = "host_limited"
STEERED = "until-decided"  # the environment key of a run that chose its trials by open guidelines


class Outcome(StrEnum):
    """The outcome of a trial. `broken` means the harness or the set-up, never low speed."""

    MEASURED = "measured"
    BROKEN = "broken"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CellRow:
    """A cell as the store and the reports know it. `axes` maps full axis names (`md.chunk`) to canonical text."""

    id: str
    name: str
    axes: Mapping[str, str]
    position: int | None = field(default=None, compare=False)  # its position in the matrix; None in old records


@dataclass(frozen=True, slots=True)
class Reading:
    setting: str
    wanted: str | None
    got: str


@dataclass(frozen=True, slots=True)
class Trial:
    """One measurement of a cell. (`cell`, `round`) is its identity, unique in a run."""

    cell: str
    round: int
    outcome: Outcome
    reason: str = ""
    started: str = ""  # ISO 8601, UTC
    seconds: float = 0.0  # wall time of the whole trial, without the set-up of the stack
    attempts: int = 1
    figures: Figures | None = None
    readings: tuple[Reading, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)  # e.g. {"sync": "assume-clean", "resync": "idle"}
    folder: str = ""  # the folder of its raw output, relative to the run

    @property
    def counted(self) -> Figures | None:
        """Return the figures if they count for the cell: measured, and in the requested steady state."""
        return self.figures if self.outcome is Outcome.MEASURED and UNSETTLED not in self.notes else None


@dataclass(frozen=True, slots=True)
class Attempt:
    cell: str
    round: int
    number: int
    started: str
    reason: str
    tail: str = ""


class Host(BaseModel):
    """The computer that was measured: the one of the runner, or the one behind ssh."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kernel: str
    cpu: str
    cores: int
    memory: int = Field(description="bytes")
    hostname: str | None = None
    system: str = Field(default="", description="the distribution")
    command_line: str = Field(default="", description="of the kernel")
    governor: str = Field(default="", description="of its processors; several, if they differ")
    turbo: str = Field(default="", description="whether processors may go faster than they should")
    mitigations: dict[str, str] = Field(default_factory=dict, description="what the kernel does about the processor")
    versions: dict[str, str] = Field(default_factory=dict, description="matrix, qemu, nbdkit … on the host")


class Revision(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    commit: str
    dirty: bool = Field(description="something in its folder is not as it was committed")
    branch: str = ""


class DiskFacts(BaseModel):
    """A physical disk's identity, or a simulated disk's settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    bus: str
    model: str = Field(default="", description="as it names itself; of a modelled one, its kind")
    digest: str = Field(default="", description="of the numbers of a modelled one, without its chance")
    link: str = Field(default="", description="what it shares with others on the way to the host")
    serial: str = ""
    firmware: str = ""


class Digests(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    matrix: str = ""
    templates: str = ""


def flatten_environment(
    host: Host, disks: Iterable[DiskFacts], digests: Digests, versions: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Flatten the environment into names and values. Unknown values are absent."""
    found = {f"host.{name}": _text(value) for name, value in host.model_dump().items() if not isinstance(value, dict)}
    for name in ("mitigations", "versions"):
        found |= {f"host.{name}.{key}": text for key, text in getattr(host, name).items()}
    for number, disk in enumerate(disks):
        found |= {f"disk{number}.{name}": _text(value) for name, value in disk.model_dump().items()}
    found |= {f"digest.{name}": value for name, value in digests.model_dump().items()}
    found |= {f"{kernel}: {name}": text for kernel, tools in versions.items() for name, text in tools.items()}
    return {name: text for name, text in found.items() if text}


def _text(value: object) -> str:
    return "" if value is None or value == 0 else str(value)
