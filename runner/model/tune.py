"""Kernel tunables. `default` means: leave it, and record what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from runner.model.base import Model
from runner.model.layers import Layer, Md
from runner.model.layers.md import PARITY
from runner.model.units import format_size, parse_size, size_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.disks import Disk

Default = Literal["default"]
_PAGE = 4096


def _readahead(value: object) -> object:
    if value == "default":
        return value
    size = parse_size(value)
    if size % _PAGE:
        raise ValueError("the kernel keeps readahead in whole pages of 4KiB")
    return size


def _between(low: int, high: int) -> Callable[[object], object]:
    def check(value: object) -> object:
        if value == "default" or (isinstance(value, int) and not isinstance(value, bool) and low <= value <= high):
            return value
        raise ValueError(f"write a whole number from {low} to {high}, or default")

    return check


def _number(low: int, high: int) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"const": "default"}, {"type": "integer", "minimum": low, "maximum": high}]})


class Tune(Model):
    """What is set on the way to a measurement; None where it was not declared or has no meaning."""

    readahead: Annotated[
        Default | int | None,
        BeforeValidator(_readahead),
        PlainSerializer(lambda value: format_size(value) if isinstance(value, int) else value),
        WithJsonSchema({"anyOf": [{"const": "default"}, size_schema()]}),
        Field(description="read_ahead_kb of the top of the layout"),
    ] = None
    stripe_cache_size: Annotated[
        Default | int | None,
        BeforeValidator(_between(17, 32768)),
        _number(17, 32768),
        Field(description="pages a disk; only where there is RAID 4, 5 or 6"),
    ] = None
    ncq_depth: Annotated[
        Default | int | None,
        BeforeValidator(_between(1, 1024)),
        _number(1, 1024),
        Field(description="queue_depth of every disk; sata takes 1 to 32"),
    ] = None
    scheduler: Annotated[
        Literal["default", "none", "mq-deadline", "bfq", "kyber"] | None,
        Field(description="I/O scheduler of every disk"),
        WithJsonSchema({"enum": ["default", "none", "mq-deadline", "bfq", "kyber"]}),
    ] = None


def meaningless(tunable: str, stack: tuple[Layer, ...], disks: tuple[Disk, ...]) -> str:
    """Why a tunable means nothing for a stack on these disks; empty if it does mean something."""
    if tunable == "stripe_cache_size" and not any(isinstance(layer, Md) and layer.level in PARITY for layer in stack):
        return "there is no RAID 4, 5 or 6 in it"
    if tunable == "ncq_depth" and all(disk.bus == "virtio" for disk in disks):
        return "disks on virtio have no queue depth to set; use `bus: sata` or `bus: scsi`"
    return ""


def impossible(tune: Tune, disks: tuple[Disk, ...]) -> dict[str, str]:
    """Values that the kernel would not take on these disks, by field."""
    depth = tune.ncq_depth
    if isinstance(depth, int) and depth > 32 and any(disk.bus == "sata" for disk in disks):
        return {"ncq_depth": "native command queueing on sata goes from 1 to 32"}
    return {}
