"""ZFS: a pool of some vdevs, with its mounted dataset or with a volume (zvol) on top."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema

from matrix_runner.base.model import Name, Size
from matrix_runner.base.quantities import format_size
from matrix_runner.layers.base import BuildContext, Expectation, Layer, Problem, View, mark, power_of_two
from matrix_runner.layers.geometry import SECTOR, Below, Shape, losses_of
from matrix_runner.layers.needs import Need

KIB, MIB = 1024, 2**20
#: ZFS refuses an ARC below it, and devices below half of `_LEAST_DEVICE`.
_LEAST_ARC = 64 * MIB
_LEAST_DEVICE = 128 * MIB
_LABELS = 9 * MIB // 2  # four labels, and the space of a boot loader
_RECORD = 128 * KIB  # the size by which ZFS estimates the share of parity
_LARGE_RECORDS = (2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB)
_PROGRAMS = ("zpool", "zfs", "zdb")


class Zfs(Layer):
    """A ZFS pool, with files in its dataset or a volume (zvol) as a device. A part of several devices is a mirror."""

    kind: ClassVar[str] = "zfs"
    noun: ClassVar[str] = "ZFS volumes"
    also_called: ClassVar[Mapping[str, str]] = {
        **{name: f"zfs: {{vdev: {name}}}" for name in ("raidz1", "raidz2", "raidz3", "draid1", "draid2", "draid3")},
        "raidz": "zfs: {vdev: raidz1}",
        **dict.fromkeys(("zpool", "openzfs"), "zfs: {vdev: mirror}"),
        "zvol": "zfs: {vdev: mirror, type: zvol}",
    }
    needs: ClassVar[tuple[Need, ...]] = (
        Need(modules=("zfs",), programs=_PROGRAMS, own_kernel=True, package="zfs-dkms"),
        Need("vdev", ("draid1", "draid2", "draid3"), programs=("zfs 2.1",)),
        Need("recordsize", _LARGE_RECORDS, programs=("zfs 2.2",)),
        Need("direct", ("standard", "always", "disabled"), programs=("zfs 2.3",)),
    )
    vdev: Literal["stripe", "mirror", "raidz1", "raidz2", "raidz3", "draid1", "draid2", "draid3"] = Field(
        description="how a vdev stores data; stripe: each device is a vdev of its own"
    )
    vdevs: int = Field(1, ge=1, description="number of equal vdevs into which the devices below are split, in order")
    data: int | None = Field(None, ge=1, description="draid: disks with data in a stripe; as many as fit if not given")
    spares: int = Field(0, ge=0, description="draid: distributed spares")
    log: Name | None = Field(None, description="the part for the log of synchronous writes (SLOG)")
    special: Name | None = Field(None, description="the part for metadata")
    cache: Name | None = Field(None, description="the part that caches reads (L2ARC)")
    type: Literal["dataset", "zvol"] = Field("dataset", description="files of a dataset, or a volume as a device")
    ashift: int = Field(12, ge=9, le=16, description="power of two of the smallest write; 12: 4KiB")
    recordsize: Size = Field(_RECORD, description="dataset: size of the largest block of a file")
    volblocksize: Size = Field(16 * KIB, description="zvol: size of a block")
    compression: Annotated[
        Literal["off", "on", "lz4", "zle", "gzip", "zstd", "zstd-fast"],
        BeforeValidator(lambda value: {False: "off", True: "on"}[value] if isinstance(value, bool) else value),
        WithJsonSchema({"enum": ["off", "on", False, True, "lz4", "zle", "gzip", "zstd", "zstd-fast"]}),
    ] = Field("lz4", description="compression of data; fio writes data that cannot be compressed, if not asked")
    sync: Literal["standard", "always", "disabled"] = Field(
        "standard", description="which writes are synchronous: as the program asks, all, or none"
    )
    direct: Literal["standard", "always", "disabled"] | None = Field(
        None, description="dataset: whether direct I/O bypasses the ARC (OpenZFS 2.3); its default if not given"
    )
    primarycache: Literal["all", "metadata", "none"] = Field("all", description="what the ARC caches")
    arc: Size = Field(_LEAST_ARC, description="largest size of the ARC (zfs_arc_max), of the whole machine")

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        idle: dict[str, str] = {}
        if not values["vdev"].startswith("draid"):
            idle |= dict.fromkeys(("data", "spares"), f"vdev {values['vdev']} has none; dRAID has")
        if values["vdev"] == "stripe":
            idle["vdevs"] = "in a stripe, each device is a vdev"
        if values["type"] == "zvol":
            idle |= dict.fromkeys(("recordsize", "direct"), "a zvol has no such property")
        else:
            idle["volblocksize"] = "a dataset has no such property; it has recordsize"
        return idle

    @property
    def title(self) -> str:
        return f"ZFS {self.vdev}"

    @property
    def parts(self) -> Mapping[str, str]:
        return {name: key for key in ("special", "log", "cache") if (name := getattr(self, key))}

    @property
    def in_place(self) -> bool:
        return False

    @property
    def parity(self) -> int:
        return int(self.vdev[-1]) if self.vdev[-1].isdigit() else 0

    def _width(self, below: Below) -> int:
        """Return the number of devices of a vdev."""
        return 1 if self.vdev == "stripe" else below.own.count // self.vdevs

    def _data(self, width: int) -> int:
        """Return the number of devices of a vdev with data in a full stripe."""
        if self.vdev == "mirror":
            return 1
        return self.data or max(0, width - self.parity - self.spares)

    def resolve(self, below: Below) -> Self:
        is_draid = self.vdev.startswith("draid")
        return self.model_copy(update={"data": self._data(self._width(below))}) if is_draid else self

    def problems(self, below: Below) -> Iterator[Problem]:
        named = [name for key in ("special", "log", "cache") if (name := getattr(self, key))]
        for name in {name for name in named if named.count(name) > 1}:
            yield Problem("log", f"{name} has two uses here; a part has one")
        yield from self._vdev_problems(below.own)
        if below.smallest < _LEAST_DEVICE:
            least = format_size(_LEAST_DEVICE)
            yield Problem("", f"ZFS needs devices of at least {least}; the smallest has {format_size(below.smallest)}")
        sector = max(device.sector for device in below.devices)
        if 1 << self.ashift < sector:
            yield Problem("ashift", f"{self.ashift} is {1 << self.ashift}B, and sectors are {sector}B here")
        yield from power_of_two("recordsize", self.recordsize, SECTOR, "a record")
        if self.recordsize > _LARGE_RECORDS[-1]:
            yield Problem("recordsize", f"at most {format_size(_LARGE_RECORDS[-1])}")
        yield from power_of_two("volblocksize", self.volblocksize, SECTOR, "a block")
        if self.volblocksize > _RECORD:
            yield Problem("volblocksize", f"at most {format_size(_RECORD)}")
        if self.arc < _LEAST_ARC:
            yield Problem("arc", f"at least {format_size(_LEAST_ARC)}")

    def _vdev_problems(self, own: Below) -> Iterator[Problem]:
        if self.vdev != "stripe" and own.count % self.vdevs:
            yield Problem("vdevs", f"{own.description}: they do not make {self.vdevs} equal vdevs")
            return
        least = {"stripe": 1, "mirror": 2}.get(self.vdev, self.parity + (self.data or 1) + self.spares)
        if (width := self._width(own)) < least:
            yield Problem("vdev", f"a vdev of {self.vdev} needs at least {least} devices; {own.description}"
                          + (f", in {self.vdevs} vdevs" if self.vdevs > 1 else ""))  # fmt: skip
        elif width > 255:
            yield Problem("vdev", f"a vdev has at most 255 devices; {own.description}")

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        own, width = below.own, self._width(below)
        vdevs = own.grouped(own.count // width) if width else ()
        tolerated = width - 1 if self.vdev == "mirror" else self.parity
        every = [losses_of(vdev.devices, tolerated) for vdev in vdevs]
        if self.special:
            metadata = below.part(self.special)
            every.append(losses_of(metadata.top.devices, metadata.top.count - 1) if metadata else 0)
        losses = None if None in every else min((one for one in every if one is not None), default=0)
        stripes, room = len(vdevs) * self._data(width), self._room(vdevs, width)
        if self.type == "dataset":
            return (Shape(room, stripes=stripes, files=True, losses=losses),)
        # The rest is for new copies of blocks, which take the place of old ones later.
        size = room * 3 // 4 // MIB * MIB
        return (Shape(size, stripes=stripes, losses=losses),)

    def _room(self, vdevs: tuple[Below, ...], width: int) -> int:
        """Return a lower bound of the bytes of data: without metaslabs in part, the reserve, parity and metadata."""
        disks = 1 if self.vdev == "mirror" else width - self.spares
        raw = sum(_whole_metaslabs(disks * max(0, vdev.smallest - _LABELS)) for vdev in vdevs)
        if self.vdev.startswith("draid"):  # it also aligns to slices of all disks
            raw = raw * 7 // 8
        shown = raw * self._share(_RECORD, width)
        reserve = max(shown / 32, min(shown / 2, 128 * MIB))
        block = self.recordsize if self.type == "dataset" else self.volblocksize
        ratio = self._share(block, width) / self._share(_RECORD, width)
        return max(0, int((shown - reserve) * min(1.0, ratio) * (0.96 - min(0.5, 256 / block))))

    def _share(self, block: int, width: int) -> float:
        """Return the share of data in what a block takes: a small one has as much parity as a full stripe."""
        sectors, data = max(1, block >> self.ashift), max(1, self._data(width))
        if self.vdev.startswith("draid"):
            taken = -(-sectors // data) * (data + self.parity)
        elif self.parity:
            taken = sectors + self.parity * -(-sectors // data)
            taken = -(-taken // (self.parity + 1)) * (self.parity + 1)
        else:
            taken = sectors
        return sectors / taken

    def views(self, context: BuildContext) -> tuple[View, ...]:
        pool, is_volume = f"matrix-{mark(self, context.devices)}", self.type == "zvol"
        own = ("volblocksize",) if is_volume else ("recordsize", "direct")
        keys = ("compression", "sync", "primarycache", *own)
        size = self.devices_above(context.below)[0].size
        view = ZfsView(
            members=context.devices,
            tops=(f"/dev/zvol/{pool}/volume",) if is_volume else (),
            directory="" if is_volume else f"/run/matrix/mnt-{context.bay}-{context.depth}",
            expects=(Expectation("size", "size", str(size // SECTOR)),) if is_volume else (),
            pool=pool,
            vdevs=tuple(self._vdevs(context.below)),
            spares=self.spares,
            ashift=str(self.ashift),
            properties={key: str(value) for key in keys if (value := getattr(self, key)) is not None},
            volume=str(size) if is_volume else "",
            arc=str(self.arc),
        )
        return (view,)

    def _vdevs(self, below: Below) -> Iterator["Vdev"]:
        count, width = below.own.count, self._width(below)
        numbers = tuple(map(str, range(below.count)))
        for start in range(0, count, width):
            yield Vdev("", self._word(width), numbers[start : start + width])
        for name, use in self.parts.items():
            part = below.part(name)
            several = numbers[count : count + (part.top.count if part else 0)]
            count += len(several)
            if use == "cache" or len(several) == 1:
                yield from (Vdev(use, "", (one,)) for one in several)
            else:
                yield Vdev(use, "mirror", several)

    def _word(self, width: int) -> str:
        if self.vdev == "stripe":
            return ""
        if self.vdev.startswith("draid"):
            return f"{self.vdev}:{self._data(width)}d:{width}c:{self.spares}s"
        return self.vdev


def _whole_metaslabs(size: int) -> int:
    """Return the bytes in whole metaslabs, of which a vdev has between 16 and 200, of 512MiB if possible."""
    shift = 29
    if size >> shift < 16:
        shift = max(24, (size // 16).bit_length())
    elif size >> shift > 200:
        shift = min(34, (size // 200).bit_length())
    return size >> shift << shift


@dataclass(frozen=True, slots=True)
class Vdev:
    use: str  # special, log or cache; empty for data
    kind: str  # as for `zpool create`; empty for a device alone
    members: tuple[str, ...]  # the numbers of its devices


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsView(View):
    kind: str = "zfs"
    pool: str  # its name has our mark, which ZFS writes to each device
    vdevs: tuple[Vdev, ...]
    spares: int
    ashift: str
    properties: Mapping[str, str]
    volume: str  # the size of the volume; empty for a dataset
    arc: str

    @property
    def nodes(self) -> str:
        """Return the folder with a node for each member: ZFS partitions disks that it knows by their usual names."""
        return f"/dev/{self.pool}"

    @property
    def data(self) -> str:
        """Return the name of the dataset or of the volume."""
        return f"{self.pool}/volume" if self.volume else self.pool

    @property
    def cachefile(self) -> str:
        return f"/run/matrix/{self.pool}.zpool"

    @property
    def tree(self) -> tuple[str, ...]:
        """Return the arguments of `zpool create`."""
        return self._tree([f"{self.nodes}/{number}" for number, _ in enumerate(self.members)])

    @property
    def tree_of_members(self) -> tuple[str, ...]:
        return self._tree(self.members)

    def _tree(self, paths: Sequence[str]) -> tuple[str, ...]:
        words = list[str]()
        for use, several in groupby(self.vdevs, lambda vdev: vdev.use):
            words += [use] if use else []
            for vdev in several:
                words += [*filter(None, [vdev.kind]), *(paths[int(number)] for number in vdev.members)]
        return tuple(words)

    @property
    def shown(self) -> str:
        """Return the same as `zpool status` shows it: vdevs of several devices have their number in the pool."""
        words, spares = list[str](), list[str]()
        for number, vdev in enumerate(self.vdevs):
            if vdev.use and vdev.use != self.vdevs[number - 1].use:
                words.append("logs" if vdev.use == "log" else vdev.use)
            words += [*([f"{vdev.kind}-{number}"] if vdev.kind else []), *vdev.members]
            if not vdev.use:
                spares += [f"{vdev.kind.partition(':')[0]}-{number}-{spare}" for spare in range(self.spares)]
        return " ".join([*words, *(["spares", *spares] if spares else [])])

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.pool,)
