"""The environment of a run: host, disks and their health, and input files. Runs are compared by its differences."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import orjson
from pydantic import AliasPath, BaseModel, Field, ValidationError

from matrix_runner.records.files import OF


class Host(BaseModel, frozen=True, extra="allow", defer_build=True):
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


class Revision(BaseModel, frozen=True, extra="forbid", defer_build=True):
    commit: str
    dirty: bool = Field(description="something in its folder is not as it was committed")
    branch: str = ""


class DiskFacts(BaseModel, frozen=True, extra="forbid", defer_build=True):
    size: int
    bus: str
    model: str = Field(default="", description="as it names itself; of a modelled one, its kind")
    name: str = Field(default="", description="of the model, for people; the digest has its numbers")
    fitted_to: str = Field(default="", description="the measurements to which a modelled one is fitted")
    digest: str = Field(default="", description="of the numbers of a modelled one, without its chance")
    link: str = Field(default="", description="what it shares with others on the way to the host")
    serial: str = ""
    firmware: str = ""


class Digests(BaseModel, frozen=True, extra="forbid", defer_build=True):
    matrix: str = ""
    templates: str = ""
    physics: str = Field(default="", description="of the sources of the simulated disks")
    models: str = Field(default="", description="of the numbers of all disk models")
    work: str = Field(default="", description="of the matrix without texts, guidelines and number of trials")


class Requested(BaseModel, frozen=True, extra="forbid", defer_build=True):
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


_REALLOCATED, _PENDING, _WRITTEN = 5, 197, 241
_NVME = "nvme_smart_health_information_log"


@dataclass(frozen=True, slots=True)
class Smart:
    passed: bool | None = None
    celsius: int | None = None
    hours: int | None = None
    reallocated: int | None = None
    pending: int | None = None
    written: int | None = None  # bytes over its lifetime
    used: int | None = None  # percentage of the rated endurance
    model: str = ""
    serial: str = ""
    firmware: str = ""
    absent: str = ""  # why there are no values

    def worse_than(self, before: "Smart") -> tuple[str, ...]:
        return () if before.absent or self.absent else tuple(_worse(before, self))

    def __str__(self) -> str:
        return self.absent or ", ".join(_words(self))


class Health(BaseModel, frozen=True, extra="forbid", defer_build=True):
    disk: str = Field(description="its stable name")
    before: Smart
    after: Smart | None = None
    worse: tuple[str, ...] = Field(default=(), description="what became worse meanwhile")

    def over(self, after: Smart) -> "Health":
        """Add the values after the run. After a reboot, the path may belong to another disk."""
        if self.before.serial and after.serial and self.before.serial != after.serial:
            return self
        return self.model_copy(update={"after": after, "worse": after.worse_than(self.before)})

    @property
    def alarm(self) -> str:
        now = self.after or self.before
        failing = ["it reports that it is failing"] if now.passed is False else []
        words = dict.fromkeys([*failing, *self.worse])
        return f"{self.disk} has a problem: {'; '.join(words)}. Save its data, and use another disk" if words else ""


def keep_first_health(known: Sequence[Health], found: Mapping[str, Smart]) -> tuple[Health, ...]:
    """Keep the values that an earlier process of this run read, so that changes count from the start of the run."""
    before = {one.disk: one for one in known if not one.before.absent}
    return tuple(
        before[disk].over(smart) if disk in before else Health(disk=disk, before=smart) for disk, smart in found.items()
    )


def describe_missing_health(health: Sequence[Health]) -> str:
    whys: dict[str, list[str]] = {}
    for one in health:
        if one.before.absent:
            whys.setdefault(one.before.absent, []).append(one.disk)
    return "; ".join(f"the health of {', '.join(disks)} is unknown: {why}" for why, disks in whys.items())


def parse_report(output: str) -> dict[str, Smart]:
    lines = (line.split("\t", 2) for line in output.split("\n"))
    return {words[1]: parse(words[2]) for words in lines if len(words) == 3 and words[0] == "smart"}


class _Attribute(BaseModel, defer_build=True):
    id: int
    value: int = Field(default=0, validation_alias=AliasPath("raw", "value"))


class _Answer(BaseModel, defer_build=True):
    """The part of smartctl's report that matters, which has the same keys in all versions."""

    model_name: str = ""
    scsi_model_name: str = ""
    serial_number: str = ""
    firmware_version: str = ""
    scsi_revision: str = ""
    passed: bool | None = Field(default=None, validation_alias=AliasPath("smart_status", "passed"))
    celsius: int | None = Field(default=None, validation_alias=AliasPath("temperature", "current"))
    hours: int | None = Field(default=None, validation_alias=AliasPath("power_on_time", "hours"))
    logical_block_size: int = 512
    attributes: tuple[_Attribute, ...] = Field(default=(), validation_alias=AliasPath("ata_smart_attributes", "table"))
    units_written: int | None = Field(default=None, validation_alias=AliasPath(_NVME, "data_units_written"))
    percentage_used: int | None = Field(default=None, validation_alias=AliasPath(_NVME, "percentage_used"))
    media_errors: int | None = Field(default=None, validation_alias=AliasPath(_NVME, "media_errors"))
    grown_defects: int | None = Field(default=None, alias="scsi_grown_defect_list")


def parse(output: str) -> Smart:
    try:
        answer = _Answer.model_validate(orjson.loads(output))
    except (orjson.JSONDecodeError, ValidationError):
        return Smart(absent=output.strip()[:200] or "smartctl said nothing")
    raw = {one.id: one.value for one in answer.attributes}
    # NVMe counts units of 512,000 bytes, ATA logical blocks.
    units, blocks = answer.units_written, raw.get(_WRITTEN)
    ata_written = None if blocks is None else blocks * answer.logical_block_size
    found = Smart(
        passed=answer.passed,
        celsius=answer.celsius,
        hours=answer.hours,
        reallocated=raw.get(_REALLOCATED, answer.grown_defects),
        pending=raw.get(_PENDING, answer.media_errors),
        written=ata_written if units is None else units * 512_000,
        used=answer.percentage_used,
    )
    return replace(
        found if found != Smart() else Smart(absent="the disk reports no health"),
        model=answer.model_name or answer.scsi_model_name,
        serial=answer.serial_number,
        firmware=answer.firmware_version or answer.scsi_revision,
    )


def _words(smart: Smart) -> Iterator[str]:
    if smart.passed is not None:
        yield "passed" if smart.passed else "FAILING"
    if smart.celsius is not None:
        yield f"{smart.celsius} °C"
    if smart.hours is not None:
        yield f"{smart.hours} h"
    if smart.reallocated:
        yield f"{smart.reallocated} sectors reallocated"
    if smart.pending:
        yield f"{smart.pending} sectors that it could not read"
    if smart.used is not None:
        yield f"{smart.used} % used"


def _worse(before: Smart, after: Smart) -> Iterator[str]:
    if before.passed is not False and after.passed is False:
        yield "it reports that it is failing"
    for what, was, now in (
        ("reallocated sectors", before.reallocated, after.reallocated),
        ("sectors that it could not read", before.pending, after.pending),
    ):
        if now is not None and now > (was or 0):
            yield f"{what}: {was if was is not None else 'unknown'} before, {now} after"
