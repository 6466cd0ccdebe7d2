"""The environment of a run: host, disks and input files. Runs are compared by its differences."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pydantic import BaseModel, Field

from matrix_runner.records.names import OF


class Host(BaseModel, frozen=True, extra="allow"):
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


class Revision(BaseModel, frozen=True, extra="forbid"):
    commit: str
    dirty: bool = Field(description="something in its folder is not as it was committed")
    branch: str = ""


class DiskFacts(BaseModel, frozen=True, extra="forbid"):
    size: int
    bus: str
    model: str = Field(default="", description="as it names itself; of a modelled one, its kind")
    name: str = Field(default="", description="of the model, for people; the digest has its numbers")
    fitted_to: str = Field(default="", description="the measurements to which a modelled one is fitted")
    digest: str = Field(default="", description="of the numbers of a modelled one, without its chance")
    link: str = Field(default="", description="what it shares with others on the way to the host")
    serial: str = ""
    firmware: str = ""


class Digests(BaseModel, frozen=True, extra="forbid"):
    matrix: str = ""
    templates: str = ""
    physics: str = Field(default="", description="of the sources of the simulated disks")
    models: str = Field(default="", description="of the numbers of all disk models")
    work: str = Field(default="", description="of the matrix without texts, guidelines and number of trials")


class Requested(BaseModel, frozen=True, extra="forbid"):
    """The part of a matrix that the command line asks for."""

    only: tuple[str, ...] = Field(default=(), description="--only, sorted")
    shard: str = Field(default="", description="--shard, such as 1/4")
    design: str = Field(default="", description="--design, such as screen:100")
    race: tuple[str, ...] | None = Field(default=None, description="--race: the conditions of --for; null without it")

    def __str__(self) -> str:
        parts = [f"only {text}" for text in self.only] + [f"shard {self.shard}"] * bool(self.shard)
        parts += [f"design {self.design}"] * bool(self.design)
        if self.race is not None:
            parts.append(f"race for {' and '.join(self.race) or 'each workload'}")
        return ", ".join(parts)


WHOLE = Requested()


def flatten_environment(
    host: Host,
    disks: Iterable[DiskFacts],
    digests: Digests,
    versions: Mapping[str, Mapping[str, str]],
    pools: Mapping[str, Iterable[DiskFacts]] = MappingProxyType({}),
) -> dict[str, str]:
    found = {f"host.{name}": _text(value) for name, value in host.model_dump().items() if not isinstance(value, dict)}
    for name in ("mitigations", "versions"):
        found |= {f"host.{name}.{key}": text for key, text in getattr(host, name).items()}
    found |= _flatten_disks(disks)
    for name, pool in pools.items():
        found |= {f"{name}{OF}{key}": text for key, text in _flatten_disks(pool).items()}
    found |= {f"digest.{name}": value for name, value in digests.model_dump().items()}
    found |= {f"{kernel}{OF}{name}": text for kernel, tools in versions.items() for name, text in tools.items()}
    return {name: text for name, text in found.items() if text}


def _flatten_disks(disks: Iterable[DiskFacts]) -> dict[str, str]:
    facts = ((number, disk.model_dump(exclude={"name", "fitted_to"})) for number, disk in enumerate(disks))
    return {f"disk{number}.{name}": _text(value) for number, one in facts for name, value in one.items()}


def _text(value: object) -> str:
    return "" if value is None or value == 0 else str(value)
