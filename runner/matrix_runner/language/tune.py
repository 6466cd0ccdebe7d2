"""The key `tune`: kernel tunables at its top or below one kind of layer, and values that are impossible.

`default` means: record the value, do not set it. A new tunable of devices has a line in SETTINGS. If it has no effect
on some workloads, it needs a reason in space/space.py; if it is a time or a rate, its name in slow.py; if its meaning
or example is missing on the page, a line in docs/meanings.py. Over 400 lines: the tunables and what they exclude.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, create_model
from pydantic_core import CoreSchema, core_schema

from matrix_runner.base.model import Model, size_schema
from matrix_runner.base.quantities import format_rate, format_size, parse_rate, parse_size
from matrix_runner.layers import LAYERS, NOT_TUNED, Layer
from matrix_runner.layers.bare import OneDisk, SomeDisks
from matrix_runner.layers.md import PARITY, REDUNDANT, Md
from matrix_runner.simdisks.disk import Disk

SYSFS_PATH = r"^[A-Za-z0-9_][A-Za-z0-9_-]*(/[A-Za-z0-9_][A-Za-z0-9_-]*)*$"
#: Tunables of a device that lie behind such a link; others there remove or stop it.
BESIDE = frozenset(
    (
        *(f"bdi/{name}" for name in ("max_bytes", "max_ratio", "max_ratio_fine", "min_bytes", "min_ratio")),
        *(f"bdi/{name}" for name in ("min_ratio_fine", "stable_pages_required", "strict_limit")),
        *(
            f"device/{name}"
            for name in ("cdl_enable", "eh_timeout", "ncq_prio_enable", "queue_ramp_up_period", "timeout")
        ),
    )
)
#: Links to other devices, and folders that do not affect I/O.
LEADING_OUT = frozenset({"bdi", "block", "device", "driver", "holders", "power", "slaves", "subsystem"})


class Setting(NamedTuple):
    """How a tunable of devices is set."""

    file: str  # in the device's folder of sysfs
    way: str = ""  # a script in `templates/turn/`, where it is more than writing the file
    in_kib: bool = False  # the kernel counts in KiB, matrices in bytes


#: Tunables that only md arrays of RAID 4, 5 and 6 have, and those of arrays with redundancy.
OF_PARITY = dict.fromkeys(("stripe_cache_size", "group_thread_cnt", "preread_bypass_threshold"))
OF_REDUNDANT = dict.fromkeys(("sync_speed_min", "sync_speed_max"))
OF_MD = OF_PARITY | OF_REDUNDANT
OF_THE_HOST = ("vm.", "sysctl.", "cpu_governor", "transparent_hugepages")
SETTINGS = {
    "readahead": Setting("queue/read_ahead_kb", in_kib=True),
    "write_cache": Setting("cache_type", "cache"),  # of a disk
    "ncq_depth": Setting("device/queue_depth"),
    "scheduler": Setting("queue/scheduler", "scheduler"),
    "nr_requests": Setting("queue/nr_requests", "requests"),
    **{key: Setting(f"queue/{key}") for key in ("max_sectors_kb", "rotational", "rq_affinity", "nomerges")},
    **{key: Setting(f"md/{key}") for key in OF_PARITY},
    **{key: Setting(f"md/{key}", in_kib=True) for key in OF_REDUNDANT},
}
#: Files that a key of `tune` sets. The key knows the unit and how to compare the value read back.
TYPED = {setting.file: key for key, setting in SETTINGS.items()} | {"bdi/read_ahead_kb": "readahead"}
#: Files with a key that is another tunable on some devices; both spellings are allowed.
ALSO_TYPED = {"queue/wbt_lat_usec": "wbt_lat_usec", "queue/write_cache": "write_cache"}
#: Files that the md layer sets and reads back.
OF_THE_LAYOUT = frozenset(
    f"md/{name}"
    for name in (
        *("array_size", "array_state", "bitmap/location", "bitmap_set_bits", "chunk_size", "component_size"),
        *("consistency_policy", "fail_last_dev", "layout", "level", "metadata_version", "new_dev", "new_level"),
        *("raid_disks", "reshape_direction", "reshape_position", "resync_start", "sync_action", "uuid"),
    )
)


def _leading_out(path: str) -> str:
    """Return why a path does not stay in the folder of the device; empty if it does."""
    step = next((step for step in path.split("/") if step in LEADING_OUT), "")
    known = sorted(name for name in BESIDE if name.startswith(f"{step}/") and path.startswith(f"{step}/"))
    others = f"; known there are {', '.join(known)}" if known else ""
    return f"`{step}` leads out of the device's own folder{others}" if step else ""


def path_in_sysfs(value: object) -> object:
    """Refuse a path that leaves the folder of the device, or that another key sets."""
    if not isinstance(value, str):
        return value
    if not re.fullmatch(SYSFS_PATH, value, re.ASCII):
        raise ValueError(
            "not a path in the device's folder in sysfs; write a relative path of letters, digits, dashes and "
            "underscores, like queue/wbt_lat_usec"
        )
    rest = value.split("/")[1:]
    if value in TYPED:
        raise ValueError(f"this file has a key; write `{TYPED[value]}:`")
    if value not in BESIDE and (why := _leading_out(value)):
        raise ValueError(why)
    if value.startswith("queue/iosched/"):
        raise ValueError(f"this file has a key; write `iosched: {{{rest[-1]}: …}}`")
    if value in OF_THE_LAYOUT or re.match(r"md/(dev-|rd\d)", value):
        raise ValueError("this is set by the layout; write it there")
    if value == "md/bitmap/backlog":
        raise ValueError("without a write-mostly device, Linux 6.12 refuses this value and the array hangs")
    if rest[-1:] == ["uevent"] or value == "uevent":
        raise ValueError("this is not a tunable: writing to it sends an event")
    return value


def text_for_sysfs(value: object) -> object:
    if isinstance(value, bool):
        return str(int(value))
    text = str(value) if isinstance(value, int | float | str) else ""
    if not text or text != text.strip() or len(text) > 200 or not text.isprintable():
        raise ValueError("write one printable line, as the kernel shows it, or default")
    return text


#: Files below /proc/sys about storage, memory or scheduling.
SYSCTL = (
    r"^(vm|fs|dev/raid|dev/scsi|kernel/(sched|numa|io_uring|watchdog|nmi_watchdog|timer_migration)[a-z_]*)"
    r"(/[A-Za-z0-9_-]+)*$"
)
_NO_SYSCTL = {
    r"vm/(drop_caches|compact_memory|stat_refresh)$": "this is a command, not a tunable",
    r"vm/(panic|oom|mmap_min_addr|mmap_rnd)|fs/(suid_dumpable|protected|binfmt_misc)": "this is not about speed",
}


def path_of_sysctl(value: object) -> object:
    """Refuse a path that leaves /proc/sys, that another key sets, or that is not about storage."""
    if not isinstance(value, str):
        return value
    path = value.replace(".", "/")
    if not re.fullmatch(SYSCTL, path, re.ASCII) or "/" not in path:
        raise ValueError(
            "not a sysctl about storage, memory or scheduling; write one of vm, fs, dev/raid, dev/scsi or "
            "kernel/sched…, like vm/page-cluster"
        )
    first, _, rest = path.partition("/")
    if first == "vm" and rest in Vm.model_fields:
        raise ValueError(f"this file has a key; write `vm: {{{rest}: …}}`")
    if why := next((why for pattern, why in _NO_SYSCTL.items() if re.match(pattern, path)), None):
        raise ValueError(why)
    if path != value:
        raise ValueError(f"write the path below /proc/sys: {path}")
    return value


def text_for_sysctl(value: object) -> object:
    text = text_for_sysfs(value)
    if len(str(text).split()) > 1:
        raise ValueError("a value of several numbers cannot be compared with the kernel's; write one word")
    return text


SysctlPath = Annotated[str, BeforeValidator(path_of_sysctl), WithJsonSchema({"type": "string", "pattern": SYSCTL})]
SysctlText = Annotated[str, BeforeValidator(text_for_sysctl), WithJsonSchema({"type": ["string", "number", "boolean"]})]
SysfsPath = Annotated[str, BeforeValidator(path_in_sysfs), WithJsonSchema({"type": "string", "pattern": SYSFS_PATH})]
SysfsText = Annotated[str, BeforeValidator(text_for_sysfs), WithJsonSchema({"type": ["string", "number", "boolean"]})]


Default = Literal["default"]
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Whole:
    low: int
    high: int

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: Any) -> Any:
        return {"anyOf": [{"const": "default"}, {"type": "integer", "minimum": self.low, "maximum": self.high}]}

    def _checked(self, value: object) -> object:
        if value == "default":
            return value
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value
        raise ValueError(f"write a whole number from {self.low} to {self.high}, or default")


def _readahead(value: object) -> object:
    if value == "default":
        return value
    if str(value).strip().isdecimal() and int(str(value)):
        sectors = format_size(int(str(value)) * 512)
        raise ValueError(
            f"no unit; write {value}KiB if it comes from read_ahead_kb, or {sectors} if it comes from "
            "blockdev --setra, which counts sectors of 512B"
        )
    size = parse_size(value)
    if size % _PAGE:
        raise ValueError("readahead is a multiple of 4KiB in the kernel")
    return size


def _rate(value: object) -> object:
    if value == "default":
        return value
    rate = parse_rate(value)
    if rate % 1024 or not 0 < rate < 1 << 41:
        raise ValueError("the kernel takes whole KiB/s, at least 1KiB/s")
    return rate


_SHOWN = PlainSerializer(lambda size: format_size(size) if isinstance(size, int) else size)
_SIZES = WithJsonSchema({"anyOf": [{"const": "default"}, size_schema()]})
Readahead = Annotated[Default | int | None, BeforeValidator(_readahead), _SHOWN, _SIZES]
Rate = Annotated[
    Default | int | None,
    BeforeValidator(_rate),
    PlainSerializer(lambda rate: format_rate(rate) if isinstance(rate, int) else rate),
    WithJsonSchema({"type": "string", "examples": ["50MiB/s", "default"]}),
]
IoschedValue = Annotated[Default | int, Whole(0, (1 << 31) - 1)]


class ReadaheadOnly(Model):
    """Tunables of partitions, which have no queue."""

    readahead: Readahead = Field(None, description="bytes to read ahead, in whole pages of 4KiB (read_ahead_kb)")


class BlockTunables(ReadaheadOnly):
    """Tunables of volumes and of other block devices."""

    max_sectors_kb: Annotated[Default | int | None, Whole(4, (1 << 31) - 1)] = Field(
        None, description="size of the largest request, in KiB"
    )
    rotational: Annotated[
        Literal["default", 0, 1] | None,
        BeforeValidator(lambda value: int(value) if isinstance(value, bool) else value),
        WithJsonSchema({"enum": ["default", 0, 1, True, False]}),
    ] = Field(None, description="whether the kernel treats the device as a rotating disk")
    nomerges: Annotated[Default | int | None, Whole(0, 2)] = Field(
        None, description="merging of requests: 0 on, 1 only simple merges, 2 off"
    )
    write_cache: Annotated[
        Literal["default", "write back", "write through"] | None,
        WithJsonSchema({"enum": ["default", "write back", "write through"]}),
    ] = Field(None, description="on a disk: the mode of its cache; on other devices: whether the kernel sends flushes")
    sysfs: dict[SysfsPath, SysfsText] = Field(
        default_factory=dict,
        description="any other file in the device's folder of sysfs, such as `device/timeout` and `bdi/max_ratio`",
    )


class MdTunables(BlockTunables):
    """Tunables of md arrays."""

    stripe_cache_size: Annotated[Default | int | None, Whole(17, 32768)] = Field(
        None, description="entries of the stripe cache, each with one page per disk; only RAID 4, 5 and 6"
    )
    group_thread_cnt: Annotated[Default | int | None, Whole(0, 8192)] = Field(
        None, description="number of threads that handle stripes; only RAID 4, 5 and 6"
    )
    preread_bypass_threshold: Annotated[Default | int | None, Whole(0, 32768)] = Field(
        None,
        description="how often full stripes may overtake others; at most stripe_cache_size; only RAID 4, 5 and 6",
    )
    sync_speed_min: Rate = Field(None, description="lowest rate of resyncs, like 50MiB/s; only with redundancy")
    sync_speed_max: Rate = Field(None, description="highest rate of resyncs, like 50MiB/s; only with redundancy")


class DiskTunables(BlockTunables):
    """Tunables of disks."""

    ncq_depth: Annotated[Default | int | None, Whole(1, 1024)] = Field(
        None, description="queue depth of every disk (queue_depth); sata takes 1 to 32"
    )
    scheduler: Annotated[
        Literal["default", "none", "mq-deadline", "bfq", "kyber"] | None,
        WithJsonSchema({"enum": ["default", "none", "mq-deadline", "bfq", "kyber"]}),
    ] = Field(None, description="I/O scheduler of every disk")
    iosched: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], IoschedValue] = Field(
        default_factory=dict, description="tunables of the scheduler, by their kernel names"
    )
    nr_requests: Annotated[Default | int | None, Whole(4, 2048)] = Field(
        None, description="number of requests in the queue of each disk"
    )
    rq_affinity: Annotated[Default | int | None, Whole(0, 2)] = Field(
        None, description="where a request ends: 0 anywhere, 1 near the processor that sent it, 2 on that processor"
    )
    wbt_lat_usec: Annotated[Default | int | None, Whole(0, 10**9)] = Field(
        None, description="target latency of reads in µs; buffered writes are slowed down to reach it"
    )


#: Tunables of each scheduler, in the folder queue/iosched.
IOSCHED = {
    "none": frozenset[str](),
    "kyber": frozenset({"read_lat_nsec", "write_lat_nsec"}),
    "mq-deadline": frozenset(
        {"async_depth", "fifo_batch", "front_merges", "prio_aging_expire"}
        | {"read_expire", "write_expire", "writes_starved"}
    ),
    "bfq": frozenset(
        {"back_seek_max", "back_seek_penalty", "fifo_expire_async", "fifo_expire_sync", "low_latency", "max_budget"}
        | {"slice_idle", "slice_idle_us", "strict_guarantees", "timeout_sync"}
    ),
}


QUEUED = frozenset({"sata", "scsi"})  # buses whose disks have an adjustable queue depth
#: Kinds of layers with special tunables.
_SPECIAL: dict[str, type[Model]] = {"disk": DiskTunables, "md": MdTunables, "partition": ReadaheadOnly}
SCOPES = {kind: _SPECIAL.get(kind, BlockTunables) for kind in LAYERS if kind not in NOT_TUNED}


def _bytes(least: int) -> BeforeValidator:
    def check(value: object) -> object:
        size = value if value == "default" else parse_size(value)
        if isinstance(size, int) and size < least:
            raise ValueError(f"write at least {format_size(least)}, or default")
        return size

    return BeforeValidator(check)


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
    sysctl: dict[SysctlPath, SysctlText] = Field(
        default_factory=dict, description="other files below /proc/sys about storage, memory or scheduling"
    )
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
            kind: (knobs | None, Field(None, description=f"tunables that are set only on devices of {kind} layers"))
            for kind, knobs in SCOPES.items()
        },
    )


def split(name: str) -> tuple[str, str]:
    """Split a name into the kind of layer (empty: no layer) and the key or `sysfs.<path>`."""
    kind, _, key = name.partition(".")
    return (kind, key) if kind in SCOPES else ("", name)


def target_kind(name: str, top: str) -> str:
    kind, key = split(name)
    if kind or key.startswith(OF_THE_HOST):
        return kind
    if key == "readahead":
        return top
    return "md" if key in OF_MD or key.startswith("sysfs.md/") else "disk"


def _levels(name: str, stack: tuple[Layer, ...]) -> frozenset[int]:
    layers = [layer for layer in stack if layer.kind in SCOPES and layer.kind != "disk"]
    kinds = ["disk", *(layer.kind for layer in layers)]
    # A partition that is not a mapping has no queue: its tunables are set on the device that it is part of.
    mapped = [False, False, *(layer.maps for layer in layers)]
    own = [at - 1 if kind == "partition" and not mapped[at] else at for at, kind in enumerate(kinds)]
    kind = target_kind(name, top="top")
    return frozenset(own[-1:] if kind == "top" else (level for of, level in zip(kinds, own, strict=True) if of == kind))


def meaningless(tunable: str, stack: tuple[Layer, ...], disks: tuple[Disk, ...]) -> str:
    kind, key = split(tunable)
    kinds = {"disk", *(layer.kind for layer in stack if layer.kind in SCOPES)}
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
    if parts := {name for layer in stack for name in layer.parts}:
        return tuple(disk for disk in disks if disk.group in parts)
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
