"""The key `tune`: kernel tunables at its top or below one kind of layer, and values that are impossible.

Those of the whole host are here, those of devices and layers in tunables.py, which says what a new one needs. Their
files: scripts/tunable_files.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, create_model

from matrix_runner.base.model import Model, size_schema
from matrix_runner.base.quantities import format_size, parse_size
from matrix_runner.language.tunables import (
    ALSO_TYPED,
    IOSCHED,
    BlockTunables,
    Default,
    DiskTunables,
    MdTunables,
    ReadaheadOnly,
    Whole,
)
from matrix_runner.layers import LAYERS, Layer, Md, OneDisk, SomeDisks
from matrix_runner.layers.md import PARITY, REDUNDANT

if TYPE_CHECKING:
    from matrix_runner.simdisks.disk import Disk

OF_PARITY = frozenset({"stripe_cache_size", "group_thread_cnt", "preread_bypass_threshold"})
QUEUED = frozenset({"sata", "scsi"})  # buses whose disks have an adjustable queue depth
OF_REDUNDANT = frozenset({"sync_speed_min", "sync_speed_max"})
#: Kinds of layers with special tunables.
_SPECIAL: dict[str, type[Model]] = {"disk": DiskTunables, "md": MdTunables, "partition": ReadaheadOnly}
SCOPES = {kind: _SPECIAL.get(kind, BlockTunables) for kind, layer in LAYERS.items() if layer.tunable}


def _bytes(least: int) -> BeforeValidator:
    def check(value: object) -> object:
        size = value if value == "default" else parse_size(value)
        if isinstance(size, int) and size < least:
            raise ValueError(f"write at least {format_size(least)}, or default")
        return size

    return BeforeValidator(check)


_SHOWN = PlainSerializer(lambda size: format_size(size) if isinstance(size, int) else size)
_SIZES = WithJsonSchema({"anyOf": [{"const": "default"}, size_schema()]})


class Vm(Model):
    """Files of /proc/sys/vm about dirty pages and caches. Write a ratio or its bytes, not both."""

    dirty_ratio: Annotated[Default | int | None, Whole(0, 100)] = None
    dirty_bytes: Annotated[Default | int | None, _bytes(8192), _SHOWN, _SIZES] = None
    dirty_background_ratio: Annotated[Default | int | None, Whole(0, 100)] = None
    dirty_background_bytes: Annotated[Default | int | None, _bytes(1), _SHOWN, _SIZES] = None
    dirty_expire_centisecs: Annotated[Default | int | None, Whole(0, (1 << 31) - 1)] = None
    dirty_writeback_centisecs: Annotated[Default | int | None, Whole(0, (1 << 31) - 1)] = None
    swappiness: Annotated[Default | int | None, Whole(0, 200)] = None
    vfs_cache_pressure: Annotated[Default | int | None, Whole(0, 10000)] = None


class _Plain(DiskTunables, MdTunables):
    """Kernel tunables for a measurement. A key that is not given is not set."""

    vm: Vm | None = None
    cpu_governor: str | None = Field(
        None, pattern=r"^[a-z]+$", description="governor of every processor; only on hosts with cpufreq"
    )
    transparent_hugepages: Annotated[
        Literal["default", "always", "madvise", "never"] | None,
        WithJsonSchema({"enum": ["default", "always", "madvise", "never"]}),
    ] = Field(None, description="when the kernel uses huge pages (`/sys/kernel/mm/transparent_hugepage/enabled`)")

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        chosen = values.get("scheduler") or values.get("disk.scheduler")
        known = IOSCHED.get(str(chosen))
        if known is None:
            return {}
        names = [name for name in values if name.startswith(("iosched.", "disk.iosched."))]
        unknown = [name for name in names if name.rpartition(".")[2] not in known]
        return dict.fromkeys(unknown, f"scheduler {chosen} has no such tunable")


if TYPE_CHECKING:
    Tune = _Plain
else:
    Tune = create_model(
        "Tune",
        __base__=_Plain,
        __doc__=_Plain.__doc__,
        **{
            kind: (knobs | None, Field(None, description=f"tunables that are set only on {LAYERS[kind].noun}"))
            for kind, knobs in SCOPES.items()
        },
    )


def split(name: str) -> tuple[str, str]:
    """Split a name into the kind of layer (empty: no layer) and the key or `sysfs.<path>`."""
    kind, _, key = name.partition(".")
    return (kind, key) if kind in SCOPES else ("", name)


def target_kind(name: str, top: str) -> str:
    kind, key = split(name)
    if kind or key.startswith(("vm.", "cpu_governor", "transparent_hugepages")):
        return kind
    if key == "readahead":
        return top
    return "md" if key in OF_PARITY | OF_REDUNDANT or key.startswith("sysfs.md/") else "disk"


def _levels(name: str, stack: tuple[Layer, ...]) -> frozenset[int]:
    layers = [layer for layer in stack if layer.tunable and layer.kind != "disk"]
    kinds = ["disk", *(layer.kind for layer in layers)]
    # A partition that is not a mapping has no queue: its tunables are set on the device that it is part of.
    mapped = [False, False, *(layer.maps for layer in layers)]
    own = [at - 1 if kind == "partition" and not mapped[at] else at for at, kind in enumerate(kinds)]
    kind = target_kind(name, top="top")
    return frozenset(own[-1:] if kind == "top" else (level for of, level in zip(kinds, own, strict=True) if of == kind))


def meaningless(tunable: str, stack: tuple[Layer, ...], disks: tuple[Disk, ...]) -> str:
    kind, key = split(tunable)
    kinds = {"disk", *(layer.kind for layer in stack if layer.tunable)}
    if kind and kind not in kinds:
        return f"it has no {kind}"
    levels = {layer.level for layer in stack if isinstance(layer, Md)}
    if key in OF_PARITY and not levels & PARITY.keys():
        return "it has no RAID 4, 5 or 6"
    if key in OF_REDUNDANT and not levels & REDUNDANT:
        return "it has no array with redundancy"
    if key.startswith("sysfs.md/") and (kind not in {"", "md"} or "md" not in kinds):
        return "only md arrays have md/…" if kind else "it has no md"
    buses = sorted({disk.bus for disk in used(stack, disks)})
    if key == "ncq_depth" and QUEUED.isdisjoint(buses):
        return f"disks on {' and '.join(buses)} have no queue depth to set; use `bus: sata` or `bus: scsi`"
    return ""


def used(stack: tuple[Layer, ...], disks: tuple[Disk, ...]) -> tuple[Disk, ...]:
    match stack:
        case (OneDisk(number=number), *_):
            return disks[number : number + 1]
        case (SomeDisks(count=count), *_):
            return disks[:count]
    return disks


def impossible(values: Mapping[str, Any], disks: tuple[Disk, ...]) -> dict[str, str]:
    sata = any(disk.bus == "sata" for disk in disks)
    return {name: why for name, value in values.items() if (why := _refused(split(name), value, values, sata=sata))}


def _refused(name: tuple[str, str], value: object, values: Mapping[str, Any], *, sata: bool) -> str:
    if not isinstance(value, int):
        return ""
    kind, key = name
    if key == "ncq_depth" and sata and value > 32:
        return "sata takes a queue depth from 1 to 32"
    if key == "max_sectors_kb" and sata and kind in {"", "disk"} and value > 32767:
        return "sata takes at most 32767 KiB"
    if key == "nr_requests" and sata and value > 32 and _beside("scheduler", values) == "none":
        return "a sata disk without a scheduler takes at most 32"
    stripes = _beside("stripe_cache_size", values)
    if key == "preread_bypass_threshold" and isinstance(stripes, int) and value > stripes:
        return f"must be at most stripe_cache_size ({stripes})"
    return ""


def _beside(key: str, values: Mapping[str, Any]) -> object:
    return next((value for name, value in values.items() if split(name)[1] == key), None)


def exclusive(names: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield tunables that exclude one another on any layout."""
    for what in ("dirty", "dirty_background"):
        if {f"vm.{what}_ratio", f"vm.{what}_bytes"} <= names.keys():
            yield f"vm.{what}_bytes", f"the kernel clears {what}_ratio when {what}_bytes is set; write one of them"


def clashes(names: Iterable[str], stack: tuple[Layer, ...]) -> Iterator[tuple[str, str]]:
    seen: dict[tuple[int, str], str] = {}
    for name in names:
        key = split(name)[1]
        file = ALSO_TYPED.get(key.removeprefix("sysfs."), key)
        places = [(level, file) for level in _levels(name, stack)]
        if before := next((seen[place] for place in places if place in seen), None):
            yield name, before
        seen = {**dict.fromkeys(places, name), **seen}
