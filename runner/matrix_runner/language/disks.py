"""Disks as declared: count, size, bus, the model of a simulated disk, and its faults during a measurement.

Over 400 lines: one model has all keys, and what they mean for each other.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    TypeAdapter,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    computed_field,
    model_validator,
)

from matrix_runner.base.model import NAME, ChangeSchema, Extent, Model, Name, Percent, Size, Time
from matrix_runner.base.quantities import format_rate, format_size, parse_rate, resolve_share
from matrix_runner.simdisks.disk import Bus, Disk, Fault, FaultKind, Physics

LARGEST_SPOT = 2**30  # the disk server keeps a list of bad regions
MOST_FAULTS = 64  # slots for faults in the disk server of a rig


class _Fault(Model):
    disk: int = Field(ge=0, description="number of the disk, from 0")
    at: Annotated[Time, Field(ge=0, description="time since the start of fio, ramp included")] = 0.0
    if TYPE_CHECKING:
        kind: FaultKind

    def of(self, size: int) -> Fault:
        """Return the fault of a disk of this size. Without a region, it is not at a place."""
        keys = dict(self)
        start = resolve_share(keys.get("start", 0), size)
        where = (start, start + keys.get("length", 0))
        return Fault(self.disk, self.kind, self.at, keys.get("lasts"), keys.get("times", 1.0), where)


class Dies(_Fault):
    """Every command ends with an error."""

    kind: Literal["dies"]
    lasts: Time | None = Field(
        None, gt=0, description="the disk returns with its content after this time; never if not given"
    )


class Slow(_Fault):
    """Every command takes longer."""

    kind: Literal["slow"]
    times: float = Field(gt=1, le=10_000, strict=False, description="factor by which commands take longer")
    lasts: Time | None = Field(None, gt=0)


class Stalls(_Fault):
    """No command is answered for a while."""

    kind: Literal["stalls"]
    lasts: Annotated[Time, Field(gt=0)]


class Medium(_Fault):
    """A region cannot be read. Writing to it repairs it."""

    kind: Literal["medium"]
    start: Extent
    length: Annotated[Size, Field(gt=0, le=LARGEST_SPOT)]


class Corrupt(_Fault):
    """A region is read without error, but with wrong data, even after a write."""

    kind: Literal["corrupt"]
    start: Extent
    length: Annotated[Size, Field(gt=0, le=LARGEST_SPOT)]
    lasts: Time | None = Field(None, gt=0)


AnyFault = Annotated[Dies | Slow | Stalls | Medium | Corrupt, Field(discriminator="kind")]


UNNAMED = ""  # the name of the only set
_Name = Annotated[str, Field(pattern=r"^([A-Za-z][A-Za-z0-9_.+-]*)?$", max_length=80)]
_Faults = Annotated[tuple[AnyFault, ...], Field(max_length=MOST_FAULTS)]


def _named_sets(value: object) -> object:
    """Accept a list of faults for every trial, or several lists by name, which are an axis."""
    if isinstance(value, list):
        return {UNNAMED: tuple(value)}
    if isinstance(value, dict):
        if UNNAMED in value:
            raise ValueError("each of several sets of faults needs a name")
        return {name: tuple(faults) if isinstance(faults, list) else faults for name, faults in value.items()}
    return value


FaultSets = Annotated[
    dict[_Name, _Faults],
    BeforeValidator(_named_sets),
    ChangeSchema(lambda several: {"anyOf": [*several["patternProperties"].values(), several]}),
]


KIB, MIB = 1024, 1024 * 1024
PHASES = 2**36  # seeds repeat after this number: with larger ones a float could not hold the difference in phase


def _throughput(value: object) -> int:
    rate = parse_rate(value)
    if not rate:
        raise ValueError("a rate of 0 means that the disk never answers; write a larger rate")
    return rate


Throughput = Annotated[
    int,
    BeforeValidator(_throughput),
    PlainSerializer(format_rate),
    WithJsonSchema({"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(B|[KMGT]iB|[kKMGT]B)\s*/s\s*$"}),
]


class _Model(Model):
    """Keys of every disk model."""

    name: str | None = None
    source: str | None = Field(None, description="where the figures come from")
    fitted_to: str | None = Field(
        None,
        description="the measurements to which its figures are fitted; if not given, they are from data sheets",
    )
    interface: Throughput | None = Field(None, description="rate of the interface to the host; no limit if not given")
    overhead: Annotated[Time, Field(ge=0, lt=1, description="time of each command on the interface")] = 0.00002

    def _common(self) -> dict[str, float]:
        return {"overhead": self.overhead, "interface": float(self.interface or 0)}


class Seek(Model):
    """Times of the arm of a hard disk."""

    track: Annotated[Time, Field(ge=0, lt=1, description="time to a track nearby, with the time to settle there")]
    full: Annotated[Time, Field(gt=0, lt=1, description="time across the whole disk")]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.track > self.full:
            why = "a seek to the next track cannot take longer than one across the disk"
            raise ValueError(f"`track` is longer than `full`: {why}")
        return self


class Zone(Model):
    """A part of the disk where all tracks have the same rate."""

    to: Annotated[Percent, Field(gt=0, le=1, description="where it ends, as a share of the disk")]
    rate: Throughput


class Shingled(Model):
    """Shingled recording: tracks overlap, so writes that are not sequential go to a landing zone first."""

    band: Annotated[
        Size, Field(ge=MIB, description="bytes in a group of overlapping tracks, which can only be written in order")
    ]
    landing: Annotated[Size, Field(ge=MIB, description="size of the area to which all other writes go first")]


class WriteCache(Model):
    """A write cache that holds more than the queue can choose from."""

    ranges: int = Field(ge=1, le=512, description="ranges that the cache holds")
    choice: int | None = Field(
        None,
        ge=1,
        le=512,
        description="number of the oldest ranges among which the disk chooses the next; if not given, `queue`",
    )


class Hdd(_Model):
    """A disk with rotating platters and an arm."""

    kind: Literal["hdd"]
    rpm: int = Field(7200, ge=60, le=100_000)
    outer: Throughput | None = Field(None, description="rate of the first zone")
    inner: Throughput | None = Field(None, description="rate of the last zone")
    zones: Annotated[
        Annotated[int, Field(ge=1, le=64)] | Annotated[tuple[Zone, ...], Field(min_length=1, max_length=64)],
        BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
    ] = Field(
        16, description="the number of equal zones from outer to inner, or a list with the end and the rate of each"
    )
    seek: Seek = Seek.model_construct(track=2e-3, full=17e-3)
    cache: Annotated[Size, Field(ge=0, le=1 << 32)] = 16 * MIB
    write_cache: bool | WriteCache = Field(
        True, description="half of the cache holds writes, which are answered at once and written later"
    )
    read_ahead: Size | None = Field(
        None, ge=0, description="bytes to read beyond a request; if not given: a quarter of the cache, at most 4MiB"
    )
    shingled: Shingled | None = None
    queue: int = Field(16, ge=1, le=32, description="number of commands among which the disk chooses the next")
    in_order: int = Field(
        0,
        ge=0,
        le=32,
        description="number of commands whose order is fixed ahead, by the disk or its controller; later commands, "
        "among which `queue` chooses, come after them",
    )

    @model_validator(mode="after")
    def _zoned(self) -> Self:
        if isinstance(self.zones, tuple):
            if self.outer is not None or self.inner is not None:
                raise ValueError("`zones` has its own rates; remove `outer` and `inner`")
            ends = [zone.to for zone in self.zones]
            if ends[-1] != 1 or ends != sorted(set(ends)):
                rule = "each `to` is larger than the one before, and the last is 100%"
                raise ValueError(f"zones go from the outside in: {rule}")
        elif self.outer is None:
            raise ValueError("`outer` is missing: the rate of the first zone")
        return self

    @property
    def ahead(self) -> int:
        return min(4 * MIB, self.cache // 4) if self.read_ahead is None else self.read_ahead

    def physics(self, seed: int) -> Physics:
        # `phase`: platters of several disks do not turn in step.
        ahead = self.ahead
        cache = self.write_cache if isinstance(self.write_cache, WriteCache) else None
        numbers = {
            **self._common(),
            "revolution": 60 / self.rpm,
            "seek_track": self.seek.track,
            "seek_full": self.seek.full,
            "phase": math.fmod(seed % PHASES * (math.sqrt(5) - 1) / 2, 1),
            "read_ahead": float(ahead),
            "segments": float(min(32, max(1, self.cache // 2 // max(ahead, 1)))) if ahead else 0.0,
            "write_cache": float(self.cache // 2) if self.write_cache else 0.0,
            "write_extents": float(cache.ranges if cache else 2 * self.queue),
            "window": float(self.queue),
            **({"write_window": float(cache.choice or self.queue)} if cache else {}),
            **({"in_order": float(self.in_order)} if self.in_order else {}),
            **({"band": float(self.shingled.band), "landing": float(self.shingled.landing)} if self.shingled else {}),
        }
        return Physics("hdd", tuple(numbers.items()), tuple(self._zones()))

    def _zones(self) -> list[tuple[float, float]]:
        if isinstance(self.zones, tuple):
            return [(zone.to, float(zone.rate)) for zone in self.zones]
        outer = float(self.outer or 0)
        fall = (outer - float(self.inner or outer)) / max(1, self.zones - 1)
        return [((number + 1) / self.zones, outer - fall * number) for number in range(self.zones)]


class Cliff(Model):
    """The end of the fast area of an SSD, and the rate after it."""

    after: Annotated[Size, Field(gt=0)]
    bandwidth: Throughput
    stops: bool = Field(
        False, description="when the area is full, writes wait until all of it is empty; otherwise they share the rate"
    )


MOST_PAGES = 2**24  # the disk server has a table of them
LEAST_SPARE = 8  # blocks


class Ageing(Model):
    """Flash is written in pages and erased in blocks, so an SSD that is full has to copy pages before it can write."""

    spare: Annotated[
        Percent, Field(gt=0, le=10, description="extra flash (overprovisioning), as a share of the size of the disk")
    ]
    page: Annotated[Size, Field(ge=512, le=MIB, description="bytes that are written together")] = 4 * KIB
    block: Annotated[Size, Field(ge=16 * KIB, le=1 << 30, description="bytes that are erased together")] = 256 * KIB

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.page & (self.page - 1) or self.block % self.page or self.block < 4 * self.page:
            raise ValueError("`page` must be a power of two, and `block` a multiple of it, at least 4 pages")
        return self

    def misfit(self, size: int) -> str:
        if size > self.page * MOST_PAGES:
            page = 1 << (-(-size // MOST_PAGES) - 1).bit_length()
            return (
                f"{format_size(size)} are more than {MOST_PAGES:,} pages; write `ageing: {{page: {format_size(page)}}}`"
            )
        spare = int(size * self.spare)
        if spare < LEAST_SPARE * self.block:
            what = (
                f"{format_size(spare)} of spare flash are less than {LEAST_SPARE} blocks of {format_size(self.block)}"
            )
            return f"{what}; write a smaller `block`, a larger `spare`, or a larger disk"
        return ""


class Ssd(_Model):
    """Flash channels that work in parallel behind one interface."""

    kind: Literal["ssd"]
    read_latency: Annotated[Time, Field(gt=0, lt=1)]
    write_latency: Annotated[Time, Field(gt=0, lt=1)]
    channels: int = Field(ge=1, le=256, description="number of commands in parallel")
    by_address: bool = Field(
        False, description="the address decides on the channel, so that commands may wait for the same one"
    )
    write_overhead: Annotated[Time, Field(gt=0, lt=1)] | None = Field(
        None, description="time of each write on the interface; the same as `overhead` if not given"
    )
    flush: Annotated[Time, Field(gt=0, lt=10)] | None = Field(
        None,
        description="time of a flush after writes; if not given, the disk has power-loss protection: a flush takes "
        "`write_latency`",
    )
    write_cache: bool = Field(True, description="if false, each write takes at least the time of a flush")
    bandwidth: Throughput
    write_bandwidth: Throughput | None = Field(None, description="the same as `bandwidth` if not given")
    cliff: Cliff | None = Field(None, description="writing becomes slower after this amount")
    ageing: Ageing | None = Field(
        None, description="a disk that was written at random becomes slower, until its content is discarded"
    )

    @model_validator(mode="after")
    def _flushed(self) -> Self:
        if not self.write_cache and self.flush is None:
            raise ValueError("without `write_cache`, `flush` is missing: the time until a write is safe")
        return self

    def physics(self, seed: int) -> Physics:  # noqa: ARG002 - the model has no random part
        safe = 0.0 if self.write_cache else self.flush or 0.0
        numbers = {
            **self._common(),
            "read_latency": self.read_latency,
            "write_latency": max(self.write_latency, safe),
            "channels": float(self.channels),
            "read_rate": float(self.bandwidth),
            "write_rate": float(self.write_bandwidth or self.bandwidth),
            **({"cliff": float(self.cliff.after), "cliff_rate": float(self.cliff.bandwidth)} if self.cliff else {}),
            **({"cliff_stops": 1.0} if self.cliff and self.cliff.stops else {}),
            **({"by_address": 1.0} if self.by_address else {}),
            **({"write_overhead": self.write_overhead} if self.write_overhead else {}),
            **({"flush": self.flush} if self.flush and self.write_cache else {}),
            **({name: float(value) for name, value in dict(self.ageing).items()} if self.ageing else {}),
        }
        return Physics("ssd", tuple(numbers.items()))


class Burst(Model):
    """A higher limit for a short time."""

    iops: int = Field(ge=1)
    credits: Annotated[Time, Field(gt=0, description="how long a full burst lasts")]


class Volume(_Model):
    """A cloud volume: a limited number of requests per second."""

    kind: Literal["volume"]
    iops: int = Field(ge=1)
    burst: Burst | None = None
    bandwidth: Throughput | None = Field(None, description="no limit if not given")
    latency: Annotated[Time, Field(ge=0, lt=10)] = 0.0005
    io_size: Annotated[
        Size, Field(gt=0, description="size that counts as one request; a larger request counts several times")
    ] = 256 * KIB

    @model_validator(mode="after")
    def _bursts(self) -> Self:
        if self.burst and self.burst.iops <= self.iops:
            raise ValueError(f"a burst of {self.burst.iops} IOPS is not more than {self.iops}")
        return self

    def physics(self, seed: int) -> Physics:  # noqa: ARG002 - the model has no random part
        burst = self.burst
        numbers = {
            **self._common(),
            "iops": float(self.iops),
            "bandwidth": float(self.bandwidth or 0),
            "latency": self.latency,
            "io_size": float(self.io_size),
            "burst_iops": float(burst.iops) if burst else 0.0,
            "burst_credits": burst.credits * (burst.iops - self.iops) if burst else 0.0,
        }
        return Physics("volume", tuple(numbers.items()))


class Ideal(_Model):
    """As fast as the disk server."""

    kind: Literal["ideal"]
    overhead: Annotated[Time, Field(ge=0, lt=1, description="time of each command on the interface")] = 0.0

    def physics(self, seed: int) -> Physics:  # noqa: ARG002 - the model has no random part
        return Physics("ideal", tuple(self._common().items()))


AnyModel = Hdd | Ssd | Volume | Ideal
DiskModel = Annotated[AnyModel, Field(discriminator="kind")]
MODELS: dict[str, type[AnyModel]] = {"hdd": Hdd, "ssd": Ssd, "volume": Volume, "ideal": Ideal}


def physics_of(keys: Mapping[str, object]) -> Physics:
    return MODELS[str(keys["kind"])].model_validate(keys).physics(1)


#: The loader has replaced the name of a model before this one is validated.
_MODEL_NAME = {"type": "string", "description": "the name of a shipped model, or a file"}


def _slow_motion(value: object) -> object:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_SLOW):
        return value
    raise ValueError(f"neither a whole number from 1 to {_MOST_SLOW} nor auto")


_MOST_SLOW = 64
SlowMotion = Annotated[
    int | str,
    BeforeValidator(_slow_motion),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": _MOST_SLOW}]}),
    Field(
        description="slow motion: simulated disks, times of workloads and timers of the guest take this many times as "
        "long, so that a slow host keeps up; figures are reported as without it. `auto`: each trial gets the factor "
        "that this host needs for it, 1, 2, 4, 8 or 16; a host-limited trial is measured again with a larger one"
    ),
]


class Disks(Model):
    """Several disks of one kind."""

    count: int = Field(ge=1, le=26)
    #: A disk is a file, and files on ext4 are smaller than 16 TiB.
    size: Annotated[Size, Field(ge=16 * MIB, lt=16 * 1024**4)]
    bus: Bus = "virtio"
    model: Annotated[DiskModel | None, ChangeSchema(lambda model: {"anyOf": [_MODEL_NAME, model]})] = Field(
        None,
        description="a shipped model, a file, or the keys of a model; without a model a disk is as fast as the host",
    )
    slow: SlowMotion = "auto"
    stands_for: Size | None = Field(
        None,
        gt=0,
        description="size of the disk that this small simulated disk stands for: the answer has the usable bytes and "
        "the time to rebuild of such disks. The cache of a hard disk is then at most 1/512 of `size`, or 4MiB, so that "
        "it does not hold the small files; it reads ahead by an eighth of it at most, in four ranges at a time",
    )
    _group: str = PrivateAttr("")

    @model_validator(mode="after")
    def _simulated(self) -> Self:
        if self.stands_for and self.model is None:
            raise ValueError("`stands_for` is of simulated disks; add a `model`, or remove it")
        if self.stands_for and self.stands_for < self.size:
            raise ValueError("`stands_for` is smaller than `size`; write the size of the large disk")
        if self.slow != 1 and "slow" in self.model_fields_set and self.model is None:
            raise ValueError("`slow` slows simulated disks down; add a `model`, or remove `slow`")
        ageing = self.model.ageing if isinstance(self.model, Ssd) else None
        if ageing and (why := ageing.misfit(self.size)):
            raise ValueError(why)
        return self

    @computed_field  # type: ignore[prop-decorator]
    @property
    def group(self) -> str:
        """The name of its group, a part of the dump by which a run recognises its matrix."""
        return self._group

    def named(self, group: str) -> Self:
        found = self.model_copy()
        found._group = group
        return found

    def each(self, seed: int) -> tuple[Disk, ...]:
        slow, model = self.slow if isinstance(self.slow, int) else 1, self.model
        if self.stands_for and isinstance(model, Hdd):
            cache = min(model.cache, max(4 * MIB, self.size // 512))
            model = model.model_copy(update={"cache": cache, "read_ahead": min(model.ahead, cache // 8)})
        if model is None:
            return (Disk(self.size, self.bus, slow=slow, group=self.group),) * self.count
        return tuple(
            Disk(
                self.size,
                self.bus,
                model.physics(seed + number),
                slow=slow,
                model=model.name or "",
                fitted_to=model.fitted_to or "",
                group=self.group,
            )
            for number in range(self.count)
        )


class BusLimit(Model):
    """A limit that several disks share on their way to the host."""

    disks: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...],
        BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
    ] = Field(min_length=1, description="their numbers, from 0")
    bandwidth: Throughput


def _disk_sets(value: object, as_list: ValidatorFunctionWrapHandler) -> object:
    """Accept one map, a list, or several maps by name."""
    if value == []:
        raise ValueError("this list is empty; write at least one item")
    if isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
        return tuple(disks.named(name) for name, disks in _GROUPS.validate_python(value).items())
    return as_list(tuple(value) if isinstance(value, list) else (value,))


_GROUPS = TypeAdapter(dict[Name, Disks], config=ConfigDict(defer_build=True))
DiskSets = Annotated[
    tuple[Disks, ...],
    WrapValidator(_disk_sets),
    ChangeSchema(
        lambda several: {
            "anyOf": [
                several["items"],
                several,
                {"type": "object", "additionalProperties": several["items"], "propertyNames": {"pattern": NAME}},
            ]
        }
    ),
]
