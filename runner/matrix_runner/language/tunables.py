"""The tunables of block devices by kind, and sysfs paths for others. `default` means: record the value, do not set it.

The key `tune` that takes them: tune.py. A new tunable of md needs a line in its OF_PARITY or OF_REDUNDANT. Each needs
its file in scripts/tunable_files.py; if it has no effect on some workloads, a reason in space/space.py; if it is a
time or a rate, its name in slow.py; if its meaning or example is missing on the page, a line in docs/meanings.py.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from matrix_runner.base.model import Model, size_schema
from matrix_runner.base.quantities import format_rate, format_size, parse_rate, parse_size

SYSFS_PATH = r"^[A-Za-z0-9_][A-Za-z0-9_-]*(/[A-Za-z0-9_][A-Za-z0-9_-]*)*$"
#: Links to other devices, and folders that do not affect I/O.
LEADING_OUT = frozenset({"bdi", "block", "device", "driver", "holders", "power", "slaves", "subsystem"})
#: Files that a key of `tune` sets. The key knows the unit and how to compare the value read back.
TYPED = {
    "queue/read_ahead_kb": "readahead",
    "cache_type": "write_cache",
    **{f"queue/{key}": key for key in ("scheduler", "nr_requests", "max_sectors_kb")},
    **{f"queue/{key}": key for key in ("rotational", "rq_affinity", "nomerges")},
    **{f"md/{key}": key for key in ("stripe_cache_size", "group_thread_cnt", "preread_bypass_threshold")},
    **{f"md/{key}": key for key in ("sync_speed_min", "sync_speed_max")},
}
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


def path_in_sysfs(value: object) -> object:
    """Refuse a path that leaves the folder of the device, or that another key sets."""
    if not isinstance(value, str):
        return value
    if not re.fullmatch(SYSFS_PATH, value, re.ASCII):
        raise ValueError(
            "not a path in the device's folder in sysfs; write a relative path of letters, digits, dashes and "
            "underscores, like queue/wbt_lat_usec"
        )
    first, *rest = value.split("/")
    for step in (first, *rest):
        if step in LEADING_OUT:
            raise ValueError(f"`{step}` leads out of the device's own folder")
    if value.startswith("queue/iosched/"):
        raise ValueError(f"this file has a key; write `iosched: {{{rest[-1]}: …}}`")
    if value in TYPED:
        raise ValueError(f"this file has a key; write `{TYPED[value]}:`")
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


Readahead = Annotated[
    Default | int | None,
    BeforeValidator(_readahead),
    PlainSerializer(lambda size: format_size(size) if isinstance(size, int) else size),
    WithJsonSchema({"anyOf": [{"const": "default"}, size_schema()]}),
]
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
        default_factory=dict, description="any other file in the device's folder of sysfs"
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
