"""SMART health of a disk before and after a run, from smartctl."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_REALLOCATED, _PENDING, _WRITTEN = 5, 197, 241


@dataclass(frozen=True, slots=True)
class Smart:
    """The SMART values that matter; None if the disk does not report a value."""

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

    def worse_than(self, before: Smart) -> tuple[str, ...]:
        return () if before.absent or self.absent else tuple(_worse(before, self))

    def __str__(self) -> str:
        return self.absent or ", ".join(_words(self))


class Health(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    disk: str = Field(description="its stable name")
    before: Smart
    after: Smart | None = None
    worse: tuple[str, ...] = Field(default=(), description="what became worse meanwhile")

    def over(self, after: Smart) -> Health:
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
    """Return why the health of some disks is unknown, once for each reason; empty if all is known."""
    whys: dict[str, list[str]] = {}
    for one in health:
        if one.before.absent:
            whys.setdefault(one.before.absent, []).append(one.disk)
    return "; ".join(f"the health of {', '.join(disks)} is unknown: {why}" for why, disks in whys.items())


def parse_report(said: str) -> dict[str, Smart]:
    """Parse the output of `templates/disks/smart.sh`; keys are the paths of disks."""
    lines = (line.split("\t", 2) for line in said.split("\n"))
    return {words[1]: parse(words[2]) for words in lines if len(words) == 3 and words[0] == "smart"}


class _Reading(BaseModel):
    """Accepts unknown keys: smartctl reports much more, and each version differs."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Passed(_Reading):
    passed: bool | None = None


class _Celsius(_Reading):
    current: int | None = None


class _Hours(_Reading):
    hours: int | None = None


class _Raw(_Reading):
    value: int = 0


class _Attribute(_Reading):
    id: int
    raw: _Raw = _Raw()


class _Attributes(_Reading):
    table: tuple[_Attribute, ...] = ()


class _Nvme(_Reading):
    data_units_written: int | None = None
    percentage_used: int | None = None
    media_errors: int | None = None


class _Answer(_Reading):
    model_name: str = ""
    scsi_model_name: str = ""
    serial_number: str = ""
    firmware_version: str = ""
    scsi_revision: str = ""
    smart_status: _Passed = _Passed()
    temperature: _Celsius = _Celsius()
    power_on_time: _Hours = _Hours()
    logical_block_size: int = 512
    attributes: _Attributes = Field(default=_Attributes(), alias="ata_smart_attributes")
    nvme: _Nvme | None = Field(default=None, alias="nvme_smart_health_information_log")
    grown_defects: int | None = Field(default=None, alias="scsi_grown_defect_list")


def parse(said: str) -> Smart:
    """Parse `smartctl --json --all`. Other output becomes the reason for missing values."""
    try:
        data: Any = orjson.loads(said)
        answer = _Answer.model_validate(data)
    except (orjson.JSONDecodeError, ValidationError):
        return Smart(absent=said.strip()[:200] or "smartctl said nothing")
    raw = {one.id: one.raw.value for one in answer.attributes.table}
    units = answer.nvme.data_units_written if answer.nvme else None
    found = Smart(
        passed=answer.smart_status.passed,
        celsius=answer.temperature.current,
        hours=answer.power_on_time.hours,
        reallocated=raw.get(_REALLOCATED, answer.grown_defects),
        pending=answer.nvme.media_errors if answer.nvme else raw.get(_PENDING),
        # NVMe counts units of 512,000 bytes, ATA logical blocks.
        written=units * 512_000 if units is not None else _in_bytes(raw.get(_WRITTEN), answer.logical_block_size),
        used=answer.nvme.percentage_used if answer.nvme else None,
    )
    told = found != Smart()
    return replace(
        found if told else Smart(absent="the disk reports no health"),
        model=answer.model_name or answer.scsi_model_name,
        serial=answer.serial_number,
        firmware=answer.firmware_version or answer.scsi_revision,
    )


def _words(smart: Smart) -> Iterator[str]:
    if smart.passed is not None:
        yield "passed" if smart.passed else "FAILING"
    for value, words in (
        (smart.celsius, "{} °C"),
        (smart.hours, "{} h"),
        (smart.reallocated or None, "{} sectors reallocated"),
        (smart.pending or None, "{} sectors that it could not read"),
        (smart.used, "{} % used"),
    ):
        if value is not None:
            yield words.format(value)


def _in_bytes(blocks: int | None, size: int) -> int | None:
    return None if blocks is None else blocks * size


def _worse(before: Smart, after: Smart) -> Iterator[str]:
    if before.passed is not False and after.passed is False:
        yield "it reports that it is failing"
    for what, was, now in (
        ("reallocated sectors", before.reallocated, after.reallocated),
        ("sectors that it could not read", before.pending, after.pending),
    ):
        if now is not None and now > (was or 0):
            yield f"{what}: {was if was is not None else 'unknown'} before, {now} after"
